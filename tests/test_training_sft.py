"""Supervised fine-tuning: what is shown and learned of a trajectory, and that it is learned."""

from pathlib import Path

import pytest
import torch

from guiagent.errors import UsageError
from guiagent.trajectories import TrajectoryStore
from guiagent.types import PolicyStep, Score, Step, Trajectory
from tests.conversing import EXACT, converse, screen
from training.config import HistoryConfig, OptimizationConfig, SftConfig
from training.contexts import contexts
from training.encode import Encoder
from training.engine.policy import LocalPolicy
from training.sft import demonstration, fine_tune

CLICK = "Action: click(start_box='({0},{0})')"


def episode(
    store: TrajectoryStore, id: str, turns: int, *, value: float | None = 1.0, error: int | None = None
) -> Trajectory:
    """Replies that say the number of their turn; the one at `error` holds no valid action."""
    steps = []
    for turn in range(turns):
        frame = store.put_frame(screen(turn).frame)
        text = "I give up." if turn == error else CLICK.format(10 * turn + 5)
        steps.append(Step(frame, 96, 64, PolicyStep(text, error="no action" if turn == error else None)))
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
    policy = LocalPolicy(checkpoint, history=history, max_new_tokens=8)
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
    settings = {"steps": 20, "batch": 4, "update": OptimizationConfig(learning_rate=3e-3)} | changes
    return SftConfig(store=store.root, policy=str(checkpoint), **settings)


def fitted(config: SftConfig, output: Path) -> list[float]:
    losses: list[float] = []
    fine_tune(config, output, lambda progress: losses.append(progress.loss))
    return losses


def test_what_is_shown_is_learned_and_the_checkpoint_loads(checkpoint, store, tmp_path):
    store.commit([episode(store, f"e{i}", 3) for i in range(6)])
    losses = fitted(configured(store, checkpoint), tmp_path / "policy")
    assert len(losses) == 20 and losses[-1] < 0.5 * losses[0]
    policy = LocalPolicy(tmp_path / "policy")
    policy.close()


def test_how_a_step_is_cut_into_passes_does_not_change_it(checkpoint, store, tmp_path):
    store.commit([episode(store, f"e{i}", 2 + i % 3) for i in range(5)])
    whole = fitted(configured(store, checkpoint, steps=3), tmp_path / "whole")
    cut = OptimizationConfig(learning_rate=3e-3, batch_tokens=1)
    parts = fitted(configured(store, checkpoint, steps=3, update=cut), tmp_path / "parts")
    assert parts == pytest.approx(whole, abs=100 * EXACT)


def test_only_successes_teach_unless_told_otherwise(checkpoint, store, tmp_path):
    store.commit([episode(store, "failed", 2, value=0.0), episode(store, "unknown", 2, value=None)])
    with pytest.raises(UsageError, match="no successful episode"):
        fitted(configured(store, checkpoint, steps=2), tmp_path / "policy")
    everything = configured(store, checkpoint, steps=2, successes_only=False)
    assert len(fitted(everything, tmp_path / "policy")) == 2
