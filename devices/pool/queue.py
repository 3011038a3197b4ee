"""The queue of lease requests: admission, fair order, and estimates of the wait. Pure: no I/O, no clock."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from devices.leases import DeviceState, Request, Slot
from devices.pool.fairness import Account, OverQuota, eta_s, fair_order
from devices.pool.matching import able, in_service, match
from guiagent.errors import UsageError

_WAITING_MAX = 256  # requests of one tenant
_RANKED_FOR_S = 0.25
_NEWEST = 0.2  # weight of the last lease in the mean time that devices are held


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting request: its place among those for its kind (from 1) and its estimated wait, if known."""

    request: Request
    place: int
    eta_s: float | None


@dataclass(slots=True)
class Queue:
    slots: Mapping[str, Slot]
    accounts: dict[str, Account]  # by tenant; "" is the operator
    requests: list[Request] = field(default_factory=list)  # by arrival
    _held_s: dict[str, float] = field(
        default_factory=dict
    )  # by kind: how long leases last, newer ones count more
    _ranking: list[Waiting] = field(default_factory=list)
    _ranked_at: float = -inf
    _changed: bool = True  # since the ranking was made

    def add(self, request: Request) -> None:
        """Check a request and append it.

        Raises:
            UsageError: this farm can never meet the request.
            OverQuota: the request exceeds its tenant's quota now.
        """
        n = len(request.ids)
        if not n:
            raise UsageError("a lease needs at least one device: n must be 1 or more")
        if self.slots:  # else hosts are still to join, as after a restart of the pool: the request waits
            self._require_possible(request)
        account = self.settled(request.tenant, request.asked)
        if account.max_devices is not None and n > account.max_devices:
            raise UsageError(f"{n} devices were asked for; this tenant may hold {account.max_devices}")
        account.require(n)
        self.append(request)

    def _require_possible(self, request: Request) -> None:
        n = len(request.ids)
        kinds = {slot.kind for slot in self.slots.values()}
        if request.kind not in kinds:
            has = ", ".join(sorted(kinds))
            raise UsageError(f"this farm has no {request.kind!r} devices; it has {has}")
        fit = sum(able(slot, request) for slot in self.slots.values())
        if n > fit:
            needs = f" with {', '.join(sorted(request.features))}" if request.features else ""
            where = f" on {request.device or request.host}" if request.device or request.host else ""
            raise UsageError(f"{n} {request.kind} devices{needs}{where} were asked for; this farm has {fit}")

    def append(self, request: Request) -> None:
        """Append a request without other checks than the length of the tenant's queue (OverQuota)."""
        if sum(one.tenant == request.tenant for one in self.requests) >= _WAITING_MAX:
            raise OverQuota(f"{_WAITING_MAX} requests of this tenant wait already: send fewer at once")
        self.requests.append(request)
        self._changed = True

    def remove(self, request: Request) -> None:
        self.requests.remove(request)
        self._changed = True

    def same_key(self, request: Request) -> list[Request]:
        """The waiting requests with the tenant and the idempotency key of this one."""
        mine = request.tenant, request.key
        return [one for one in self.requests if request.key and (one.tenant, one.key) == mine]

    def waiting(self, now: float) -> list[Waiting]:
        """All waiting requests in the order of service, with places and estimates by kind.

        They are ranked again when a request has come or gone, or the ranking is `_RANKED_FOR_S` old.
        """
        if self._changed or not self._recent(now):
            self._ranking, self._ranked_at, self._changed = self._ranked(now), now, False
        return self._ranking

    def place(self, request: Request, now: float) -> Waiting:
        """The place of a waiting request by the last ranking if that is recent: many may leave at once."""
        ranking = self._ranking if self._recent(now) else self.waiting(now)
        known = [one for one in ranking if one.request is request]
        return known[0] if known else next(one for one in self.waiting(now) if one.request is request)

    def _recent(self, now: float) -> bool:
        return 0.0 <= now - self._ranked_at < _RANKED_FOR_S

    def _ranked(self, now: float) -> list[Waiting]:
        places: dict[str, int] = {}
        wanted: dict[str, int] = {}
        serving = Counter(slot.kind for slot in self.slots.values() if in_service(slot))
        free = Counter(
            slot.kind for slot in self.slots.values() if slot.state is DeviceState.READY and in_service(slot)
        )
        shown = []
        for request in self._order(now):
            kind = request.kind
            places[kind] = places.get(kind, 0) + 1
            wanted[kind] = wanted.get(kind, 0) + len(request.ids)
            eta = eta_s(self._held_s.get(kind), wanted[kind], free[kind], serving[kind])
            shown.append(Waiting(request, places[kind], eta))
        return shown

    def served(
        self, now: float, answered: Container[tuple[str, str]]
    ) -> Iterable[tuple[Request, list[Slot]]]:
        """Requests with the ready slots each gets, in fair order; see `devices.pool.matching.match`.

        Requests whose (tenant, key) is in `answered` when their turn comes are skipped: they need no slots.
        """
        if all(slot.state is not DeviceState.READY for slot in self.slots.values()):
            return ()
        order = (one for one in self._order(now) if (one.tenant, one.key) not in answered)
        return match(order, self.slots.values(), self.accounts)

    def settled(self, tenant: str, now: float) -> Account:
        """Return the tenant's account, brought up to date."""
        account = self.accounts.setdefault(tenant, Account())  # of one that config no longer names
        account.settle(now)
        return account

    def lasted(self, kind: str, seconds: float) -> None:
        """Record how long a lease on a device of this kind lasted."""
        before = self._held_s.get(kind, seconds)
        self._held_s[kind] = before + _NEWEST * (seconds - before)
        self._changed = True

    def _order(self, now: float) -> list[Request]:
        for tenant in self.accounts:
            self.settled(tenant, now)
        return fair_order(self.requests, self.accounts)
