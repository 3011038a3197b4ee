"""The control loop of the farm: starts, stops, resets, and checks devices, and ends expired leases."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from devices.hosts.host import Host
from devices.leases import LOCAL, RUNS_NOT, DeviceState, Event, Slot
from devices.pool.lease_table import Pool
from devices.pool.metrics import Metrics
from guiagent.errors import Fault, FaultError, GuiAgentError, InfrastructureError, UsageError
from guiagent.protocols import Clock

_TICK_S = 0.1
_HEALTH_EVERY_S = 1.0
_STARTS_AT_ONCE = max(2, os.cpu_count() or 1)  # of one host
_TO_COME = frozenset({DeviceState.DEAD, DeviceState.BOOTING})


class Reconciler:
    """The control loop: each round it looks at every slot and begins the job that the slot needs.

    It calls `changed(events)` after each round and each job, with the events to store (often none), and
    `faulted(device, error)` when a device failed. `hosts` may gain and lose entries at any time.
    """

    def __init__(
        self,
        pool: Pool,
        hosts: Mapping[str, Host],
        changed: Callable[[Sequence[Event]], None],
        faulted: Callable[[str, FaultError], None],
        metrics: Metrics,
        clock: Clock = time,
    ) -> None:
        self.settled = asyncio.Event()  # every wanted slot has come up, or failed to, once
        self._pool = pool
        self._hosts = hosts
        self._changed = changed
        self._faulted = faulted
        self._metrics = metrics
        self._clock = clock
        self._starting: dict[str, asyncio.Semaphore] = {}
        self._wake = asyncio.Event()
        self._at_work: set[str] = set()  # slots with a job under way
        self._checked: dict[str, float] = {}

    def wake(self) -> None:
        """Begin the next round at once, because something changed."""
        self._wake.set()

    async def run(self) -> None:
        """Run rounds until cancelled.

        Raises:
            InfrastructureError: a device of this machine cannot be started here at all (at the first start).
            UsageError: a device of this machine cannot be started as its config says (at the first start).
        """
        try:
            async with asyncio.TaskGroup() as jobs:
                while True:
                    self._wake.clear()
                    now = self._clock.monotonic()
                    self._pool.size(now)
                    self._changed(self._pool.expire(now))
                    for slot in self._pool.slots.values():
                        if slot.id not in self._at_work and (job := self._job(slot, now)) is not None:
                            self._at_work.add(slot.id)
                            jobs.create_task(self._work(slot.id, self._hosts[slot.host], job))
                    if not self.settled.is_set():
                        self._settle()
                    await self._pause()
        except ExceptionGroup as errors:  # not except*: before Python 3.11.4 what it raises is a group again
            fatal = errors.subgroup((InfrastructureError, UsageError))
            if fatal is None:
                raise
            raise _first(fatal) from None

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(_TICK_S):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _settle(self) -> None:
        slots = self._pool.slots.values()
        if not any(slot.state in _TO_COME and not (slot.generation and slot.reason) for slot in slots):
            self.settled.set()

    def _job(self, slot: Slot, now: float) -> Callable[[str, Host], Awaitable[None]] | None:
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
            case _ if slot.running and slot.state in RUNS_NOT:
                return self._stop
            case _:
                return None

    async def _work(self, device: str, host: Host, job: Callable[[str, Host], Awaitable[None]]) -> None:
        try:
            await job(device, host)
        except FaultError as error:
            self._faulted(device, error)
        self._at_work.discard(device)
        self._changed(())
        self.wake()

    async def _start(self, device: str, host: Host) -> None:
        slot = self._pool.slots[device]
        self._pool.device_booting(device)
        try:
            async with self._starting.setdefault(host.id, asyncio.Semaphore(_STARTS_AT_ONCE)):
                with self._metrics.started(slot.kind):
                    capabilities = await host.start(device)
        except (InfrastructureError, UsageError) as error:
            if host.id == LOCAL and not self.settled.is_set() and slot.generation == 1:
                raise
            raise FaultError(Fault("device", "not_started", str(error), retryable=True)) from error
        host.open(device, stale=slot.lease is not None)
        self._pool.device_ready(device, capabilities)

    async def _recycle(self, device: str, host: Host) -> None:
        with self._metrics.recycled(self._pool.slots[device].kind):
            await host.recycle(device)
        self._pool.device_clean(device)

    async def _check(self, device: str, host: Host) -> None:
        await host.check(device)
        self._pool.device_healthy(device)

    async def _stop(self, device: str, host: Host) -> None:
        await host.stop(device)
        self._pool.device_stopped(device)


def _first(errors: BaseExceptionGroup[GuiAgentError]) -> GuiAgentError:
    one = errors.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one
