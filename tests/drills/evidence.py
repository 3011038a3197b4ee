"""Evidence of a drill and its invariants: the pool's log, the clients' acknowledgements, the devices' log.

I1: no two grants of a device overlap. I2: the tokens of a device rise. I3: what was acknowledged is stored.
I5: an action is executed under the token that is current.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Hold:
    """An acknowledged lease as its client knows it; times of the clients' monotonic clock.

    sure_until: it cannot have run out before: its ttl after the first sending of the last request that was
    answered.
    """

    lease: str
    device: str
    token: int
    ttl: float
    acked: float
    sure_until: float
    gave_up: float | None = None  # when the client first asked for its end
    refused: float | None = None  # when it was first told of another end than that of the host
    end: str = ""  # what it was told then

    @property
    def until(self) -> float:
        """Until when the client may take the device for its own."""
        return self.sure_until if self.gave_up is None else min(self.sure_until, self.gave_up)


@dataclass(frozen=True, slots=True)
class Logged:
    """A line of `lease_events`; `at` is wall-clock time."""

    at: float
    event: str
    device: str
    token: int


@dataclass(frozen=True, slots=True)
class Executed:
    """A line of the devices' own log; `at` is wall-clock time."""

    at: float
    device: str
    token: int
    name: str


@dataclass(slots=True)
class Counts:
    """What happened, and (from `lost` on) what must never happen."""

    kills: int = 0
    grants: int = 0
    acknowledged: int = 0
    executed: int = 0
    late: int = 0  # actions sent when the lease had run out
    late_refused: int = 0
    faults: int = 0  # verbs that failed though the lease held, such as on a device that was stopped
    recovery_s: list[float] = field(default_factory=list)  # from each kill to the next grant
    lost: int = 0  # acknowledged, and not in the pool's log
    dropped: int = 0  # refused to a holder whose lease cannot have run out
    double: int = 0  # a device with two holders, by the pool's log or by the clients' clocks
    fallen: int = 0  # tokens that did not rise
    stale: int = 0  # actions executed under a token that was not current
    twice: int = 0  # actions executed more than once

    @property
    def problems(self) -> dict[str, int]:
        names = [one.name for one in fields(self)]
        counts = {name: getattr(self, name) for name in names[names.index("lost") :]}
        return {name: count for name, count in counts.items() if count}


def check(
    log: Sequence[Logged],
    holds: Sequence[Hold],
    executed: Sequence[Executed],
    counts: Counts,
    *,
    joined: bool = False,
) -> None:
    """Add to `counts` what the three witnesses say.

    `joined`: the devices are on hosts that the end of a lease reaches as a message, so that an action may
    still be executed until the next holder has the device.
    """
    granted = {(line.device, line.token) for line in log if line.event == "granted"}
    counts.grants += len(granted)
    counts.acknowledged += len(holds)
    counts.executed += len(executed)
    counts.lost += sum((hold.device, hold.token) not in granted for hold in holds)
    for hold in holds:
        if hold.refused is not None and hold.refused < hold.until:
            counts.dropped += 1
            _log.error("dropped %.3f s before its time: %s", hold.until - hold.refused, hold)
    counts.double += _overlaps_logged(log) + _overlaps_seen(holds)
    counts.fallen += _fallen(log)
    counts.stale += _stale(log, executed, joined)
    counts.twice += len(executed) - len({one.name for one in executed})


def _overlaps_logged(log: Iterable[Logged]) -> int:
    """Grants of a device that is held already, and ends of one that is not (I1)."""
    holder: dict[str, int | None] = defaultdict(lambda: None)
    wrong = 0
    for line in log:
        if line.event == "granted":
            wrong += holder[line.device] is not None
            holder[line.device] = line.token
        elif line.event == "ended":
            wrong += holder[line.device] != line.token
            holder[line.device] = None
    return wrong


def _overlaps_seen(holds: Iterable[Hold]) -> int:
    """Pairs of clients who both surely had one device at the same moment (I1)."""
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for hold in holds:
        if hold.until > hold.acked:
            spans[hold.device].append((hold.acked, hold.until))
    return sum(later[0] < earlier[1] for mine in spans.values() for earlier, later in pairwise(sorted(mine)))


def _fallen(log: Iterable[Logged]) -> int:
    """Grants whose token is not above all before it on its device (I2)."""
    highest: dict[str, int] = defaultdict(int)
    wrong = 0
    for line in log:
        if line.event == "granted":
            wrong += line.token <= highest[line.device]
            highest[line.device] = max(highest[line.device], line.token)
    return wrong


def _stale(log: Sequence[Logged], executed: Sequence[Executed], joined: bool) -> int:
    """Actions of a holder who never was, of one whose lease had ended, or after those of a later one (I5)."""
    granted = {(line.device, line.token) for line in log if line.event == "granted"}
    ended = _succeeded(log) if joined else _ended(log)
    highest: dict[str, int] = defaultdict(int)
    wrong = 0
    for one in executed:
        holder = one.device, one.token
        late = one.at > ended.get(holder, float("inf"))
        wrong += holder not in granted or late or one.token < highest[one.device]
        highest[one.device] = max(highest[one.device], one.token)
    return wrong


def _ended(log: Iterable[Logged]) -> dict[tuple[str, int], float]:
    """When each lease ended."""
    return {(line.device, line.token): line.at for line in log if line.event == "ended"}


def _succeeded(log: Iterable[Logged]) -> dict[tuple[str, int], float]:
    """When each holder's device was granted to the next."""
    last: dict[str, int] = {}
    found: dict[tuple[str, int], float] = {}
    for line in log:
        if line.event == "granted":
            if line.device in last:
                found[line.device, last[line.device]] = line.at
            last[line.device] = line.token
    return found
