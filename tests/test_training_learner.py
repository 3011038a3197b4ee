"""The learner on episodes that the engine sampled: token in, token out, through a store on the disk."""

import asyncio
import dataclasses
import io
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace
from PIL import Image

from guiagent.episode import PastTurn
from guiagent.errors import Fault
from guiagent.trajectories import TrajectoryStore
from guiagent.types import Observation, Score, Step, Trajectory
from training.algorithms.legacy import ALGORITHMS
from training.batch import collate, sampled_logprobs
from training.config import UpdateConfig
from training.encode import Encoder
from training.engine.local import LocalPolicy
from training.learner import Learner, to_sample
from training.losses.legacy import LossInputs, policy_loss
from training.replay import Group

ARPO = ALGORITHMS["arpo"]
SCORES = (1.0, 0.0, 0.0, 1.0)


def screen(seed: int) -> Observation:
    data = io.BytesIO()
    Image.frombytes("RGB", (96, 64), random.Random(seed).randbytes(96 * 64 * 3)).save(data, "PNG")
    return Observation(96, 64, media_type="image/png", frame=data.getvalue())


async def episode(
    policy: LocalPolicy, store: TrajectoryStore, group: int, index: int, score: float
) -> Trajectory:
    """One to three turns; siblings start from the same screen."""
    name = f"g{group}-{index}"
    trajectory = Trajectory(
        name, "task", group, "Click on Tab #2.", [], "task_done", Score(score), group=f"g{group}"
    )
    history: list[PastTurn] = []
    for turn in range(1 + index % 3):
        shown = screen(1000 * group + (turn and 10 * index + turn))
        output = await policy.act(name, trajectory.instruction, history, shown)
        trajectory.steps.append(Step(store.put_frame(shown.frame), 96, 64, output))
        history.append(PastTurn(shown, output))
    policy.forget(name)
    return trajectory


def sample_groups(policy: LocalPolicy, folder: Path, scores: list[tuple[float, ...]]) -> list[Group]:
    """Episodes as the engine samples them, committed and read back."""

    async def sample(store: TrajectoryStore) -> list[Trajectory]:
        pairs = [(g, i, score) for g, group in enumerate(scores) for i, score in enumerate(group)]
        return await asyncio.gather(*(episode(policy, store, *pair) for pair in pairs))

    with TrajectoryStore(folder) as store:
        store.commit(asyncio.run(sample(store)))
    with TrajectoryStore(folder, readonly=True) as store:
        read = list(store)
    members = [tuple(t for t in read if t.group == f"g{g}") for g in range(len(scores))]
    return [Group(f"g{g}", "task", g, m, m, staleness=0) for g, m in enumerate(members)]


@pytest.fixture(scope="module")
def policy(checkpoint: Path) -> Iterator[LocalPolicy]:
    policy = LocalPolicy(checkpoint, max_new_tokens=6, seed=2)
    yield policy
    policy.close()


@pytest.fixture(scope="module")
def folder(policy: LocalPolicy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("learner") / "trajectories"


@pytest.fixture(scope="module")
def groups(policy: LocalPolicy, folder: Path) -> list[Group]:
    """Two groups to learn from, and one of equal scores, which teaches nothing."""
    return sample_groups(policy, folder, [SCORES, (0.0, 0.0, 1.0, 0.0), (1.0, 1.0, 1.0, 1.0)])


@pytest.fixture(scope="module")
def store(groups: list[Group], folder: Path) -> Iterator[TrajectoryStore]:
    with TrajectoryStore(folder, readonly=True) as store:
        yield store


@pytest.fixture(scope="module")
def encoder(checkpoint: Path) -> Encoder:
    return Encoder(checkpoint)


def make(checkpoint: Path, encoder: Encoder, **changes: float) -> Learner:
    return Learner(
        checkpoint, encoder, ARPO, UpdateConfig(**{"learning_rate": 1e-3, "max_grad_norm": 1e9, **changes})
    )


def gradient(learner: Learner) -> torch.Tensor:
    return torch.cat([p.grad.reshape(-1).double() for p in learner.model.parameters()])


def weights(learner: Learner) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1).clone() for p in learner.model.parameters()])


def logprob(learner: Learner, trajectory: Trajectory, encoder: Encoder, store: TrajectoryStore) -> float:
    batch = collate([to_sample(trajectory, encoder, store.frame)], encoder, 2)
    with torch.no_grad():
        return float(
            sampled_logprobs(learner.model(**batch.inputs).logits, batch, encoder.unsampled)[0].sum()
        )


def plain_gradient(
    learner: Learner, groups: list[Group], encoder: Encoder, store: TrajectoryStore
) -> torch.Tensor:
    """Of all members in one batch, those without an advantage too."""
    members = [t for group in groups for t in group.members if t.valid]
    advantages = [
        a
        for group in groups
        for t, a in zip(group.members, ARPO.advantages(group.members), strict=True)
        if t.valid
    ]
    batch = collate([to_sample(t, encoder, store.frame) for t in members], encoder, 2)
    logprobs, _ = sampled_logprobs(learner.model(**batch.inputs).logits, batch, encoder.unsampled)
    inputs = LossInputs(
        logprobs=logprobs,
        behaviour_logprobs=batch.logprobs,
        advantages=torch.tensor(advantages),
        mask=batch.sampled,
        total_tokens=int(batch.sampled.sum()),
        total_trajectories=len(members),
    )
    learner.model.zero_grad()
    policy_loss(inputs, ARPO.loss).loss.backward()
    return gradient(learner)


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / other.norm())


def test_what_the_engine_sampled_has_ratio_one_under_the_learner(checkpoint, encoder, groups, store):
    update = make(checkpoint, encoder).step(groups, store.frame)
    metrics = update.metrics
    assert metrics["ratio_max"] <= 1 + 1e-5
    assert metrics["ratio_mean"] == pytest.approx(1, abs=1e-6)
    assert metrics["ess"] == pytest.approx(1, abs=1e-6)
    assert metrics["clipped_low"] == metrics["clipped_high"] == metrics["clipped_dual"] == 0
    assert abs(metrics["kl"]) < 1e-9
    assert 1 < metrics["entropy"] < torch.tensor(512.0).log()
    assert metrics["trained"] == 8
    assert update.stepped


def test_a_step_makes_success_likelier_and_failure_less(checkpoint, encoder, groups, store):
    learner = make(checkpoint, encoder)
    good, bad = groups[0].members[0], groups[0].members[1]
    group = dataclasses.replace(groups[0], sampled=(good, bad), members=(good, bad))
    before = [logprob(learner, t, encoder, store) for t in (good, bad)]
    learner.step([group], store.frame)
    after = [logprob(learner, t, encoder, store) for t in (good, bad)]
    assert after[0] > before[0] + 0.01
    assert after[1] < before[1] - 0.01


def test_steps_move_the_ratio_until_the_clip_takes_hold(checkpoint, encoder, groups, store):
    learner = make(checkpoint, encoder)
    seen = [learner.step(groups, store.frame).metrics for _ in range(6)]
    assert seen[1]["ratio_max"] > 1.01
    assert seen[-1]["clipped_high"] > 0 and seen[-1]["clipped_low"] > 0
    assert seen[-1]["ess"] < seen[1]["ess"] < 1
    assert seen[-1]["loss"] < seen[0]["loss"]


@pytest.mark.parametrize("micro_batch", [1, 3, 32])
def test_the_gradient_is_that_of_one_batch_however_it_is_split(
    checkpoint, encoder, groups, store, micro_batch
):
    """And the members without an advantage, left out of the forward pass, do not change it."""
    learner = make(checkpoint, encoder, micro_batch=micro_batch)
    plain = plain_gradient(learner, groups, encoder, store)
    update = learner.step(groups, store.frame)
    assert difference(gradient(learner), plain) <= 2e-6  # what float32 leaves when sums are split
    assert update.metrics["grad_norm"] == pytest.approx(float(plain.norm()), rel=1e-5)


def test_a_faulted_member_counts_for_nothing(checkpoint, encoder, groups, store):
    fault = Fault("device", "crashed", "the page's process crashed")
    broken = replace(groups[0].members[2], steps=[], score=None, fault=fault, stop="fault")
    whole = groups[0].members
    with_fault = dataclasses.replace(groups[0], sampled=(*whole, broken), members=(*whole, broken))
    learner, other = make(checkpoint, encoder), make(checkpoint, encoder)
    learner.step([groups[0]], store.frame)
    other.step([with_fault], store.frame)
    assert torch.equal(gradient(learner), gradient(other))


def test_the_gradient_is_clipped_by_its_norm(checkpoint, encoder, groups, store):
    learner = make(checkpoint, encoder, max_grad_norm=0.01)
    update = learner.step(groups, store.frame)
    assert update.metrics["grad_norm"] > 0.01
    assert float(gradient(learner).norm()) == pytest.approx(0.01, rel=1e-3)


def test_groups_that_teach_nothing_change_nothing(checkpoint, encoder, groups, store):
    learner = make(checkpoint, encoder)
    before = weights(learner)
    update = learner.step([groups[2]], store.frame)
    assert not update.stepped
    assert (update.metrics["loss"], update.metrics["trained"]) == (0.0, 0.0)
    assert torch.equal(weights(learner), before)


def test_screens_come_from_the_store_by_their_hash(checkpoint, encoder, groups, store):
    asked = []

    def frame(hash: str) -> bytes:
        asked.append(hash)
        return store.frame(hash)

    make(checkpoint, encoder).step([groups[0]], frame)
    assert sorted(asked) == sorted(step.frame for t in groups[0].members for step in t.steps)

    other_screen = screen(77).frame
    update = make(checkpoint, encoder).step([groups[0]], lambda hash: other_screen)
    assert update.metrics["ratio_max"] > 1 + 1e-4


def test_a_nan_skips_the_step_and_five_in_a_row_end_the_run(checkpoint, encoder, groups, store):
    learner = make(checkpoint, encoder)
    before = weights(learner)
    first = next(learner.model.parameters())
    for failures in (4, 4):  # a good step in between starts the count again
        hook = first.register_hook(lambda gradient: gradient * torch.nan)
        for _ in range(failures):
            update = learner.step(groups, store.frame)
            assert not update.stepped and update.metrics["grad_norm"] != update.metrics["grad_norm"]
        assert torch.equal(weights(learner), before)
        hook.remove()
        assert learner.step(groups, store.frame).stepped
        before = weights(learner)
    assert before.isfinite().all()

    with torch.no_grad():
        first.view(-1)[0] = torch.nan
    for _ in range(4):
        assert not learner.step(groups, store.frame).stepped
    with pytest.raises(FloatingPointError, match=r"update\.learning_rate"):
        learner.step(groups, store.frame)


def test_new_weights_reach_the_engine_and_a_folder(checkpoint, encoder, groups, store, tmp_path):
    learner = make(checkpoint, encoder)
    learner.step(groups, store.frame)
    engine = LocalPolicy(checkpoint, max_new_tokens=6, seed=3)
    engine.load_weights(learner.weights(), 1)
    sampled = sample_groups(engine, tmp_path / "trajectories", [SCORES])
    engine.close()
    assert {step.policy.policy_version for t in sampled[0].members for step in t.steps} == {1}

    learner.save(tmp_path / "policy")
    again = make(tmp_path / "policy", Encoder(tmp_path / "policy"))
    with TrajectoryStore(tmp_path / "trajectories", readonly=True) as store:
        update = again.step(sampled, store.frame)
    assert update.metrics["ratio_max"] <= 1 + 1e-5
