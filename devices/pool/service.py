"""The pool service: the lease table, the store, the device hosts, and the reconciler, behind the API's verbs.

Every verb takes the tenant whose token came with the request; `OPERATOR` may do everything.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from devices.config import PoolConfig
from devices.drivers import Driver
from devices.egress import rules as egress_rules
from devices.hosts import grants
from devices.hosts.edge import Provoked
from devices.hosts.host import Host, SlotInfo
from devices.hosts.local import DeviceHost, fenced
from devices.hosts.registry import HostRegistry
from devices.hosts.verbs import log_line
from devices.leases import OPERATOR, AdminState, Ended, Event, Granted, Lease, Request, Slot
from devices.pool.fairness import Account
from devices.pool.guarding import Guarding, Refused
from devices.pool.helping import Helping
from devices.pool.lease_table import Pool
from devices.pool.metrics import Metrics
from devices.pool.queue import Waiting
from devices.pool.reconciler import Reconciler
from devices.pool.store import Store
from devices.pool.views import UnknownDevice, Views
from guiagent.errors import Fault, FaultError, InfrastructureError, LeaseError, UsageError
from guiagent.protocols import Clock
from guiagent.types import ObserveSpec, ResetSpec
from guiagent.wire import (
    ConnectRequest,
    GiveBack,
    HelpAnswer,
    HelpRequest,
    LeaseInfo,
    LeaseRequest,
    ObserveRequest,
    ResetRequest,
    StepRequest,
    Verb,
)

_log = logging.getLogger(__name__)

T = TypeVar("T")
_Stored = tuple[Granted, asyncio.Future[None]]  # done once the grant is on disk


class NoDevice(FaultError):
    """No device came free in time; `place` is the request's place in the queue."""

    def __init__(self, wait_s: float, place: Waiting) -> None:
        kind, eta_s = place.request.kind, place.eta_s
        soon = "" if eta_s is None else f", about {eta_s:.0f} s more"
        message = f"no {kind} device came free within {wait_s:g} s (place {place.place} in the queue{soon})"
        super().__init__(Fault("farm", "no_device", message, retryable=True))
        self.place = place


class OperatorOnly(UsageError):
    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is the operator's, who has the pool's own token")


class PoolService:
    """The service of one store, one per process; everything happens on the event loop that runs `run()`."""

    def __init__(
        self, config: PoolConfig, drivers: Mapping[str, Driver], store: Store, clock: Clock = time
    ) -> None:
        self._clock = clock
        self._local = DeviceHost(config.slots(), drivers, clock)
        self.hosts: dict[str, Host] = {self._local.id: self._local}
        accounts = {
            one.name: Account(one.weight, one.max_devices, one.device_seconds_per_hour)
            for one in config.tenants
        }
        self._private_egress = {one.name: frozenset(one.private_egress) for one in config.tenants}
        self._pool = Pool.of((_slot(self._local.id, info) for info in self._local.slots), accounts)
        self.helping = Helping(clock.monotonic)
        self.views = Views(self._pool, self.hosts, self.helping.reason, clock)
        self._guarding = Guarding(
            config.guardrails,
            {one.name: one.guardrails for one in config.tenants if one.guardrails is not None},
            lives=lambda lease: lease in self._pool.leases,
            now=clock.monotonic,
        )
        self.approvals = self._guarding.approvals
        self.metrics = Metrics(self.views.farm, self._device_seconds)
        self._store = store
        self._epoch = 0
        self._reconciler = Reconciler(
            self._pool, self.hosts, self._changed, self._device_faulted, self.metrics, clock
        )
        self._waiters: dict[Request, asyncio.Future[_Stored]] = {}
        self.registry = HostRegistry(self)

    async def run(self) -> None:
        """Run the farm until cancelled. Raises InfrastructureError if its devices cannot run here."""
        past = self._store.load()
        self._epoch = past.epoch
        now = self._clock.monotonic()
        gone = self._pool.restore(past.tokens, past.leases, past.ends, now, past.marks, past.overlap_s)
        for info in self._local.slots:
            self._local.fence(info.id, self._pool.slots[info.id].token, self._epoch)
        self._changed(gone)
        self._local.sweep()
        try:
            await self._reconciler.run()
        finally:
            await self.registry.close()
            await asyncio.gather(*(host.close() for host in self.hosts.values()))
            await self._store.close()

    async def settled(self) -> None:
        """Wait until every wanted device has started, or failed to start, once."""
        await self._reconciler.settled.wait()

    # -- hosts -----------------------------------------------------------------------------------------------

    def add_host(self, host: Host) -> None:
        """Add a host with its devices to the farm. Raises UsageError if its name is in use."""
        if host.id in self.hosts:
            raise UsageError(f"a host {host.id} is part of this farm already")
        self._pool.add(_slot(host.id, info) for info in host.slots)
        self.hosts[host.id] = host
        for info in host.slots:
            host.fence(info.id, self._pool.slots[info.id].token, self._epoch)
        self._changed(())
        self._reconciler.wake()

    async def remove_host(self, host_id: str, fault: Fault) -> None:
        """Remove a host that is gone; its devices stay known as lost until it is added again.

        Leases on its devices end with `fault`, which is on disk before this returns.
        """
        host = self.hosts.pop(host_id)
        now = self._clock.monotonic()
        ended = [event for info in host.slots for event in self._pool.device_lost(info.id, fault, now)]
        if ended:
            self.metrics.fault(fault)
        await self._apply(ended)

    def dismiss_hosts(self) -> None:
        """Close the connections of joined hosts. One that is back in time keeps its devices and leases."""
        self.registry.dismiss()

    # -- leases ----------------------------------------------------------------------------------------------

    async def acquire(
        self, tenant: str, ask: LeaseRequest, on_disconnect: Callable[[], Awaitable[Any]]
    ) -> list[LeaseInfo]:
        """Grant leases on `ask.n` devices, which are on disk before this returns.

        Waits up to `ask.wait_s`, and no longer than until the awaitable of `on_disconnect()` is done.

        Raises:
            NoDevice: no device came free in time.
            OverQuota: the request exceeds the tenant's quota.
            UsageError: this farm can never grant the request.
            InfrastructureError: the grant cannot be stored.
        """
        request = self._request(tenant, ask)
        again = self._pool.answered(request)
        taken = self._taken_over(request) if ask.takeover and not again else None
        grant, stored = taken or await self._granted(request, ask.wait_s, on_disconnect)
        try:
            await stored
        except InfrastructureError:
            for lease in grant.leases:
                with contextlib.suppress(LeaseError):  # it ended meanwhile
                    self._changed(self._pool.release(lease.id, self._clock.monotonic()))
            raise
        now = self._clock.monotonic()
        self.metrics.lease_wait.observe(now - request.asked)
        return [self._lease_info(lease, now) for lease in grant.leases]

    def renew(self, tenant: str, lease_id: str, ttl_s: float) -> float:
        """Renew a lease; return the seconds until it expires."""
        now = self._clock.monotonic()
        return self._pool.renew(lease_id, now, ttl_s, tenant).expires - now

    async def release(self, tenant: str, lease_id: str) -> None:
        """End a lease, which is on disk before this returns."""
        await self._apply(self._pool.release(lease_id, self._clock.monotonic(), tenant))

    def _request(self, tenant: str, ask: LeaseRequest) -> Request:
        if ask.takeover and tenant != OPERATOR:
            raise OperatorOnly("taking over a device")
        self._require_egress(tenant, ask.egress)
        now = self._clock.monotonic()
        kind, host = ask.kind, ""
        if ask.device:
            kind = self.views.device(tenant, ask.device).kind
        if ask.near:
            host = self._pool.slots[self._pool.held(ask.near, now, tenant).device].host
        return Request(
            ids=tuple(secrets.token_hex(16) for _ in range(ask.n)),
            kind=kind,
            ttl=ask.ttl_s,
            needs=frozenset(ask.needs),
            grants=frozenset(ask.grants),
            label=ask.label,
            tenant=tenant,
            egress=tuple(ask.egress),
            key=ask.key,
            device=ask.device,
            host=host,
            takeover=ask.takeover,
            asked=now,
        )

    def _require_egress(self, tenant: str, egress: Sequence[str]) -> None:
        """Raise UsageError for an invalid egress rule, now and not at the first step.

        A tenant may name private addresses only if the operator allowed them in its `private_egress`.
        """
        rules = egress_rules.parse(egress)
        for text, rule in zip(egress, rules, strict=True):
            private = isinstance(rule, egress_rules.Block)
            if private and tenant != OPERATOR and text not in self._private_egress[tenant]:
                raise UsageError(f"the operator of this farm has not allowed you to reach {text!r}")

    def _taken_over(self, request: Request) -> _Stored | None:
        ended, grant = self._pool.take_over(request, self._clock.monotonic())
        self._changed(ended)
        return (grant, self._store.commit((grant,))) if grant is not None else None

    async def _granted(
        self, request: Request, wait_s: float, on_disconnect: Callable[[], Awaitable[Any]]
    ) -> _Stored:
        self._pool.enqueue(request)
        waiter: asyncio.Future[_Stored] = asyncio.get_running_loop().create_future()
        self._waiters[request] = waiter
        self._grant_ready()
        place: Waiting | None = None
        try:
            if not waiter.done():
                self._reconciler.wake()  # a device may have to be started for it
                await _either(waiter, asyncio.ensure_future(on_disconnect()), wait_s)
        finally:
            del self._waiters[request]
            if not waiter.done():
                place = self._pool.withdraw(request, self._clock.monotonic())
                self._reconciler.wake()  # whoever waited behind it may be next
        if place is not None:
            raise NoDevice(wait_s, place)
        return waiter.result()

    # -- verbs -----------------------------------------------------------------------------------------------

    async def call(self, tenant: str, lease_id: str, message: Verb[T]) -> T:
        """Carry out a verb under a lease, renew the lease, and return the verb's value."""
        lease, host = self._holder(tenant, lease_id, message.token)
        if not isinstance(message, ObserveRequest):
            self.helping.require_undriven(lease)
        page = partial(self._page, lease, host)
        try:
            await self._guarding.admit(lease, message, page)
        except Refused as refused:
            self._note_refusal(lease, host, refused)
            if not isinstance(message, StepRequest):
                raise
            looked = ObserveRequest(message.token, message.spec, message.deadline_s)
            if not await self._guarding.looks(lease, looked, page):  # its probes may be what was refused
                looked = msgspec.structs.replace(looked, spec=_without_probes(looked.spec))
            shown = await self._watched(lease, host.call(lease, looked))
            unmoved: Any = msgspec.structs.replace(shown, action_error=str(refused))
            return unmoved  # type: ignore[no-any-return]
        with self.metrics.called(message):
            return await self._watched(lease, host.call(lease, _of_tenant(tenant, message)))

    async def _page(self, lease: Lease, host: Host) -> str | None:
        """The address of the page that a device shows; None if it has no pages."""
        capabilities = self._pool.slots[lease.device].capabilities
        if capabilities is None or "page" not in capabilities.features:
            return None
        looked = ObserveRequest(lease.token, ObserveSpec(frame="none", page=True))
        return (await self._watched(lease, host.call(lease, looked))).url

    def _note(self, lease: Lease, host: Host, text: str) -> None:
        host.records[lease.device].note(self._clock.time(), lease.token, text)

    def _note_refusal(self, lease: Lease, host: Host, refused: Refused) -> None:
        self._note(lease, host, str(refused))
        self.metrics.refused(lease.tenant)

    @contextlib.asynccontextmanager
    async def connected(
        self, tenant: str, lease_id: str, token: int, service: str
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Open a stream to a service of the device; the end of the lease cuts it."""
        lease, host = self._holder(tenant, lease_id, token)
        message = ConnectRequest(token, service)
        self.helping.require_undriven(lease)
        try:
            await self._guarding.admit(lease, message, lambda: self._page(lease, host))
        except Refused as refused:
            self._note_refusal(lease, host, refused)
            raise
        reader, writer = await self._watched(lease, host.connect(lease, message))
        try:
            yield reader, writer
        finally:
            host.on_disconnect(lease.device, writer)

    # -- a person who helps ----------------------------------------------------------------------------------

    async def ask_help(self, tenant: str, lease_id: str, request: HelpRequest) -> HelpAnswer:
        """Ask for a person to drive the device for a while; see `Helping.ask`."""
        lease, host = self._holder(tenant, lease_id, request.token)
        if not self.helping.reason(lease_id) and not request.withdraw:
            self._note(lease, host, f"asks for a person: {request.reason}")
        answer = await self.helping.ask(lease, request)
        self.require_held(tenant, lease_id)  # it may have ended meanwhile
        return answer

    async def help(self, help_id: str, message: Verb[T]) -> T:
        """Carry out a verb of the person who helps, under the agent's lease. No guardrail holds people up."""
        did = [log_line(action) for action in message.parsed] if isinstance(message, StepRequest) else []
        lease, first = self.helping.take(help_id, did)
        _, host = self._holder(OPERATOR, lease.id, message.token)
        if first:
            self._note(lease, host, "a person drives")
        return await self._watched(lease, host.call(lease, message))

    def give_back(self, help_id: str, answer: GiveBack) -> None:
        """Give a device back to the agent that asked for a person."""
        lease = self.helping.give_back(help_id, answer.refuse, answer.note)
        if (host := self._host_of(lease.device)) is not None:
            self._note(lease, host, "a person refused to help" if answer.refuse else "given back by a person")

    def held(self, tenant: str) -> int:
        """How many devices a tenant holds."""
        return self._pool.queue.accounts[tenant].held if tenant in self._pool.queue.accounts else 0

    def require_allowed(self, tenant: str, lease_id: str, message: Verb[Any]) -> None:
        """Raise what `call` would raise for this message before it is carried out."""
        lease, _ = self._holder(tenant, lease_id, message.token)
        grants.require(lease, message)

    def require_held(self, tenant: str, lease_id: str) -> None:
        """Raise LeaseError, with the reason, if the lease has ended."""
        self._pool.held(lease_id, self._clock.monotonic(), tenant)

    def _holder(self, tenant: str, lease_id: str, token: int) -> tuple[Lease, Host]:
        lease = self._pool.renew(lease_id, self._clock.monotonic(), tenant=tenant)
        if lease.token != token:
            raise LeaseError(fenced(lease.device, token))
        if (host := self._host_of(lease.device)) is None:
            message = f"the host of {lease.device} has not come back yet; try again"
            raise FaultError(Fault("farm", "host_away", message, retryable=True))
        return lease, host

    async def _watched(self, lease: Lease, work: Awaitable[T]) -> T:
        """Await `work`; if the device itself faults, end its lease with that fault and take it out of use."""
        try:
            return await work
        except FaultError as error:
            if error.fault.origin == "device" and lease.id in self._pool.leases:
                self._device_faulted(lease.device, error)
            else:
                self.metrics.fault(error.fault)
            raise

    # -- the operator ----------------------------------------------------------------------------------------

    async def mark(self, tenant: str, device: str, mark: AdminState, reason: str) -> None:
        """Take a device out of service, or put it back; on disk before this returns."""
        _require_operator(tenant)
        await self._mark([self.views.device(tenant, device).id], mark, reason)

    async def mark_host(self, tenant: str, host: str, mark: AdminState, reason: str) -> None:
        """Mark all devices of a host, as `mark` does one. Raises UnknownDevice if the host has none."""
        _require_operator(tenant)
        devices = [slot.id for slot in self._pool.slots.values() if slot.host == host]
        if not devices:
            raise UnknownDevice
        await self._mark(devices, mark, reason)

    async def _mark(self, devices: Sequence[str], mark: AdminState, reason: str) -> None:
        now = self._clock.monotonic()
        await self._apply([event for one in devices for event in self._pool.mark(one, mark, reason, now)])

    # -- inside ----------------------------------------------------------------------------------------------

    def _lease_info(self, lease: Lease, now: float) -> LeaseInfo:
        capabilities = self._pool.slots[lease.device].capabilities
        assert capabilities is not None  # only a device that has come up is leased
        return LeaseInfo(lease.id, lease.token, lease.device, lease.expires - now, capabilities)

    def _device_seconds(self) -> dict[str, float]:
        now = self._clock.monotonic()
        return {tenant: self._pool.queue.settled(tenant, now).total for tenant in self._pool.queue.accounts}

    def _changed(self, events: Sequence[Event]) -> None:
        """Store events in the background, and grant the waiting requests that can be served now."""
        if events:
            self._apply(events).add_done_callback(_report)
        self._grant_ready()

    def _apply(self, events: Sequence[Event]) -> asyncio.Future[None]:
        for event in events:
            if not isinstance(event, Ended):
                continue
            self.helping.forget(event.lease.id)
            if (host := self._host_of(event.lease.device)) is not None:
                host.fence(event.lease.device, event.token, self._epoch)
        self._reconciler.wake()
        return self._store.commit(events)

    def _host_of(self, device: str) -> Host | None:
        """The host of a device; None if the device is no longer in the farm or its host is away."""
        slot = self._pool.slots.get(device)
        return self.hosts.get(slot.host) if slot is not None else None

    def _grant_ready(self) -> None:
        for grant in self._pool.grant_ready(self._clock.monotonic()):
            self._waiters[grant.request].set_result((grant, self._store.commit((grant,))))

    def _device_faulted(self, device: str, error: FaultError) -> None:
        self.metrics.fault(error.fault)
        if (host := self._host_of(device)) is not None:
            host.records[device].faults += 1
        counts, now = not isinstance(error, Provoked), self._clock.monotonic()
        self._changed(self._pool.device_faulted(device, error.fault, now, counts=counts))


def _slot(host: str, info: SlotInfo) -> Slot:
    return Slot(
        info.id,
        info.kind,
        host=host,
        size=(info.width, info.height),
        group=info.group,
        warm=info.warm,
        idle_s=info.idle_s,
    )


def _of_tenant(tenant: str, message: Verb[T]) -> Verb[T]:
    if isinstance(message, ResetRequest):
        own: Verb[Any] = msgspec.structs.replace(message, baseline=of_tenant(tenant, message.baseline))
        return own
    return message


def _without_probes(spec: ObserveSpec) -> ObserveSpec:
    return msgspec.structs.replace(spec, probes={})


def of_tenant(tenant: str, baseline: ResetSpec) -> ResetSpec:
    """Prefix a reset's profile with the tenant (`TENANT.NAME`): profiles outlive leases.

    Raises UsageError if the profile's name has a dot.
    """
    if baseline.profile is None:
        return baseline
    if "." in baseline.profile:
        raise UsageError("a profile's name has a-z, 0-9, - and _")
    return msgspec.structs.replace(
        baseline, profile=f"{tenant}.{baseline.profile}" if tenant else baseline.profile
    )


def _require_operator(tenant: str) -> None:
    if tenant != OPERATOR:
        raise OperatorOnly("taking devices out of service")


async def _either(wanted: asyncio.Future[Any], other: asyncio.Future[Any], timeout_s: float) -> None:
    try:
        await asyncio.wait((wanted, other), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        other.cancel()


def _report(write: asyncio.Future[None]) -> None:
    if not write.cancelled() and (error := write.exception()) is not None:
        _log.error("%s", error)
