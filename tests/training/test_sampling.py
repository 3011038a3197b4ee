"""What is drawn, and which distribution's log-probability is kept: nucleus, penalties, and the engine's."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from guiagent import config as configuration
from guiagent.cli.common.policy import PolicySettings
from guiagent.cli.train.recipes import recipe_path
from guiagent.errors import UsageError
from tests.support.conversing import EXACT, converse, furthest, screen
from training.config import SMALL_POLICY, TrainConfig
from training.engine.factory import open_engine
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling, draw, nucleus, penalised
from training.inputs.encoder import Encoder

SHARES = torch.tensor([[0.15, 0.5, 0.05, 0.3]])


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [(0.4, [1]), (0.49, [1]), (0.51, [1, 3]), (0.79, [1, 3]), (0.9, [0, 1, 3]), (0.96, [0, 1, 2, 3])],
)
def test_the_nucleus_is_the_fewest_tokens_of_that_probability(top_p: float, kept: list[int]) -> None:
    found = nucleus(SHARES.log(), top_p)
    assert found[0].isfinite().nonzero()[:, 0].tolist() == kept
    assert torch.equal(found[0, kept], SHARES.log()[0, kept])


def test_all_of_the_probability_is_all_tokens() -> None:
    assert torch.equal(nucleus(SHARES.log(), 1.0), SHARES.log())


def test_a_penalty_is_for_each_time_a_token_stands_in_its_rows_completion() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    assert penalised(logits, [[2, 2, 0], []], 0.5).tolist() == [[0.5, 2.0, 2.0], [1.0, 2.0, 3.0]]


def test_draws_are_of_the_narrowed_distribution_and_log_probabilities_of_the_policy() -> None:
    """At temperature .5 the shares are 4 : 1 : 16 of 21. A penalty of 1 takes the last to 16 e^-2 = 2.17, of
    7.17 in all: with it, and top_p .7, the first and the last are drawn, in these shares."""
    logits = torch.tensor([[4.0, 1.0, 16.0]]).log() / 2
    rows = logits.expand(4000, 3)
    sampling = Sampling(0.5, top_p=0.7, frequency_penalty=1.0)
    generator = torch.Generator().manual_seed(0)
    tokens, logprobs = draw(rows, [[2]] * 4000, sampling, generator)
    assert set(tokens.tolist()) == {0, 2}
    assert (tokens == 0).float().mean().item() == pytest.approx(4 / 6.17, abs=0.03)
    assert logprobs.exp()[tokens == 0].unique().tolist() == pytest.approx([4 / 21])
    assert logprobs.exp()[tokens == 2].unique().tolist() == pytest.approx([16 / 21])
    greedy, none = draw(logits, [[2] * 3], replace(sampling, temperature=0.0), generator)
    assert (greedy.tolist(), none.tolist()) == ([0], [0.0])


@contextmanager
def opened(checkpoint: Path, sampling: Sampling) -> Iterator[LocalPolicy]:
    policy = LocalPolicy(Encoder(checkpoint), replace(sampling, max_new_tokens=12), seed=1)
    try:
        yield policy
    finally:
        policy.close()


@pytest.mark.parametrize(
    "sampling",
    [Sampling(top_p=0.3), Sampling(top_p=0.9, frequency_penalty=1.0), Sampling(frequency_penalty=-0.5)],
)
async def test_what_is_kept_is_what_a_learner_scores_so_that_ratios_begin_at_one(
    checkpoint: Path, sampling: Sampling
) -> None:
    with opened(checkpoint, sampling) as policy:
        episodes = await asyncio.gather(
            *(converse(policy, f"e{i}", [screen(i), screen(i + 9)]) for i in range(6))
        )
        assert max(furthest(policy, turns) for turns in episodes) <= EXACT


async def test_a_completion_has_no_token_twice_under_a_large_penalty(checkpoint: Path) -> None:
    repeats = {}
    for penalty in (0.0, 2.0):
        with opened(checkpoint, Sampling(frequency_penalty=penalty)) as policy:
            policy.engine.model.lm_head.register_forward_hook(lambda module, inputs, output: output * 0.05)
            turns = [t for i in range(8) for t in await converse(policy, f"e{i}", [screen(i), screen(i + 9)])]
        sampled = [turn.output.completion_ids for turn in turns]
        repeats[penalty] = sum(len(ids) - len(set(ids)) for ids in sampled)
    assert repeats[2.0] < repeats[0.0] / 2


async def test_a_small_nucleus_is_greedy_and_yet_says_how_likely_its_tokens_were(checkpoint: Path) -> None:
    with opened(checkpoint, Sampling(top_p=1e-6)) as policy:
        (narrow,) = await converse(policy, "e", [screen(0)])
    greedy = LocalPolicy(Encoder(checkpoint), Sampling(temperature=0, max_new_tokens=12))
    try:
        (turn,) = await converse(greedy, "e", [screen(0)])
    finally:
        greedy.close()
    assert narrow.output.completion_ids == turn.output.completion_ids
    assert max(narrow.output.logprobs) < 0


@pytest.mark.parametrize("recipe", ["zerogui-generated", "zerogui-test-time"])
def test_zeroguis_recipes_sample_as_published_and_are_measured_so(recipe: str) -> None:
    config = configuration.load(TrainConfig, recipe_path(recipe), [])
    rollout = config.rollout
    assert (rollout.temperature, rollout.top_p, rollout.frequency_penalty) == (0.5, 0.9, 1.0)
    settings = PolicySettings.of_training(config)
    assert (settings.top_p, settings.frequency_penalty) == (0.9, 1.0)


async def test_a_runs_engine_draws_as_its_config_says(tmp_path: Path) -> None:
    config = TrainConfig.model_validate({"rollout": {"top_p": 1e-6, "max_new_tokens": 5}})
    engine = open_engine(config, Encoder(SMALL_POLICY), tmp_path, seed=0)
    try:
        assert engine._sampling == Sampling(top_p=1e-6, max_new_tokens=5)  # type: ignore[attr-defined]
    finally:
        engine.close()


@pytest.mark.parametrize("more", ["epochs", "minibatches"])
def test_several_steps_on_samples_that_vllm_narrows_are_refused(tmp_path: Path, more: str) -> None:
    settings = {"rollout": {"top_p": 0.9, "vllm": {}}, "update": {more: 2}}
    with pytest.raises(UsageError, match=r"rollout\.top_p"):
        open_engine(TrainConfig.model_validate(settings), Encoder(SMALL_POLICY), tmp_path, seed=0)
