"""Numbers of a recipe in the loss of a preset: what they change, and where there is no place for them."""

from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from guiagent import config as configuration
from guiagent.cli import app
from guiagent.cli.train.recipes import recipe_path
from guiagent.errors import UsageError
from training.algorithms import ALGORITHMS
from training.algorithms.adjusted import adjustments, algorithm_of
from training.algorithms.algorithm import Algorithm, Clipped, EntropyTerm, Kl
from training.config import TrainConfig
from training.losses.history import no_history
from training.losses.objective import objective_loss
from training.losses.tokens import Tokens


def config(*overrides: str) -> TrainConfig:
    return configuration.load(TrainConfig, recipe_path("arpo-demo"), list(overrides))


def adjusted(preset: str, *overrides: str) -> Algorithm:
    keys = [f"update.objective.{override}" for override in overrides]
    return algorithm_of(config(f"update.algorithm={preset}", *keys).update)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_without_numbers_a_preset_is_itself(name: str) -> None:
    assert adjusted(name) is ALGORITHMS[name]


def test_a_clip_is_changed_bound_by_bound() -> None:
    arpo = adjusted("arpo", "clip.high=0.28")
    assert arpo.objective.surrogate == Clipped(level="token", low=0.2, high=0.28, dual=3.0)
    gspo = adjusted("gspo", "clip.low=0.01", "clip.dual=4")
    assert gspo.objective.surrogate == Clipped(
        level="sequence", low=0.01, high=4e-4, dual=4.0, against="proximal"
    )
    assert (arpo.credit, arpo.replay, arpo.reward) == (
        ALGORITHMS["arpo"].credit,
        ALGORITHMS["arpo"].replay,
        ALGORITHMS["arpo"].reward,
    )


def test_without_replay_only_what_a_preset_replays_is_gone() -> None:
    for name in ("arpo", "dart_code", "webrl"):
        without = algorithm_of(config(f"update.algorithm={name}", "update.replay=false").update)
        assert without.replay is None
        assert replace(without, replay=ALGORITHMS[name].replay) == ALGORITHMS[name]


@pytest.mark.parametrize(
    ("preset", "line"),
    [
        ("grpo", "update.replay: grpo replays nothing: leave it out"),
        ("digirl", "update.replay: digirl learns from its replay alone: leave it out"),
    ],
)
def test_a_replay_that_cannot_be_left_out_is_refused(preset: str, line: str) -> None:
    with pytest.raises(UsageError, match=f"^{line}$"):
        algorithm_of(config(f"update.algorithm={preset}", "update.replay=false").update)


def test_a_kl_term_brings_the_reference_and_takes_it_along() -> None:
    added = adjusted("arpo", "kl.coef=0.1")
    assert added.objective.kl == Kl(form="k3", coef=0.1)
    assert added.signals == {"reference"}
    gone = adjusted("grpo", "kl.coef=0")
    assert gone.objective.kl is None
    assert gone.signals == frozenset()
    kept = adjusted("seagent", "kl.coef=0")  # its negatives are pushed from the reference
    assert kept.objective.kl is None
    assert kept.signals == {"reference", "labels"}
    assert adjusted("zerogui", "kl.form=k1").objective.kl == Kl(form="k1", coef=0.1, advantage_cap=True)


def test_an_entropy_term_is_added_changed_and_taken_away() -> None:
    added = adjusted("arpo", "entropy.coef=0.001", "entropy.band=[0.8, 1.2]")
    assert added.objective.entropy == EntropyTerm(coef=0.001, band=(0.8, 1.2))
    assert added.signals == frozenset()
    assert adjusted("epo", "entropy.decay=0.9").objective.entropy == EntropyTerm(
        coef=0.001, decay=0.9, band=(0.8, 1.2), band_weight=1.0
    )
    assert adjusted("epo", "entropy.coef=0").objective.entropy is None


def test_tokens_of_long_trajectories_weigh_what_the_recipe_says() -> None:
    same = adjusted("arpo", "aggregation=token_mean")
    assert same == replace(
        ALGORITHMS["arpo"], objective=replace(ALGORITHMS["arpo"].objective, aggregation="token_mean")
    )
    assert ALGORITHMS["arpo"].objective.aggregation == "traj_mean_token_mean"
    assert adjustments(config("update.objective.aggregation=token_sum").update.objective) == (
        "aggregation token_sum"
    )


def test_the_loss_is_that_of_the_numbers() -> None:
    """At the sampler's probabilities the gradient of the surrogate is -A, and that of k2 the distance."""
    logprobs = torch.tensor([-1.0, -2.0], requires_grad=True)
    tokens = Tokens(
        logprobs=logprobs,
        entropy=-logprobs,
        behaviour=logprobs.detach(),
        advantages=torch.tensor([1.0, -1.0]),
        weights=torch.full((2,), 0.5),
        turns=torch.arange(2),
        trajectories=torch.arange(2),
        steps=torch.zeros(2, dtype=torch.long),
        reference=logprobs.detach() - 0.5,
        proximal=None,
        desirable=None,
    )
    algorithm = adjusted("arpo", "kl.coef=0.2", "kl.form=k2", "entropy.coef=0.1")
    loss = objective_loss(tokens, algorithm.objective, no_history())
    loss.value.backward()
    assert loss.sums["loss_kl"] == pytest.approx(0.2 * 0.5**2 / 2)
    assert loss.sums["loss_entropy"] == pytest.approx(-0.1 * 1.5)
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx(
        [0.5 * (-1 + 0.2 * 0.5 + 0.1), 0.5 * (1 + 0.2 * 0.5 + 0.1)]
    )


@pytest.mark.parametrize(
    ("preset", "override", "said"),
    [
        ("rloo", "clip.high=0.3", "update.objective.clip.high: the loss of rloo clips nothing"),
        ("steve", "kl.coef=0.1", "update.objective.kl.coef: the loss of steve is a distance"),
        ("steve", "aggregation=token_mean", "update.objective.aggregation: the loss of steve is a distance"),
        ("arpo", "aggregation=mean", "update.objective.aggregation: Input should be 'token_mean'"),
        ("webrl", "entropy.coef=0.1", "update.objective.entropy.coef: the loss of webrl is a distance"),
        ("arpo", "kl.form=k2", "update.objective.kl.form: the loss of arpo has no such term: kl.coef adds"),
        ("arpo", "entropy.band=[0.8, 1.2]", "entropy.band: the loss of arpo has no such term: entropy.coef"),
        ("epo", "entropy.band=[1.2, 0.8]", "is no band"),
        ("arpo", "kl.coeff=0.1", "there is no key 'update.objective.kl.coeff'; did you mean"),
        ("arpo", "kl.coef=-1", "update.objective.kl.coef: Input should be greater than or equal to 0"),
        ("arppo", "clip.low=0.1", "no algorithm 'arppo'; did you mean 'arpo'?"),
    ],
)
def test_a_number_without_a_place_is_refused_in_a_line(preset: str, override: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        adjusted(preset, override)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_dry_run_shows_them() -> None:
    shown = ["--set", "update.objective.kl.coef=0.05", "--set", "update.objective.clip.high=0.28"]
    assert adjustments(config(*shown[1::2]).update.objective) == "clip.high 0.28, kl.coef 0.05"
    dry = ["train", "--recipe", "arpo-demo", "--dry-run"]
    printed = CliRunner().invoke(app, [*dry, *shown]).output
    assert "arpo, arXiv 2505.16282 with clip.high 0.28, kl.coef 0.05; computes reference" in printed
    refused = CliRunner().invoke(app, [*dry, *shown, "--set", "update.algorithm=rloo"]).output
    assert "update.objective.clip.high: the loss of rloo clips nothing" in refused


def test_they_come_back_from_a_runs_config(tmp_path) -> None:
    told = config("update.objective.entropy.coef=0.01", "update.objective.entropy.band=[0.5, 1.5]")
    configuration.save(told, tmp_path / "config.toml")
    assert configuration.load(TrainConfig, tmp_path / "config.toml") == told
