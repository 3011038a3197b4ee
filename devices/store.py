"""What a pool must not forget, in SQLite: tokens, live leases, and an append-only log of grants and ends.

One thread writes. Callers that come while a commit is under way share the next one (group commit), so the
price of an fsync is split among them and nobody starves at a lock. Renewals are not written: after a restart
every lease counts as renewed just then, which can only lengthen it.
"""

import asyncio
import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from devices.pool import Ended, Event, Granted, Lease
from guiagent.errors import Fault, InfrastructureError

_VERSION = 1
_SCHEMA = """
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
CREATE TRIGGER log_is_not_changed BEFORE UPDATE ON lease_events BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER log_is_not_cut BEFORE DELETE ON lease_events BEGIN SELECT RAISE(ABORT, 'append-only'); END;
"""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a former process left behind."""

    tokens: dict[str, int]
    leases: list[Lease]
    ends: dict[str, Fault]  # the most recent ones


class Store:
    """Opens `path`, or creates it for its owner only. InfrastructureError where another pool has it open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: list[tuple[Sequence[Event], asyncio.Future[None]]] = []
        self._flushing: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pool-store")
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
        if version not in (0, _VERSION):
            raise InfrastructureError(
                f"{self._path} was written by another version of guiagent; choose another state directory"
            )
        schema = "" if version else _SCHEMA
        self._db.executescript(f"BEGIN IMMEDIATE; {schema} PRAGMA user_version = {_VERSION}; COMMIT;")

    def load(self, ends: int = 1024) -> Remembered:
        """Tokens, live leases, and how the last `ends` leases ended."""
        tokens = dict(self._db.execute("SELECT id, token FROM devices").fetchall())
        live = self._db.execute(
            "SELECT id, device, token, ttl, grants, label, key FROM leases"
            " WHERE ended IS NULL ORDER BY number"
        )
        leases = [
            Lease(id, device, token, ttl, frozenset(json.loads(grants)), label, key)
            for id, device, token, ttl, grants, label, key in live
        ]
        over = self._db.execute(
            "SELECT id, ended FROM leases WHERE ended IS NOT NULL ORDER BY number DESC LIMIT ?", (ends,)
        ).fetchall()
        faults = {id: msgspec.json.decode(ended, type=Fault) for id, ended in reversed(over)}
        return Remembered(tokens, leases, faults)

    def commit(self, events: Iterable[Event] = ()) -> asyncio.Future[None]:
        """A future that is done once `events`, and all handed in before them, are on disk; it ends in
        InfrastructureError where they could not be written."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((tuple(events), done))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        return done

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            events = [event for group, _ in batch for event in group]
            failure: Exception | None = None
            try:
                await loop.run_in_executor(self._thread, self.write, events)
            except Exception as error:  # whoever waits for this commit gets to see it
                failure = error
            for _, done in batch:
                if done.done():  # its caller was cancelled meanwhile
                    continue
                if failure is None:
                    done.set_result(None)
                else:
                    done.set_exception(failure)
        self._flushing = None

    def write(self, events: Sequence[Event]) -> None:
        """One transaction for all of them; blocking."""
        if not events:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for event in events:
                    self._record(event)
                self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.OperationalError):  # SQLite rolled back by itself
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.DatabaseError as error:
            raise self._explain(error) from error

    def _record(self, event: Event) -> None:
        at = time.time()
        match event:
            case Granted(leases=leases):
                for one in leases:
                    fresh = self._db.execute(  # a repeated request is granted the same leases again
                        "INSERT INTO leases (id, device, token, ttl, grants, label, key)"
                        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
                        (
                            one.id,
                            one.device,
                            one.token,
                            one.ttl,
                            json.dumps(sorted(one.grants)),
                            one.label,
                            one.key,
                        ),
                    )
                    if fresh.rowcount:
                        self._set_token(one.device, one.token)
                        self._log(at, "granted", one, "")
            case Ended(lease=lease, fault=fault, token=token):
                ended = msgspec.json.encode(fault).decode()
                self._db.execute("UPDATE leases SET ended = ? WHERE id = ?", (ended, lease.id))
                self._set_token(lease.device, token)
                self._log(at, "ended", lease, f"{fault.origin}:{fault.code}")

    def _set_token(self, device: str, token: int) -> None:
        self._db.execute(
            "INSERT INTO devices (id, token) VALUES (?, ?) ON CONFLICT (id) DO UPDATE"
            " SET token = max(token, excluded.token)",
            (device, token),
        )

    def _log(self, at: float, event: str, lease: Lease, detail: str) -> None:
        self._db.execute(
            "INSERT INTO lease_events (at, event, device, token, label, detail) VALUES (?, ?, ?, ?, ?, ?)",
            (at, event, lease.device, lease.token, lease.label, detail),
        )

    async def close(self) -> None:
        try:
            await self.commit()
        finally:
            self._thread.shutdown()
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
