"""What one tenant may ask of the pool: requests a second, and bytes of requests under way.

One process serves all tenants, so what one of them may take of its time and of its memory has a limit. The
operator has none.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from devices.leases import OPERATOR
from guiagent import wire
from guiagent.errors import UsageError
from guiagent.protocols import Clock

CONTROL_RATE = 100.0  # requests a second: leases, lists, frames, logs
VERB_RATE = 500.0  # requests a second under a lease, for each device that the tenant holds
BURST_S = 5.0  # a bucket holds what comes in this time
UNDER_WAY = 2 * wire.MAX_FILE  # bytes of bodies that come in, and of files that go out
SOCKETS = 256  # open WebSockets
MAX_CONTROL = 128 << 10  # bytes of a request that is no verb and no file; the longest of leases has half
_RETRY_S = 1.0


class TooManyRequests(UsageError):
    """The tenant asks for more than its share of the pool's time or memory; it may ask again."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def spend(level: float, passed_s: float, rate: float, burst: float) -> tuple[float, float]:
    """Take one request out of a token bucket that refills at `rate` a second up to `burst`.

    Returns the new level, min(burst, level + rate * passed_s) - 1, and 0; where that is negative, the level
    before the request and the seconds until there is room for it.
    """
    level = min(burst, level + rate * passed_s)
    return (level - 1.0, 0.0) if level >= 1.0 else (level, (1.0 - level) / rate)


@dataclass(slots=True)
class _Bucket:
    level: float
    at: float


class Admission:
    """The share of each tenant; `held` returns how many devices it holds (None: requests are not counted)."""

    def __init__(self, held: Callable[[str], int] | None, clock: Clock) -> None:
        self._held = held
        self._clock = clock
        self._buckets: dict[tuple[str, bool], _Bucket] = {}
        self._bytes: Counter[str] = Counter()
        self._sockets: Counter[str] = Counter()

    def request(self, tenant: str, path: str) -> None:
        """Count a request. Raises TooManyRequests if the tenant sent too many lately."""
        if tenant == OPERATOR or self._held is None:
            return
        verb = is_verb(path)
        rate = VERB_RATE * max(1, self._held(tenant)) if verb else CONTROL_RATE
        burst, now = rate * BURST_S, self._clock.monotonic()
        bucket = self._buckets.setdefault((tenant, verb), _Bucket(burst, now))
        bucket.level, wait_s = spend(bucket.level, now - bucket.at, rate, burst)
        bucket.at = now
        if wait_s:
            raise TooManyRequests(f"this tenant may send {rate:g} requests a second: send fewer", wait_s)

    def reserve(self, reservation: "Reservation", size: int) -> None:
        """Add `size` bytes to a reservation, until `free`. Raises TooManyRequests if there is no room."""
        tenant = reservation.tenant
        if tenant != OPERATOR and self._bytes[tenant] + size > UNDER_WAY:
            text = (
                f"this tenant has {UNDER_WAY >> 20} MiB of files and requests under way: send fewer at once"
            )
            raise TooManyRequests(text, _RETRY_S)
        self._bytes[tenant] += size
        reservation.size += size

    def free(self, reservation: "Reservation") -> None:
        self._bytes[reservation.tenant] -= reservation.size

    def open_socket(self, tenant: str) -> None:
        """Count a WebSocket. Raises TooManyRequests if the tenant has too many open."""
        if tenant != OPERATOR and self._sockets[tenant] >= SOCKETS:
            raise TooManyRequests(f"this tenant has {SOCKETS} WebSockets open: close some", _RETRY_S)
        self._sockets[tenant] += 1

    def close_socket(self, tenant: str) -> None:
        self._sockets[tenant] -= 1


@dataclass(slots=True)
class Reservation:
    """Bytes that the pool keeps for one request of a tenant: its body, and the file that it asked for."""

    tenant: str
    size: int = 0


def is_verb(path: str) -> bool:
    """Whether a path is that of a verb under a lease, such as /v1/leases/ID/step."""
    return path.startswith(wire.LEASES + "/") and path.count("/") == wire.LEASES.count("/") + 2


def limit_of(method: str, path: str) -> int:
    """How many bytes the body of a request may have."""
    if not is_verb(path):
        return MAX_CONTROL
    return wire.MAX_FILE if method == "PUT" and path.endswith("/files") else wire.MAX_BODY
