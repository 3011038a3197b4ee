"""A pool's state in PostgreSQL, shared by several pool instances of which one at a time leads and writes.

The leader's session holds an advisory lock, and the one row of table `leader` has its epoch, which rises with
each leadership. A commit first updates that row *where the epoch is still its own*. So an instance that lost
the lock without noticing (paused, cut off) can store nothing any more, and the next leader sees all that was
stored before it and nothing after.

A session that breaks during a commit leaves the outcome of the commit unknown. The same row holds the number
of the last commit, and the lock is free only once the broken session is over: an instance that takes the lock
again reads the outcome there, and repeats the commit only if it did not take place.
"""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from devices.leases import Event
from devices.pool.store.schema import (
    ANSWERS_FOR_S,
    Deposed,
    Remembered,
    is_more,
    pruning,
    remembered,
    statements,
)
from guiagent.errors import InfrastructureError, UsageError

_LOCK = int.from_bytes(b"guiagent")
_PATIENCE_S = 10.0  # how long a commit is retried while the server is away
_PAUSE_S = 0.1
_SESSION: dict[str, str | int] = {
    # A peer that vanished without a word is given up within about 5 s, on both sides.
    "connect_timeout": 3,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
    "application_name": "guiagent pool",
    "options": "-c search_path=guiagent -c synchronous_commit=on -c client_min_messages=warning"
    " -c tcp_keepalives_idle=2 -c tcp_keepalives_interval=1 -c tcp_keepalives_count=3",
}
_MIGRATIONS = (  # from each version to the next; a new database takes them all
    """
    CREATE TABLE leader (
        one boolean PRIMARY KEY DEFAULT true CHECK (one), version integer NOT NULL, epoch bigint NOT NULL,
        committed bigint NOT NULL, url text NOT NULL, seen timestamptz NOT NULL
    );
    INSERT INTO leader (version, epoch, committed, url, seen)
        VALUES (0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, 0, '', now());
    CREATE TABLE devices (id text PRIMARY KEY, token bigint NOT NULL);
    CREATE TABLE leases (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE, device text NOT NULL,
        token bigint NOT NULL, ttl double precision NOT NULL, grants text NOT NULL, label text NOT NULL,
        key text NOT NULL, tenant text NOT NULL, egress text NOT NULL,
        ended text  -- NULL while it lives, then the fault as JSON
    );
    CREATE UNIQUE INDEX one_holder ON leases (device) WHERE ended IS NULL;
    CREATE TABLE marks (device text PRIMARY KEY, mark text NOT NULL, reason text NOT NULL);
    CREATE TABLE lease_events (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at double precision NOT NULL,
        event text NOT NULL, device text NOT NULL, token bigint NOT NULL, label text NOT NULL,
        detail text NOT NULL
    );
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'append-only' USING ERRCODE = 'integrity_constraint_violation'; END $$;
    CREATE TRIGGER log_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON lease_events
        EXECUTE FUNCTION refuse();
    """,
    """
    ALTER TABLE leases ADD COLUMN digest text NOT NULL DEFAULT '';
    CREATE FUNCTION refuse_recent() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF OLD.number > (SELECT MAX(number) FROM lease_events) - 100000 THEN
            RAISE EXCEPTION 'append-only' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN OLD;
    END $$;
    DROP TRIGGER log_is_append_only ON lease_events;
    CREATE TRIGGER log_is_append_only BEFORE UPDATE OR TRUNCATE ON lease_events EXECUTE FUNCTION refuse();
    CREATE TRIGGER log_is_not_cut BEFORE DELETE ON lease_events FOR EACH ROW EXECUTE FUNCTION refuse_recent();
    """,
)


@dataclass(frozen=True, slots=True)
class Leader:
    """The pool instance that leads, or led last."""

    url: str
    epoch: int
    seen: str  # when it last showed up, by the server's clock: changes as long as it lives
    age_s: float


class Postgres:
    """A `Database` on one PostgreSQL session, which is used from one thread at a time.

    `dsn` is a `postgresql://` URL of a direct connection (a pooler that shares sessions would share the lock
    too); `url` is where other instances reach this one. Raises UsageError for an invalid `dsn`.
    """

    def __init__(self, dsn: str, url: str) -> None:
        self.epoch = 0  # of the current leadership
        try:
            self._dsn = make_conninfo(dsn, **_SESSION)
        except psycopg.ProgrammingError as error:
            raise UsageError(f"`database` is no PostgreSQL address: {_first_line(error)}") from error
        self.url = url
        self._session: psycopg.Connection[Any] | None = None
        self._number = 0

    # -- who leads -------------------------------------------------------------------------------------------

    def stand(self) -> bool:
        """Try to become the leader; False if another instance is. Raises InfrastructureError."""
        try:
            db = self._connected()
            if not _locked(db):
                return False
            with db.transaction():
                self._migrate(db)
                row = db.execute(
                    "UPDATE leader SET epoch = epoch + 1, committed = 0, url = %s, seen = clock_timestamp()"
                    " RETURNING epoch",
                    (self.url,),
                ).fetchone()
        except psycopg.Error as error:
            self.close()
            raise _explain(error) from error
        assert row is not None
        (self.epoch,) = row
        self._number = 0
        return True

    def leader(self) -> Leader | None:
        """The current or last leader; None if there never was one. Raises InfrastructureError."""
        try:
            row = (
                self._connected()
                .execute(
                    "SELECT url, epoch, seen::text, extract(epoch FROM clock_timestamp() - seen)::float8"
                    " FROM leader"
                )
                .fetchone()
            )
        except psycopg.errors.UndefinedTable:
            return None
        except psycopg.Error as error:
            self.close()
            raise _explain(error) from error
        return Leader(*row) if row is not None else None

    def evict(self, leader: Leader) -> None:
        """End the session of a leader whose `seen` has not changed since, which frees its lock."""
        try:
            self._connected().execute(
                "SELECT pg_terminate_backend(pid, 2000) FROM pg_locks, leader WHERE locktype = 'advisory'"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
                " AND classid = %s::int8::oid AND objid = %s::int8::oid AND objsubid = 1 AND granted"
                " AND epoch = %s AND seen::text = %s",
                (_LOCK >> 32, _LOCK & 0xFFFFFFFF, leader.epoch, leader.seen),
            )
        except psycopg.Error as error:
            self.close()
            raise _explain(error) from error

    # -- what the leader stores ------------------------------------------------------------------------------

    def load(self, ends: int = 1024) -> Remembered:
        try:
            db = self._connected()
            past = remembered(lambda query: db.execute(query.encode()).fetchall(), ends)
        except psycopg.Error as error:
            raise _explain(error) from error
        return replace(past, epoch=self.epoch, overlap_s=ANSWERS_FOR_S)

    def write(self, events: Sequence[Event]) -> None:
        """Store all events in one transaction; without events, only confirm the leadership.

        Retries while the server is away, for up to `_PATIENCE_S`.

        Raises:
            Deposed: another instance leads now.
            InfrastructureError: the server refuses the events or stays away for longer.
        """
        self._number += 1
        give_up = time.monotonic() + _PATIENCE_S
        while True:
            try:
                if self._session is None and self._resumed() == self._number:
                    return  # the commit that broke off had been made
                self._commit(events)
                return
            except psycopg.Error as error:
                if self._session is not None and not self._session.broken:
                    raise _explain(error) from error  # refused: nothing was stored
                self.close()
                if time.monotonic() >= give_up:
                    raise _explain(error) from error
                time.sleep(_PAUSE_S)

    def prune(self) -> bool:
        """As `Database` has it; nothing is deleted while the session is broken, which `write` mends."""
        db = self._session
        if db is None:
            return False
        try:
            with db.transaction():
                mine = db.execute("SELECT 1 FROM leader WHERE epoch = %s FOR SHARE", (self.epoch,)).fetchone()
                if mine is None:
                    return False
                work = [
                    (statement.replace("?", "%s").encode(), values)
                    for statement, values in pruning(time.time())
                ]
                return is_more([db.execute(statement, values).rowcount for statement, values in work])
        except psycopg.Error as error:
            raise _explain(error) from error

    def _commit(self, events: Sequence[Event]) -> None:
        at = time.time()
        db = self._connected()
        with db.transaction():
            mine = db.execute(
                "UPDATE leader SET committed = %s, seen = clock_timestamp() WHERE epoch = %s",
                (self._number, self.epoch),
            )
            if mine.rowcount != 1:
                raise Deposed
            with db.pipeline():
                for event in events:
                    for statement, values in statements(event, at):
                        db.execute(statement.replace("?", "%s").encode(), values)

    def _resumed(self) -> int:
        """Take the lock again under the same epoch; return the number of the last commit.

        Raises Deposed if another instance has led meanwhile.
        """
        db = self._connected()
        locked = _locked(db)
        row = db.execute("SELECT epoch, committed FROM leader").fetchone()
        assert row is not None
        epoch, committed = row
        if epoch != self.epoch:
            self.close()
            raise Deposed
        if not locked:
            self.close()
            raise psycopg.OperationalError("the broken session still holds the lock")
        return int(committed)

    # -- inside ----------------------------------------------------------------------------------------------

    def _connected(self) -> psycopg.Connection[Any]:
        if self._session is None:
            self._session = psycopg.connect(self._dsn, autocommit=True)
        return self._session

    def _migrate(self, db: psycopg.Connection[Any]) -> None:
        db.execute("CREATE SCHEMA IF NOT EXISTS guiagent")
        there = db.execute("SELECT to_regclass('leader') IS NOT NULL").fetchone()
        row = db.execute("SELECT version FROM leader").fetchone() if there == (True,) else (0,)
        assert row is not None
        (version,) = row
        if version > len(_MIGRATIONS):
            self.close()
            raise InfrastructureError("the database was written by a newer guiagent; update this one")
        for step in _MIGRATIONS[version:]:
            db.execute(step.encode())
        db.execute("UPDATE leader SET version = %s", (len(_MIGRATIONS),))

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(psycopg.Error):  # it is broken: the server frees the lock by itself
                session.execute("SELECT pg_advisory_unlock_all()")  # at once, for the next candidate
            session.close()


def _locked(db: psycopg.Connection[Any]) -> bool:
    return db.execute("SELECT pg_try_advisory_lock(%s::int8)", (_LOCK,)).fetchone() == (True,)


def _explain(error: psycopg.Error) -> InfrastructureError:
    return InfrastructureError(
        f"cannot keep the pool's state in PostgreSQL: {_first_line(error)}; see that the server named by "
        "`database` is up and takes this user"
    )


def _first_line(error: psycopg.Error) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
