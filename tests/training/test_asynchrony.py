"""Rollouts, replay and a trainer at once, on workers that take no time: what is played, and how stale."""

import asyncio
import math
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from guiagent.errors import Fault, InfrastructureError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import PolicyOutput, Score, Step, Trajectory
from rewards.curriculum import Curriculum
from rewards.tasksets.miniwob import MiniWob, MiniWobTask
from tests.support.groups import FAULT, member
from training.config import RolloutConfig
from training.engine.publisher import Publisher
from training.replay import EpisodeRequest, Group, Replay
from training.replay.scheduler import Limits
from training.rollout.dispatcher import PlatformRollouts, RolloutDispatcher
from training.rollout.proposals import Suggestion
from training.rollout.sampler import GroupSampler
from training.rollout.worker import WorkerLost

LOST = Fault("farm", "worker_lost", "the worker is gone", retryable=True)
Ending = Callable[[random.Random], float | None]  # an episode's score; None: a fault ends it


def evenly(rng: random.Random) -> float:
    return float(rng.random() < 0.5)


class Engine:
    """Weights without a model: `version` samples from the moment that it was loaded."""

    def __init__(self) -> None:
        self.version = 0
        self.refuse = False

    def load_weights(self, state: dict[str, torch.Tensor], version: int) -> None:
        if self.refuse:
            raise InfrastructureError("the weights did not arrive whole")
        assert version == self.version + 1
        self.version = version


class RolloutWorker:
    """Plays what it is told, in a few turns of the event loop; is lost every so often, and no longer ends
    anything once `most` episodes have ended."""

    def __init__(
        self,
        engine: Engine,
        rng: random.Random,
        played: list[EpisodeRequest],
        lost_rate: float,
        most: float,
        ending: Ending,
        allowed: list[int],
    ) -> None:
        self.faults: Counter[str] = Counter()
        self._allowed = allowed
        self._engine, self._rng, self._played = engine, rng, played
        self._lost_rate, self._most, self._ending = lost_rate, most, ending

    async def ready(self) -> None:
        pass

    async def play(self, request: EpisodeRequest, max_steps: int) -> Trajectory:
        step = Step("", 1, 1, PolicyOutput("x", policy_version=self._engine.version))
        for _ in range(self._rng.randrange(1, 20)):
            await asyncio.sleep(0)
        if self._rng.random() < self._lost_rate:
            raise WorkerLost(LOST)
        if len(self._played) >= self._most:
            await asyncio.Event().wait()
        self._played.append(request)
        self._allowed.append(max_steps)
        value = self._ending(self._rng)
        return Trajectory(
            f"{request.group}/{request.index}",
            request.task,
            request.seed,
            "",
            [step] * min(max_steps, 14),
            "task_done" if value is not None else "fault",
            Score(value) if value is not None else None,
            fault=FAULT if value is None else None,
            group=request.group,
            group_index=request.index,
            group_size=request.size,
        )

    async def suggest(self, task: str, seed: int) -> Suggestion:
        raise AssertionError("nothing is proposed here")

    async def close(self) -> None:
        pass


@dataclass
class Session:
    engine: Engine
    replay: Replay
    rollouts: RolloutDispatcher
    publisher: Publisher
    running: "asyncio.Task[None]"
    step: int = 0
    taken: list[Group] = field(default_factory=list)

    async def update(self) -> None:
        """One update: wait for groups, learn for no time at all, publish."""
        groups: Sequence[Group] = ()
        async with asyncio.timeout(60):
            while not groups:
                groups = await asyncio.to_thread(self.replay.take, current_version=self.step, timeout=0.05)
                self.rollouts.make_room()
                if self.running.done():
                    self.running.result()
        self.taken += groups
        self.step += 1
        await self.publisher.publish(lambda: {"w": torch.zeros(1)}, self.step)


@asynccontextmanager
async def session(
    run: Path,
    played: list[EpisodeRequest],
    *,
    max_staleness=3,
    devices=8,
    sticky=False,
    lost_rate=0.0,
    most=math.inf,
    ending: Ending = evenly,
    flat_groups="keep",
    dynamic=False,
    taskset: MiniWob | None = None,
    allowed: list[int] | None = None,
) -> AsyncIterator[Session]:
    engine, rng = Engine(), random.Random(5)
    with TrajectoryStore(run) as store:
        limits = Limits(groups=3, max_staleness=max_staleness, devices=devices, sticky=sticky)
        replay = Replay(None, 0, limits=limits, flat_groups=flat_groups)
        replay.restore(None, store)
        config = RolloutConfig(devices=devices, group_size=4, dynamic=dynamic)
        workers = [
            RolloutWorker(engine, rng, played, lost_rate, most, ending, [] if allowed is None else allowed)
            for _ in range(devices)
        ]
        sampler = GroupSampler(
            taskset or MiniWob(), Curriculum(["click-test"]), config, random.Random(0), replay.opened
        )
        rollouts = RolloutDispatcher(
            {"": PlatformRollouts(workers, sampler)}, store, replay, on_trajectory=lambda trajectory: None
        )
        running = asyncio.create_task(rollouts.run())
        try:
            publisher = Publisher(engine, rollouts.published)
            yield Session(engine, replay, rollouts, publisher, running)
            await publisher.settle()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("sticky", [False, True])
@pytest.mark.parametrize("max_staleness", [0, 1, 3])
async def test_no_token_is_older_than_allowed_and_no_group_is_dropped(tmp_path, sticky, max_staleness):
    played: list[EpisodeRequest] = []
    async with session(tmp_path, played, max_staleness=max_staleness, sticky=sticky) as run:
        for _ in range(25):
            await run.update()
    assert max(group.staleness for group in run.taken) <= max_staleness
    assert (run.replay.stats.stale, run.replay.stats.taken) == (0, 75)
    assert all(len(group.sampled) == 4 for group in run.taken)


@pytest.mark.parametrize("max_staleness", [0, 2])
async def test_rollouts_go_on_while_no_group_teaches_anything_and_it_can_be_told(tmp_path, max_staleness):
    """Dynamic sampling waits for contrast, however long: groups without are dropped, counted, and made room
    for."""
    hopeless = True

    def ending(rng: random.Random) -> float | None:
        return rng.choice([0.0, 0.0, None]) if hopeless else evenly(rng)

    async with (
        session(tmp_path, [], max_staleness=max_staleness, ending=ending, flat_groups="drop") as run,
        asyncio.timeout(60),
    ):
        # Far more than may be pending at once, and one of too many faults, which comes once in nine groups.
        while run.replay.stats.flat < 25 or not run.replay.stats.invalid:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert run.replay.stats.taken == 0
        hopeless = False
        for _ in range(5):
            await run.update()
    assert run.replay.stats.taken == 15
    for group in run.taken:
        assert group.staleness <= max_staleness
        assert {t.success for t in group.sampled if t.valid} == {True, False}


async def test_a_task_that_mostly_succeeds_gets_smaller_groups_and_all_of_them_close(tmp_path):
    def ending(rng: random.Random) -> float | None:
        return rng.choice([1.0] * 12 + [0.0] + [None] * 3)

    played: list[EpisodeRequest] = []
    async with session(tmp_path, played, ending=ending, dynamic=True) as run:
        for _ in range(25):
            await run.update()
    assert {2, 4} <= {request.size for request in played} <= {2, 3, 4}
    assert all(len(group.sampled) == group.sampled[0].group_size for group in run.taken)
    assert all(sum(t.valid for t in group.sampled) >= 2 for group in run.taken)
    assert run.replay.stats.invalid > 0 and run.replay.stats.stale == 0


class Long(MiniWob):
    """The same pages, and thirty turns for each."""

    def task(self, name: str, seed: int) -> MiniWobTask:
        return replace(super().task(name, seed), max_steps=30)


async def test_an_episode_may_take_as_long_as_the_longest_success_so_far(tmp_path):
    allowed: list[int] = []
    async with session(tmp_path, [], dynamic=True, taskset=Long(), allowed=allowed) as run:
        for _ in range(5):
            await run.update()
    assert allowed[0] == 30 and allowed[-1] == 14
    assert set(allowed) == {30, 14}


async def test_an_episode_whose_worker_is_lost_is_played_by_another_one(tmp_path):
    played: list[EpisodeRequest] = []
    async with session(tmp_path, played, lost_rate=0.3) as run:
        for _ in range(10):
            await run.update()
        assert run.rollouts.faults["worker_lost"] > 0
    assert len(played) == len(set(played))
    assert {request.group for request in played} >= {group.id for group in run.taken}


async def test_after_a_restart_missing_episodes_are_played_and_none_again(tmp_path):
    played: list[EpisodeRequest] = []
    async with session(tmp_path, played, lost_rate=0.1, most=10) as run, asyncio.timeout(60):
        while run.rollouts.stats.episodes < 10:  # the last of them of a group of four  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    with TrajectoryStore(tmp_path, readonly=True) as store:
        committed = {(trajectory.group, trajectory.group_index) for trajectory in store}
    played.clear()
    async with session(tmp_path, played) as again:
        missing = {(request.group, request.index) for request in again.replay.missing()}
        for _ in range(8):
            await again.update()
    places = [(request.group, request.index) for request in played]
    assert committed and committed.isdisjoint(places)
    assert missing and missing <= set(places)
    assert len(places) == len(set(places))


async def test_weights_that_do_not_arrive_are_heard_of_before_the_next_ones_go_out(tmp_path):
    async with session(tmp_path, []) as run:
        await run.update()
        await run.publisher.settle()
        run.engine.refuse = True
        await run.update()
        with pytest.raises(InfrastructureError, match="did not arrive"):
            await run.update()
        assert run.engine.version == 1


@pytest.mark.parametrize("last", [1.0, None])
def test_the_trainer_waits_for_an_open_group_that_is_due_also_where_it_comes_to_nothing(last):
    replay = Replay(None, 0, limits=Limits(groups=2, max_staleness=2, devices=1))
    replay.published(1)
    due = replay.open_group("a", 0, 2)
    replay.published(3)
    fresh = [replay.open_group("a", 0, 2) for _ in range(2)]
    for group in fresh:
        for index in range(2):
            replay.add(member(group, index, size=2, version=3))

    def take(timeout: float) -> list[str]:
        groups = replay.take(current_version=3, timeout=timeout)
        return [group.id for group in groups]

    replay.add(member(due, 0, None if last is None else 0.0, size=2, version=1))
    assert take(0) == [] and replay.ready == 2
    closing = threading.Timer(0.05, lambda: replay.add(member(due, 1, last, size=2, version=1)))
    closing.start()
    assert take(60) == ([due, fresh[0]] if last is not None else fresh)
    closing.join()
    assert replay.pending == replay.ready == (1 if last is not None else 0)
