"""Turns of several calls to models: stored, read back, packed and trained, each call in its own context."""

import asyncio
import io
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import torch
from msgspec.structs import replace
from PIL import Image

from guiagent.errors import UsageError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Call, PolicyOutput, Score, Step, Trajectory
from tests.support.random_policies import IMAGE, trajectory
from training.algorithms import ALGORITHMS
from training.algorithms.algorithm import Algorithm
from training.config import UpdateConfig
from training.engine.engine import Request
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.collate import rope_positions
from training.inputs.contexts import Context, contexts
from training.inputs.encoder import Encoder
from training.inputs.packing import tree
from training.inputs.pictures import pixel_values
from training.learner.answer_probes import probes
from training.learner.learner import Learner
from training.learner.samples import assign_advantages, build_samples
from training.model.pretrained import open_model
from training.replay import Group, adopt
from training.replay.groups import span
from training.replay.rules import confidence

ARPO = ALGORITHMS["arpo"]
OUTCOMES = (1.0, 0.0, 0.0)


def as_calls(one: Trajectory) -> Trajectory:
    """The same episode, each turn recorded as one call."""

    def turned(turn: int, step: Step) -> Step:
        own = step.policy
        shown = one.steps[max(0, turn + 1 - own.images) : turn + 1]
        call = Call(
            "actor",
            own.prompt_ids,
            own.completion_ids,
            own.logprobs,
            own.policy_version,
            own.versions,
            [past.frame for past in shown],
            own.fresh or turn == 0,
        )
        return replace(step, policy=PolicyOutput(own.text, calls=[call], policy_version=own.policy_version))

    return replace(one, steps=[turned(turn, step) for turn, step in enumerate(one.steps)])


def group_of(members: list[Trajectory]) -> Group:
    return Group("g", "task", 0, tuple(members), tuple(members), staleness=0)


def png(seed: int) -> bytes:
    data = io.BytesIO()
    Image.frombytes("RGB", (96, 64), random.Random(seed).randbytes(96 * 64 * 3)).save(data, "PNG")
    return data.getvalue()


@pytest.fixture(scope="module")
def encoder(checkpoint: Path) -> Encoder:
    return Encoder(checkpoint)


async def played(policy: LocalPolicy, store: TrajectoryStore, index: int, outcome: float) -> Trajectory:
    """Two turns: a planner and an executor are asked about each screen, and the executor's talk goes on."""
    encoder, steps = policy.encoder, []
    spoken: list[int] = []
    frames: list[bytes] = []
    for turn in range(2):
        frame = png(10 * index + turn)
        name, picture = store.put_frame(frame), encoder.picture(frame)

        async def ask(ids: list[int], shown: list[bytes], more: int, **facts) -> Call:
            sampled = await policy.engine.generate(Request(f"{index}", ids, shown))
            added = ids[len(ids) - more :]
            return Call(prompt_ids=added, completion_ids=sampled.ids, logprobs=sampled.logprobs, **facts)

        whole = encoder.first_prompt(f"Plan turn {turn}.", picture)
        planned = await ask(whole, [frame], len(whole), role="planner", frames=[name], fresh=True)
        own = encoder.first_prompt("Do it.", picture)
        first = await ask(own, [frame], len(own), role="executor", frames=[name], fresh=True)
        spoken, frames = [*own, *first.completion_ids], [frame]
        after = encoder.next_prompt(picture, ended=first.completion_ids[-1] == encoder.eos)
        second = await ask([*spoken, *after], [*frames, frame], len(after), role="executor", frames=[name])
        cut = Call("executor", [1, 2, 3], fresh=True, error="the upstream was silent")
        steps.append(Step(name, 96, 64, PolicyOutput("...", calls=[planned, first, cut, second])))
    return Trajectory(f"t{index}", "task", 0, "Do it.", steps, "task_done", Score(outcome), group="g")


@pytest.fixture(scope="module")
def store(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrajectoryStore]:
    """Episodes with several calls a turn as an engine samples them, committed and read back."""
    folder = tmp_path_factory.mktemp("calls") / "trajectories"
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=5), seed=3)

    async def sample(store: TrajectoryStore) -> list[Trajectory]:
        return [await played(policy, store, index, value) for index, value in enumerate(OUTCOMES)]

    with TrajectoryStore(folder) as writing:
        writing.commit(asyncio.run(sample(writing)))
    policy.close()
    with TrajectoryStore(folder, readonly=True) as reading:
        yield reading


def learner(checkpoint: Path, encoder: Encoder, algorithm: Algorithm = ARPO, **changes) -> Learner:
    return Learner(checkpoint, encoder, algorithm, UpdateConfig(**{"max_grad_norm": 1e9, **changes}))


def gradient(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.reshape(-1).double() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("window", [{}, {"window": 2}, {"window": 2, "sliding": True}])
def test_a_call_a_turn_makes_the_contexts_of_an_ordinary_record(window):
    one = trajectory(3, 5, **window)
    assert contexts(as_calls(one)) == contexts(one)


def test_a_call_a_turn_has_the_very_gradient_of_an_ordinary_record(checkpoint, encoder, tmp_path):
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=5), seed=5)

    async def ordinary(store: TrajectoryStore, index: int, outcome: float) -> Trajectory:
        steps: list[Step] = []
        spoken: list[int] = []
        frames: list[bytes] = []
        for turn in range(1 + index):
            frames.append(png(100 + 10 * index + turn))
            picture = encoder.picture(frames[-1])
            ended = spoken[-1:] == [encoder.eos]
            added = (
                encoder.next_prompt(picture, ended=ended) if turn else encoder.first_prompt("Go.", picture)
            )
            found = await policy.engine.generate(Request(f"o{index}", [*spoken, *added], list(frames)))
            spoken += [*added, *found.ids]
            said = PolicyOutput("x", [], None, added, found.ids, found.logprobs)
            steps.append(Step(store.put_frame(frames[-1]), 96, 64, said))
        return Trajectory(f"o{index}", "task", 0, "Go.", steps, "task_done", Score(outcome))

    async def sample(store: TrajectoryStore) -> list[Trajectory]:
        return [await ordinary(store, index, value) for index, value in enumerate(OUTCOMES)]

    with TrajectoryStore(tmp_path / "store") as store:
        plain = asyncio.run(sample(store))
        policy.close()
        one, other = learner(checkpoint, encoder), learner(checkpoint, encoder)
        expected = one.step([group_of(plain)], store.frame)
        found = other.step([group_of([as_calls(t) for t in plain])], store.frame)
    assert expected.stepped and gradient(one.model).abs().max() > 0
    assert torch.equal(gradient(other.model), gradient(one.model))
    assert found.metrics["loss"] == expected.metrics["loss"]


def logprobs_of(model, ids: list[int], said: int, frames: list[bytes], encoder: Encoder) -> torch.Tensor:
    """Of the last `said` tokens of a sequence by itself, by the library's own way."""
    pictures = [encoder.picture(frame) for frame in frames]
    grids = [picture.grid for picture in pictures]
    logits = model(
        input_ids=torch.tensor(ids)[None],
        position_ids=rope_positions(ids, grids, encoder.image_token, 2)[0][:, None],
        pixel_values=pixel_values(pictures),
        image_grid_thw=torch.tensor(grids),
    ).logits[0, -said - 1 : -1]
    logits = logits.index_fill(-1, torch.tensor(encoder.unsampled), -torch.inf)
    return logits.log_softmax(-1).gather(-1, torch.tensor(ids[-said:])[:, None])[:, 0]


@pytest.mark.parametrize("batch_tokens", [16_384, 400])
def test_the_gradient_of_a_turn_is_the_sum_of_its_calls_as_separate_samples(
    checkpoint, encoder, store, batch_tokens
):
    members = list(store)
    lessons = build_samples(group_of(members), ARPO, encoder.image_token)
    assign_advantages(lessons, ARPO)
    model = open_model(checkpoint)
    for lesson in lessons:
        calls = [c for step in lesson.trajectory.steps for c in step.policy.calls if c.error is None]
        ids: list[int] = []
        shown: list[bytes] = []
        for call in calls:
            ids, shown = ([], []) if call.fresh else (ids, shown)
            ids = [*ids, *call.prompt_ids, *call.completion_ids]
            shown = [*shown, *(store.frame(name) for name in call.frames)]
            own = logprobs_of(model, ids, len(call.completion_ids), shown, encoder)
            (-lesson.advantages[0] * own.sum() / sum(lesson.tokens) / len(lessons)).backward()
    made = learner(checkpoint, encoder, batch_tokens=batch_tokens)
    update = made.step([group_of(members)], store.frame)
    expected = gradient(model)
    assert float((gradient(made.model) - expected).norm() / expected.norm()) <= 2e-6
    assert update.metrics["ratio_max"] <= 1 + 1e-5  # every token in the context that it was sampled in
    assert update.metrics["trained"] == len(OUTCOMES)


def test_a_turns_advantage_is_of_all_its_calls_and_a_cut_call_teaches_nothing(encoder, store):
    (lesson, *_) = build_samples(group_of(list(store)), ARPO, encoder.image_token)
    turns = [[c for c in step.policy.calls if c.error is None] for step in lesson.trajectory.steps]
    assert lesson.tokens == tuple(sum(len(c.completion_ids) for c in calls) for calls in turns)
    assert [len(calls) for calls in turns] == [3, 3]
    assert len(lesson.steps) == len(lesson.behaviour) == sum(lesson.tokens)
    assert [1, 2, 3] not in [branch.context.ids for branch in lesson.branches]
    assert len(lesson.branches) == 4  # of each turn the planner's, and the executor's of two calls


def test_a_known_answer_is_asked_for_once_a_turn(store, encoder):
    branches = tree(contexts(next(iter(store))), encoder.image_token)
    asked = probes(branches, [7, 8], encoder.image_token)[len(branches) :]
    assert [branch.context.turns[-1] for branch in asked] == [0, 1]


def test_records_from_before_there_were_calls_are_read_and_written_as_they_were():
    old = {
        "id": "t",
        "task": "a",
        "seed": 1,
        "instruction": "Go.",
        "steps": [{"frame": "", "width": 1, "height": 1, "policy": {"text": "x", "completion_ids": [5]}}],
        "stop": "task_done",
    }
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(old), type=Trajectory)
    assert read.steps[0].policy.calls == [] and read.steps[0].policy.completion_ids == [5]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(read)) == old


def test_the_pictures_of_calls_are_kept_like_those_of_turns(tmp_path, store):
    with TrajectoryStore(tmp_path / "other") as other:
        (member, *_) = store
        with pytest.raises(UsageError, match="never put"):
            other.commit([member])
        (copied,) = adopt(store, other)
        assert {name: other.frame(name) for name in copied.frames} == {
            name: store.frame(name) for name in member.frames
        }
    calls = [call for step in copied.steps for call in step.policy.calls]
    assert len(calls) == 8 and {call.policy_version for call in calls} == {0}


def test_replay_sees_the_versions_and_the_chances_of_every_call():
    calls = [
        Call(completion_ids=[5], logprobs=[-1.0], policy_version=4, fresh=True),
        Call(completion_ids=[5, 6], logprobs=[-1.0, -4.0], policy_version=6, versions=[(0, 6), (1, 9)]),
    ]
    step = Step("", 1, 1, PolicyOutput("x", calls=calls, policy_version=4))
    one = Trajectory("t", "a", 1, "Go.", [step], "task_done", Score(1.0))
    assert span([one]) == (4, 9)
    assert confidence(one) == pytest.approx(float(torch.tensor(-2.0).exp()))
    assert span([replace(one, score=None)]) is None


def test_contexts_of_calls_do_not_mix_up_in_a_tree():
    """Two calls that begin alike store their common text once, and each keeps its own tokens."""
    calls = [
        Call(prompt_ids=[11, 12, 13], completion_ids=[21], logprobs=[-1.0], fresh=True),
        Call(prompt_ids=[11, 12, 14], completion_ids=[22], logprobs=[-2.0], fresh=True),
    ]
    one = Trajectory("t", "a", 1, "Go.", [Step("", 1, 1, PolicyOutput("x", calls=calls))], "task_done")
    first, second = tree(contexts(one), IMAGE)
    assert (first.shared, second.shared) == (0, 2)
    assert second.context == Context([11, 12, 14, 22], [False] * 3 + [True], [0.0] * 3 + [-2.0], [0] * 4, [])
