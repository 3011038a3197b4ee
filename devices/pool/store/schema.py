"""SQL that stores a pool's events and reads them back, for both SQLite and PostgreSQL.

Statements for grants and ends are idempotent: running them again with the same event changes nothing, so the
log has one line for a grant and one for its end.

What is over is kept for a while: the last 10,000 ended leases, and of the log the last 500,000 lines, where
those before the last 100,000 go when they are 30 days old.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from devices.leases import Ended, Event, Granted, Lease, Marked
from guiagent.errors import Fault, InfrastructureError

Statement = tuple[str, tuple[Any, ...]]  # with ? for each value

_LOG = "INSERT INTO lease_events (at, event, device, token, label, detail) "
_LOG_GRANT = _LOG + "SELECT ?, 'granted', ?, ?, ?, '' WHERE NOT EXISTS (SELECT 1 FROM leases WHERE id = ?)"
_LOG_END = (
    _LOG + "SELECT ?, 'ended', ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM leases WHERE id = ? AND ended IS NULL)"
)
_LOG_MARK = _LOG + "VALUES (?, ?, ?, 0, '', ?)"
_GRANT = (
    "INSERT INTO leases (id, device, token, ttl, grants, label, key, tenant, egress, digest)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)
_END = "UPDATE leases SET ended = ? WHERE id = ? AND ended IS NULL"
_RAISE_TOKEN = (
    "INSERT INTO devices (id, token) VALUES (?, ?) ON CONFLICT (id) DO UPDATE"
    " SET token = excluded.token WHERE devices.token < excluded.token"
)
_MARK = (
    "INSERT INTO marks (device, mark, reason) VALUES (?, ?, ?) ON CONFLICT (device) DO UPDATE"
    " SET mark = excluded.mark, reason = excluded.reason"
)
_UNMARK = "DELETE FROM marks WHERE device = ?"

_LEASES = 10_000
_LINES, _RECENT_LINES, _LINE_S = 500_000, 100_000, 30 * 86_400.0
_BATCH = 1_000  # rows
_DROP_LEASES = (
    "DELETE FROM leases WHERE number IN"
    f" (SELECT number FROM leases WHERE ended IS NOT NULL ORDER BY number LIMIT {_BATCH})"
    f" AND number <= (SELECT MAX(number) FROM leases) - {_LEASES}"
)
_DROP_LINES = (
    "DELETE FROM lease_events WHERE number IN"
    f" (SELECT number FROM lease_events ORDER BY number LIMIT {_BATCH})"
    f" AND number <= (SELECT MAX(number) FROM lease_events) - (CASE WHEN at < ? THEN {_RECENT_LINES}"
    f" ELSE {_LINES} END)"
)


ANSWERS_FOR_S = 3.0
"""How long after it last confirmed its leadership a leader goes on answering."""


class Deposed(InfrastructureError):
    """Another pool instance leads: the events of this one were not stored and never will be."""

    def __init__(self) -> None:
        super().__init__("another pool instance leads this farm now; ask again")


class Database(Protocol):
    """A database with one writer. Every method blocks and raises InfrastructureError if it fails."""

    def load(self, ends: int = 1024) -> "Remembered":
        """Read tokens, marks, live leases, and the faults that ended the last `ends` leases."""
        ...

    def write(self, events: Sequence[Event]) -> None:
        """Store all events; they are on disk once this returns."""
        ...

    def prune(self) -> bool:
        """Delete some rows of what is not kept any longer; return whether there may be more."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Remembered:
    """The state that a former process stored."""

    tokens: dict[str, int] = field(default_factory=dict)
    leases: list[Lease] = field(default_factory=list)
    ends: dict[str, Fault] = field(default_factory=dict)  # the most recent ones
    marks: list[Marked] = field(default_factory=list)
    # Of the process that reads it: higher than that of every process before. A new database begins with the
    # milliseconds since 1970, so that hosts which outlive a former one listen to its processes.
    epoch: int = 0
    overlap_s: float = 0.0  # for how long that process may still renew leases, which is not stored


def statements(event: Event, at: float) -> Iterator[Statement]:
    """SQL statements that store `event`; `at` (wall clock, seconds) is for people who read the log."""
    match event:
        case Granted(leases=leases):
            for one in leases:
                label = _text(one.label)
                yield _LOG_GRANT, (at, one.device, one.token, label, one.id)
                yield _RAISE_TOKEN, (one.device, one.token)
                grants, egress = json.dumps(sorted(one.grants)), json.dumps(list(one.egress))
                names = (label, _text(one.key), _text(one.tenant))
                yield _GRANT, (one.id, one.device, one.token, one.ttl, grants, *names, egress, one.digest)
        case Ended(lease=one, fault=fault, token=token):
            why = f"{fault.origin}:{fault.code}"
            yield _LOG_END, (at, one.device, one.token, _text(one.label), why, one.id)
            yield _RAISE_TOKEN, (one.device, token)
            yield _END, (msgspec.json.encode(fault).decode(), one.id)
        case Marked(device=device, mark=mark, reason=reason):
            yield _LOG_MARK, (at, mark or "restore", device, _text(reason))
            yield (_MARK, (device, mark, _text(reason))) if mark else (_UNMARK, (device,))


def pruning(at: float) -> tuple[Statement, ...]:
    """SQL statements that delete a batch each of what is not kept any longer; `at` is now, as in the log."""
    return (_DROP_LEASES, ()), (_DROP_LINES, (at - _LINE_S,))


def is_more(deleted: Sequence[int]) -> bool:
    """Whether there may be more to delete, by the number of rows that each statement of `pruning` deleted."""
    return max(deleted) >= _BATCH


def remembered(rows: Callable[[str], Sequence[tuple[Any, ...]]], ends: int) -> Remembered:
    """Read the stored state; `rows` runs a query and returns its rows."""
    live = rows(
        "SELECT id, device, token, ttl, label, key, tenant, digest, grants, egress FROM leases"
        " WHERE ended IS NULL ORDER BY number"
    )
    over = rows(f"SELECT id, ended FROM leases WHERE ended IS NOT NULL ORDER BY number DESC LIMIT {ends:d}")
    return Remembered(
        tokens=dict(rows("SELECT id, token FROM devices")),
        leases=[
            Lease(
                id=id,
                device=device,
                token=token,
                ttl=ttl,
                grants=frozenset(json.loads(grants)),
                label=label,
                key=key,
                tenant=tenant,
                egress=tuple(json.loads(egress)),
                digest=digest,
            )
            for id, device, token, ttl, label, key, tenant, digest, grants, egress in live
        ],
        ends={id: msgspec.json.decode(ended, type=Fault) for id, ended in reversed(over)},
        marks=[Marked(*mark) for mark in rows("SELECT device, mark, reason FROM marks ORDER BY device")],
    )


def _text(value: str) -> str:
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}")  # which PostgreSQL cannot hold
