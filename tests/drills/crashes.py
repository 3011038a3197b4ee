"""Crash points: a training step is cut short at every one of its file operations, and the run must resume.

strace kills the session just before the operation, or makes the operation fail, whatever thread it is on. Or
the disk has only some bytes left, for all threads and from then on. Then the run is started again, and must
come to what it would have come to undisturbed, bit for bit.
"""

import errno
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import pytest

from guiagent.storage.trajectories import TrajectoryStore
from tests.drills.full_disk import fill
from tests.drills.replayed import Outcome, Sessions, copied, evidence, sample
from training.checkpoints import checkpoint
from training.config import SMALL_POLICY

# Steps made in peace, and in all: the third rescues a group, its checkpoint is written beside the fourth.
BEFORE, STEPS = 2, 4
GROUPS = 8  # that there are to learn from
_CHANGES = (
    "write,pwrite64,writev,fsync,fdatasync,ftruncate,fallocate,copy_file_range,sendfile,"
    "rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir"
)
_READS = ("read", "pread64", "readv", "getdents64", "newfstatat", "fstat", "statx", "readlink", "mmap")
_LINE = re.compile(r"(\d+) +(\w+)\((.*)")
_PATH = re.compile(r'[<"](/[^>"]*)[>"]')
_BUCKET, _OBJECTS = "bucket", "bucket/objects"
_LINK = "/latest"  # which strace takes for what it leads to
_WRITES = ("O_CREAT", "O_WRONLY", "O_RDWR")
_WARNING = "warning   "
_AT_ONCE, _MANY = 2, 20  # sessions at a time, where there are so many to come


class Point(NamedTuple):
    """The `number`-th `call` of a thread on `path`, which is below the run's folder; on any file where it is
    "", for what has the time or a random number in its name."""

    call: str
    path: str
    number: int


class _Operation(NamedTuple):
    """A system call on a file of the run's, by the points that may find it again; the first is preferred."""

    points: tuple[Point, ...]
    reads: bool


@dataclass(slots=True)
class Verdicts:
    """What came of the sessions that were cut short, and in `problems` what must never come of them."""

    points: int = 0
    killed: int = 0
    failed: int = 0  # ended with one line and exit code 3
    passed_over: int = 0  # went on from the checkpoint before, and said so
    survived: int = 0  # the operation did not matter, or was not reached
    problems: list[str] = field(default_factory=list)

    def add(self, what: str, outcome: Outcome, problems: list[str]) -> None:
        """Counts how a session ended; to end in anything but one clear line, or none, is a problem too."""
        self.points += 1
        self.killed += outcome.code == -signal.SIGKILL
        self.failed += outcome.code == 3
        passed_over = outcome.code == 0 and f"{_WARNING}passed over" in outcome.said
        self.passed_over += passed_over
        self.survived += outcome.code == 0 and not passed_over
        lines = [line for line in outcome.said.splitlines() if not line.startswith(_WARNING)]
        clear = len(lines) == 1 and lines[0].startswith("guiagent: ") if outcome.code == 3 else not lines
        if outcome.code not in (0, 3, -signal.SIGKILL) or not clear:
            problems = [str(outcome), *problems]
        self.problems += [f"{what}: {problem}" for problem in problems]

    def __add__(self, other: "Verdicts") -> "Verdicts":
        names = [one.name for one in fields(self)]
        return Verdicts(**{name: getattr(self, name) + getattr(other, name) for name in names})


class Drill:
    """Sessions on one small run below `folder`."""

    def __init__(self, folder: Path, policy: Path) -> None:
        self._folder, self._policy = folder, policy
        self._source = folder / "source"
        sample(policy, self._source, GROUPS)
        self.sessions = Sessions(self._source, policy)
        self._others: list[Sessions] = []
        self.base = folder / "base"
        assert self.sessions.run(self.base, BEFORE) == Outcome(0, "")
        self._undisturbed = copied(self.base, folder / "undisturbed")
        assert self.sessions.run(self._undisturbed, STEPS) == Outcome(0, "")
        self._expected = evidence(self._undisturbed)

    def close(self) -> None:
        for sessions in (self.sessions, *self._others):
            sessions.close()

    @property
    def changes(self) -> list[Point]:
        """Where a step changes something of the run's, in order. Skips, counted, without strace."""
        return self._points[0]

    @property
    def reads(self) -> list[Point]:
        """Where a session reads something of the run's, or looks for it; the storage's objects left out."""
        return self._points[1]

    @cached_property
    def _points(self) -> tuple[list[Point], list[Point]]:
        """Those that come again whenever the step is made."""
        if shutil.which("strace") is None:
            pytest.skip("there is no strace: apt-get install strace")
        first, second = self._traced(), self._traced()
        again = {point for operation in second for point in operation.points}
        found: dict[Point, bool] = {}
        for points, reads in first:
            if (point := next((point for point in points if point in again), None)) is not None:
                found[point] = reads
        changes = [point for point, reads in found.items() if not reads]
        objects = [point for point in changes if _OBJECTS in point.path]  # one is uploaded as the other
        reads = [
            point
            for point, reads in found.items()
            if reads and point.number <= (2 if point.call == "openat" else 1) and _BUCKET not in point.path
        ]
        return [point for point in changes if point not in objects[6:]], reads

    def _traced(self) -> list[_Operation]:
        run, log = copied(self.base, self._folder / "cut"), self._folder / "log"
        trace = f"trace=openat,{_CHANGES},{','.join(_READS)}"
        try:
            outcome = self.sessions.run(run, STEPS, "-f", "-y", "-o", str(log), "-e", trace)
        except PermissionError as refused:
            pytest.skip(f"strace may not trace here: {refused}")
        assert outcome == Outcome(0, "")
        assert evidence(run) == self._expected
        shutil.rmtree(run)
        seen: Counter[tuple[str, str, str]] = Counter()
        found: list[_Operation] = []
        for line in log.read_text(errors="replace").splitlines():
            if (match := _LINE.match(line)) is None:
                continue
            thread, call, rest = match.groups()
            paths = dict.fromkeys(_PATH.findall(rest.partition(") = ")[0]))
            own = [path for path in paths if Path(path).is_relative_to(run) and not path.endswith(_LINK)]
            seen.update((thread, call, path) for path in ("", *own))
            if own:
                on_path = Point(call, str(Path(own[0]).relative_to(run)), seen[thread, call, own[0]])
                at_all = Point(call, "", seen[thread, call, ""])
                reads = call in _READS or (call == "openat" and not any(flag in rest for flag in _WRITES))
                found.append(_Operation((on_path,) if reads else (on_path, at_all), reads))
        return found

    def kill(self, points: Sequence[Point]) -> Verdicts:
        """kill -9 just before each of `points`."""
        return self._cut(points, "signal=KILL", "killed")

    def refuse(self, points: Sequence[Point], number: int) -> Verdicts:
        """Let the system call of each of `points` fail with this errno."""
        name = errno.errorcode[number]
        return self._cut(points, f"error={name}", name)

    def fill(self, shares: Sequence[float]) -> Verdicts:
        """Leave only a share of the room that the next step takes. `folder` must be a disk of its own."""
        taken = _used(self._undisturbed) - _used(self.base)
        verdicts = Verdicts()
        for share in shares:
            run = copied(self.base, self._folder / "cut")
            ballast = fill(self._folder, int(share * taken))
            outcome = self.sessions.run(run, STEPS)
            ballast.unlink()
            verdicts.add(f"{share:.0%} of {taken} bytes left", outcome, self._go_on(self.sessions, run))
        return verdicts

    def _cut(self, points: Sequence[Point], effect: str, how: str) -> Verdicts:
        idle = SimpleQueue[tuple[Sessions, Path]]()
        for number in range(_AT_ONCE if len(points) >= _MANY else 1):
            if number > len(self._others):
                self._others.append(Sessions(self._source, self._policy))
            idle.put(((self.sessions, *self._others)[number], self._folder / f"cut {number}"))

        def attempt(point: Point) -> tuple[Outcome, list[str]]:
            sessions, run = idle.get()
            copied(self.base, run)
            inject = f"inject={point.call}:{effect}:when={point.number}"
            trace = ["-e", f"trace={point.call}", "-e", inject]
            trace += ["-P", str(run / point.path)] if point.path else []
            outcome = sessions.run(run, STEPS, "-f", "-o", os.devnull, *trace)
            problems = self._go_on(sessions, run)
            idle.put((sessions, run))
            return outcome, problems

        verdicts = Verdicts()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for point, (outcome, problems) in zip(points, pool.map(attempt, points), strict=True):
                verdicts.add(f"{point} {how}", outcome, problems)
        return verdicts

    def _go_on(self, sessions: Sessions, run: Path) -> list[str]:
        """What is wrong with what is left of a run, and with what the next session makes of it."""
        problems = []
        left = checkpoint.load(run / "checkpoints")
        if left is None or left.refused or not BEFORE <= left.step <= STEPS:
            problems.append(f"left {left}")
        if lost := _committed(self.base) - _committed(run):
            problems.append(f"lost {lost}")
        outcome = sessions.run(run, STEPS)
        if outcome != Outcome(0, ""):
            problems.append(f"going on, {outcome}")
        elif evidence(run) != self._expected:
            problems.append("going on, it came to something else")
        shutil.rmtree(run)
        return problems


def kills(folder: Path, n: int) -> Verdicts:
    """kill -9 at n of the changes of a step, or at all of them. Raises as `pytest.skip` without strace."""
    drill = Drill(folder, SMALL_POLICY)
    try:
        return drill.kill(drill.changes[:: -(-len(drill.changes) // n)])
    finally:
        drill.close()


def _committed(run: Path) -> set[str]:
    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        return set(store.ids)


def _used(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
