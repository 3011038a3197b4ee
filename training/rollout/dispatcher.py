"""The rollout dispatcher: every worker plays one episode after the other, and none waits for another one.

The replay says what a free worker plays next and when a group is opened; that bounds staleness. Finished
trajectories are committed to the store, many at once, before the replay sees them. A fault ends an episode
and is stored in its trajectory; the device is given back and another one leased.

With judges, finished episodes are judged while their devices play others. At most as many episodes as there
are workers wait for a judge; a worker that finishes one more waits as well.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from guiagent.client.play import LOST, serve
from guiagent.errors import FaultError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.together import together
from guiagent.types import Trajectory
from training.replay import EpisodeRequest, Replay
from training.rollout.sampler import GroupSampler
from training.rollout.scoring import EpisodeJudge
from training.rollout.worker import RolloutWorker


@dataclass
class RolloutStats:
    """Counts since the run (or its resumption) began."""

    episodes: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)

    @property
    def per_second(self) -> float:
        return self.episodes / max(time.monotonic() - self.began, 1e-9)


class RolloutDispatcher:
    """Keeps all `workers` playing episodes until cancelled.

    The `judges` judge each finished episode, one after the other; `on_trajectory` is called with each
    trajectory after its commit.
    """

    def __init__(
        self,
        workers: Sequence[RolloutWorker],
        store: TrajectoryStore,
        replay: Replay,
        sampler: GroupSampler,
        on_trajectory: Callable[[Trajectory], None],
        judges: Sequence[EpisodeJudge] = (),
    ) -> None:
        self.stats = RolloutStats()
        self._workers = workers
        self._store = store
        self._replay = replay
        self._sampler = sampler
        self._on_trajectory = on_trajectory
        self._judges = judges
        self._shown: dict[RolloutWorker, str] = {}  # the task that a worker's device was set up for last
        self._room = asyncio.Event()
        self._unjudged: asyncio.Queue[Trajectory] = asyncio.Queue(len(workers))
        self._finished: asyncio.Queue[Trajectory] = asyncio.Queue()

    def make_room(self) -> None:
        """Wake the waiting workers: the trainer took or dropped groups, so new ones may be opened."""
        self._room.set()

    def published(self, version: int) -> None:
        """Note that from now on every token is sampled by weights of `version` or later."""
        self._replay.published(version)
        self._room.set()

    @property
    def faults(self) -> Counter[str]:
        """Counts by fault code: faults that ended episodes, and faults that kept workers from a device."""
        return sum((worker.faults for worker in self._workers), start=self.stats.faults.copy())

    async def run(self) -> None:
        """Run until cancelled. Raises the first error of any part, such as that of a full disk."""
        judging = [self._judge() for _ in self._workers] if self._judges else []
        rollouts = [serve(worker, self._requests(worker), self._play) for worker in self._workers]
        await together(self._commit(), *rollouts, *judging)

    async def _requests(self, worker: RolloutWorker) -> AsyncIterator[EpisodeRequest]:
        """Yield the worker's next episode whenever it has a device and the replay has one for it."""
        while True:
            await worker.ready()
            try:
                request = await self._next(worker)
            except FaultError as error:
                self._count_loss(error)
            else:
                yield request

    async def _next(self, worker: RolloutWorker) -> EpisodeRequest:
        while True:
            match self._replay.next(worker):
                case "open":
                    await self._open(worker)
                case "wait":
                    self._room.clear()
                    await self._room.wait()
                case request:
                    return request

    async def _open(self, worker: RolloutWorker) -> None:
        """Open a group, unless the proposal made for it is refused."""
        try:
            with self._replay.opening():
                drawn = await self._sampler.draw(worker, self._shown.get(worker))
            if drawn is not None:
                self._replay.open_group(*drawn, by=worker)
        finally:
            self._room.set()

    async def _play(self, request: EpisodeRequest, worker: RolloutWorker) -> None:
        self._shown[worker] = request.task
        try:
            played = await worker.play(request, self._sampler.max_steps(request))
        except FaultError as error:
            self._replay.give_back(request)
            self._room.set()
            self._count_loss(error)
        else:
            await (self._unjudged if self._judges else self._finished).put(played)

    def _count_loss(self, error: FaultError) -> None:
        """Count a fault that lost the device or its host; raise any other one."""
        if error.fault.origin not in LOST:
            raise error
        self.stats.faults[error.fault.code] += 1

    async def _judge(self) -> None:
        while True:
            trajectory = await self._unjudged.get()
            for judge in self._judges:
                if await judge.judge(trajectory):
                    self._sampler.cannot_be_judged(trajectory.task)
            await self._finished.put(trajectory)

    async def _commit(self) -> None:
        """Commit all finished trajectories at once; the replay receives them only after that."""
        while True:
            batch = [await self._finished.get()]
            while not self._finished.empty():
                batch.append(self._finished.get_nowait())
            await asyncio.to_thread(self._store.commit, batch)
            for trajectory in batch:
                self.stats.episodes += 1
                if trajectory.fault is not None:
                    self.stats.faults[trajectory.fault.code] += 1
                self._sampler.add(trajectory, self._replay.add(trajectory))
                self._on_trajectory(trajectory)
            self._room.set()  # a group that closed and was dropped makes room for another one
