"""The lease state machine: who holds which device, under which token, until when.

Pure: no I/O, no clock, no randomness. `now` is an argument (seconds of any monotonic clock), and the secret
ids of leases are arguments too. Changes that must outlive the process are returned as events, which
`devices.pool.store` makes durable.

A slot's token rises with every grant *and* with every end of a lease, so that the former holder is refused
from the moment the lease ends and not only from the next grant on.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from devices.health import DeviceHealth
from devices.leases import (
    RUNS_NOT,
    TRANSITIONS,
    AdminState,
    DeviceState,
    Ended,
    Event,
    Granted,
    Lease,
    Marked,
    Request,
    Slot,
)
from devices.pool.autoscaler import resize
from devices.pool.fairness import Account
from devices.pool.matching import able, in_service
from devices.pool.queue import Queue, Waiting
from guiagent.errors import Fault, FaultError, LeaseError, UsageError
from guiagent.types import Capabilities

_REMEMBERED_ENDS = 4096  # ended leases whose holders still get the reason rather than "unknown"
_REJOIN_S = 60.0  # how long leases wait for their host after the pool was restarted


@dataclass(slots=True)
class Pool:
    slots: dict[str, Slot]
    queue: Queue
    leases: dict[str, Lease] = field(default_factory=dict)
    # By tenant and idempotency key: what was granted under it, as long as any of it lives.
    _keys: dict[tuple[str, str], tuple[Lease, ...]] = field(default_factory=dict)
    _ends: OrderedDict[str, tuple[str | None, Fault]] = field(default_factory=OrderedDict)
    _absent: dict[str, tuple[int, Marked | None]] = field(default_factory=dict)  # of hosts not joined yet

    @classmethod
    def of(cls, slots: Iterable[Slot], accounts: Mapping[str, Account] | None = None) -> "Pool":
        farm: dict[str, Slot] = {}
        pool = cls(farm, Queue(farm, {"": Account(), **(accounts or {})}))
        pool.add(slots)
        return pool

    # -- leases ----------------------------------------------------------------------------------------------

    def enqueue(self, request: Request) -> None:
        """Put a request into the queue; `grant_ready` grants it.

        Raises:
            UsageError: this farm can never meet the request.
            OverQuota: the request exceeds its tenant's quota now.
            FaultError: its key was used for another request ("key_reused").
            LeaseError: a part of what was granted under its key has ended.
        """
        before = self._keys.get((request.tenant, request.key), ())
        digests = {one.digest for one in before} | {one.digest for one in self.queue.same_key(request)}
        if digests - {"", request.digest}:
            raise FaultError(_key_reused(request.key))
        if not before:
            self.queue.add(request)
        elif sum(one.id in self.leases for one in before) < len(request.ids):
            message = "a part of what was granted under this key has ended; take new leases with another key"
            raise LeaseError(Fault("farm", "ended", message))
        else:
            self.queue.append(request)

    def answered(self, request: Request) -> bool:
        """Whether leases live that were granted under the request's key."""
        return (request.tenant, request.key) in self._keys

    def withdraw(self, request: Request, now: float) -> Waiting:
        """Remove a request from the queue; return the place it had."""
        place = self.queue.place(request, now)
        self.queue.remove(request)
        return place

    def grant_ready(self, now: float) -> list[Granted]:
        """Grant the requests that can be served now, in fair order; see `devices.pool.matching.match`."""
        granted: list[Granted] = []
        if not self.queue.requests:
            return granted
        for request, slots in self.queue.served(now, self._keys):
            leases = (
                self._lease(slot, id, request, now) for slot, id in zip(slots, request.ids, strict=True)
            )
            granted.append(Granted(request, tuple(leases)))
            self.queue.remove(request)
        for request in [one for one in self.queue.requests if (one.tenant, one.key) in self._keys]:
            before = self._keys[request.tenant, request.key]
            # A device that was leased when the pool restarted may not be up again yet.
            if all(self._in_use(lease) for lease in before):
                granted.append(Granted(request, before))
                self.queue.remove(request)
        return granted

    def take_over(self, request: Request, now: float) -> tuple[list[Event], Granted | None]:
        """End the current lease on `request.device`, if any, and grant the device without a reset.

        The grant is None while the device is being started or wiped: the caller then queues the request.
        Raises UsageError if the device is out of service or lacks a feature.
        """
        slot = self.slots[request.device]
        if not in_service(slot):
            raise UsageError(f"{slot.id} is {slot.state}: restore it first")
        if not able(slot, request):
            raise UsageError(f"{slot.id} does not have all of {', '.join(sorted(request.features))}")
        events: list[Event] = []
        if slot.state is DeviceState.LEASED and slot.lease is not None:
            message = f"an operator took {slot.id} over; take a new lease"
            taken = Fault("farm", "taken_over", message, retryable=True)
            events.append(self._end(self.leases[slot.lease], taken, now))
            _move(slot, DeviceState.READY)
        if slot.state is not DeviceState.READY:
            return events, None
        return events, Granted(request, (self._lease(slot, request.ids[0], request, now),))

    def held(self, lease_id: str, now: float, tenant: str = "") -> Lease:
        """Return the live lease with this id.

        Raises LeaseError if it is unknown or has ended, with the reason. Another tenant's lease counts as
        unknown, except to the operator.
        """
        lease = self.leases.get(lease_id)
        unknown = Fault("farm", "unknown", "there is no such lease; take a new one")
        if lease is None:
            owner, fault = self._ends.get(lease_id, ("", unknown))
            raise LeaseError(fault if owner is None or tenant in ("", owner) else unknown)
        if tenant not in ("", lease.tenant):
            raise LeaseError(unknown)
        if lease.expires <= now:
            raise LeaseError(_expired(lease))
        return lease

    def renew(self, lease_id: str, now: float, ttl: float | None = None, tenant: str = "") -> Lease:
        """Extend a lease to `ttl` seconds from now (default: its own `ttl`); never shorten it."""
        lease = self.held(lease_id, now, tenant)
        lease.expires = max(lease.expires, now + (lease.ttl if ttl is None else ttl))
        return lease

    def release(self, lease_id: str, now: float, tenant: str = "") -> list[Event]:
        lease = self.held(lease_id, now, tenant)
        return [self._end(lease, Fault("farm", "released", "this lease was released; take a new one"), now)]

    def expire(self, now: float) -> list[Event]:
        """End the leases that ran out, and those whose host has not joined again after a restart."""
        ended: list[Event] = []
        for lease in list(self.leases.values()):
            if lease.expires <= now:
                ended.append(self._end(lease, _expired(lease), now))
            elif self.slots[lease.device].rejoin_by <= now:
                message = f"the host of {lease.device} did not come back; take a new lease"
                ended.append(self._end(lease, Fault("farm", "host_lost", message, retryable=True), now))
        return ended

    # -- devices ---------------------------------------------------------------------------------------------

    def add(self, slots: Iterable[Slot]) -> None:
        """Add a host's slots. A slot that the host had before keeps its token, its lease, and its mark.

        Raises UsageError if a device with that name is present or belongs to another host.
        """
        slots = list(slots)
        for slot in slots:
            before = self.slots.get(slot.id)
            if before is not None and (before.state is not DeviceState.LOST or before.host != slot.host):
                raise UsageError(f"there is a device {slot.id} in this farm already, on host {before.host}")
        for slot in slots:
            before = self.slots.get(slot.id)
            if before is not None:
                slot.token, slot.lease, slot.mark = before.token, before.lease, before.mark
                slot.generation, slot.health = before.generation, before.health
                slot.reason = before.reason if before.mark else ""
            elif slot.id in self._absent:
                slot.token, mark = self._absent.pop(slot.id)
                if mark is not None:
                    slot.mark, slot.reason = mark.mark, mark.reason
            slot.state = _at_rest(slot)
            self.slots[slot.id] = slot

    def device_booting(self, device: str) -> None:
        """Record that a device is being started in this slot."""
        slot = self.slots[device]
        _move(slot, DeviceState.BOOTING)
        slot.generation += 1
        slot.running = True

    # A report can come after the device was stopped, marked by an operator, or lost with its host: a late
    # report changes nothing.

    def device_ready(self, device: str, capabilities: Capabilities) -> None:
        """Record that the device has started."""
        slot = self.slots[device]
        if slot.state is DeviceState.BOOTING:
            slot.capabilities = capabilities
            slot.reason = slot.reason if slot.mark else ""
            _move(slot, DeviceState.READY if slot.lease is None else DeviceState.LEASED)

    def device_clean(self, device: str) -> None:
        """Record that the device was reset and is ready for its next holder."""
        slot = self.slots[device]
        if slot.state is DeviceState.RESETTING:
            slot.health.proved()
            _move(slot, DeviceState.READY)

    def device_healthy(self, device: str) -> None:
        """Record that the device passed a health check while it was not leased."""
        self.slots[device].health.healthy()

    def device_stopped(self, device: str) -> None:
        self.slots[device].running = False

    def device_faulted(self, device: str, fault: Fault, now: float, *, counts: bool = True) -> list[Event]:
        """Record that the device failed; end its lease with `fault`.

        A failure that `counts` not, because a holder can cause it at will, leads to no quarantine.
        """
        slot = self.slots[device]
        if slot.state in RUNS_NOT:
            return []
        quarantine_s = slot.health.failed(now) if counts else None
        if not slot.mark:
            slot.reason = f"{fault.code}: {fault.message}"
        if slot.mark or quarantine_s is None:
            _move(slot, _MARKED.get(slot.mark, DeviceState.DEAD))
        else:
            _move(slot, DeviceState.QUARANTINED)
            slot.retry_at = now + quarantine_s
        return [self._end(self.leases[slot.lease], fault, now)] if slot.lease is not None else []

    def device_lost(self, device: str, fault: Fault, now: float) -> list[Event]:
        """Record that the device's host is gone; end the lease. `add` brings the slot back."""
        slot = self.slots[device]
        _move(slot, DeviceState.LOST)
        slot.running = False
        slot.reason = slot.reason if slot.mark else fault.message
        return [self._end(self.leases[slot.lease], fault, now)] if slot.lease is not None else []

    def mark(self, device: str, mark: AdminState, reason: str, now: float) -> list[Event]:
        """Take a device out of service for an operator, or ("") put it back and clear its failures.

        "drain" lets the current lease run to its end; "quarantine" ends it.
        """
        slot = self.slots[device]
        slot.mark, slot.reason = mark, reason
        events: list[Event] = [Marked(device, mark, reason)]
        if not mark:
            slot.health = DeviceHealth()
            if slot.state in (DeviceState.DRAINED, DeviceState.QUARANTINED):
                _move(slot, _at_rest(slot))
        elif mark == "quarantine" and slot.lease is not None:
            message = f"{device} was taken out of service: {reason}"
            fault = Fault("farm", "quarantined", message, retryable=True)
            events.append(self._end(self.leases[slot.lease], fault, now))
        elif slot.lease is None:
            _park(slot)
        return events

    def size(self, now: float) -> None:
        """Start the devices that are wanted, stop those idle for too long; see `devices.pool.autoscaler`."""
        groups: dict[tuple[str, str], list[Slot]] = {}
        for slot in self.slots.values():
            if slot.warm is not None:
                groups.setdefault((slot.host, slot.group), []).append(slot)
                if slot.state is DeviceState.READY and slot.idle_since is None:
                    slot.idle_since = now
        waiting = list(self.queue.requests) if groups else []
        for group in groups.values():
            mine = [one for one in waiting if any(able(slot, one) for slot in group)]
            named = {one.device for one in mine}
            group.sort(key=lambda slot: slot.id not in named)
            start, stop = resize(group, sum(len(one.ids) for one in mine), now)
            for slot in start:
                _move(slot, DeviceState.DEAD)
            for slot in stop:
                _move(slot, DeviceState.OFF)
            room = sum(slot.lease is None and in_service(slot) for slot in group)
            for one in mine:  # the next group must not start devices for a request that this one can serve
                if room > 0:
                    waiting.remove(one)
                    room -= len(one.ids)

    # -- restart ---------------------------------------------------------------------------------------------

    def restore(
        self,
        tokens: Mapping[str, int],
        leases: Iterable[Lease],
        ends: Mapping[str, Fault],
        now: float,
        marks: Iterable[Marked] = (),
        overlap_s: float = 0.0,
    ) -> list[Event]:
        """Restore the state that a former process stored; return the leases that ended by it.

        Tokens keep rising, marks are kept, and every lease counts as renewed when that process may last have
        done so, `overlap_s` from now. A lease on a device that this farm no longer has ends, and so does one
        of a tenant that it no longer knows, who could neither renew nor release it; a lease on a device of a
        joining host ("host.browser-0") waits `_REJOIN_S` for that host.
        """
        # The tenants of ended leases are not stored, so anyone with the lease's id gets the reason.
        self._ends.update((id, (None, fault)) for id, fault in ends.items())
        marked = {mark.device: mark for mark in marks if mark.mark}
        for device in {*tokens, *marked} - set(self.slots):
            self._absent[device] = tokens.get(device, 0), marked.get(device)
        for slot in self.slots.values():
            slot.token = tokens.get(slot.id, slot.token)
            if slot.id in marked:
                slot.mark, slot.reason = marked[slot.id].mark, marked[slot.id].reason
        gone: list[Event] = []
        for lease in leases:
            removed = self._removed(lease)
            if removed is not None:
                self._ends[lease.id] = None, removed
                self._raise_token(lease.device, lease.token + 1)
                gone.append(Ended(lease, removed, lease.token + 1))
                continue
            lease.expires, lease.since = now + overlap_s + lease.ttl, now
            self.leases[lease.id] = lease
            slot = self.slots.setdefault(lease.device, _lost(lease.device))
            if slot.state is DeviceState.LOST:
                slot.token, mark = self._absent.pop(lease.device, (lease.token, None))
                slot.rejoin_by = now + _REJOIN_S
                if mark is not None:
                    slot.mark, slot.reason = mark.mark, mark.reason
            slot.lease = lease.id
            self.queue.settled(lease.tenant, now).held += 1
            self._remember_key(lease)
        for slot in self.slots.values():
            if slot.state is not DeviceState.LOST:
                slot.state = _at_rest(slot)
        return gone

    # -- inside ----------------------------------------------------------------------------------------------

    def _lease(self, slot: Slot, lease_id: str, request: Request, now: float) -> Lease:
        _move(slot, DeviceState.LEASED)
        slot.token += 1
        slot.lease = lease_id
        self.queue.settled(request.tenant, now).held += 1
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
            digest=request.digest if request.key else "",
            expires=now + request.ttl,
            since=now,
        )
        self._remember_key(lease)
        return lease

    def _in_use(self, lease: Lease) -> bool:
        return lease.id in self.leases and self.slots[lease.device].state is DeviceState.LEASED

    def _removed(self, lease: Lease) -> Fault | None:
        """Say why a stored lease cannot go on: its device or its tenant is not of this farm any more."""
        if lease.device not in self.slots and "." not in lease.device:
            return Fault("farm", "removed", f"this farm no longer has {lease.device}; take a new lease")
        if lease.tenant not in self.queue.accounts:
            return Fault("farm", "removed", f"this farm no longer has the tenant {lease.tenant}")
        return None

    def _raise_token(self, device: str, token: int) -> None:
        """Refuse the former holder from now on, also on a device whose host has not joined yet."""
        if device in self.slots:
            self.slots[device].token = max(token, self.slots[device].token)
        elif device in self._absent:
            before, mark = self._absent[device]
            self._absent[device] = max(token, before), mark

    def _remember_key(self, lease: Lease) -> None:
        if lease.key:
            key = lease.tenant, lease.key
            self._keys[key] = (*self._keys.get(key, ()), lease)

    def _forget_key(self, lease: Lease) -> None:
        key = lease.tenant, lease.key
        if not any(one.id in self.leases for one in self._keys.get(key, ())):
            self._keys.pop(key, None)

    def _end(self, lease: Lease, fault: Fault, now: float) -> Ended:
        slot = self.slots[lease.device]
        del self.leases[lease.id]
        self._forget_key(lease)
        self._ends[lease.id] = lease.tenant, fault
        if len(self._ends) > _REMEMBERED_ENDS:
            self._ends.popitem(last=False)
        self.queue.settled(lease.tenant, now).held -= 1
        self.queue.lasted(slot.kind, now - lease.since)
        slot.lease = None
        slot.token += 1
        slot.rejoin_by = inf
        if slot.mark:
            _park(slot)
        elif slot.state is DeviceState.LEASED:
            _move(slot, DeviceState.RESETTING)
        return Ended(lease, fault, slot.token)


_MARKED = {"drain": DeviceState.DRAINED, "quarantine": DeviceState.QUARANTINED}


def _move(slot: Slot, state: DeviceState) -> None:
    if state not in TRANSITIONS[slot.state]:
        raise RuntimeError(f"{slot.id} cannot go from {slot.state} to {state}")
    slot.state = state
    slot.idle_since = None


def _at_rest(slot: Slot) -> DeviceState:
    """The state of a slot in which no device runs, from its lease and its mark."""
    if slot.lease is not None:
        return DeviceState.DEAD
    return _MARKED.get(slot.mark, DeviceState.DEAD if slot.warm is None else DeviceState.OFF)


def _park(slot: Slot) -> None:
    """Move a marked slot to the state of its mark, unless its host is away."""
    if slot.state is not DeviceState.LOST:
        _move(slot, _MARKED[slot.mark])
        slot.retry_at = inf


def _lost(device: str) -> Slot:
    """Create the slot of a host that has not joined again yet; only its name is known ("host.browser-0")."""
    host, _, place = device.partition(".")
    return Slot(device, place.rpartition("-")[0], DeviceState.LOST, host)


def _key_reused(key: str) -> Fault:
    message = f"the idempotency key {key!r} was used for a different lease request; use a new one"
    return Fault("task", "key_reused", message)


def _expired(lease: Lease) -> Fault:
    message = f"the lease on {lease.device} ran out after {lease.ttl:g} s without a call; take a new one"
    return Fault("farm", "expired", message, retryable=True)
