"""The rollout dispatcher: every worker plays one episode after the other, and none waits for another one.

The replay says what a free worker plays next and when a group is opened; that bounds staleness. Finished
trajectories are committed to the store, many at once, before the replay sees them. A fault ends an episode
and is stored in its trajectory; the device is given back and another one leased.

With judges, finished episodes are judged while their devices play others. At most as many episodes as there
are workers wait for a judge; a worker that finishes one more waits as well.

Each platform of a run has workers and a sampler of its own. One whose devices are all out of service is lost:
a fault that withdraws its open groups, while the others go on. It takes part again when one of its devices
works.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from guiagent.client.play import LOST, serve
from guiagent.errors import Fault, FaultError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.together import together
from guiagent.types import Trajectory
from training.replay import EpisodeRequest, Replay
from training.rollout.sampler import GroupSampler
from training.rollout.scoring import EpisodeJudge
from training.rollout.worker import RolloutWorker

_LOOK_EVERY_S = 2.0

# Says of platforms why they have no working device, None if they have one; those that it leaves out may be
# starting (`training.rollout.presence`).
Look = Callable[[], Awaitable[Mapping[str, str | None]]]


@dataclass(frozen=True)
class PlatformRollouts:
    """The rollouts of one platform: a worker for each device, and what draws their groups."""

    workers: Sequence[RolloutWorker]
    sampler: GroupSampler


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
    """Keeps all workers of all `platforms` playing episodes until cancelled.

    The `judges` judge each finished episode, one after the other; `on_trajectory` is called with each
    trajectory after its commit. `lost` has the fault of every platform that has no working device now, as
    `look` says; without it no platform is ever given up.
    """

    def __init__(
        self,
        platforms: Mapping[str, PlatformRollouts],
        store: TrajectoryStore,
        replay: Replay,
        on_trajectory: Callable[[Trajectory], None],
        judges: Sequence[EpisodeJudge] = (),
        look: Look | None = None,
    ) -> None:
        self.stats = RolloutStats()
        self.lost: dict[str, Fault] = {}
        self._platforms = platforms
        self._home = {worker: name for name, one in platforms.items() for worker in one.workers}
        self._store = store
        self._replay = replay
        self._on_trajectory = on_trajectory
        self._judges = judges
        self._look = look
        self._shown: dict[RolloutWorker, str] = {}  # the task that a worker's device was set up for last
        self._room = asyncio.Event()
        self._unjudged: asyncio.Queue[Trajectory] = asyncio.Queue(len(self._home))
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
        return sum((worker.faults for worker in self._home), start=self.stats.faults.copy())

    async def run(self) -> None:
        """Run until cancelled. Raises the first error of any part, such as that of a full disk."""
        judging = [self._judge() for _ in self._home] if self._judges else []
        rollouts = [serve(worker, self._requests(worker), self._play) for worker in self._home]
        watching = [self._watch(self._look)] if self._look is not None else []
        await together(self._commit(), *rollouts, *judging, *watching)

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
            match self._replay.next(worker, self._home[worker]):
                case "open":
                    await self._open(worker)
                case "wait":
                    self._room.clear()
                    await self._room.wait()
                case request:
                    return request

    async def _open(self, worker: RolloutWorker) -> None:
        """Open a group, unless the proposal made for it is refused."""
        platform = self._home[worker]
        try:
            with self._replay.opening(platform):
                drawn = await self._platforms[platform].sampler.draw(worker, self._shown.get(worker))
            if drawn is not None and platform not in self.lost:
                self._replay.open_group(*drawn, by=worker, platform=platform)
        finally:
            self._room.set()

    async def _play(self, request: EpisodeRequest, worker: RolloutWorker) -> None:
        self._shown[worker] = request.task
        try:
            sampler = self._platforms[request.platform].sampler
            played = await worker.play(request, sampler.max_steps(request))
        except FaultError as error:
            self._replay.give_back(request)
            self._room.set()
            self._count_loss(error)
        else:
            played.platform = request.platform
            await (self._unjudged if self._judges else self._finished).put(played)

    def _count_loss(self, error: FaultError) -> None:
        """Count a fault that lost the device or its host; raise any other one."""
        if error.fault.origin not in LOST:
            raise error
        self.stats.faults[error.fault.code] += 1

    async def _watch(self, look: Look) -> None:
        """Give up platforms that have lost all their devices, and take them up again."""
        while True:
            try:
                found = await look()
            except FaultError as error:  # the farm itself is away: that says nothing of its devices
                self._count_loss(error)
            else:
                for platform, reason in found.items():
                    if reason is None and self.lost.pop(platform, None) is not None:
                        self._replay.join(platform)
                        self._room.set()
                    elif reason is not None and platform not in self.lost:
                        self._lose(platform, reason)
            await asyncio.sleep(_LOOK_EVERY_S)

    def _lose(self, platform: str, reason: str) -> None:
        withdrawn = self._replay.withdraw(platform)
        message = f"the platform {platform} is lost: {reason}; {withdrawn} of its groups were withdrawn"
        self.lost[platform] = Fault("farm", "platform_lost", message, retryable=True)
        self.stats.faults["platform_lost"] += 1
        self._room.set()

    async def _judge(self) -> None:
        while True:
            trajectory = await self._unjudged.get()
            for judge in self._judges:
                if await judge.judge(trajectory):
                    self._platforms[trajectory.platform].sampler.cannot_be_judged(trajectory.task)
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
                sampler = self._platforms[trajectory.platform].sampler
                sampler.add(trajectory, self._replay.add(trajectory))
                self._on_trajectory(trajectory)
            self._room.set()  # a group that closed and was dropped makes room for another one
