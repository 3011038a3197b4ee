"""The rollout workers of a run on a Ray cluster: hosts with workers by slot, and the trainer's proxies.

A host has no state that cannot be replaced: a lost one is started elsewhere, and other workers play its
episodes. It keeps finished episodes until they are committed, for a trainer that takes over from another one.
Faults are returned, not raised.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
import ray
import torch
import xxhash
from ray.actor import ActorHandle
from ray.exceptions import RayError

from guiagent.client import FarmClient
from guiagent.errors import Fault, FaultError
from guiagent.types import Trajectory
from rewards.catalogue import find_taskset
from training.config import TrainConfig, checkpoint_folder
from training.engine.policy import EnginePolicy
from training.inputs.encoder import Encoder
from training.launch.ray_engines import PAUSE_S, RayEngine, raise_bugs
from training.replay import EpisodeRequest
from training.rollout.proposals import Suggestion
from training.rollout.setup import RolloutWorkers, WorkerContext, outside_agents
from training.rollout.worker import LocalRolloutWorker, WorkerLost

WorkerHost = tuple[Any, Sequence[int]]  # an actor of `RolloutHost` and its slots

_decode = msgspec.msgpack.Decoder(Trajectory).decode


class Played(NamedTuple):
    """A finished episode, as sent to the trainer."""

    trajectory: bytes  # msgpack
    frames: list[bytes]
    faults: dict[str, int]  # counts of lease faults since the last episode, by code


class RolloutHost:
    """Rollout workers by slot, with a device each. One trainer at a time asks them for episodes."""

    def __init__(
        self, config: TrainConfig, farm: tuple[str, str], engines: Sequence[str], slots: Sequence[int]
    ) -> None:
        torch.set_num_threads(1)
        encoder = Encoder(checkpoint_folder(config.policy), config.dialect, config.max_pixels)
        policy = EnginePolicy(encoder, RayEngine(*engines), config.rollout.history)
        taskset = find_taskset(config.taskset)
        client = FarmClient(*farm)
        self._frames = {slot: _Frames() for slot in slots}
        self._workers = {
            slot: LocalRolloutWorker(
                client,
                policy,
                taskset,
                self._frames[slot],
                f"rollout {slot}",
                config.device,
                outside_agents(config, policy),
            )
            for slot in slots
        }
        self._playing: dict[int, asyncio.Task[Any]] = {}
        self._finished: dict[EpisodeRequest, Played] = {}  # those not known to be committed

    async def begin(self) -> dict[EpisodeRequest, Played]:
        """Start serving a trainer, maybe a new one: drop running episodes, return uncommitted ones."""
        for slot in list(self._playing):
            await self._stop(slot)
        return dict(self._finished)

    async def ready(self, slot: int) -> Fault | None:
        try:
            await self._workers[slot].ready()
        except FaultError as error:
            return error.fault
        return None

    async def play(self, slot: int, request: EpisodeRequest, max_steps: int) -> Played | Fault:
        worker = self._workers[slot]
        self._frames[slot].kept.clear()
        task = self._playing[slot] = asyncio.create_task(worker.play(request, max_steps))
        try:
            trajectory = await task
        except FaultError as error:
            return error.fault
        finally:
            if self._playing.get(slot) is task:
                del self._playing[slot]
        faults = dict(worker.faults)
        worker.faults.clear()
        played = Played(msgspec.msgpack.encode(trajectory), list(self._frames[slot].kept.values()), faults)
        self._finished[request] = played
        return played

    async def forget(self, request: EpisodeRequest) -> None:
        """Forget a finished episode: it is committed."""
        self._finished.pop(request, None)

    async def suggest(self, slot: int, task: str, seed: int) -> Suggestion | Fault:
        try:
            return await self._workers[slot].suggest(task, seed)
        except FaultError as error:
            return error.fault

    async def close(self, slot: int) -> None:
        await self._stop(slot)
        await self._workers[slot].close()

    async def _stop(self, slot: int) -> None:
        if (task := self._playing.pop(slot, None)) is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, FaultError):
                await task


class _Frames:
    """The distinct frames of an episode, by hash as in a store."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def __call__(self, frame: bytes) -> str:
        digest = xxhash.xxh3_128_hexdigest(frame)
        self.kept[digest] = frame
        return digest


class RayRolloutWorker:
    """A `RolloutWorker` in another process, `slot` of `host`."""

    def __init__(self, host: ActorHandle[Any], slot: int, shared: "_Shared") -> None:
        self.faults: Counter[str] = Counter()
        self._host = host
        self._slot = slot
        self._shared = shared

    async def ready(self) -> None:
        while True:
            try:
                fault = await self._host.ready.remote(self._slot)
            except RayError as error:
                raise_bugs(error)
                await asyncio.sleep(PAUSE_S)
                continue
            if fault is not None:
                raise FaultError(fault)
            return

    async def play(self, request: EpisodeRequest, max_steps: int) -> Trajectory:
        played = self._shared.finished.pop(request, None)
        if played is None:
            played = await self._asked(self._host.play.remote(self._slot, request, max_steps))
        assert isinstance(played, Played)
        self.faults.update(played.faults)
        for frame in played.frames:
            self._shared.context.keep_frame(frame)
        trajectory = _decode(played.trajectory)
        self._shared.uncommitted[trajectory.id] = self._host, request
        return trajectory

    async def suggest(self, task: str, seed: int) -> Suggestion:
        suggestion = await self._asked(self._host.suggest.remote(self._slot, task, seed))
        assert isinstance(suggestion, Suggestion)
        return suggestion

    async def close(self) -> None:
        try:
            await self._host.close.remote(self._slot)
        except RayError as error:
            raise_bugs(error)

    async def _asked(self, answer: Any) -> Any:
        try:
            value = await answer
        except RayError as error:
            raise_bugs(error)
            message = f"the rollout workers' host of slot {self._slot} was lost: {_line(error)}"
            raise WorkerLost(Fault("farm", "host_lost", message, retryable=True)) from error
        if isinstance(value, Fault):
            raise FaultError(value)
        return value


class _Shared:
    """State shared by the workers of a trainer."""

    def __init__(self, context: WorkerContext) -> None:
        self.context = context
        # Played for an earlier trainer, which did not commit them.
        self.finished: dict[EpisodeRequest, Played] = {}
        self.uncommitted: dict[str, tuple[ActorHandle[Any], EpisodeRequest]] = {}  # by trajectory

    def committed(self, trajectory: Trajectory) -> None:
        host, request = self.uncommitted.pop(trajectory.id)
        host.forget.remote(request)


@contextmanager
def ray_workers(
    engines: Sequence[str], hosts: Sequence[WorkerHost], context: WorkerContext
) -> Iterator[RolloutWorkers]:
    """Open the rollout workers of all `hosts`; `engines` are the names of the engines' hosts."""
    shared, engine = _Shared(context), RayEngine(*engines)
    for host, _ in hosts:
        try:
            shared.finished |= ray.get(host.begin.remote())
        except RayError as error:  # the host was lost: it starts again without episodes
            raise_bugs(error)
    workers = [RayRolloutWorker(host, slot, shared) for host, slots in hosts for slot in slots]
    try:
        yield RolloutWorkers(engine, {"": workers}, shared.committed)
    finally:
        engine.close()


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
