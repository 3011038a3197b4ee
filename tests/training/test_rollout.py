"""Rollouts on real browsers: who scores them, who proposes them, and what must have no say in it."""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from guiagent.actions import ACTION, Click
from guiagent.client import FarmClient
from guiagent.client.local_pool import private_pool
from guiagent.errors import Fault, MissingProgram, UsageError
from guiagent.protocols import Device, Taskset, Turn
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Ending, Observation, PolicyOutput, Score, Trajectory
from guiagent.wire import Endpoint
from rewards.curriculum import Curriculum
from rewards.judges.cases import JudgeInput
from rewards.judges.config import JudgeConfig
from rewards.judges.log import VerdictLog, judge_all
from rewards.judges.verdicts import Verdict
from rewards.tasksets.proposed import Proposed, ProposedTask
from tests.support.groups import advantages, take
from training.algorithms import ALGORITHMS
from training.config import RolloutConfig
from training.replay import Group, Replay
from training.replay.scheduler import Limits
from training.rollout import proposals as files
from training.rollout.dispatcher import PlatformRollouts, RolloutDispatcher
from training.rollout.proposals import Proposals
from training.rollout.sampler import GroupSampler
from training.rollout.scoring import OutcomeScorer
from training.rollout.worker import LocalRolloutWorker

TASKS = ("click-tab/name", "grid-coordinate/example", "click-collapsible/example")
ZEROGUI = ALGORITHMS["zerogui"]
OUTAGE = Verdict(None, "left-of-the-middle", fault=Fault("judge", "unreachable", "no answer", True))
SILENCE = Verdict(None, "left-of-the-middle", reason="it cannot be seen")
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pool() -> Iterator[Endpoint]:
    try:
        with private_pool("browser=2@160x224") as endpoint:
            yield endpoint
    except MissingProgram as missing:
        pytest.skip(str(missing))


class Clicker:
    """Clicks somewhere, the same places in the same order. With `most`, one episode at a time: each
    waits until the one before is committed, and only so many come to an end."""

    def __init__(self, most: int | None = None) -> None:
        self.committed: list[Trajectory] = []
        self.finished = 0  # episodes
        self._most = most
        self._rng = random.Random(3)

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        while self._most and (len(self.committed) < self.finished or self.finished == self._most):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        click = Click(x=self._rng.randrange(160), y=self._rng.randrange(50, 200))
        return PolicyOutput("", [ACTION.dump_python(click, mode="json")])

    def forget(self, episode: str) -> None:
        self.finished += 1


class LeftOfTheMiddle:
    """A judge that looks at the mouse alone; `unknown` says which cases it cannot judge, and why."""

    name = "left-of-the-middle"

    def __init__(self, unknown: Callable[[int], Verdict | None] = lambda number: None) -> None:
        self.cases: list[JudgeInput] = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self._unknown = unknown

    async def judge(self, case: JudgeInput) -> Verdict:
        self.cases.append(case)
        number = len(self.cases)
        await self.go_on.wait()
        if (unknown := self._unknown(number)) is not None:
            return unknown
        return Verdict(float(any(x < 80 for screen in case.screens for x, _ in screen.marks)), self.name)

    async def close(self) -> None:
        pass


class Contrary(Proposed):
    """The same tasks, and every check says the opposite."""

    def task(self, name: str, seed: int) -> ProposedTask:
        task = super().task(name, seed)
        return ContraryTask(task.page, task.kind, self)


class ContraryTask(ProposedTask):
    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        score = await super().check(device, observation, ending)
        return Score(None if score.value is None else 1 - score.value)


@dataclass
class Rolled:
    """What rollouts left when they were stopped."""

    trajectories: list[Trajectory] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    curriculum: dict[str, Any] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)


async def roll(
    pool: Endpoint,
    run: Path,
    judge: LeftOfTheMiddle,
    until: int,
    *,
    devices: int = 1,
    taskset: Taskset | None = None,
    tasks: Sequence[str] = TASKS,
    policy: Clicker | None = None,
    curriculum: Curriculum | None = None,
    dynamic: bool = False,
    meanwhile: Callable[[list[Trajectory]], Any] | None = None,
) -> Rolled:
    """Roll out until so many trajectories are committed; goes on from what is in the folder."""
    seen = Rolled()
    taskset, policy = taskset or Proposed(), policy or Clicker()
    policy.committed = seen.trajectories
    async with AsyncExitStack() as stack:
        farm = await stack.enter_async_context(FarmClient(pool.url, pool.token))
        store = stack.enter_context(TrajectoryStore(run / "trajectories"))
        log = stack.enter_context(VerdictLog(run / "verdicts.jsonl"))
        limits = Limits(groups=50, max_staleness=1, devices=50, sticky=True)
        replay = Replay(ZEROGUI.replay, 0, limits=limits, flat_groups=ZEROGUI.flat_groups)
        replay.restore(None, store)
        proposals = Proposals(run, store)
        stack.callback(proposals.close)
        judging = OutcomeScorer(judge, store.frame, log)
        curriculum = curriculum or Curriculum(tasks)
        config = RolloutConfig(devices=devices, group_size=4, dynamic=dynamic)
        workers = [
            LocalRolloutWorker(farm, policy, taskset, store.put_frame, f"rollout {slot}")
            for slot in range(devices)
        ]
        sampler = GroupSampler(taskset, curriculum, config, random.Random(0), replay.opened, proposals)
        rollouts = RolloutDispatcher(
            {"": PlatformRollouts(workers, sampler)},
            store,
            replay,
            seen.trajectories.append,
            [judging],
        )
        running = asyncio.create_task(rollouts.run())
        try:
            async with asyncio.timeout(120):
                while len(seen.trajectories) < until and not running.done():
                    await asyncio.sleep(0.01)
                    if meanwhile is not None:
                        meanwhile(seen.trajectories)
                if running.done():
                    running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        seen.trajectories = list(store)
        seen.groups = take(replay, replay.ready)
        seen.curriculum, seen.unknown = curriculum.state(), dict(judging.unknown)
    return seen


def essence(trajectories: Sequence[Trajectory]) -> list[tuple[Any, ...]]:
    return [
        (t.task, t.seed, t.group_index, t.instruction, t.score and t.score.value, len(t.steps))
        for t in trajectories
    ]


async def test_the_judge_scores_and_the_check_audits(pool: Endpoint, tmp_path: Path) -> None:
    judge = LeftOfTheMiddle()
    rolled = await roll(pool, tmp_path, judge, until=24, devices=2)
    assert {t.score.source for t in rolled.trajectories if t.score} == {"judge"}
    assert {t.audit.source for t in rolled.trajectories if t.audit} == {"check"}
    assert all(t.audit and t.audit.value in (0.0, 1.0) for t in rolled.trajectories)
    for trajectory in rolled.trajectories:
        x = [action["x"] for step in trajectory.steps for action in step.policy.actions]
        assert trajectory.success == any(place < 80 for place in x)
    shown = {case.id: case for case in judge.cases}
    for trajectory in rolled.trajectories:
        case = shown[trajectory.id]
        assert case.instruction == trajectory.instruction
        assert len(case.screens) == len(trajectory.steps) + 1 and all(s.frame for s in case.screens)
    for group in rolled.groups:
        outcomes = {member.success for member in group.members}
        assert outcomes == {True, False}  # dynamic sampling
    with VerdictLog(tmp_path / "verdicts.jsonl") as log:
        kept = {entry.trajectory: entry.verdict.value for entry in log}
    assert all(kept[t.id] == t.score.value for t in rolled.trajectories if t.score)


@pytest.mark.slow
async def test_the_audit_influences_nothing(pool: Endpoint, tmp_path: Path) -> None:
    """One device, one episode at a time: everything comes in one order, so turning every check round must
    change the audits and nothing else."""
    runs = [tmp_path / "honest", tmp_path / "turned"]
    honest, turned = [
        await roll(pool, run, LeftOfTheMiddle(), until=40, taskset=taskset, policy=Clicker(most=40))
        for run, taskset in zip(runs, (Proposed(), Contrary()), strict=True)
    ]
    assert essence(honest.trajectories) == essence(turned.trajectories)
    both = zip(honest.trajectories, turned.trajectories, strict=True)
    audits = [(one.audit.value, other.audit.value) for one, other in both if one.audit and other.audit]
    assert len(audits) == 40 and set(audits) == {(0.0, 1.0), (1.0, 0.0)}
    assert len(honest.groups) > 2
    for first, second in zip(honest.groups, turned.groups, strict=True):
        assert essence(first.members) == essence(second.members)
        assert advantages(first) == advantages(second)
    assert honest.curriculum == turned.curriculum
    outcomes = [{e.seed: e.outcome for e in files.read(run) if e.outcome} for run in runs]
    assert outcomes[0] == outcomes[1] and len(outcomes[0]) == 10


async def test_what_cannot_be_judged_is_masked_counted_and_can_be_judged_again(
    pool: Endpoint, tmp_path: Path
) -> None:
    weather = {1: OUTAGE, 2: SILENCE}
    rolled = await roll(pool, tmp_path, LeftOfTheMiddle(lambda number: weather.get(number % 4)), until=24)
    unknown = [t for t in rolled.trajectories if t.score is None or t.score.value is None]
    assert len(unknown) >= 10 and all(t.fault is None and t.audit is not None for t in unknown)
    assert set(rolled.unknown) == {"unreachable", "abstained"}
    assert sum(rolled.unknown.values()) >= len(unknown)
    for group in rolled.groups:
        masked = [a for t, a in zip(group.members, advantages(group), strict=True) if not t.valid]
        assert not any(masked)
    with TrajectoryStore(tmp_path / "trajectories") as store, VerdictLog(tmp_path / "verdicts.jsonl") as log:
        before = {entry.trajectory: entry.verdict for entry in log if entry.verdict.value is not None}
        await judge_all(LeftOfTheMiddle(), store, store.frame, log)
        after = {entry.trajectory: entry.verdict for entry in log}
        assert all(after[t.id].value is not None for t in unknown)
        assert all(after[id] == verdict for id, verdict in before.items())


async def test_a_task_that_cannot_be_judged_comes_less_often_and_an_outage_changes_nothing(
    pool: Endpoint, tmp_path: Path
) -> None:
    for name, verdict, expected in (("silence", SILENCE, 0.5 * 0.9**8), ("outage", OUTAGE, 0.5)):
        judge = LeftOfTheMiddle(lambda number, verdict=verdict: verdict)
        rolled = await roll(pool, tmp_path / name, judge, until=8, tasks=TASKS[:1], policy=Clicker(most=8))
        (known,) = rolled.curriculum["tasks"].values()
        assert known["success"] == pytest.approx(expected)
        assert known["variance"] == pytest.approx(expected / 2)  # it began at 0.25, and shrank alike
        assert [entry.outcome.refusal for entry in files.read(tmp_path / name) if entry.outcome] == [
            "not_judgeable"
        ] * 2


async def test_a_slow_judge_holds_devices_up_only_when_too_many_wait(pool: Endpoint, tmp_path: Path) -> None:
    """Two episodes are being judged, two wait for it, and two devices wait to hand over theirs."""
    judge, policy = LeftOfTheMiddle(), Clicker()
    judge.go_on.clear()
    polls_at_six = 0

    def watch(committed: list[Trajectory]) -> None:
        nonlocal polls_at_six
        if judge.go_on.is_set():
            return
        assert policy.finished <= 6 and not committed
        polls_at_six += policy.finished == 6
        if polls_at_six == 50:
            judge.go_on.set()

    rolled = await roll(pool, tmp_path, judge, until=16, devices=2, policy=policy, meanwhile=watch)
    assert polls_at_six == 50 and len(rolled.trajectories) >= 16


async def test_a_run_goes_on_where_it_was_stopped(pool: Endpoint, tmp_path: Path) -> None:
    """Twice on a page with 25 proposals in all: no seed and no proposal comes twice, no member is missing."""
    for until in (10, 20):
        await roll(pool, tmp_path, LeftOfTheMiddle(), until=until, devices=2, tasks=TASKS[1:2])
    entries = files.read(tmp_path)
    seeds = [entry.seed for entry in entries if entry.outcome is None or not entry.outcome.trials]
    assert len(seeds) == len(set(seeds))
    proposed = [entry.proposal.instruction for entry in entries if entry.proposal]
    assert len(proposed) == len(set(proposed))
    refused = [entry.outcome.refusal for entry in entries if entry.outcome and not entry.outcome.trials]
    assert set(refused) <= {"duplicate"}
    with TrajectoryStore(tmp_path / "trajectories", readonly=True) as store:
        members = [(t.group, t.group_index) for t in store]
    assert len(members) == len(set(members)) >= 30
    decided = {entry.seed: entry.outcome for entry in entries if entry.outcome and entry.outcome.trials}
    assert len(decided) >= 5 and all(outcome.trials == 4 for outcome in decided.values())


async def test_proposals_need_a_judge(checkpoint: Path, tmp_path: Path) -> None:
    from training.checkpoints.mirror import RunFolder
    from training.config import TrainConfig
    from training.launch.launcher import OneProcess
    from training.launch.wiring import train

    config = TrainConfig(taskset="proposed", tasks=TASKS, policy=str(checkpoint))
    async with FarmClient("http://127.0.0.1:9", "") as nobody:
        with pytest.raises(UsageError, match=r"\[judge\]"):
            await train(config, RunFolder(tmp_path), OneProcess(config, nobody), lambda progress: None)


async def test_a_judge_of_evidence_needs_a_dialect_that_can_cite_some(
    checkpoint: Path, tmp_path: Path
) -> None:
    from training.checkpoints.mirror import RunFolder
    from training.config import TrainConfig
    from training.launch.launcher import OneProcess
    from training.launch.wiring import train

    judge = JudgeConfig(preset="smartsnap", url="http://127.0.0.1:9", model="m")
    config = TrainConfig(tasks=("click-test-2",), policy=str(checkpoint), judge=judge)
    async with FarmClient("http://127.0.0.1:9", "") as nobody:
        with pytest.raises(UsageError, match=r'dialect = "ui-tars\+evidence"'):
            await train(
                config,
                RunFolder(tmp_path),
                OneProcess(config, nobody),
                lambda progress: None,
                LeftOfTheMiddle(),
            )


async def test_tasks_that_go_well_get_smaller_groups_and_ten_steps_at_least(
    pool: Endpoint, tmp_path: Path
) -> None:
    well = Curriculum(TASKS[:1])
    for _ in range(60):
        well.update(TASKS[0], 1.0, 1)
    rolled = await roll(pool, tmp_path, LeftOfTheMiddle(), 6, tasks=TASKS[:1], curriculum=well, dynamic=True)
    assert {trajectory.group_size for trajectory in rolled.trajectories[:2]} == {2}  # of 4
    assert max(len(trajectory.steps) for trajectory in rolled.trajectories[:2]) > 1  # its successes took one
