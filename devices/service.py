"""The pool service: lease machine, memory, devices and reconciler, behind the verbs of the API."""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from devices.config import PoolConfig
from devices.drivers import Driver
from devices.host import DeviceHost, Frame, fenced
from devices.metrics import Metrics
from devices.pool import Ended, Event, Granted, Lease, Pool, Request, Slot
from devices.reconciler import Reconciler
from devices.store import Store
from guiagent.actions import Action
from guiagent.errors import Fault, FaultError, InfrastructureError, LeaseError
from guiagent.protocols import Clock
from guiagent.types import Observation
from guiagent.wire import (
    DeviceInfo,
    FarmInfo,
    LeaseInfo,
    LeaseRequest,
    ObserveRequest,
    ResetRequest,
    StepRequest,
)

_log = logging.getLogger(__name__)


class NoDevice(FaultError):
    """No device came free in time; `position` is the place the request had in the queue, from 1."""

    def __init__(self, kind: str, wait_s: float, position: int) -> None:
        message = f"no {kind} device came free within {wait_s:g} s (place {position} in the queue)"
        super().__init__(Fault("farm", "no_device", message, retryable=True))
        self.position = position


class PoolService:
    """One per process and state directory; everything happens on the event loop that runs `run()`."""

    def __init__(self, config: PoolConfig, drivers: Mapping[str, Driver], clock: Clock = time) -> None:
        slots = config.slots()
        self.metrics = Metrics()
        self._clock = clock
        self._sizes = {id: (device.width, device.height) for id, device in slots.items()}
        self._host = DeviceHost(slots, drivers, clock)
        self._pool = Pool.of(Slot(id, device.kind) for id, device in slots.items())
        self._store = Store(config.state_dir / "pool.sqlite")
        self._reconciler = Reconciler(self._pool, self._host, self._changed, self._device_faulted, clock)
        self._waiters: dict[Request, asyncio.Future[tuple[Granted, asyncio.Future[None]]]] = {}

    async def run(self) -> None:
        """Keep the farm going until cancelled. InfrastructureError where its devices cannot run here."""
        past = self._store.load()
        for device, token in past.tokens.items():
            if device in self._pool.slots:
                self._host.fence(device, token)
        self._changed(self._pool.restore(past.tokens, past.leases, past.ends, self._clock.monotonic()))
        self._host.sweep()
        try:
            await self._reconciler.run()
        finally:
            await self._host.close()
            await self._store.close()

    async def settled(self) -> None:
        """Returns once every device has come up, or failed to, once."""
        await self._reconciler.settled.wait()

    # -- leases ----------------------------------------------------------------------------------------------

    async def acquire(self, wish: LeaseRequest, hung_up: Callable[[], Awaitable[Any]]) -> list[LeaseInfo]:
        """Leases on `wish.n` devices, on disk before this returns; stops waiting once the caller `hung_up`.

        Raises NoDevice, UsageError where this farm can never grant it, InfrastructureError where it cannot be
        stored.
        """
        request = Request(
            ids=tuple(secrets.token_hex(16) for _ in range(wish.n)),
            kind=wish.kind,
            ttl=wish.ttl_s,
            features=frozenset(wish.features),
            grants=frozenset(wish.grants),
            label=wish.label,
            key=wish.key,
        )
        began = self._clock.monotonic()
        self._pool.enqueue(request)
        waiter = self._waiters[request] = asyncio.get_running_loop().create_future()
        self._pump()
        place = 0
        try:
            if not waiter.done():
                await _either(waiter, asyncio.ensure_future(hung_up()), wish.wait_s)
        finally:
            del self._waiters[request]
            if not waiter.done():
                place = self._pool.withdraw(request)
                self._pump()  # whoever waited behind it may be next
        if not waiter.done():
            raise NoDevice(wish.kind, wish.wait_s, place)
        grant, stored = waiter.result()
        try:
            await stored
        except InfrastructureError:
            for lease in grant.leases:
                with contextlib.suppress(LeaseError):  # it ended meanwhile
                    self._changed(self._pool.release(lease.id, self._clock.monotonic()))
            raise
        now = self._clock.monotonic()
        self.metrics.lease_wait.observe(now - began)
        return [self._lease_info(lease, now) for lease in grant.leases]

    def renew(self, lease_id: str, ttl_s: float) -> float:
        """Returns for how many seconds from now the lease is good."""
        now = self._clock.monotonic()
        return self._pool.renew(lease_id, now, ttl_s).expires - now

    async def release(self, lease_id: str) -> None:
        """On disk before this returns."""
        await self._apply(self._pool.release(lease_id, self._clock.monotonic()))

    # -- verbs -----------------------------------------------------------------------------------------------

    async def reset(self, lease_id: str, ask: ResetRequest) -> Observation:
        lease = self._holder(lease_id, ask.token)
        work = self._host.reset(lease, ask.key, ask.seed, ask.baseline, ask.spec, ask.deadline_s)
        return await self._watched(lease, work)

    async def step(self, lease_id: str, ask: StepRequest, actions: Sequence[Action]) -> Observation:
        lease = self._holder(lease_id, ask.token)
        with self.metrics.step.time():
            work = self._host.step(lease, ask.key, actions, ask.spec, ask.deadline_s)
            return await self._watched(lease, work)

    async def observe(self, lease_id: str, ask: ObserveRequest) -> Observation:
        lease = self._holder(lease_id, ask.token)
        return await self._watched(lease, self._host.observe(lease, ask.spec, ask.deadline_s))

    def _holder(self, lease_id: str, token: int) -> Lease:
        lease = self._pool.renew(lease_id, self._clock.monotonic())
        if lease.token != token:
            raise LeaseError(fenced(lease.device, token))
        return lease

    async def _watched(self, lease: Lease, work: Awaitable[Observation]) -> Observation:
        """A device that faults is taken out of the pool, and its lease ends with that fault."""
        try:
            return await work
        except FaultError as error:
            if error.fault.origin == "device" and lease.id in self._pool.leases:
                self._device_faulted(lease.device, error.fault)
            else:
                self.metrics.fault(error.fault)
            raise

    # -- views -----------------------------------------------------------------------------------------------

    def info(self) -> FarmInfo:
        now = self._clock.monotonic()
        devices = [self._device_info(slot, now) for slot in self._pool.slots.values()]
        return FarmInfo(devices, len(self._pool.queue))

    def frames(self) -> list[tuple[str, Frame]]:
        """The last picture of each device, without data before the first."""
        return [(device, seat.frame) for device, seat in self._host.seats.items()]

    def _device_info(self, slot: Slot, now: float) -> DeviceInfo:
        seat = self._host.seats[slot.id]
        width, height = self._sizes[slot.id]
        return DeviceInfo(
            id=slot.id,
            kind=slot.kind,
            state=slot.state.value,
            generation=slot.generation,
            label=self._pool.leases[slot.lease].label if slot.lease is not None else "",
            width=width,
            height=height,
            fps=seat.fps(now),
            steps=seat.steps,
            faults=seat.faults,
            idle_s=now - seat.step_times[-1] if seat.step_times else None,
        )

    def _lease_info(self, lease: Lease, now: float) -> LeaseInfo:
        capabilities = self._pool.slots[lease.device].capabilities
        assert capabilities is not None  # only a device that has come up is leased
        return LeaseInfo(lease.id, lease.token, lease.device, lease.expires - now, capabilities)

    # -- transitions -----------------------------------------------------------------------------------------

    def _changed(self, events: Sequence[Event]) -> None:
        """Something may have moved: store it in the background, and serve whoever waits."""
        if events:
            self._apply(events).add_done_callback(_report)
        self._pump()

    def _apply(self, events: Sequence[Event]) -> asyncio.Future[None]:
        for event in events:
            if isinstance(event, Ended) and event.lease.device in self._pool.slots:
                self._host.fence(event.lease.device, event.token)
        self._reconciler.wake()
        return self._store.commit(events)

    def _pump(self) -> None:
        for grant in self._pool.pump(self._clock.monotonic()):
            self._waiters[grant.request].set_result((grant, self._store.commit((grant,))))

    def _device_faulted(self, device: str, fault: Fault) -> None:
        self.metrics.fault(fault)
        self._host.seats[device].faults += 1
        self._changed(self._pool.device_faulted(device, fault, self._clock.monotonic()))


async def _either(wanted: asyncio.Future[Any], other: asyncio.Future[Any], timeout_s: float) -> None:
    try:
        await asyncio.wait((wanted, other), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        other.cancel()


def _report(write: asyncio.Future[None]) -> None:
    if not write.cancelled() and (error := write.exception()) is not None:
        _log.error("%s", error)
