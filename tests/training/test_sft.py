"""Supervised fine-tuning: what is shown and learned of a trajectory, and that it is learned."""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import load_file

from guiagent import config as configuration
from guiagent.errors import DivergedError, InfrastructureError, UsageError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import PolicyOutput, Score, Step, Trajectory
from tests.support.conversing import EXACT, converse, screen
from tests.support.ranks import furthest
from tests.support.shards import whole_shards
from training.checkpoints import checkpoint as checkpoints
from training.config import HistoryConfig, LoraConfig, OptimizationConfig, SftConfig
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.contexts import contexts
from training.inputs.encoder import Encoder
from training.learner.fitting import claimed, learning_rate
from training.model.forward import Scores
from training.model.network import Network
from training.sft.data import demonstration, drawn, split
from training.sft.processes import fine_tune_here
from training.sft.train import Progress, fine_tune

CLICK = "Action: click(start_box='({0},{0})')"


def episode(
    store: TrajectoryStore, id: str, turns: int, *, value: float | None = 1.0, error: int | None = None
) -> Trajectory:
    """Replies that say the number of their turn; the one at `error` holds no valid action."""
    steps = []
    for turn in range(turns):
        frame = store.put_frame(screen(turn).frame)
        text = "I give up." if turn == error else CLICK.format(10 * turn + 5)
        steps.append(Step(frame, 96, 64, PolicyOutput(text, error="no action" if turn == error else None)))
    score = Score(value)
    return Trajectory(id, "click", 0, "Click on Tab #2.", steps, "max_steps", score=score)


@pytest.fixture
def store(tmp_path: Path) -> TrajectoryStore:
    with TrajectoryStore(tmp_path / "trajectories") as store:
        yield store


@pytest.fixture
def encoder(checkpoint: Path) -> Encoder:
    return Encoder(checkpoint)


def learned(found: list, encoder: Encoder) -> list[list[str]]:
    """The texts that have a loss, context by context."""
    texts = []
    for context in found:
        said: dict[int, list[int]] = {}
        for token, own, turn in zip(context.ids, context.sampled, context.turns, strict=True):
            if own:
                said.setdefault(turn, []).append(token)
        assert all(ids[-1] == encoder.eos for ids in said.values())
        texts.append([encoder.decode(ids) for ids in said.values()])
    return texts


@pytest.mark.parametrize(
    ("history", "shown"),
    [
        (HistoryConfig(kind="anchored", images=2), [2, 2, 1]),
        (HistoryConfig(kind="anchored", images=1), [1] * 5),
        (HistoryConfig(kind="sliding", images=3), [3, 3, 3]),
        (HistoryConfig(), [5]),
    ],
    ids=lambda value: f"{value.kind}-{value.images}" if isinstance(value, HistoryConfig) else "",
)
def test_every_reply_is_learned_once_under_any_history(store, encoder, history, shown):
    trajectory = episode(store, "a", 5)
    found = demonstration(trajectory, history, encoder, store.frame)
    assert [len(context.frames) for context in found] == shown
    flat = [text for context in learned(found, encoder) for text in context]
    assert flat == [CLICK.format(10 * turn + 5) for turn in range(5)]


def test_a_reply_without_an_action_is_shown_and_not_learned(store, encoder):
    history = HistoryConfig(kind="anchored", images=2)
    found = demonstration(episode(store, "a", 4, error=1), history, encoder, store.frame)
    assert [len(texts) for texts in learned(found, encoder)] == [1, 2]
    assert all("I give up." in encoder.tokenizer.decode(context.ids) for context in found)


async def test_a_demonstration_is_prompted_as_a_rollout_is(checkpoint, store):
    """The same history over the same texts: the very tokens that the engine sampled in."""
    history = HistoryConfig(kind="sliding", images=2)
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=8), history=history)
    said = iter([policy.encoder.completion(CLICK.format(n)) for n in (5, 15, 25)])
    tokens: list[int] = []

    def speak(module: object, inputs: object, logits: torch.Tensor) -> torch.Tensor:
        if not tokens:
            tokens.extend(next(said))
        return logits.index_fill(-1, torch.tensor([tokens.pop(0)]), 1e4)

    policy.engine.model.lm_head.register_forward_hook(speak)
    try:
        turns = await converse(policy, "abc", [screen(turn) for turn in range(3)])
    finally:
        policy.close()
    steps = [Step(store.put_frame(t.observation.frame), 96, 64, t.output) for t in turns]
    sampled = Trajectory("a", "click", 0, "Click on Tab #2.", steps, "max_steps")
    found = demonstration(sampled, history, policy.encoder, store.frame)
    assert [(c.ids, c.sampled, c.frames) for c in found] == [
        (c.ids, c.sampled, c.frames) for c in contexts(sampled)
    ]


def configured(store: TrajectoryStore, checkpoint: Path, **changes: object) -> SftConfig:
    learning = {"update": OptimizationConfig(learning_rate=3e-3)}
    settings = {"steps": 20, "batch": 4, "held_out": 0.0} | learning | changes
    return SftConfig(store=store.root, policy=str(checkpoint), **settings)


def fitted(config: SftConfig, run: Path) -> list[float]:
    losses: list[float] = []
    fine_tune(config, run, lambda progress: losses.append(progress.loss))
    return losses


def saved(run: Path) -> dict[str, torch.Tensor]:
    """The weights and the optimiser's state of a run's newest checkpoint."""
    loaded = checkpoints.load(run / "checkpoints")
    assert loaded is not None
    return load_file(loaded.model / "model.safetensors") | whole_shards(loaded.path)


def written(run: Path) -> list[dict[str, object]]:
    """The lines of its metrics, less times and memory."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [
        {name: x for name, x in line.items() if "second" not in name and name != "memory_mb"}
        for line in lines
    ]


def test_what_is_shown_is_learned_and_the_checkpoint_loads(checkpoint, store, tmp_path):
    store.commit([episode(store, f"e{i}", 3) for i in range(6)])
    losses = fitted(configured(store, checkpoint), tmp_path / "run")
    assert len(losses) == 20 and losses[-1] < 0.5 * losses[0]
    loaded = checkpoints.load(tmp_path / "run" / "checkpoints")
    assert loaded is not None and loaded.step == 20
    policy = LocalPolicy(Encoder(loaded.model))
    policy.close()


def test_how_a_step_is_cut_into_passes_does_not_change_it(checkpoint, store, tmp_path):
    store.commit([episode(store, f"e{i}", 2 + i % 3) for i in range(5)])
    whole = fitted(configured(store, checkpoint, steps=3), tmp_path / "whole")
    cut = OptimizationConfig(learning_rate=3e-3, batch_tokens=200)
    parts = fitted(configured(store, checkpoint, steps=3, update=cut), tmp_path / "parts")
    assert parts == pytest.approx(whole, abs=100 * EXACT)


def test_only_successes_teach_unless_told_otherwise(checkpoint, store, tmp_path):
    store.commit([episode(store, "failed", 2, value=0.0), episode(store, "unknown", 2, value=None)])
    with pytest.raises(UsageError, match="no successful episode"):
        fitted(configured(store, checkpoint, steps=2), tmp_path / "run")
    everything = configured(store, checkpoint, steps=2, successes_only=False)
    assert len(fitted(everything, tmp_path / "run")) == 2


class Cut(Exception):
    """In the place of a kill."""


def cut(config: SftConfig, run: Path, at: int) -> None:
    def stop(progress: Progress) -> None:
        if progress.step == at:
            raise Cut

    with pytest.raises(Cut):
        fine_tune(config, run, stop)


@pytest.mark.parametrize("lora", [None, LoraConfig(rank=4, alpha=8)], ids=["all weights", "adapters"])
def test_a_run_that_was_cut_goes_on_bit_by_bit(checkpoint, store, tmp_path, lora):
    """Cut after checkpoints, before the next and without any; the store has grown meanwhile."""
    store.commit([replace(episode(store, f"e{i}", 2 + i % 3), seed=i) for i in range(8)])
    update = OptimizationConfig(learning_rate=3e-3, lora=lora)
    config = configured(store, checkpoint, steps=9, held_out=0.3, validate_every=4, update=update)
    often = config.model_copy(update={"checkpoint_minutes": 1e-9})
    fitted(config, tmp_path / "whole")
    run = tmp_path / "cut"
    cut(config, run, 2)
    assert checkpoints.load(run / "checkpoints") is None
    cut(often, run, 5)
    store.commit([replace(episode(store, f"late{i}", 2), seed=100 + i) for i in range(9)])
    cut(config, run, 7)
    losses = fitted(config, run)
    assert len(losses) == 9 - 4  # the cut came before the fifth was saved
    once, again = saved(tmp_path / "whole"), saved(run)
    assert once.keys() == again.keys() and all(torch.equal(once[name], again[name]) for name in once)
    assert written(run) == written(tmp_path / "whole")
    assert fitted(config, run) == []  # it is finished, and stays so


def test_what_is_written_down_of_every_step(checkpoint, store, tmp_path):
    store.commit([replace(episode(store, f"e{i}", 3), seed=i) for i in range(10)])
    fitted(configured(store, checkpoint, steps=10, held_out=0.2, validate_every=4), tmp_path)
    first, *lines = written(tmp_path)
    assert first["step"] == 0 and [line["step"] for line in lines] == list(range(1, 11))
    read = [line["held_out_loss"] for line in [first, *lines]]
    assert len(set(read)) == 4 and read[3] == read[0] != read[4] == read[7] != read[8]
    assert read[-1] < 0.7 * read[0]  # all episodes say the same here
    assert all(sum(line["history_lengths"].values()) == 4 for line in lines)
    assert {length for line in lines for length in line["history_lengths"]} == {"1", "2", "3", "5"}
    assert max(line["learning_rate"] for line in lines) == 3e-3
    assert all(line["trained_tokens"] > 0 and line["grad_norm"] > 0 for line in lines)


def test_losses_that_are_no_numbers_end_the_run_and_spoil_nothing(checkpoint, store, tmp_path, monkeypatch):
    store.commit([episode(store, f"e{i}", 2) for i in range(4)])
    config = configured(store, checkpoint, steps=20, checkpoint_minutes=1e-9)
    cut(config, tmp_path, 3)
    good = saved(tmp_path)
    score = Network.score
    monkeypatch.setattr(Network, "score", lambda *a, **b: poisoned(score(*a, **b)))
    with pytest.raises(DivergedError, match="5 steps in a row"):
        fitted(config, tmp_path)
    assert all(torch.equal(tensor, good[name]) for name, tensor in saved(tmp_path).items())
    assert [line["skipped_updates"] for line in written(tmp_path)[-4:]] == [1.0] * 4


def poisoned(scores: Scores) -> Scores:
    return scores._replace(logprobs=scores.logprobs * torch.nan)


def test_a_store_that_is_not_the_one_it_began_with_is_refused(checkpoint, store, tmp_path):
    store.commit([episode(store, f"e{i}", 2) for i in range(4)])
    fitted(configured(store, checkpoint, steps=1), tmp_path / "run")
    with TrajectoryStore(tmp_path / "other") as other:
        other.commit([episode(other, "e0", 2)])
        with pytest.raises(UsageError, match="begun with another config: store was"):
            fitted(configured(other, checkpoint, steps=2), tmp_path / "run")


@pytest.mark.slow
def test_two_processes_learn_what_one_does(checkpoint, store, tmp_path):
    """Four examples a step and one a step, where a process has none; and each goes on from the other."""
    store.commit([replace(episode(store, f"e{i}", 1 + i % 4), seed=i) for i in range(8)])
    for batch in (4, 1):
        config = configured(store, checkpoint, steps=2, batch=batch, held_out=0.3, validate_every=1)
        config = config.model_copy(
            update={"update": OptimizationConfig(learning_rate=1e-4, batch_tokens=300)}
        )
        folder = tmp_path / str(batch)
        fitted(config, folder / "alone")
        shutil.copytree(folder / "alone", folder / "went on", symlinks=True)
        configuration.save(config, folder / "config.toml")
    more = {"steps": 4}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.tuned", str(tmp_path)],
            env=os.environ | {"RANK": rank, "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    try:
        said = [process.communicate(timeout=300)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], said
    for batch in (4, 1):
        config = configuration.load(SftConfig, tmp_path / str(batch) / "config.toml").model_copy(update=more)
        alone, together = tmp_path / str(batch) / "alone", tmp_path / str(batch) / "together"
        agree(alone, together)
        fitted(config, together)
        agree(tmp_path / str(batch) / "went on", together)


@pytest.mark.slow
def test_with_a_process_beside_it_this_one_learns_the_same(checkpoint, store, tmp_path):
    store.commit([replace(episode(store, f"e{i}", 1 + i % 4), seed=i) for i in range(8)])
    config = configured(store, checkpoint, steps=2, batch=4, held_out=0.3, validate_every=1)
    fitted(config, tmp_path / "alone")
    told = []
    found = fine_tune_here(config, tmp_path / "together", 2, told.append)
    agree(tmp_path / "alone", tmp_path / "together")
    assert (found.step, [progress.step for progress in told]) == (2, [1, 2])
    assert not multiprocessing.active_children()
    with pytest.raises(UsageError, match="begun with another config: seed was 0, now 1"):
        fine_tune_here(config.model_copy(update={"seed": 1}), tmp_path / "together", 2, told.append)
    assert not multiprocessing.active_children()


def agree(one: Path, other: Path) -> None:
    """Losses and weights, to 1e-5."""
    for a, b in zip(written(one), written(other), strict=True):
        for name in a.keys() & {"loss", "held_out_loss", "learning_rate", "trained_tokens"}:
            assert b[name] == pytest.approx(a[name], rel=1e-5, abs=1e-6), (name, a, b)
    assert furthest(saved(one), saved(other)) <= 1e-5


def test_a_run_has_one_process_at_a_time(checkpoint, store, tmp_path):
    store.commit([episode(store, "e", 2)])
    config = configured(store, checkpoint, steps=1)
    with claimed(tmp_path / "checkpoints"), pytest.raises(InfrastructureError, match="another process"):
        fitted(config, tmp_path)
    assert len(fitted(config, tmp_path)) == 1


def test_siblings_are_held_out_together_and_none_that_is_learned(store):
    episodes = [replace(episode(store, f"e{i}", 1), seed=i // 4) for i in range(80)]
    taught, held_out = split(episodes, True, 0.25)
    assert sorted(taught + held_out) == list(range(80)) and len(held_out) == 20
    assert not {i // 4 for i in taught} & {i // 4 for i in held_out}
    assert split(episodes[:3], True, 0.9) == ([0, 1, 2], [])  # one task and seed: nothing else would be left
    assert split(episodes, True, 0.0).held_out == []
    many = [replace(one, seed=i) for i, one in enumerate(episodes * 5)]
    assert len(split(many, True, 0.9).held_out) == 128


def test_every_trajectory_comes_once_before_any_comes_again():
    taught, lengths = list(range(100, 110)), (1, 2, 5)
    found = [draw for step in range(10) for draw in drawn(taught, lengths, 4, step, seed=3)]
    epochs = [[draw.ordinal for draw in found[start : start + 10]] for start in range(0, 40, 10)]
    assert all(sorted(epoch) == taught for epoch in epochs) and len(set(map(tuple, epochs))) == 4
    assert {draw.images for draw in found} == set(lengths)
    assert drawn(taught, lengths, 4, 7, seed=3) == found[28:32]
    assert drawn(taught, lengths, 4, 7, seed=4) != found[28:32]


@pytest.mark.parametrize("steps", [15, 200, 2600])
def test_the_learning_rate_is_that_of_pytorch(steps):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-4, total_steps=steps, pct_start=0.1)
    for step in range(1, steps + 1):
        assert learning_rate(step, steps, 3e-4) == pytest.approx(schedule.get_last_lr()[0], rel=1e-6)
        optimizer.step()
        if step < steps:
            schedule.step()


@pytest.mark.parametrize("steps", [1, 2, 3, 9])
def test_the_learning_rate_of_a_few_steps_begins_at_the_top(steps):
    rates = [learning_rate(step, steps, 3e-4) for step in range(1, steps + 1)]
    assert rates[0] == 3e-4 and rates == sorted(rates, reverse=True)
    assert steps == 1 or rates[-1] < 1e-8
