"""The lease state machine: who holds which device, under which token, until when.

Pure: no I/O, no clock, no randomness. `now` is an argument (seconds of any monotonic clock) and the secrets
that name leases are handed in. What must outlive the process is returned as events, which `devices.store`
makes durable.

A slot is a place in the farm (`browser-2`) that one device process after another fills, a generation each.
Its token rises with every grant *and* with every end of a lease, so that whoever held the device before is
refused from the moment the lease ends and not only from the next grant on.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Literal

from guiagent.errors import Fault, LeaseError, UsageError
from guiagent.types import Capabilities

_QUARANTINE_AFTER = 3  # failures in a row, each within the window of the one before
_QUARANTINE_MAX_S = 60.0
_FAILURE_WINDOW_S = 180.0
_REMEMBERED_ENDS = 4096  # ended leases whose holders still get the reason rather than "unknown"


class DeviceState(StrEnum):
    BOOTING = "booting"
    READY = "ready"
    LEASED = "leased"
    RESETTING = "resetting"
    QUARANTINED = "quarantined"  # failed several times in a row: waits before it is started again
    DEAD = "dead"  # nothing runs; to be started


_S = DeviceState
TRANSITIONS: dict[DeviceState, frozenset[DeviceState]] = {
    # Straight to LEASED where a lease outlived the pool's process.
    _S.BOOTING: frozenset({_S.READY, _S.LEASED, _S.DEAD, _S.QUARANTINED}),
    _S.READY: frozenset({_S.LEASED, _S.DEAD, _S.QUARANTINED}),
    _S.LEASED: frozenset({_S.RESETTING, _S.DEAD, _S.QUARANTINED}),
    _S.RESETTING: frozenset({_S.READY, _S.DEAD, _S.QUARANTINED}),
    _S.QUARANTINED: frozenset({_S.BOOTING}),
    _S.DEAD: frozenset({_S.BOOTING}),
}


@dataclass(slots=True)
class Slot:
    id: str
    kind: str
    state: DeviceState = DeviceState.DEAD
    capabilities: Capabilities | None = None  # None until a device has come up here
    token: int = 0
    generation: int = 0
    lease: str | None = None
    failures: int = 0  # in a row
    failed_at: float = -inf
    retry_at: float = 0.0  # when quarantined


@dataclass(frozen=True, slots=True)
class Request:
    """A wish for `len(ids)` devices at once, all or none; each id is a fresh 128-bit secret, one a lease."""

    ids: tuple[str, ...]
    kind: str
    ttl: float
    features: frozenset[str] = frozenset()
    grants: frozenset[str] = frozenset()  # each is also a feature the device must have
    label: str = ""
    tenant: str = ""
    egress: tuple[str, ...] = ()  # what the device may reach
    key: str = ""  # idempotency: the same key gets the same leases while they live


@dataclass(slots=True)
class Lease:
    id: str
    device: str
    token: int
    ttl: float
    grants: frozenset[str]
    label: str
    key: str
    tenant: str = ""
    egress: tuple[str, ...] = ()
    expires: float = 0.0


@dataclass(frozen=True, slots=True)
class Granted:
    request: Request
    leases: tuple[Lease, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    lease: Lease
    fault: Fault  # why; also what a late caller is told
    token: int  # the device's token from now on, above the lease's


@dataclass(frozen=True, slots=True)
class Marked:
    """An operator took a device out of service, or put it back; survives restarts."""

    device: str
    mark: Literal["", "drain", "quarantine"]
    reason: str


Event = Granted | Ended | Marked


@dataclass(frozen=True, slots=True)
class _Keyed:
    """What was granted under an idempotency key."""

    kind: str
    leases: tuple[Lease, ...]


@dataclass(slots=True)
class Pool:
    slots: dict[str, Slot]
    leases: dict[str, Lease] = field(default_factory=dict)
    queue: deque[Request] = field(default_factory=deque)
    _keys: dict[str, _Keyed] = field(default_factory=dict)
    _ends: OrderedDict[str, Fault] = field(default_factory=OrderedDict)

    @classmethod
    def of(cls, slots: Iterable[Slot]) -> "Pool":
        return cls({slot.id: slot for slot in slots})

    # -- leases ----------------------------------------------------------------------------------------------

    def enqueue(self, request: Request) -> None:
        """Put a wish at the end of the queue; `pump` grants it. UsageError where it can never be met."""
        if not request.ids:
            raise UsageError("a lease needs at least one device: n must be 1 or more")
        kinds = {slot.kind for slot in self.slots.values()}
        if request.kind not in kinds:
            raise UsageError(f"this farm has no {request.kind!r} devices; it has {', '.join(sorted(kinds))}")
        able = sum(_able(slot, request) for slot in self.slots.values())
        if len(request.ids) > able:
            needs = f" with {', '.join(sorted(_needs(request)))}" if _needs(request) else ""
            wanted = f"{len(request.ids)} {request.kind} devices{needs}"
            raise UsageError(f"{wanted} were asked for; this farm has {able}")
        before = self._keys.get(request.key)
        if before is not None and (before.kind, len(before.leases)) != (request.kind, len(request.ids)):
            raise UsageError("this idempotency key was used for a different lease request; use a new key")
        self.queue.append(request)

    def withdraw(self, request: Request) -> int:
        """Leave the queue; returns the place it had, from 1."""
        place = self.queue.index(request)
        del self.queue[place]
        return place + 1

    def pump(self, now: float) -> list[Granted]:
        """Grant what can be granted, first come first served within a kind.

        A group at the head waits for all its devices and lets nobody of its kind pass, or it would starve.
        """
        granted: list[Granted] = []
        blocked: set[str] = set()
        for request in list(self.queue):
            before = self._keys.get(request.key)
            if before is not None:
                # A device that was held across a restart may still be on its way back.
                leases = before.leases if self._all_leased(before) else ()
            elif request.kind in blocked:
                leases = ()
            else:
                leases = self._grant(request, now)
                if not leases:
                    blocked.add(request.kind)
            if leases:
                self.queue.remove(request)
                granted.append(Granted(request, leases))
        return granted

    def held(self, lease_id: str, now: float) -> Lease:
        """The live lease of that name; LeaseError says that there is none, or how it ended."""
        lease = self.leases.get(lease_id)
        if lease is None:
            unknown = Fault("farm", "unknown", "there is no such lease; take a new one")
            raise LeaseError(self._ends.get(lease_id, unknown))
        if lease.expires <= now:
            raise LeaseError(_expired(lease))
        return lease

    def renew(self, lease_id: str, now: float, ttl: float | None = None) -> Lease:
        """Every verb renews by the lease's own `ttl`; more may be asked for, and less never shortens it."""
        lease = self.held(lease_id, now)
        lease.expires = max(lease.expires, now + (lease.ttl if ttl is None else ttl))
        return lease

    def release(self, lease_id: str, now: float) -> list[Event]:
        lease = self.held(lease_id, now)
        return [self._end(lease, Fault("farm", "released", "this lease was released; take a new one"))]

    def expire(self, now: float) -> list[Event]:
        due = [lease for lease in self.leases.values() if lease.expires <= now]
        return [self._end(lease, _expired(lease)) for lease in due]

    # -- devices ---------------------------------------------------------------------------------------------

    def device_booting(self, device: str) -> None:
        """A device is being started in this slot."""
        slot = self.slots[device]
        _move(slot, DeviceState.BOOTING)
        slot.generation += 1

    def device_clean(self, device: str) -> None:
        """It was reset and may go to its next holder."""
        _move(self.slots[device], DeviceState.READY)

    def device_ready(self, device: str, capabilities: Capabilities) -> None:
        """It came up."""
        slot = self.slots[device]
        slot.capabilities = capabilities
        _move(slot, DeviceState.READY if slot.lease is None else DeviceState.LEASED)

    def device_faulted(self, device: str, fault: Fault, now: float) -> list[Event]:
        """It broke: its lease ends with that fault. Told a second time, nothing changes."""
        slot = self.slots[device]
        if slot.state in (DeviceState.DEAD, DeviceState.QUARANTINED):
            return []
        slot.failures = slot.failures + 1 if now - slot.failed_at < _FAILURE_WINDOW_S else 1
        slot.failed_at = now
        excess = slot.failures - _QUARANTINE_AFTER
        _move(slot, DeviceState.DEAD if excess < 0 else DeviceState.QUARANTINED)
        if excess >= 0:
            slot.retry_at = now + min(2.0 ** min(excess, 16), _QUARANTINE_MAX_S)
        return [self._end(self.leases[slot.lease], fault)] if slot.lease is not None else []

    # -- restart ---------------------------------------------------------------------------------------------

    def restore(
        self, tokens: Mapping[str, int], leases: Iterable[Lease], ends: Mapping[str, Fault], now: float
    ) -> list[Event]:
        """Take up what a former process left: tokens go on rising, and every lease counts as just renewed.

        A lease on a device this farm no longer has ends.
        """
        self._ends.update(ends)
        for device, token in tokens.items():
            if device in self.slots:
                self.slots[device].token = token
        gone: list[Event] = []
        for lease in leases:
            slot = self.slots.get(lease.device)
            if slot is None:
                message = f"this farm no longer has {lease.device}; take a new lease"
                self._ends[lease.id] = fault = Fault("farm", "removed", message)
                gone.append(Ended(lease, fault, lease.token + 1))
            else:
                lease.expires = now + lease.ttl
                self.leases[lease.id] = lease
                slot.lease = lease.id
                self._remember_key(slot.kind, lease)
        return gone

    # -- inside ----------------------------------------------------------------------------------------------

    def _grant(self, request: Request, now: float) -> tuple[Lease, ...]:
        """As many leases as asked for, or none."""
        able = [slot for slot in self.slots.values() if _able(slot, request)]
        ready = [slot for slot in able if slot.state is DeviceState.READY]
        if len(ready) < len(request.ids):
            return ()
        return tuple(
            self._lease(slot, id, request, now) for slot, id in zip(ready, request.ids, strict=False)
        )

    def _lease(self, slot: Slot, lease_id: str, request: Request, now: float) -> Lease:
        _move(slot, DeviceState.LEASED)
        slot.token += 1
        slot.lease = lease_id
        self.leases[lease_id] = lease = Lease(
            id=lease_id,
            device=slot.id,
            token=slot.token,
            ttl=request.ttl,
            grants=request.grants,
            label=request.label,
            key=request.key,
            tenant=request.tenant,
            egress=request.egress,
            expires=now + request.ttl,
        )
        self._remember_key(slot.kind, lease)
        return lease

    def _remember_key(self, kind: str, lease: Lease) -> None:
        if lease.key:
            before = self._keys.get(lease.key, _Keyed(kind, ()))
            self._keys[lease.key] = _Keyed(kind, (*before.leases, lease))

    def _all_leased(self, keyed: _Keyed) -> bool:
        return all(self.slots[lease.device].state is DeviceState.LEASED for lease in keyed.leases)

    def _end(self, lease: Lease, fault: Fault) -> Ended:
        slot = self.slots[lease.device]
        del self.leases[lease.id]
        self._keys.pop(lease.key, None)
        self._ends[lease.id] = fault
        if len(self._ends) > _REMEMBERED_ENDS:
            self._ends.popitem(last=False)
        slot.lease = None
        slot.token += 1
        if slot.state is DeviceState.LEASED:
            _move(slot, DeviceState.RESETTING)
        return Ended(lease, fault, slot.token)


def _move(slot: Slot, state: DeviceState) -> None:
    if state not in TRANSITIONS[slot.state]:
        raise RuntimeError(f"{slot.id} cannot go from {slot.state} to {state}")
    slot.state = state


def _needs(request: Request) -> frozenset[str]:
    return request.features | request.grants


def _able(slot: Slot, request: Request) -> bool:
    """A slot that has never been up may yet turn out able."""
    known = slot.capabilities
    return slot.kind == request.kind and (known is None or _needs(request) <= set(known.features))


def _expired(lease: Lease) -> Fault:
    message = f"the lease on {lease.device} ran out after {lease.ttl:g} s without a call; take a new one"
    return Fault("farm", "expired", message, retryable=True)
