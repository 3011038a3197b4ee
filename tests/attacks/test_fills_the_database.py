"""Leases taken and given back for ever: what the pool keeps of them has an end, and what it needs stays."""

import sqlite3
from pathlib import Path

import psycopg
import pytest

from devices.leases import Ended, Granted, Lease, Request
from devices.pool.store import Store
from guiagent.errors import Fault
from tests.support.stores import Place

LEASES, LINES, RECENT_LINES = 10_000, 500_000, 100_000
BETWEEN = 1_000  # events, after which it is looked again
OVER = Fault("farm", "released", "it was given back")
NUMBERS = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {0}) ",
    "postgres": "WITH n AS (SELECT generate_series(1, {0}) AS i) ",
}


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place(tmp_path / "pool.sqlite")
    return Place(dsn=request.getfixturevalue("database"))


def fill(place: Place, table: str, count: int, select: str) -> None:
    """Insert `count` rows, of which `i` is the number."""
    place.open().close()
    numbers = NUMBERS["sqlite" if place.path is not None else "postgres"].format(count)
    if place.path is not None:
        with sqlite3.connect(place.path) as db:
            db.execute(f"{numbers} INSERT INTO {table} SELECT {select} FROM n")
        db.close()
    else:
        place.rows(f"{numbers} INSERT INTO {table} SELECT {select} FROM n")


def lines(place: Place, count: int, at: float) -> None:
    columns = "lease_events (at, event, device, token, label, detail)"
    fill(place, columns, count, f"{at}, 'granted', 'sim-0', i, '', ''")


async def prune(place: Place) -> list[str]:
    """Store a grant and its end until nothing is deleted any more; return the ids of the leases."""
    store = Store(place.open())
    ids = [f"{number:032x}" for number in range(130)]
    for number, id in enumerate(ids):
        lease = Lease(id, "sim-0", 10**6 + 2 * number, 9.0, frozenset(), "", "")
        await store.commit([Granted(Request((id,), "sim", 9.0), (lease,))])
        await store.commit([Ended(lease, OVER, lease.token + 1)])
    past = store.load()
    assert past.tokens == {"sim-0": 10**6 + 2 * len(ids) - 1}
    assert set(ids) <= set(past.ends)
    await store.close()
    return ids


def count(place: Place, table: str) -> int:
    ((rows,),) = place.rows(f"SELECT COUNT(*) FROM {table}")
    return int(rows)


async def test_ended_leases_go_and_those_that_live_stay(place: Place) -> None:
    columns = "leases (id, device, token, ttl, grants, label, key, tenant, egress, ended)"
    ended = 'CASE WHEN i = 7 THEN NULL ELSE \'{"origin":"farm","code":"x","message":"y"}\' END'
    values = f"'lease ' || i, 'browser-' || i, i, 9.0, '[]', '', '', '', '[]', {ended}"
    fill(place, columns, LEASES + 5000, values)
    await prune(place)
    assert LEASES <= count(place, "leases") <= LEASES + BETWEEN
    assert place.rows("SELECT id FROM leases WHERE ended IS NULL") == [("lease 7",)]


async def test_lines_of_the_log_go_when_they_are_old_and_many(place: Place) -> None:
    lines(place, RECENT_LINES + 5000, at=1.0)
    await prune(place)
    assert RECENT_LINES <= count(place, "lease_events") <= RECENT_LINES + BETWEEN
    with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError), match="append-only"):
        place.rows("DELETE FROM lease_events")


async def test_lines_of_the_last_month_stay_up_to_a_larger_number(place: Place) -> None:
    lines(place, LINES + 2000, at=4e9)
    await prune(place)
    assert LINES <= count(place, "lease_events") <= LINES + BETWEEN
