"""Rollouts: every device runs episodes of its own, rollout by rollout, and nobody waits for anybody.

A slot takes what is missing of an open group, or opens one while few enough wait for the trainer:
that bound is what bounds staleness. Finished trajectories are committed to the store, many at once, before
the replay sees them. A fault ends an episode as data; its device is given back and another one leased.

With `Proposals`, a slot opens a group for what is proposed on its device. With `Judging`, finished episodes
are judged while their devices go on with others; when as many wait as there are devices, those wait too.
"""

import asyncio
import itertools
import random
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from operator import attrgetter

from guiagent.client import FarmClient, LeasedDevice
from guiagent.episode import run_episode
from guiagent.errors import FaultError
from guiagent.protocols import Policy, Taskset
from guiagent.together import together
from guiagent.trajectories import TrajectoryStore
from guiagent.types import ObserveSpec, Trajectory
from rewards.curriculum import Curriculum
from training.config import RolloutConfig
from training.judging import Judging
from training.proposals import Proposals
from training.replay import Member, Replay

_SPEC = ObserveSpec(frame="png")  # lossless: at this size PNG costs no more than JPEG
_LEASE_TTL_S = 30.0
_RETRY_PAUSE_S = 1.0
_LOST = ("device", "farm")  # origins of faults after which another device is needed


@dataclass
class RolloutStats:
    """Counts since the run (or its resumption) began."""

    episodes: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)

    @property
    def per_second(self) -> float:
        return self.episodes / max(time.monotonic() - self.began, 1e-9)


class Rollouts:
    """Runs episodes on `config.devices` leased devices until cancelled."""

    def __init__(
        self,
        farm: FarmClient,
        policy: Policy,
        taskset: Taskset,
        store: TrajectoryStore,
        replay: Replay,
        curriculum: Curriculum,
        config: RolloutConfig,
        *,
        max_pending_groups: int,
        rng: random.Random,
        on_trajectory: Callable[[Trajectory], None],
        proposals: Proposals | None = None,
        judging: Judging | None = None,
    ) -> None:
        self.stats = RolloutStats()
        self._farm = farm
        self._policy = policy
        self._taskset = taskset
        self._store = store
        self._replay = replay
        self._curriculum = curriculum
        self._config = config
        self._max_pending = max_pending_groups
        self._rng = rng
        self._on_trajectory = on_trajectory
        self._proposals = proposals
        self._judging = judging
        # After a resume, the open groups' missing members come first.
        self._waiting = deque(
            list(members) for _, members in itertools.groupby(replay.missing(), attrgetter("group"))
        )
        first = config.seed + replay.opened
        self._seeds = itertools.count(max(first, proposals.next_seed) if proposals else first)
        self._admitting = 0  # slots that may be about to open a group
        self._room = asyncio.Event()
        self._unjudged: asyncio.Queue[Trajectory] = asyncio.Queue(config.devices)
        self._finished: asyncio.Queue[Trajectory] = asyncio.Queue()

    def make_room(self) -> None:
        """The trainer took groups: slots that wait may open new ones."""
        self._room.set()

    async def run(self) -> None:
        """Raises the first thing that went wrong, such as InfrastructureError for a full disk."""
        slots = range(self._config.devices)
        judges = [self._judge(self._judging) for _ in slots] if self._judging is not None else []
        await together(self._commit(), *map(self._slot, slots), *judges)

    async def _slot(self, slot: int) -> None:
        async with AsyncExitStack() as held:
            device = await self._lease(held, slot)
            while True:
                try:
                    members = await self._next_group(device)
                except FaultError as error:
                    if error.fault.origin not in _LOST:
                        raise
                    self.stats.faults[error.fault.code] += 1
                    await held.aclose()
                    device = await self._lease(held, slot)
                    continue
                for member in members:
                    trajectory = await self._episode(device, member)
                    if trajectory.fault is not None and trajectory.fault.origin in _LOST:
                        await held.aclose()
                        device = await self._lease(held, slot)
                    await (self._unjudged if self._judging is not None else self._finished).put(trajectory)

    async def _lease(self, held: AsyncExitStack, slot: int) -> LeasedDevice:
        """A device of our own; keeps trying while the farm replaces broken ones or restarts."""
        while True:
            try:
                lease = self._farm.lease(
                    "browser", ttl=_LEASE_TTL_S, grants=("exec",), label=f"rollout {slot}"
                )
                return await held.enter_async_context(lease)
            except FaultError as error:
                if not error.fault.retryable:
                    raise
                self.stats.faults[error.fault.code] += 1
                await asyncio.sleep(_RETRY_PAUSE_S)

    async def _next_group(self, device: LeasedDevice) -> list[Member]:
        """The members of one group, for one device: setting a page up again is far cheaper than loading."""
        while not self._waiting:
            if self._replay.pending + self._admitting >= self._max_pending:
                self._room.clear()
                await self._room.wait()
                continue
            task, seed = self._curriculum.next(self._rng), next(self._seeds)
            if await self._admitted(device, task, seed):
                size = self._config.group_size
                if self._config.dynamic:
                    size = self._curriculum.rollouts(task, size)
                group = self._replay.open_group(task, seed, size)
                return [Member(group, task, seed, index, size) for index in range(size)]
        return self._waiting.popleft()

    async def _admitted(self, device: LeasedDevice, task: str, seed: int) -> bool:
        """False where a proposal is refused before anything is rolled out."""
        if self._proposals is None:
            return True
        self._admitting += 1
        try:
            return await self._proposals.admit(device, task, seed)
        finally:
            self._admitting -= 1
            self._room.set()

    async def _episode(self, device: LeasedDevice, member: Member) -> Trajectory:
        task = self._taskset.task(member.task, member.seed)
        longest = task.max_steps
        if self._config.dynamic:
            longest = self._curriculum.step_cap(member.task, longest)
        trajectory = await run_episode(
            task,
            device,
            self._policy,
            keep_frame=self._store.put_frame,
            spec=_SPEC,
            group=member.group,
            group_index=member.index,
            group_size=member.size,
            max_steps=longest,
        )
        trajectory.device, trajectory.lease_token = device.id, device.token
        return trajectory

    async def _judge(self, judging: Judging) -> None:
        while True:
            trajectory = await self._unjudged.get()
            if await judging.score(trajectory):  # nor can anything be learned from what cannot be judged
                self._curriculum.update(trajectory.task, 0.0)
            await self._finished.put(trajectory)

    async def _commit(self) -> None:
        """Write what has finished, together; only then may it be trained on."""
        while True:
            batch = [await self._finished.get()]
            while not self._finished.empty():
                batch.append(self._finished.get_nowait())
            await asyncio.to_thread(self._store.commit, batch)
            for trajectory in batch:
                self._count(trajectory)
                self._replay.add(trajectory)
                if self._proposals is not None:
                    self._proposals.add(trajectory)
                self._on_trajectory(trajectory)
            self._room.set()  # a group that came to nothing may have made room

    def _count(self, trajectory: Trajectory) -> None:
        self.stats.episodes += 1
        if trajectory.fault is not None:
            self.stats.faults[trajectory.fault.code] += 1
        if trajectory.valid:
            self._curriculum.update(trajectory.task, trajectory.success, len(trajectory.steps))
