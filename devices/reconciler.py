"""Brings the farm to what it should be: every slot filled, every lease in time, every device clean."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence

from devices.host import DeviceHost
from devices.pool import DeviceState, Event, Pool, Slot
from guiagent.errors import Fault, FaultError, InfrastructureError
from guiagent.protocols import Clock

_TICK_S = 0.1
_HEALTH_EVERY_S = 1.0
_STARTS_AT_ONCE = max(2, os.cpu_count() or 1)


class Reconciler:
    """`changed(events)` is called after each round and job, with what has to be stored (often nothing);
    `faulted(device, fault)` when a device broke."""

    def __init__(
        self,
        pool: Pool,
        host: DeviceHost,
        changed: Callable[[Sequence[Event]], None],
        faulted: Callable[[str, Fault], None],
        clock: Clock = time,
    ) -> None:
        self.settled = asyncio.Event()  # every slot has come up, or failed to, once
        self._pool = pool
        self._host = host
        self._changed = changed
        self._faulted = faulted
        self._clock = clock
        self._starting = asyncio.Semaphore(_STARTS_AT_ONCE)
        self._wake = asyncio.Event()
        self._at_work: set[str] = set()  # slots with a job under way
        self._checked: dict[str, float] = {}

    def wake(self) -> None:
        """Look at once: something changed."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled. InfrastructureError where a device cannot be started on this machine at all."""
        try:
            async with asyncio.TaskGroup() as jobs:
                while True:
                    self._wake.clear()
                    now = self._clock.monotonic()
                    self._changed(self._pool.expire(now))
                    for slot in self._pool.slots.values():
                        if slot.id not in self._at_work and (job := self._job(slot, now)) is not None:
                            self._at_work.add(slot.id)
                            jobs.create_task(self._work(slot, job))
                    await self._pause()
        except* InfrastructureError as errors:
            raise _first(errors) from None

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(_TICK_S):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _job(self, slot: Slot, now: float) -> Callable[[Slot], Awaitable[None]] | None:
        match slot.state:
            case DeviceState.DEAD:
                return self._start
            case DeviceState.QUARANTINED if slot.retry_at <= now:
                return self._start
            case DeviceState.RESETTING:
                return self._recycle
            case DeviceState.READY if self._checked.get(slot.id, 0.0) + _HEALTH_EVERY_S <= now:
                self._checked[slot.id] = now
                return self._check
            case _:
                return None

    async def _work(self, slot: Slot, job: Callable[[Slot], Awaitable[None]]) -> None:
        try:
            await job(slot)
        except FaultError as error:
            self._faulted(slot.id, error.fault)
        self._at_work.discard(slot.id)
        slots = self._pool.slots.values()
        if all(one.generation > 0 and one.state is not DeviceState.BOOTING for one in slots):
            self.settled.set()
        self._changed(())
        self.wake()

    async def _start(self, slot: Slot) -> None:
        first = slot.generation == 0
        self._pool.device_booting(slot.id)
        try:
            async with self._starting:
                capabilities = await self._host.start(slot.id)
        except InfrastructureError as error:
            if first:
                raise
            raise FaultError(Fault("device", "not_started", str(error), retryable=True)) from error
        self._host.open(slot.id, stale=slot.lease is not None)
        self._pool.device_ready(slot.id, capabilities)

    async def _recycle(self, slot: Slot) -> None:
        await self._host.recycle(slot.id)
        self._pool.device_clean(slot.id)

    async def _check(self, slot: Slot) -> None:
        await self._host.check(slot.id)


def _first(errors: BaseExceptionGroup[InfrastructureError]) -> InfrastructureError:
    one = errors.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one
