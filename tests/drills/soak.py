"""Drill of days of lease traffic in minutes: the lease table and its SQLite store, on a clock of their own.

The clock only says what it is told. It jumps over nights, stands still, and begins somewhere else after a
restart, as the monotonic clock of a machine that was booted does. The wall clock plays no part.
"""

import contextlib
import random
import resource
from pathlib import Path

from devices.leases import DeviceState, Event, Lease, Request, Slot
from devices.pool.lease_table import Pool
from devices.pool.store import Sqlite
from guiagent.errors import Fault, FaultError, LeaseError
from guiagent.types import Capabilities
from tests.drills.tally import Tally

_DEVICES = 16
_DAY_S = 86_400.0
_GAP_S = 20.0  # between two events, on average
_WARM_DAYS = 1.0  # after which memory is measured
_BROKE = Fault("device", "crashed", "it crashed", retryable=True)


class _Farm:
    """The lease table and its store as the service uses them."""

    def __init__(self, path: Path, tally: Tally) -> None:
        self.now = 0.0
        self.held: dict[str, Lease] = {}  # by device, as their holders know it
        self.tokens: dict[str, int] = {}
        self._path, self._tally = path, tally
        self._database = Sqlite(path)
        self.pool = self._pool()
        self._made = 0

    def _pool(self) -> Pool:
        return Pool.of(Slot(f"sim-{index}", "sim") for index in range(_DEVICES))

    def save(self, events: list[Event]) -> None:
        self._database.write(events)

    def restart(self, now: float) -> None:
        """What was stored comes back, on a clock that begins elsewhere."""
        left = {device: lease.expires - self.now for device, lease in self.held.items()}
        self._database.close()
        self._database = Sqlite(self._path)
        past = self._database.load()
        self.now, self.pool = now, self._pool()
        self.save(self.pool.restore(past.tokens, past.leases, past.ends, now, past.marks))
        for device, lease in list(self.held.items()):
            if lease.id in self.pool.leases:
                self.held[device] = self.pool.leases[lease.id]
            elif left[device] > 0:
                self._tally.fail("leases lost", f"{device} with {left[device]:.0f} s left")
                del self.held[device]

    def settle(self) -> None:
        for slot in self.pool.slots.values():
            rested = slot.state is DeviceState.QUARANTINED and slot.retry_at <= self.now
            if slot.state is DeviceState.DEAD or rested:
                self.pool.device_booting(slot.id)
                self.pool.device_ready(slot.id, Capabilities("sim", 64, 64))
            elif slot.state is DeviceState.RESETTING:
                self.pool.device_clean(slot.id)

    def expire(self) -> None:
        self.save(self.pool.expire(self.now))
        for device, lease in list(self.held.items()):
            if lease.expires <= self.now:
                if self._obliges(lease):
                    self._tally.fail("late")
                del self.held[device]
            elif lease.id not in self.pool.leases:
                self._tally.fail("leases lost", f"{device} at {self.now:.0f}")
                del self.held[device]

    def _obliges(self, lease: Lease) -> bool:
        try:
            self.pool.renew(lease.id, self.now)
        except LeaseError:
            return False
        return True

    def take(self, ttl: float) -> None:
        self._made += 1
        request = Request((f"{self._made:032x}",), "sim", ttl, asked=self.now)
        self.pool.enqueue(request)
        grants = self.pool.grant_ready(self.now)
        self.save(list(grants))
        if not grants:
            self.pool.withdraw(request, self.now)
            return
        (lease,) = grants[0].leases
        self._tally.did("leases")
        if lease.device in self.held:
            self._tally.fail("double", lease.device)
        if lease.token <= self.tokens.get(lease.device, 0):
            self._tally.fail("tokens fallen", lease.device)
        self.held[lease.device], self.tokens[lease.device] = lease, lease.token

    def end(self, lease: Lease) -> None:
        self.save(self.pool.release(lease.id, self.now))
        del self.held[lease.device]
        if self._obliges(lease):
            self._tally.fail("late")

    def broke(self, device: str) -> None:
        self.save(self.pool.device_faulted(device, _BROKE, self.now))
        self.held.pop(device, None)

    def close(self) -> None:
        self._database.close()


def soak(folder: Path, n: int) -> Tally:
    """`n` days of traffic of sixteen devices."""
    tally = Tally.looking_for("leases", "leases lost", "late", "double", "tokens fallen", "devices lost")
    dice = random.Random(0)
    warm_mb = 0.0
    path = folder / "pool.sqlite"
    with contextlib.closing(_Farm(path, tally)) as farm:
        passed = 0.0
        while passed < n * _DAY_S:
            gap = dice.expovariate(1 / _GAP_S) if dice.random() > 0.0005 else dice.uniform(0.0, 6 * 3600)
            passed += gap
            farm.now += gap
            tally.did("events")
            farm.expire()
            farm.settle()
            _something(farm, dice, tally)
            warm_mb = warm_mb or (passed > _WARM_DAYS * _DAY_S and _memory_mb())
        farm.now += _DAY_S
        farm.expire()
        farm.settle()
        ready = sum(slot.state is DeviceState.READY for slot in farm.pool.slots.values())
        tally.lost["devices lost"] += _DEVICES - ready
    tally.figures["memory grown after the first day, MB"] = _memory_mb() - warm_mb if warm_mb else 0.0
    tally.figures["store, MB"] = path.stat().st_size / 1e6
    return tally


def _something(farm: _Farm, dice: random.Random, tally: Tally) -> None:
    held = list(farm.held.values())
    match dice.random():
        case chance if chance < 0.0005:
            tally.did("restarts")
            farm.restart(dice.uniform(0.0, 10 * _DAY_S))
            farm.settle()
        case chance if chance < 0.45:
            with contextlib.suppress(FaultError):
                farm.take(dice.choice((5.0, 60.0, 600.0, 3600.0)))
        case chance if chance < 0.60 and held:
            farm.pool.renew(dice.choice(held).id, farm.now)
        case chance if chance < 0.98 and held:
            farm.end(dice.choice(held))
        case chance if chance >= 0.98:
            tally.did("broken devices")
            farm.broke(dice.choice(list(farm.pool.slots)))


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
