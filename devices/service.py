"""The pool service: the lease machine, its memory, the devices and the reconciler, behind the verbs of the API."""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from devices.config import PoolConfig
from devices.drivers import Driver
from devices.host import DeviceHost, fenced
from devices.metrics import Metrics
from devices.pool import DeviceState, Ended, Event, Granted, Lease, Pool, Request, Slot
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
    """One per process and state directory. Use inside `running()`, on one event loop."""

    def __init__(self, config: PoolConfig, drivers: Mapping[str, Driver], clock: Clock = time) -> None:
        self.metrics = Metrics()
        self._clock = clock
        slots = config.slots()
        self.host = DeviceHost(slots, drivers, clock)
        self.pool = Pool.of(Slot(id, device.kind) for id, device in slots.items())
        self._sizes = {id: (device.width, device.height) for id, device in slots.items()}
        self._store = Store(config.state_dir / "pool.sqlite")
        self._reconciler = Reconciler(self.pool, self.host, self._changed, clock)
        self._waiters: dict[Request, asyncio.Future[Granted]] = {}
        self._writes: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Keep the farm going until cancelled. Raises InfrastructureError where its devices cannot run here."""
        past = self._store.load()
        for device, token in past.tokens.items():
            if device in self.host.seats:
                self.host.fence(device, token)
        self._changed(self.pool.restore(past.tokens, past.leases, past.ends, self._clock.monotonic()))
        self.host.sweep()
        try:
            await self._reconciler.run()
        finally:
            await self.host.close()
            await self._store.close()

    async def settled(self) -> None:
        """Returns once every device has come up, or failed to, once."""
        await self._reconciler.settled.wait()

    # -- leases -----------------------------------------------------------------------------------------------

    async def acquire(self, wish: LeaseRequest, gone: Awaitable[Any]) -> list[LeaseInfo]:
        """Leases on `wish.n` devices, on disk before this returns. Waits no longer once `gone` is done (the caller
        hung up). Raises NoDevice, UsageError where the farm can never grant it, InfrastructureError where it cannot
        be stored."""
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
        self.pool.enqueue(request)
        waiter = self._waiters[request] = asyncio.get_running_loop().create_future()
        self._changed(())
        hang_up = asyncio.ensure_future(gone)
        try:
            if not waiter.done():
                await asyncio.wait((waiter, hang_up), timeout=wish.wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hang_up.cancel()
            del self._waiters[request]
            position = 0 if waiter.done() else self.pool.withdraw(request)
            if position:
                self._changed(())  # whoever waited behind may be next
        if position:
            raise NoDevice(wish.kind, wish.wait_s, position)
        grant = waiter.result()
        try:
            await self._store.commit((grant,))
        except InfrastructureError:
            self._take_back(grant)
            raise
        now = self._clock.monotonic()
        self.metrics.lease_wait.observe(now - began)
        return [self._lease_info(lease, now) for lease in grant.leases]

    def renew(self, lease_id: str, ttl_s: float | None = None) -> LeaseInfo:
        now = self._clock.monotonic()
        return self._lease_info(self.pool.renew(lease_id, now, ttl_s), now)

    async def release(self, lease_id: str) -> None:
        events = self.pool.release(lease_id, self._clock.monotonic())
        self._apply(events)
        await self._store.commit(events)

    # -- verbs ------------------------------------------------------------------------------------------------

    async def reset(self, lease_id: str, ask: ResetRequest) -> Observation:
        lease = self._holder(lease_id, ask.token)
        work = self.host.reset(lease, ask.key, ask.seed, ask.baseline, ask.spec, ask.deadline_s)
        return await self._watched(lease, work)

    async def step(self, lease_id: str, ask: StepRequest, actions: Sequence[Action]) -> Observation:
        lease = self._holder(lease_id, ask.token)
        with self.metrics.step.time():
            return await self._watched(lease, self.host.step(lease, ask.key, actions, ask.spec, ask.deadline_s))

    async def observe(self, lease_id: str, ask: ObserveRequest) -> Observation:
        lease = self._holder(lease_id, ask.token)
        return await self._watched(lease, self.host.observe(lease, ask.spec, ask.deadline_s))

    def _holder(self, lease_id: str, token: int) -> Lease:
        lease = self.pool.renew(lease_id, self._clock.monotonic())
        if lease.token != token:
            raise LeaseError(fenced(lease.device, token))
        return lease

    async def _watched(self, lease: Lease, work: Awaitable[Observation]) -> Observation:
        """A device that faults is taken out of the pool, and its lease ends with that fault."""
        generation = self.pool.slots[lease.device].generation
        try:
            return await work
        except FaultError as error:
            self.metrics.fault(error.fault)
            if error.fault.origin == "device":
                self.host.seats[lease.device].faults += 1
                now = self._clock.monotonic()
                self._changed(self.pool.device_faulted(lease.device, generation, error.fault, now))
            raise

    # -- views ------------------------------------------------------------------------------------------------

    def info(self) -> FarmInfo:
        now = self._clock.monotonic()
        return FarmInfo([self._device_info(slot, now) for slot in self.pool.slots.values()], len(self.pool.queue))

    def _device_info(self, slot: Slot, now: float) -> DeviceInfo:
        seat = self.host.seats[slot.id]
        width, height = self._sizes[slot.id]
        return DeviceInfo(
            id=slot.id,
            kind=slot.kind,
            state=slot.state,
            generation=slot.generation,
            label=self.pool.leases[slot.lease].label if slot.lease is not None else "",
            width=width,
            height=height,
            fps=seat.fps(now),
            steps=seat.steps,
            faults=seat.faults,
            idle_s=now - seat.step_times[-1] if seat.step_times else None,
        )

    def _lease_info(self, lease: Lease, now: float) -> LeaseInfo:
        capabilities = self.pool.slots[lease.device].capabilities
        ...
