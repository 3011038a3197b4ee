"""Crash points: every file operation of one training step, and what becomes of a run cut short at each.

strace kills the session just before the operation, or makes the operation fail. Then the run is started
again, and must come to what it would have come to undisturbed, bit for bit.
"""

import errno
import os
import re
import shutil
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.drills.replayed import Outcome, Sessions, copied, evidence, sample
from training import checkpoint

BEFORE, STEPS = 2, 3  # steps made in peace, and in all: the last one rescues a group and prunes a checkpoint
GROUPS = 8  # that there are to learn from
_CALLS = (
    "openat,write,pwrite64,writev,fsync,fdatasync,ftruncate,fallocate,copy_file_range,sendfile,"
    "rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir"
)
_LINE = re.compile(r"(\d+) +(\w+)\((.*)")
_WRITES = ("O_CREAT", "O_WRONLY", "O_RDWR")


class Point(NamedTuple):
    """The `number`-th `call` of the main thread, or of TensorBoard's, which writes its files."""

    call: str
    number: int
    main: bool


@dataclass
class Verdicts:
    """What came of the sessions that were cut short, and in `problems` what must never come of them."""

    points: int = 0
    killed: int = 0
    failed: int = 0  # ended with one line and exit code 3
    survived: int = 0  # the operation did not matter, or was not reached
    problems: list[str] = field(default_factory=list)


class Drill:
    """Sessions on one small run. Skips, counted, where strace is missing or may not trace."""

    def __init__(self, folder: Path, policy: Path) -> None:
        if shutil.which("strace") is None:
            pytest.skip("there is no strace: apt-get install strace")
        self._folder = folder
        sample(policy, folder / "source", GROUPS)
        self.sessions = Sessions(folder / "source", policy)
        self.base = folder / "base"
        assert self.sessions.run(self.base, BEFORE) == Outcome(0, "")
        self._undisturbed = copied(self.base, folder / "undisturbed")
        assert self.sessions.run(self._undisturbed, STEPS) == Outcome(0, "")
        self._expected = evidence(self._undisturbed)
        self.points = self._points()

    def close(self) -> None:
        self.sessions.close()

    def _points(self) -> list[Point]:
        """The operations of one step that change something of the run's, in order."""
        run, log = copied(self.base, self._folder / "traced"), self._folder / "log"
        try:
            outcome = self.sessions.run(run, STEPS, "-f", "-y", "-o", str(log), "-e", f"trace={_CALLS}")
        except PermissionError as refused:
            pytest.skip(f"strace may not trace here: {refused}")
        assert outcome == Outcome(0, "")
        assert evidence(run) == self._expected
        seen: Counter[tuple[str, str]] = Counter()
        found: dict[Point, None] = {}
        lines = log.read_text(errors="replace").splitlines()
        main = lines[0].split()[0]
        for line in lines:
            if (match := _LINE.match(line)) is None:
                continue
            thread, call, arguments = match.groups()
            seen[thread, call] += 1
            reads = call == "openat" and not any(flag in arguments for flag in _WRITES)
            if str(run) in arguments and not reads and str(run / "said") not in arguments:
                found[Point(call, seen[thread, call], thread == main)] = None
        return list(found)

    def kill(self, points: list[Point]) -> Verdicts:
        """kill -9 just before each of `points`."""
        verdicts = Verdicts()
        for point in points:
            run = copied(self.base, self._folder / "cut")
            outcome = self._cut(run, point, "signal=KILL", "-f")
            verdicts.points += 1
            verdicts.killed += outcome.code == -signal.SIGKILL
            verdicts.survived += outcome.code == 0
            if outcome.code not in (0, -signal.SIGKILL):
                verdicts.problems.append(f"{point}: {outcome}")
            self._go_on(run, str(point), verdicts)
        return verdicts

    def refuse(self, points: list[Point], number: int) -> Verdicts:
        """Let the system call of each of `points` fail with this errno; only those of the main thread can."""
        verdicts = Verdicts()
        name = errno.errorcode[number]
        for point in (one for one in points if one.main):
            run = copied(self.base, self._folder / "cut")
            outcome = self._cut(run, point, f"error={name}")
            verdicts.points += 1
            verdicts.failed += outcome.code == 3
            verdicts.survived += outcome.code == 0
            clear = outcome.said.startswith("guiagent: ") and outcome.said.count("\n") == 1
            if outcome.code not in (0, 3) or (outcome.code == 3 and not clear):
                verdicts.problems.append(f"{point} with {name}: {outcome}")
            self._go_on(run, f"{point} with {name}", verdicts)
        return verdicts

    def _cut(self, run: Path, point: Point, effect: str, *options: str) -> Outcome:
        inject = f"inject={point.call}:{effect}:when={point.number}"
        trace = ("-o", os.devnull, "-e", f"trace={point.call}", "-e", inject)
        return self.sessions.run(run, STEPS, *options, *trace)

    def _go_on(self, run: Path, what: str, verdicts: Verdicts) -> None:
        left = checkpoint.load(run / "checkpoints")
        if left is None or left.refused or left.step not in (BEFORE, STEPS):
            verdicts.problems.append(f"{what}: left {left}")
        outcome = self.sessions.run(run, STEPS)
        if outcome != Outcome(0, ""):
            verdicts.problems.append(f"{what}: going on, {outcome}")
        elif evidence(run) != self._expected:
            verdicts.problems.append(f"{what}: going on, it came to something else")
        shutil.rmtree(run)
