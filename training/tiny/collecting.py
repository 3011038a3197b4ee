"""Collects thousands of scripted episodes under fixed ids, so that an interrupted collection continues."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from guiagent.client import FarmClient
from guiagent.client.farm import Leasing
from guiagent.client.play import LOST, DeviceSlot, play
from guiagent.errors import Fault, FaultError
from guiagent.protocols import Device
from guiagent.seeds import DEMONSTRATIONS, checked
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Trajectory
from guiagent.wire import Grant

INEXPRESSIBLE = "inexpressible"  # the code of a fault: the dialect has no words for what was to be done
_CHUNK = 500  # most episodes of a chunk, sorted by page: loading a page costs more than setting it up again

KeepFrame = Callable[[bytes], str]


@dataclass(frozen=True)
class Progress:
    """Progress of a recipe that collects episodes and then fits a model to them, in either part."""

    done: int  # episodes or optimiser steps
    total: int
    loss: float = float("nan")


OnProgress = Callable[[Progress], None]


class Job(NamedTuple):
    """One episode to play. `play` runs it on a device; its trajectory has the id `id`."""

    id: str
    page: str
    play: Callable[[Device, KeepFrame], Awaitable[Trajectory]]


class Lease(NamedTuple):
    """What the episodes need: a kind of device, and rights on it."""

    kind: str
    grants: Sequence[Grant] = ("exec",)

    def on(self, farm: FarmClient, label: str) -> Leasing:
        return farm.lease(self.kind, grants=self.grants, label=label)


BROWSER = Lease("browser")


async def collect(
    farm: FarmClient,
    store: TrajectoryStore,
    jobs: Sequence[Job],
    devices: int,
    on_commit: Callable[[int], None],
    seeds: range = DEMONSTRATIONS,
    lease: Lease = BROWSER,
) -> None:
    """Commit an episode for every job; those that are in the store already are not played again.

    An episode that the dialect has no words for is left out. `on_commit` is called with the number of
    episodes in the store. Raises FaultError when trying all missing jobs adds no episode, UsageError for a
    job whose seed is not in `seeds`.
    """
    unsaid = set[str]()
    while missing := [job for job in jobs if job.id not in store and job.id not in unsaid]:
        before = len(store)
        faults = await _once(missing, partial(lease.on, farm), store, devices, on_commit, seeds)
        unsaid |= {id for id, fault in faults.items() if fault.code == INEXPRESSIBLE}
        others = [fault for id, fault in faults.items() if id not in unsaid]
        if len(store) == before and (others or not before):
            raise FaultError([*others, *faults.values()][0])


async def _once(
    missing: Sequence[Job],
    lease: Callable[[str], Leasing],
    store: TrajectoryStore,
    devices: int,
    on_commit: Callable[[int], None],
    seeds: range,
) -> dict[str, Fault]:
    """Try each missing job once; return the faults that cost an episode, by job."""
    size = min(_CHUNK, math.ceil(len(missing) / devices))
    chunks = [missing[start : start + size] for start in range(0, len(missing), size)]
    faults = dict[str, Fault]()

    async def episodes(chunk: Sequence[Job], slot: DeviceSlot) -> None:
        for job in sorted(chunk, key=lambda job: job.page):
            trajectory = await slot.play(partial(_on_device, job, store.put_frame))
            checked(trajectory.seed, seeds)
            if trajectory.fault is None:
                await asyncio.to_thread(store.commit, [trajectory])
                on_commit(len(store))
            else:
                faults[job.id] = trajectory.fault
                if trajectory.fault.origin in LOST:
                    break  # the rest of the chunk is for another device

    leases = [partial(lease, f"episodes {n}") for n in range(devices)]
    await play(chunks, [DeviceSlot(lease) for lease in leases], episodes)
    return faults


async def _on_device(job: Job, keep_frame: KeepFrame, device: Device) -> Trajectory:
    return await job.play(device, keep_frame)
