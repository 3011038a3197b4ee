"""The pool's memory, in SQLite and in PostgreSQL alike: what was acknowledged stays, and one pool writes."""

import asyncio
import contextlib
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from devices.config import PoolConfig
from devices.leases import Ended, Granted, Lease, Marked, Request
from devices.pool.store import Deposed, Sqlite, Store, open_store
from devices.pool.store.postgres import Postgres
from guiagent.errors import Fault, InfrastructureError, UsageError
from tests.support.postgres import Server
from tests.support.stores import Place

CRASHED = Fault("device", "crashed", "it crashed", retryable=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "pool.sqlite"


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, path: Path) -> Place:
    if request.param == "sqlite":
        return Place(path)
    return Place(dsn=request.getfixturevalue("database"))


def granted(number: int, device: str = "browser-0", **fields: object) -> Granted:
    lease = Lease(
        f"{number:032x}", device, number, 10.0, frozenset({"exec"}), "label", f"key {number}", **fields
    )  # type: ignore[arg-type]
    return Granted(Request((lease.id,), "browser", 10.0), (lease,))


def ended(grant: Granted) -> Ended:
    return Ended(grant.leases[0], CRASHED, grant.leases[0].token + 1)


LOG = "SELECT event, device, token, detail FROM lease_events ORDER BY number"


# -- both ----------------------------------------------------------------------------------------------------


async def test_callers_that_come_together_share_a_commit_and_all_are_stored(place: Place) -> None:
    store = Store(place.open())
    await asyncio.gather(*(store.commit([granted(number, f"browser-{number}")]) for number in range(1, 50)))
    await store.close()
    again = Store(place.open())
    assert [lease.token for lease in again.load().leases] == list(range(1, 50))
    assert again.load().leases[0].grants == {"exec"}
    await again.close()


async def test_a_second_holder_of_a_device_cannot_even_be_written(place: Place) -> None:
    store = Store(place.open())
    await store.commit([granted(1)])
    with pytest.raises(InfrastructureError):
        await store.commit([granted(2)])
    await store.commit([granted(3, "browser-1")])  # the failed batch took nothing else with it
    assert [lease.token for lease in store.load().leases] == [1, 3]
    await store.close()


async def test_an_end_that_could_not_be_written_goes_with_the_next_commit(place: Place) -> None:
    store = Store(place.open())
    first = granted(1)
    await store.commit([first, granted(2, "browser-1")])
    with pytest.raises(InfrastructureError):
        await store.commit([ended(first), granted(3, "browser-1")])
    assert len(store.load().leases) == 2
    await store.commit([granted(4)])  # the device is free, whatever became of that commit
    assert {lease.token: lease.device for lease in store.load().leases} == {2: "browser-1", 4: "browser-0"}
    await store.close()


async def test_ends_are_remembered_and_a_repeated_event_changes_nothing(place: Place) -> None:
    store = Store(place.open())
    grant = granted(1)
    for _ in range(2):
        await store.commit([grant])
    for _ in range(2):
        await store.commit([ended(grant)])
    await store.commit([grant])  # late: the lease is over
    past = store.load()
    assert (past.leases, past.tokens, past.ends) == ([], {"browser-0": 2}, {grant.leases[0].id: CRASHED})
    await store.close()
    assert place.rows(LOG) == [("granted", "browser-0", 1, ""), ("ended", "browser-0", 1, "device:crashed")]


@pytest.mark.parametrize("statement", ["DELETE FROM lease_events", "UPDATE lease_events SET token = 9"])
def test_the_log_is_append_only(place: Place, statement: str) -> None:
    database = place.open()
    database.write([granted(1)])
    database.close()
    with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError), match="append-only"):
        place.rows(statement)


async def test_an_operators_marks_stay_until_they_are_lifted(place: Place) -> None:
    store = Store(place.open())
    drained, sick = Marked("browser-0", "drain", "new image"), Marked("browser-1", "quarantine", "flickers")
    await store.commit([Marked("browser-0", "quarantine", "?"), drained, sick])
    assert store.load().marks == [drained, sick]
    await store.commit([Marked("browser-1", "", "")])
    await store.close()
    again = place.open()
    assert again.load().marks == [drained]
    again.close()
    events = [event for event, *_ in place.rows(LOG)]
    assert events == ["quarantine", "drain", "quarantine", "restore"]


def test_a_lease_comes_back_with_all_that_it_was_granted_with(place: Place) -> None:
    database = place.open()
    odd = "tab\t 'quote' \\ é 🜂 "
    database.write([granted(1, tenant="ann", egress=("a.example", "*.b.example:443"))])
    database.write([granted(2, f"{odd}-1", tenant=f"{odd}\0", egress=())])
    first, second = database.load().leases
    assert (first.tenant, first.egress, first.key) == ("ann", ("a.example", "*.b.example:443"), "key 1")
    assert (second.device, second.egress) == (f"{odd}-1", ())
    assert second.tenant.rstrip("\0\N{REPLACEMENT CHARACTER}") == odd
    database.close()


# -- SQLite --------------------------------------------------------------------------------------------------


async def test_two_pools_cannot_share_a_state_directory(path: Path) -> None:
    config = PoolConfig(state_dir=path.parent)
    store = open_store(config)
    with pytest.raises(InfrastructureError, match=r"another pool is using .*--state-dir"):
        open_store(config)
    await store.close()
    await open_store(config).close()


def test_the_state_is_private_and_a_damaged_one_is_named(path: Path) -> None:
    Sqlite(path).close()
    assert path.stat().st_mode & 0o077 == 0
    path.write_bytes(b"not a database at all, whatever its name says" * 20)
    with pytest.raises(InfrastructureError, match=r"pool\.sqlite is damaged .*move it away"):
        Sqlite(path)


async def test_a_full_disk_is_one_line_and_what_was_stored_stays(path: Path) -> None:
    database = Sqlite(path)
    store = Store(database)
    await store.commit([granted(1)])
    (pages,) = database._db.execute("PRAGMA page_count").fetchone()
    database._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(InfrastructureError, match=r"cannot write the pool's state .*full"):
        await store.commit([granted(number, f"browser-{number}") for number in range(2, 500)])
    assert [lease.token for lease in store.load().leases] == [1]
    await store.close()


VERSION_1 = """
CREATE TABLE devices (id TEXT PRIMARY KEY, token INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE leases (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, device TEXT NOT NULL, token INTEGER NOT NULL,
    ttl REAL NOT NULL, grants TEXT NOT NULL, label TEXT NOT NULL, key TEXT NOT NULL, ended TEXT
);
CREATE UNIQUE INDEX one_holder ON leases (device) WHERE ended IS NULL;
CREATE TABLE lease_events (
    number INTEGER PRIMARY KEY, at REAL NOT NULL, event TEXT NOT NULL, device TEXT NOT NULL,
    token INTEGER NOT NULL, label TEXT NOT NULL, detail TEXT NOT NULL
);
CREATE TRIGGER log_is_not_changed BEFORE UPDATE ON lease_events BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER log_is_not_cut BEFORE DELETE ON lease_events BEGIN SELECT RAISE(ABORT, 'append-only'); END;
INSERT INTO devices VALUES ('browser-0', 7), ('browser-1', 4);
INSERT INTO leases VALUES (1, 'old', 'browser-1', 3, 9.0, '[]', 'l', 'k', '{"origin":"farm","code":"x","message":"y"}');
INSERT INTO leases VALUES (2, 'live', 'browser-0', 7, 5.0, '["exec"]', 'l', 'k', NULL);
PRAGMA user_version = 1;
"""  # noqa: E501 - as the first release wrote it


def test_leases_survive_the_upgrade_of_a_version_1_file(path: Path) -> None:
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(VERSION_1)
    database = Sqlite(path)
    past = database.load()
    assert past.leases == [Lease("live", "browser-0", 7, 5.0, frozenset({"exec"}), "l", "k")]
    assert (past.tokens, list(past.ends), past.marks) == ({"browser-0": 7, "browser-1": 4}, ["old"], [])
    database.write([Ended(past.leases[0], CRASHED, 8), granted(9), Marked("browser-1", "drain", "")])
    database.close()
    again = Sqlite(path).load()
    assert [lease.token for lease in again.leases] == [9]
    assert again.epoch == past.epoch + 1


def test_a_file_of_a_newer_version_is_left_alone(path: Path) -> None:
    Sqlite(path).close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(InfrastructureError, match="newer guiagent"):
        Sqlite(path)
    assert path.read_bytes() == before


# -- PostgreSQL ----------------------------------------------------------------------------------------------


@pytest.fixture
def pair(database: str) -> Iterator[tuple[Postgres, Postgres]]:
    """Two instances on one database; the first leads."""
    first, second = Postgres(database, "http://first"), Postgres(database, "http://second")
    assert first.stand()
    assert not second.stand()
    yield first, second
    first.close()
    second.close()


async def test_a_database_has_one_leader_at_a_time(database: str, tmp_path: Path) -> None:
    config = PoolConfig(state_dir=tmp_path, database=database)
    store = open_store(config)
    with pytest.raises(InfrastructureError, match="another pool instance leads"):
        open_store(config)
    await store.close()
    await open_store(config).close()


def test_a_leader_that_lost_its_lock_stores_nothing_any_more(pair: tuple[Postgres, Postgres]) -> None:
    first, second = pair
    first.write([granted(1)])
    shown = second.leader()
    assert shown is not None
    assert (shown.url, shown.epoch) == ("http://first", first.epoch)
    second.evict(shown)
    assert second.stand()
    assert [lease.token for lease in second.load().leases] == [1]  # all that was stored before
    for _ in range(2):
        with pytest.raises(Deposed, match="another pool instance leads"):
            first.write([granted(2, "browser-1")])
    second.write([granted(3, "browser-2")])
    assert [lease.token for lease in second.load().leases] == [1, 3]


def test_a_leader_that_shows_signs_of_life_is_not_evicted(pair: tuple[Postgres, Postgres]) -> None:
    first, second = pair
    before = second.leader()
    assert before is not None
    first.write([])
    second.evict(before)
    assert not second.stand()
    first.write([granted(1)])


def test_the_server_crashes_under_the_leader_and_every_commit_is_there_once(
    pair: tuple[Postgres, Postgres], postgres_server: Server, database: str
) -> None:
    first, _ = pair
    epoch = first.epoch
    written = threading.Event()

    def write_on() -> None:
        for number in range(1, 400):
            first.write([granted(number, f"browser-{number}")])
            written.set()

    writer = threading.Thread(target=write_on)
    writer.start()
    for _ in range(2):
        written.clear()
        written.wait(10)
        with postgres_server.crashed():
            pass
    writer.join()
    assert first.epoch == epoch  # nobody else led meanwhile
    tokens = [token for _, _, token, _ in Place(dsn=database).rows(LOG)]
    assert tokens == list(range(1, 400))


class Cut:
    """A way to PostgreSQL that breaks once, when a COMMIT passes: before the server sees it, or after."""

    def __init__(self, dsn: str, folder: Path, *, before: bool) -> None:
        host = parse_qs(urlsplit(dsn).query)["host"][0]
        self._server = f"{host}/.s.PGSQL.5432"
        self._before = before
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self.cuts = 0
        self.armed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            for source, sink, watch in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pump, args=(source, sink, watch), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, watch: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if watch and self.armed and b"COMMIT" in data:
                    self.armed = False
                    self.cuts += 1
                    if not self._before:
                        sink.sendall(data)
                        time.sleep(0.1)  # the server makes the commit; its answer goes nowhere
                    break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("before", [True, False])
def test_a_commit_without_an_answer_is_looked_up_and_never_made_twice(
    database: str, before: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    way = Cut(database, folder, before=before)
    leader = Postgres(f"postgresql://farm@/{urlsplit(database).path[1:]}?host={folder}", "http://here")
    assert leader.stand()
    leader.write([granted(1)])
    way.armed = True
    # A mark is logged each time it is written, so a second commit of it would show.
    leader.write([Marked("browser-0", "drain", ""), ended(granted(1))])
    leader.write([granted(2)])
    assert way.cuts == 1
    assert [event for event, *_ in Place(dsn=database).rows(LOG)] == ["granted", "drain", "ended", "granted"]
    leader.close()


def test_what_is_wrong_with_the_database_is_one_line(database: str, pair: tuple[Postgres, Postgres]) -> None:
    with pytest.raises(UsageError, match=r"`database` is no PostgreSQL address"):
        Postgres("db.example", "")
    with pytest.raises(InfrastructureError, match=r"cannot keep the pool's state .* is up") as nobody:
        Postgres("postgresql://farm:hidden@127.0.0.1:1/farm", "").stand()
    assert "hidden" not in str(nobody.value)
    assert "\n" not in str(nobody.value)
    pair[0].close()
    Place(dsn=database).rows("UPDATE leader SET version = 99")
    with pytest.raises(InfrastructureError, match="newer guiagent"):
        pair[1].stand()


def test_the_token_of_the_database_is_not_shown(tmp_path: Path) -> None:
    config = PoolConfig(state_dir=tmp_path, database="postgresql://farm:hidden@db/farm")
    assert "hidden" not in config.model_dump_json() + repr(config)
