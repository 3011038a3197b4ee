"""A pool's state in one SQLite file, for the one process that has it open."""

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from devices.leases import Event
from devices.pool.store.schema import Remembered, Statement, is_more, pruning, remembered, statements
from guiagent.errors import InfrastructureError

_MIGRATIONS = (  # from each version to the next; a new file takes them all
    """
    CREATE TABLE devices (id TEXT PRIMARY KEY, token INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE leases (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, device TEXT NOT NULL, token INTEGER NOT NULL,
        ttl REAL NOT NULL, grants TEXT NOT NULL, label TEXT NOT NULL, key TEXT NOT NULL,
        ended TEXT  -- NULL while it lives, then the fault as JSON
    );
    CREATE UNIQUE INDEX one_holder ON leases (device) WHERE ended IS NULL;
    CREATE TABLE lease_events (
        number INTEGER PRIMARY KEY, at REAL NOT NULL, event TEXT NOT NULL, device TEXT NOT NULL,
        token INTEGER NOT NULL, label TEXT NOT NULL, detail TEXT NOT NULL
    );
    CREATE TRIGGER log_is_not_changed BEFORE UPDATE ON lease_events
        BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    CREATE TRIGGER log_is_not_cut BEFORE DELETE ON lease_events
        BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    """,
    """
    ALTER TABLE leases ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
    ALTER TABLE leases ADD COLUMN egress TEXT NOT NULL DEFAULT '["public"]';
    CREATE TABLE marks (device TEXT PRIMARY KEY, mark TEXT NOT NULL, reason TEXT NOT NULL) WITHOUT ROWID;
    """,
    """
    ALTER TABLE leases ADD COLUMN digest TEXT NOT NULL DEFAULT '';
    DROP TRIGGER log_is_not_cut;
    CREATE TRIGGER log_is_not_cut BEFORE DELETE ON lease_events
        WHEN OLD.number > (SELECT MAX(number) FROM lease_events) - 100000
        BEGIN SELECT RAISE(ABORT, 'append-only'); END;
    """,
    """
    CREATE TABLE leader (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL);
    INSERT INTO leader VALUES (1, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER));
    """,
)


class Sqlite:
    """A `Database` in the file `path`, which is created for its owner only.

    Raises InfrastructureError if another pool has it open.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.0)
            self._open()
        except sqlite3.DatabaseError as error:
            raise self._explain(error) from error

    def _open(self) -> None:
        # The exclusive lock is taken by the first write below and kept until the process ends, however it
        # ends.
        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > len(_MIGRATIONS):
            raise InfrastructureError(
                f"{self._path} was written by a newer guiagent; update this one, or choose another state "
                "directory"
            )
        steps = "".join(_MIGRATIONS[version:])
        self._db.executescript(
            f"BEGIN IMMEDIATE; {steps} PRAGMA user_version = {len(_MIGRATIONS)};"
            " UPDATE leader SET epoch = epoch + 1; COMMIT;"
        )

    def load(self, ends: int = 1024) -> Remembered:
        past = remembered(lambda query: self._db.execute(query).fetchall(), ends)
        (epoch,) = self._db.execute("SELECT epoch FROM leader").fetchone()
        return replace(past, epoch=epoch)

    def write(self, events: Sequence[Event]) -> None:
        if not events:
            return
        at = time.time()
        self._transaction(one for event in events for one in statements(event, at))

    def prune(self) -> bool:
        return is_more(self._transaction(pruning(time.time())))

    def _transaction(self, work: Iterable[Statement]) -> list[int]:
        """Execute statements, all or none; return how many rows each of them changed."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                changed = [self._db.execute(statement, values).rowcount for statement, values in work]
                self._db.execute("COMMIT")
                return changed
            except BaseException:
                with contextlib.suppress(sqlite3.OperationalError):  # SQLite rolled back by itself
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.DatabaseError as error:
            raise self._explain(error) from error

    def close(self) -> None:
        self._db.close()

    def _explain(self, error: sqlite3.DatabaseError) -> InfrastructureError:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith("SQLITE_BUSY"):
            return InfrastructureError(
                f"another pool is using {self._path.parent}; stop it or choose another --state-dir"
            )
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            return InfrastructureError(f"{self._path} is damaged ({error}); move it away and start again")
        return InfrastructureError(
            f"cannot write the pool's state to {self._path}: {error}; make room or choose another --state-dir"
        )
