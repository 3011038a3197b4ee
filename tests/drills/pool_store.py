"""Crash points of the pool's own store: cut short at every operation on its files, also while it migrates.

strace kills a process that grants and ends leases just before the operation, or makes the operation fail as a
full or a broken disk does. Then the store is opened again: it must hold what was acknowledged, and go on.
With PostgreSQL the operations are the messages to the server and the reading of its answers.

python -m tests.drills.pool_store PATH_OR_DSN   the process that is cut short
"""

import contextlib
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from devices.leases import Ended, Granted, Lease, Marked, Request
from devices.pool.store import Database
from devices.pool.store.sqlite import _MIGRATIONS
from guiagent.errors import Fault, GuiAgentError, InfrastructureError
from tests.drills import mutants
from tests.drills.tally import Tally
from tests.support.stores import Place

_ROUNDS = 4
_CHANGES = ("openat", "write", "pwrite64", "fsync", "fdatasync", "ftruncate", "unlink", "rename", "mkdir")
_READS = ("pread64", "read")
_MESSAGES = ("sendto", "recvfrom")
_LINE = re.compile(r"(?:\d+ +)?(\w+)\((.*)")
_PATH = re.compile(r'[<"](/[^>"]*)[>"]')
_OVER = Fault("farm", "released", "this lease was released; take a new one")
_FAILURES = {
    "ENOSPC": ("write", "pwrite64", "fsync", "fdatasync", "openat"),
    "EIO": (*_CHANGES, "pread64", "read"),
}


class Point(NamedTuple):
    """The `number`-th `call` of a thread on `path`, which is below the drill's folder; "": on anything."""

    call: str
    path: str
    number: int


class _Cut(NamedTuple):
    """A point of a scenario, and what happens there."""

    scenario: str
    point: Point
    effect: str  # as strace calls it
    name: str


class Said(NamedTuple):
    """What a process acknowledged before it ended: leases granted, and leases ended."""

    code: int
    granted: set[str]
    ended: set[str]
    errors: str


def kills(folder: Path, n: int) -> Tally:
    """Cut `n` sessions short, spread over all points, or one at every point. Skips without strace."""
    if shutil.which("strace") is None:
        pytest.skip("there is no strace: apt-get install strace")
    tally = _tally()
    scenarios = {"new": _new, "in use": _in_use}
    scenarios |= {f"from version {old}": _of_version(old) for old in range(1, len(_MIGRATIONS))}
    cuts: list[_Cut] = []
    for name, make in scenarios.items():
        make(place := _place(folder, name))
        for point in _points(place, (*_CHANGES, *_READS)):
            if point.call in _CHANGES:
                cuts.append(_Cut(name, point, "signal=KILL", "killed"))
            cuts += [
                _Cut(name, point, f"error={one}", one)
                for one, calls in _FAILURES.items()
                if point.call in calls
            ]
    for cut in cuts[:: max(1, -(-len(cuts) // n))]:
        place = _place(folder, cut.scenario)
        scenarios[cut.scenario](place)
        _attempt(place, cut, tally, ("-P", str(folder / cut.point.path)))
    return tally


def postgres(folder: Path, n: int, database: str) -> Tally:
    """The same with PostgreSQL, at each message to the server and each answer read."""
    if shutil.which("strace") is None:
        pytest.skip("there is no strace: apt-get install strace")
    tally = _tally()
    place = Place(dsn=database)
    cuts = []
    for name, make in (("new", place.clear), ("in use", lambda: _in_use(place))):
        make()
        cuts += [_Cut(name, point, "signal=KILL", "killed") for point in _points(place, _MESSAGES)]
    for cut in cuts[:: max(1, -(-len(cuts) // n))]:
        place.clear()
        if cut.scenario == "in use":
            _in_use(place)
        _attempt(place, cut, tally, ())
    return tally


def _tally() -> Tally:
    problems = ("grants lost", "ends lost", "tokens lost", "not opened again", "damaged", "unclear ends")
    return Tally.looking_for("crash points", *problems)


def _attempt(place: Place, cut: _Cut, tally: Tally, only: Sequence[str]) -> None:
    inject = f"inject={cut.point.call}:{cut.effect}:when={cut.point.number}"
    said = _session(place, "-o", os.devnull, "-e", f"trace={cut.point.call}", "-e", inject, *only)
    what = f"{cut.scenario}, {cut.point} {cut.name}"
    tally.did("crash points")
    tally.did(cut.name if said.code in (0, 3, -signal.SIGKILL) else "ended otherwise")
    lines = said.errors.splitlines()
    if said.code not in (0, 3, -signal.SIGKILL) or len(lines) > (said.code == 3):
        tally.fail("unclear ends", f"{what}: {said.code} {said.errors[-300:]}")
    try:
        _check(place, said, what, tally)
    except (GuiAgentError, sqlite3.Error) as error:
        tally.fail("not opened again", f"{what}: {error}")


def _check(place: Place, said: Said, what: str, tally: Tally) -> None:
    """What was acknowledged is there, and the store goes on."""
    with contextlib.closing(_opened(place)) as database:
        past = database.load()
        highest = max((_token(id) for id in said.granted), default=0)
        if past.tokens.get("sim-0", 0) < highest:
            tally.fail("tokens lost", f"{what}: {past.tokens}, not {highest}")
        database.write([_grant(highest + 100)])
        database.write([_end(highest + 100)])
    log = {(event, int(token)) for event, token in place.rows("SELECT event, token FROM lease_events")}
    for id in said.granted:
        if ("granted", _token(id)) not in log:
            tally.fail("grants lost", f"{what}: {id}")
    for id in said.ended:
        if ("ended", _token(id)) not in log or id in {lease.id for lease in past.leases}:
            tally.fail("ends lost", f"{what}: {id}")
    if place.path is not None and place.rows("PRAGMA integrity_check") != [("ok",)]:
        tally.fail("damaged", what)


def _opened(place: Place) -> Database:
    """A killed process's session with the server may still hold the lock for a moment."""
    give_up = time.monotonic() + 20
    while True:
        try:
            return place.open()
        except AssertionError:
            if time.monotonic() > give_up:
                raise InfrastructureError("the lock is held by nobody") from None
            time.sleep(0.05)


# -- the process that is cut short ---------------------------------------------------------------------------


def _session(place: Place, *strace: str) -> Said:
    command = ["strace", "-f", "--seccomp-bpf", *strace, sys.executable, "-m", "tests.drills.pool_store"]
    done = subprocess.run(
        [*command, str(place.path or place.dsn)], capture_output=True, text=True, timeout=120
    )
    words = [line.split() for line in done.stdout.splitlines()]
    granted = {id for what, id in words if what == "granted"}
    ended = {id for what, id in words if what == "ended"}
    errors = "\n".join(line for line in done.stderr.splitlines() if not line.startswith("strace: "))
    return Said(done.returncode, granted, ended, errors)


def _work(place: Place) -> None:
    """Grant and end leases, and say of each what is on disk; what cannot be written is tried no more."""
    with contextlib.closing(_opened(place)) as database:
        begin = max(database.load().tokens.values(), default=0)
        for token in range(begin + 1, begin + 1 + 2 * _ROUNDS, 2):
            with contextlib.suppress(InfrastructureError):
                database.write([_grant(token), Marked("sim-0", "drain", f"round {token}")])
                os.write(1, f"granted {_id(token)}\n".encode())
                database.write([_end(token)])
                os.write(1, f"ended {_id(token)}\n".encode())
                continue
            _end_what_is_left(database, token)


def _end_what_is_left(database: Database, token: int) -> None:
    """As a pool does that could not store an end: with the next commit, again and again."""
    with contextlib.suppress(InfrastructureError):
        database.write([_end(token)])


def _id(token: int) -> str:
    return f"{token:032x}"


def _token(id: str) -> int:
    return int(id, 16)


def _lease(token: int) -> Lease:
    return Lease(_id(token), "sim-0", token, 60.0, frozenset(), "", "")


def _grant(token: int) -> Granted:
    return Granted(Request((_id(token),), "sim", 60.0), (_lease(token),))


def _end(token: int) -> Ended:
    return Ended(_lease(token), _OVER, token + 1)


# -- where it is cut short -----------------------------------------------------------------------------------


def _points(place: Place, calls: Sequence[str]) -> list[Point]:
    """The operations of a session on the store, in order, by call, path and number."""
    root = place.path.parent.parent if place.path is not None else None
    log = Path(f"{place.path.parent if place.path else '/tmp/pg'}.{os.getpid()}.trace")
    try:
        said = _session(place, "-y", "-o", str(log), "-e", f"trace={','.join(calls)}")
        if said.code != 0:
            pytest.skip(f"strace may not trace here: {said.errors[-200:]}")
        seen: Counter[tuple[str, str]] = Counter()
        found: list[Point] = []
        for line in log.read_text(errors="replace").splitlines():
            if (match := _LINE.match(line)) is None:
                continue
            call, rest = match.groups()
            for path in dict.fromkeys(_PATH.findall(rest.partition(") = ")[0])) if root else [""]:
                if root is None or (place.path is not None and path.startswith(str(place.path.parent))):
                    seen[call, path] += 1
                    shown = str(Path(path).relative_to(root)) if root else ""
                    found.append(Point(call, shown, seen[call, path]))
        return found
    finally:
        log.unlink(missing_ok=True)


def _place(folder: Path, scenario: str) -> Place:
    place = folder / scenario.replace(" ", "-")
    shutil.rmtree(place, ignore_errors=True)
    return Place(place / "pool.sqlite")


def _new(place: Place) -> None:
    assert place.path is not None
    place.path.parent.mkdir(parents=True, exist_ok=True)


def _in_use(place: Place) -> None:
    with contextlib.closing(_opened(place)) as database:
        for token in range(1, 40, 2):
            database.write([_grant(token), _end(token)])


def _of_version(version: int) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        _new(place)
        assert place.path is not None
        with contextlib.closing(sqlite3.connect(place.path)) as db:
            db.executescript("".join(_MIGRATIONS[:version]) + f"PRAGMA user_version = {version};")
            db.execute("INSERT INTO devices VALUES ('sim-0', 9)")
            db.commit()

    return make


@contextlib.contextmanager
def _in_one_line() -> Iterator[None]:
    try:
        yield
    except GuiAgentError as error:
        print(f"guiagent: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    mutants.seed()
    with _in_one_line():
        target = sys.argv[1]
        _work(Place(dsn=target) if target.startswith("postgresql:") else Place(Path(target)))
