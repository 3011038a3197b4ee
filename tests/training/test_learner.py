"""The learner on episodes that the engine sampled: token in, token out, through a store on the disk."""

import asyncio
import copy
import dataclasses
import io
import json
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace
from PIL import Image

from guiagent.actions import Answer
from guiagent.episode import PastTurn
from guiagent.errors import DivergedError, Fault, UsageError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Observation, Score, Step, Trajectory
from training.algorithms import ALGORITHMS
from training.algorithms.algorithm import Algorithm
from training.checkpoints.checkpoint import reopen, save
from training.config import HistoryConfig, LoraConfig, UpdateConfig
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.collate import rope_positions
from training.inputs.contexts import Context, contexts
from training.inputs.encoder import Encoder
from training.inputs.pictures import pixel_values
from training.learner.learner import Learner, LearnerContext
from training.learner.samples import assign_advantages, build_samples, minibatches
from training.learner.signals import SignalSources
from training.model.network import Placement
from training.model.pretrained import open_model
from training.replay import Group
from training.tiny.progress import ProgressEstimator

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
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=6), seed=2)
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


def make(
    checkpoint: Path,
    encoder: Encoder,
    algorithm: Algorithm = ARPO,
    *,
    context=None,
    ranks=None,
    **changes: object,
) -> Learner:
    config = UpdateConfig(**{"learning_rate": 1e-3, "max_grad_norm": 1e9, **changes})
    context = dataclasses.replace(
        context or LearnerContext(), sources=SignalSources(open_estimator=ProgressEstimator)
    )
    placement = Placement(ranks=ranks) if ranks else Placement()
    return Learner(checkpoint, encoder, algorithm, config, context, placement)


def gradient(learner: Learner) -> torch.Tensor:
    return torch.cat([p.grad.reshape(-1).double() for p in learner.model.parameters() if p.grad is not None])


def weights(learner: Learner) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1).clone() for p in learner.model.parameters()])


def logprobs_in(model, context: Context, encoder: Encoder, store: TrajectoryStore) -> torch.Tensor:
    """Of every sampled token of a sequence by itself, by the library's own way."""
    pictures = [encoder.picture(store.frame(name)) for name in context.frames]
    grids = [picture.grid for picture in pictures]
    ids, own = torch.tensor(context.ids), torch.tensor(context.sampled)
    logits = model(
        input_ids=ids[None],
        position_ids=rope_positions(context.ids, grids, encoder.image_token, 2)[0][:, None],
        pixel_values=pixel_values(pictures),
        image_grid_thw=torch.tensor(grids),
    ).logits[0, :-1][own[1:]]
    logits = logits.index_fill(-1, torch.tensor(encoder.unsampled), -torch.inf)
    return logits.log_softmax(-1).gather(-1, ids[own][:, None])[:, 0]


def logprobs(model, trajectory: Trajectory, encoder: Encoder, store: TrajectoryStore) -> torch.Tensor:
    return torch.cat([logprobs_in(model, context, encoder, store) for context in contexts(trajectory)])


def plain_gradient(
    checkpoint: Path, groups: list[Group], encoder: Encoder, store: TrajectoryStore
) -> torch.Tensor:
    """ARPO's, one trajectory after another: at a ratio of 1 it is that of `-A log pi`, meaned."""
    model = open_model(checkpoint)
    lessons = [build_samples(group, ARPO, encoder.image_token) for group in groups]
    for group in lessons:
        assign_advantages(group, ARPO)
    counted = [lesson for group in lessons for lesson in group if lesson.reward is not None]
    for lesson in counted:
        found = logprobs(model, lesson.trajectory, encoder, store)
        (-lesson.advantages[0] * found.mean() / len(counted)).backward()
    return torch.cat([p.grad.reshape(-1).double() for p in model.parameters()])


def longest_context(groups: list[Group]) -> int:
    return max(len(one.ids) for group in groups for member in group.members for one in contexts(member))


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
    assert metrics["trained_tokens"] == sum(
        len(s.policy.completion_ids) for group in groups[:2] for t in group.members for s in t.steps
    )
    assert metrics["packed_tokens"] > metrics["trained_tokens"] and metrics["model_flops"] > 1e6
    assert update.stepped


@pytest.mark.parametrize("kind", ["anchored", "sliding"])
def test_windows_of_the_history_have_ratio_one_too(checkpoint, encoder, tmp_path, kind):
    policy = LocalPolicy(
        Encoder(checkpoint), Sampling(max_new_tokens=6), history=HistoryConfig(kind=kind, images=2), seed=4
    )
    windowed = sample_groups(policy, tmp_path, [SCORES])
    policy.close()
    assert any(step.policy.fresh for t in windowed[0].members for step in t.steps[1:])
    with TrajectoryStore(tmp_path, readonly=True) as store:
        metrics = make(checkpoint, encoder).step(windowed, store.frame).metrics
    assert metrics["ratio_max"] <= 1 + 1e-5 and metrics["ess"] == pytest.approx(1, abs=1e-6)


def test_a_step_makes_success_likelier_and_failure_less(checkpoint, encoder, groups, store):
    learner = make(checkpoint, encoder)
    good, bad = groups[0].members[0], groups[0].members[1]
    group = dataclasses.replace(groups[0], sampled=(good, bad), members=(good, bad))
    both = (good, bad)
    before = [float(logprobs(learner.model, t, encoder, store).detach().sum()) for t in both]
    learner.step([group], store.frame)
    after = [float(logprobs(learner.model, t, encoder, store).detach().sum()) for t in both]
    assert after[0] > before[0] + 0.01
    assert after[1] < before[1] - 0.01


def test_steps_move_the_ratio_until_the_clip_takes_hold(checkpoint, encoder, groups, store):
    learner = make(checkpoint, encoder)
    seen = [learner.step(groups, store.frame).metrics for _ in range(6)]
    assert seen[1]["ratio_max"] > 1.01
    assert seen[-1]["clipped_high"] > 0 and seen[-1]["clipped_low"] > 0
    assert seen[-1]["ess"] < seen[1]["ess"] < 1
    assert seen[-1]["loss"] < seen[0]["loss"]


@pytest.mark.parametrize("contexts_in_a_pass", [1, 2, 100])
def test_the_gradient_is_that_of_one_batch_however_it_is_split(
    checkpoint, encoder, groups, store, contexts_in_a_pass
):
    """And the members without an advantage, left out of the forward pass, do not change it."""
    batch_tokens = contexts_in_a_pass * longest_context(groups)
    learner = make(checkpoint, encoder, batch_tokens=batch_tokens)
    plain = plain_gradient(checkpoint, groups, encoder, store)
    update = learner.step(groups, store.frame)
    assert difference(gradient(learner), plain) <= 2e-6  # what float32 leaves when sums are split
    assert update.metrics["grad_norm"] == pytest.approx(float(plain.norm()), rel=1e-5)


def test_gradient_checkpointing_changes_no_gradient(checkpoint, encoder, groups, store):
    learner, other = make(checkpoint, encoder), make(checkpoint, encoder, gradient_checkpointing=True)
    for one in (learner, other):
        one.step(groups, store.frame)
    assert difference(gradient(other), gradient(learner)) <= 1e-6


def test_half_precision_is_of_activations_only(checkpoint, encoder, groups, store):
    learner, half = make(checkpoint, encoder), make(checkpoint, encoder, precision="bfloat16")
    for one in (learner, half):
        one.step(groups, store.frame)
    assert {p.dtype for p in half.model.parameters()} == {torch.float32}
    assert 1e-5 < difference(gradient(half), gradient(learner)) < 0.1


class _Threads:
    """Ranks that are threads of this process."""

    def __init__(self, world: int) -> None:
        self.world = world
        self._meeting = threading.Barrier(world, timeout=120)
        self._said: list[list[float]] = [[] for _ in range(world)]
        self._sent: dict[int, bytes] = {}

    def seen_by(self, rank: int) -> "_Thread":
        return _Thread(self, rank)

    def exchange(self, rank: int, values: list[float]) -> list[list[float]]:
        self._said[rank] = values
        self._meeting.wait()
        every = list(self._said)
        self._meeting.wait()
        return every

    def scatter(self, rank: int, message: Callable[[int], bytes]) -> bytes:
        if rank == 0:
            self._sent = {other: message(other) for other in range(1, self.world)}
        self._meeting.wait()
        received = self._sent.get(rank, b"")
        self._meeting.wait()
        return received


class _Thread:
    def __init__(self, threads: _Threads, rank: int) -> None:
        self.rank, self.world, self._threads = rank, threads.world, threads

    def sum(self, values) -> list[float]:
        return [sum(column) for column in zip(*self._threads.exchange(self.rank, list(values)), strict=True)]

    def largest(self, values) -> list[float]:
        return [max(column) for column in zip(*self._threads.exchange(self.rank, list(values)), strict=True)]

    def scatter(self, message) -> bytes:
        return self._threads.scatter(self.rank, message)


@pytest.mark.parametrize(("name", "world"), [("dart_paper", 2), ("arpo", 5)])
def test_the_gradients_of_the_ranks_add_up(checkpoint, encoder, groups, store, name, world):
    """Also where a rank has nothing to compute."""
    threads = _Threads(world)
    batch_tokens = longest_context(groups) + 10  # several passes, not equally many for each rank
    algorithm = ALGORITHMS[name]
    learners = [
        make(
            checkpoint,
            encoder,
            algorithm,
            ranks=threads.seen_by(r),
            batch_tokens=batch_tokens,
        )
        for r in range(world)
    ]
    metrics = [{} for _ in learners]

    def work(rank: int) -> None:
        metrics[rank] = learners[rank].step(groups[:1], store.frame).metrics

    running = [threading.Thread(target=work, args=(rank,)) for rank in range(world)]
    for one in running:
        one.start()
    for one in running:
        one.join()
    alone = make(checkpoint, encoder, algorithm)
    expected = alone.step(groups[:1], store.frame).metrics
    assert difference(sum(gradient(learner) for learner in learners), gradient(alone)) <= 5e-6
    for found in metrics:
        for key in ("loss", "entropy", "ratio_mean", "trained_tokens", "packed_tokens"):
            assert found[key] == pytest.approx(expected[key], rel=1e-5, abs=1e-6)


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
    assert sorted(asked) == sorted({step.frame for t in groups[0].members for step in t.steps})

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
            assert update.metrics["skipped_updates"] == 1
        assert torch.equal(weights(learner), before)
        hook.remove()
        assert learner.step(groups, store.frame).stepped
        before = weights(learner)
    assert before.isfinite().all()

    with torch.no_grad():
        first.view(-1)[0] = torch.nan
    for _ in range(4):
        assert not learner.step(groups, store.frame).stepped
    with pytest.raises(DivergedError, match=r"update\.learning_rate"):
        learner.step(groups, store.frame)


def test_new_weights_reach_the_engine_and_a_folder(checkpoint, encoder, groups, store, tmp_path):
    learner = make(checkpoint, encoder)
    learner.step(groups, store.frame)
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=6), seed=3)
    policy.engine.load_weights(learner.weights(), 1)
    sampled = sample_groups(policy, tmp_path / "trajectories", [SCORES])
    policy.close()
    assert {step.policy.policy_version for t in sampled[0].members for step in t.steps} == {1}

    learner.save(tmp_path / "policy")
    again = make(tmp_path / "policy", Encoder(tmp_path / "policy"))
    with TrajectoryStore(tmp_path / "trajectories", readonly=True) as store:
        update = again.step(sampled, store.frame)
    assert update.metrics["ratio_max"] <= 1 + 1e-5


def test_the_next_step_changes_neither_what_is_published_nor_what_is_saved(
    checkpoint, encoder, groups, store, tmp_path
):
    learner = make(checkpoint, encoder)
    learner.step(groups, store.frame)
    published, snapshot = learner.weights(), learner.snapshot()
    before = {name: tensor.clone() for name, tensor in published.items()}
    learner.step(groups, store.frame)
    assert all(torch.equal(published[name], before[name]) for name in before)
    assert any(not torch.equal(tensor, before[name]) for name, tensor in learner.weights().items())
    path = save(tmp_path, 1, snapshot, state={"learner": learner.state()}, rng={})
    other = make(checkpoint, encoder)
    other.load(reopen(path))
    assert all(torch.equal(tensor, before[name]) for name, tensor in other.weights().items())


def test_epochs_and_minibatches_are_optimiser_steps(checkpoint, encoder, groups, store):
    learner = make(checkpoint, encoder, epochs=3, minibatches=2)
    metrics = learner.step(groups[:2], store.frame).metrics
    assert metrics["updates"] == 6
    assert metrics["ratio_max"] > 1.01  # against what was sampled, the later ones have moved
    both = sum(len(s.policy.completion_ids) for g in groups[:2] for t in g.members for s in t.steps)
    assert metrics["trained_tokens"] == 3 * both
    one = make(checkpoint, encoder)
    for _ in range(3):
        for group in groups[:2]:
            one.step([group], store.frame)
    assert difference(weights(learner), weights(one)) <= 1e-6


def test_what_was_drawn_from_a_buffer_is_dealt_out_by_trajectories(checkpoint, encoder, groups, store):
    fresh = [dataclasses.replace(group, members=()) for group in groups]
    successes = tuple(t for group in groups[:2] for t in group.members if t.success)
    drawn = Group("drawn-g0", "", 0, (), successes, staleness=0)
    learner = make(checkpoint, encoder, ALGORITHMS["pae"], minibatches=2)
    metrics = learner.step([*fresh, drawn], store.frame).metrics
    assert (metrics["updates"], metrics["trained"], len(successes)) == (2, 3, 3)


def test_minibatches_deal_out_whole_groups_as_far_as_they_go(encoder, groups):
    lessons = [build_samples(group, ARPO, encoder.image_token) for group in groups]
    first, second, third = lessons
    assert minibatches(groups, lessons, 2) == [first + third, second]
    assert minibatches(groups, lessons, 9) == lessons
    assert minibatches(groups, [first, [], []], 2) == [first]
    assert minibatches([], [], 2) == []


def test_a_replayed_episode_may_have_seen_another_history(checkpoint, encoder, groups, store, tmp_path):
    """A success of a run with windows rescues a group of one with the full history."""
    policy = LocalPolicy(
        Encoder(checkpoint),
        Sampling(max_new_tokens=6),
        history=HistoryConfig(kind="sliding", images=1),
        seed=5,
    )
    [windowed] = sample_groups(policy, tmp_path, [(1.0, 1.0, 1.0)])
    policy.close()
    rescue, sampled = windowed.members[2], groups[1].sampled
    assert [step.policy.fresh for step in rescue.steps] == [False, True, True]
    rescued = Group("g1", "task", 1, sampled, (rescue, *sampled[1:]), staleness=0)
    assert rescued.replayed == (True, False, False, False)
    with TrajectoryStore(tmp_path, readonly=True) as other:
        frames = {step.frame: other.frame(step.frame) for step in rescue.steps}
    metrics = (
        make(checkpoint, encoder).step([rescued], lambda name: frames.get(name) or store.frame(name)).metrics
    )
    assert metrics["trained"] == 4
    assert metrics["ratio_max"] <= 1 + 1e-5 and metrics["ess"] == pytest.approx(1, abs=1e-6)


def test_the_reference_is_where_the_run_began(checkpoint, encoder, groups, store, tmp_path):
    """Also for a run that goes on from a later checkpoint."""
    zerogui = ALGORITHMS["zerogui"]
    learner = make(checkpoint, encoder, zerogui)
    seen = [learner.step(groups, store.frame).metrics["kl_reference"] for _ in range(3)]
    assert seen[0] == pytest.approx(0, abs=1e-9)
    assert seen[2] > 1e-5
    learner.save(tmp_path / "later")
    on = make(tmp_path / "later", encoder, zerogui, context=LearnerContext(start=checkpoint))
    other = make(tmp_path / "later", encoder, zerogui)
    next_one = learner.step(groups, store.frame).metrics["kl_reference"]
    assert on.step(groups, store.frame).metrics["kl_reference"] == pytest.approx(next_one, rel=1e-3)
    assert other.step(groups, store.frame).metrics["kl_reference"] == pytest.approx(0, abs=1e-9)


def test_the_ratio_to_the_policy_at_the_start_of_the_batch_begins_at_one(checkpoint, encoder, groups, store):
    learner = make(checkpoint, encoder, ALGORITHMS["dart_code"], epochs=1)
    for _ in range(3):
        metrics = learner.step(groups, store.frame).metrics
        assert metrics["ratio_max"] == pytest.approx(1, abs=1e-5)
    assert metrics["ess"] < 1 - 1e-4  # the policy has moved away from what was sampled
    assert metrics["correction_truncated"] > 0


def test_the_surest_steps_are_left_out(checkpoint, encoder, groups, store):
    """DART: a fifth of a group's steps has no weight, and so what is left alone has the same gradient."""
    lessons = build_samples(groups[0], ALGORITHMS["dart_paper"], encoder.image_token)
    for index, lesson in enumerate(lessons):
        lesson.entropies = tuple(1.0 + 10 * index + step for step in range(len(lesson.tokens)))
    assign_advantages(lessons, ALGORITHMS["dart_paper"])
    kept = [kept for lesson in lessons for kept in lesson.kept]
    assert kept[: kept.index(True)] == [False] * kept.count(False) and 0 < kept.count(False) <= 2


def test_what_was_remembered_goes_into_a_checkpoint_and_back(checkpoint, encoder, groups, store):
    epo = ALGORITHMS["epo"]
    learner, other = make(checkpoint, encoder, epo), make(checkpoint, encoder, epo)
    learner.step(groups, store.frame)
    state = json.loads(json.dumps(learner.state()))
    assert state["history"]["updates"] == 1 and len(state["history"]["entropy"]) == 3
    other.restore(state, {})
    assert other.state() == learner.state()


def test_the_chance_of_the_known_answer_before_every_turn(checkpoint, encoder, groups, store):
    """Against each prompt by itself, followed by the answer."""
    igpo = ALGORITHMS["igpo"]
    asked = []

    def credit(members):
        asked.extend(members)
        return igpo.credit(members)

    learner = make(checkpoint, encoder, dataclasses.replace(igpo, credit=credit))
    model = open_model(checkpoint)
    knowing = tuple(
        replace(t, score=Score(t.score.value, evidence={"expected": "Tab"} if t.id != "g0-1" else {}))
        for t in groups[0].members
    )
    learner.step([dataclasses.replace(groups[0], sampled=knowing, members=knowing)], store.frame)
    assert [member.answers is None for member in asked] == [False, True, False, False]
    said = encoder.completion(encoder.dialect.render([Answer(text="Tab")], (96, 64)))
    (context,) = contexts(groups[0].members[2])
    frames = iter(range(1, 4))
    for turn, chance in enumerate(asked[2].answers):
        at = next(i for i, s in enumerate(context.sampled) if s and context.turns[i] == turn)
        own = [False] * at + [True] * len(said)
        alone = Context(context.ids[:at] + said, own, [], [], context.frames[: next(frames)])
        with torch.no_grad():
            direct = logprobs_in(model, alone, encoder, store)
        assert chance == pytest.approx(float(direct.mean().exp()), rel=1e-5)


def test_adapters_learn_and_nothing_else_does(checkpoint, encoder, groups, store, tmp_path):
    zerogui, lora = ALGORITHMS["zerogui"], LoraConfig(rank=4, alpha=8)
    learner = make(checkpoint, encoder, zerogui, lora=lora, learning_rate=1e-2)
    before = {name: tensor.clone() for name, tensor in open_model(checkpoint).state_dict().items()}
    first = learner.weights()
    assert first.keys() == before.keys()
    assert all(torch.equal(first[name], before[name]) for name in before)
    seen = [learner.step(groups, store.frame).metrics for _ in range(3)]
    assert seen[0]["kl_reference"] == pytest.approx(0, abs=1e-9) and seen[2]["kl_reference"] > 1e-5
    merged = learner.weights()
    changed = {name for name in before if not torch.equal(merged[name], before[name])}
    assert changed and all("language_model.layers" in name and "_proj" in name for name in changed)

    learner.save(tmp_path / "policy")  # plain transformers reads it, and computes the same
    plain = open_model(tmp_path / "policy")
    with torch.no_grad():
        one, other = (logprobs(m, groups[0].members[2], encoder, store) for m in (plain, learner.model))
    assert (one - other).abs().max() <= 1e-5

    on = make(
        tmp_path / "policy",
        encoder,
        zerogui,
        lora=lora,
        learning_rate=1e-2,
        context=LearnerContext(start=checkpoint),
    )
    assert all(torch.equal(tensor, merged[name]) for name, tensor in on.weights().items())
    anew = make(tmp_path / "policy", encoder, zerogui, lora=lora)
    assert all(torch.equal(tensor, merged[name]) for name, tensor in anew.weights().items())
    assert not any("lora_B" in name and p.any() for name, p in anew.model.named_parameters())
    on.optimizer.load_state_dict(copy.deepcopy(learner.optimizer.state_dict()))
    for one in (learner, on):
        one.step(groups, store.frame)
    assert torch.equal(weights(on), weights(learner))


def test_a_frozen_vision_tower_looks_once(checkpoint, encoder, groups, store):
    learner, other = make(checkpoint, encoder, freeze_vision=True), make(checkpoint, encoder)
    seen = []
    tower = learner.model.model.visual
    tower.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    for one in (learner, other):
        one.step(groups, store.frame)
    screens = {step.frame for group in groups[:2] for t in group.members for step in t.steps}
    assert sum(seen) == sum(len(encoder.picture(store.frame(name)).patches) for name in screens)
    learner.step(groups, store.frame)
    assert len(seen) == len(screens)
    language = [
        torch.cat([p.grad.reshape(-1) for p in one.model.model.language_model.parameters()])
        for one in (learner, other)
    ]
    assert all(p.grad is None for p in tower.parameters())
    assert len(language[0]) == len(language[1])


def test_greedy_rollouts_teach_nothing(checkpoint, encoder):
    with pytest.raises(UsageError, match="temperature"):
        make(checkpoint, encoder, context=LearnerContext(temperature=0.0))


def test_the_critic_learns_how_episodes_end_and_goes_into_a_checkpoint(checkpoint, encoder, groups, store):
    st_ppo = ALGORITHMS["st_ppo"]
    learner = make(checkpoint, encoder, st_ppo, learning_rate=1e-6)
    seen = [learner.step(groups[:1], store.frame).metrics["critic_loss"] for _ in range(5)]
    assert seen[-1] < 0.9 * seen[0]
    other = make(checkpoint, encoder, st_ppo, learning_rate=1e-6)
    other.restore(learner.state(), learner.critic_state())
    assert other.critic_state().keys() == learner.critic_state().keys()
    assert all(torch.equal(x, learner.critic_state()[name]) for name, x in other.critic_state().items())


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_preset_takes_a_step(checkpoint, encoder, groups, store, name):
    learner = make(checkpoint, encoder, ALGORITHMS[name])
    before = weights(learner)
    update = learner.step(groups[:1], store.frame)
    assert update.stepped and update.metrics["trained"] > 0
    assert not torch.equal(weights(learner), before)
    assert weights(learner).isfinite().all()
