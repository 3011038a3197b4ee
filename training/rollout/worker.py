"""Rollout workers: each has a leased device and the policy, and plays one episode after the other.

`RolloutDispatcher` decides what is played and stores the trajectories, in the same way for workers in this
process and on other hosts (`training.launch.ray`).
"""

from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import Protocol, cast

from guiagent.client import FarmClient
from guiagent.client.play import DeviceSlot
from guiagent.episode import run_episode
from guiagent.errors import FaultError
from guiagent.protocols import Policy, Taskset
from guiagent.types import ObserveSpec, Trajectory
from training.config import DeviceConfig
from training.replay import EpisodeRequest
from training.rollout.outside import OutsideAgents
from training.rollout.proposals import Proposing, Suggestion, suggest

_LEASE_TTL_S = 30.0
_BROWSER = DeviceConfig()


class WorkerLost(FaultError):
    """The worker is gone, and the episode it was playing is lost; another worker has to play it."""


class RolloutWorker(Hashable, Protocol):
    @property
    def faults(self) -> Counter[str]:
        """Counts, by fault code, of faults that no trajectory holds, such as failed leases."""
        ...

    async def ready(self) -> None:
        """Wait for a device to play on. Raises FaultError if there will never be one."""
        ...

    async def play(self, request: EpisodeRequest, max_steps: int) -> Trajectory:
        """Play the episode and keep its frames in the trajectory store; a fault is part of the trajectory.

        Raises WorkerLost if the worker is gone and the episode with it.
        """
        ...

    async def suggest(self, task: str, seed: int) -> Suggestion:
        """Return the proposal for this task and seed on the device. Raises FaultError if the device fails."""
        ...

    async def close(self) -> None:
        """Give the device back."""
        ...


class LocalRolloutWorker:
    """A worker in this process: keeps a device of `farm` on lease, and leases another one after a fault.

    `label` names the worker where the farm's leases are shown. With `agents` their program plays the episodes
    instead of our own loop.
    """

    def __init__(
        self,
        farm: FarmClient,
        policy: Policy,
        taskset: Taskset,
        keep_frame: Callable[[bytes], str],
        label: str,
        device: DeviceConfig = _BROWSER,
        agents: OutsideAgents | None = None,
    ) -> None:
        lease = partial(farm.lease, device.kind, ttl=_LEASE_TTL_S, grants=device.grants, label=label)
        self._slot = DeviceSlot(lease, persistent=True)
        self._policy = policy
        self._taskset = taskset
        self._keep_frame = keep_frame
        self._spec = ObserveSpec(frame=device.frame)
        self._agents = agents

    @property
    def faults(self) -> Counter[str]:
        return self._slot.faults

    async def ready(self) -> None:
        await self._slot.device()

    async def play(self, request: EpisodeRequest, max_steps: int) -> Trajectory:
        task, agents = self._taskset.task(request.task, request.seed), self._agents
        if agents is not None:
            return await self._slot.play(
                lambda device: agents.play(
                    task, device, request, keep_frame=self._keep_frame, spec=self._spec, max_steps=max_steps
                )
            )
        return await self._slot.play(
            lambda device: run_episode(
                task,
                device,
                self._policy,
                keep_frame=self._keep_frame,
                spec=self._spec,
                group=request.group,
                group_index=request.index,
                group_size=request.size,
                max_steps=max_steps,
            )
        )

    async def suggest(self, task: str, seed: int) -> Suggestion:
        proposed = cast(Proposing, self._taskset.task(task, seed))
        return await self._slot.run(lambda device: suggest(proposed, device))

    async def close(self) -> None:
        if self._agents is not None:
            await self._agents.close()
        await self._slot.close()
