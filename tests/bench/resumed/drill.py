"""One trainer's run, killed again and again at random moments, and started again by the same command."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.resumed.ledger import Losses, losses, read
from tests.bench.resumed.trainers import Trainer

_ROOT = Path(__file__).resolve().parents[3]
_ENDLESS, _LAST = 500, 2  # updates: more than are reached, and those after the last kill
_PATIENCE_S = 400.0


@dataclass
class Trial:
    """A trainer's run and what was counted."""

    kills: int = 0
    refused: int = 0  # resumptions that ended in an error, until the newest checkpoint was deleted by hand
    steps_amiss: int = 0  # updates that its own log lacks, or has twice
    reached: bool = False  # the last update that was asked for
    losses: Losses = field(default_factory=lambda: Losses(0, 0, 0, 0, 0, 0))

    def a_kill(self, count: str) -> float:
        """`refused`, or a count of `losses`, for each kill."""
        total: int = self.refused if count == "refused" else getattr(self.losses, count)
        return total / self.kills

    @property
    def whole(self) -> bool:
        """Whether nothing that was finished was lost, doubled or left to a person."""
        lost = self.losses.finished_lost + self.losses.learned_twice + self.refused + self.steps_amiss
        return self.reached and not lost


def amiss(steps: Sequence[int], last: int) -> int:
    """How many of the updates 1 to `last` a log lacks or has more than once."""
    counted = Counter(steps)
    return sum(counted[step] != 1 for step in range(1, last + 1))


class Drill:
    """One trainer, killed `kills` times."""

    def __init__(self, trainer: Trainer, folder: Path, dice: random.Random) -> None:
        self._trainer, self._dice = trainer, dice
        self._run, self._ledger = folder / "run", folder / "ledger"
        self._said, self._errors = folder / "said", folder / "errors"
        self._took = 0.0  # seconds from one update to the next
        self.trial = Trial()

    def work(self, kills: int) -> Trial:
        """Raises RuntimeError where the trainer does not run at all, PeerMissing where it is not here."""
        while self.trial.kills < kills:
            self._session()
        self._finish()
        events = read(self._ledger)
        self.trial.losses = losses(events, self._trainer.kept(self._run))
        return self.trial

    def _session(self) -> None:
        """Start it, wait for its first update, kill it at some moment of about the next one."""
        before = self._learned
        process = self._start(_ENDLESS)
        try:
            if not self._waited(process, before + 2 if not self._took else before + 1):
                self._mend(process, before)
                return
            time.sleep(self._dice.uniform(0.0, 2 * self._took))
            if process.poll() is not None:
                raise RuntimeError(f"it ended by itself: {self._last_words}")
            os.kill(process.pid, signal.SIGKILL)
            self.trial.kills += 1
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def _finish(self) -> None:
        """Let the run come to an end; its log must have each update once."""
        last = max(event["step"] for event in read(self._ledger) if "step" in event) + _LAST
        for _ in range(len(self._trainer.checkpoints(self._run)) + 1):
            before = self._learned
            process = self._start(last)
            try:
                code = process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise RuntimeError(f"it does not end in {_PATIENCE_S:.0f} s: {self._last_words}") from None
            if code == 0:
                break
            self._mend(process, before)
        steps = self._trainer.steps(self._run, self._said.read_text())
        self.trial.steps_amiss = amiss(steps, last)
        self.trial.reached = bool(steps) and steps[-1] == last

    def _start(self, updates: int) -> "subprocess.Popen[bytes]":
        command = self._trainer.command(self._run, self._ledger, updates)
        environment = os.environ | {"PYTHONWARNINGS": "ignore"}
        with self._said.open("wb") as said, self._errors.open("wb") as errors:
            return subprocess.Popen(command, cwd=_ROOT, env=environment, stdout=said, stderr=errors)

    @property
    def _learned(self) -> int:
        return sum("learned" in event for event in read(self._ledger))

    def _waited(self, process: "subprocess.Popen[bytes]", number: int) -> bool:
        """Whether so many updates came; how long one takes is measured on the way."""
        give_up = time.monotonic() + _PATIENCE_S
        last, seen = self._learned, time.monotonic()
        while (now := self._learned) < number:
            if process.poll() is not None:
                return False
            if time.monotonic() > give_up:
                raise RuntimeError(f"no update in {_PATIENCE_S:.0f} s: {self._last_words}")
            if now > last:
                last, seen = now, time.monotonic()
            time.sleep(0.02)
        self._took = self._took or time.monotonic() - seen
        return True

    def _mend(self, process: "subprocess.Popen[bytes]", learned: int) -> None:
        """It did not resume: delete its newest checkpoint, as a person would, and count that.

        Raises RuntimeError if it fails for another reason: without a checkpoint, or once it has resumed.
        """
        process.wait()
        found = self._trainer.checkpoints(self._run)
        if not found or self._learned > learned:
            raise RuntimeError(f"it does not run: {self._last_words}")
        self.trial.refused += 1
        shutil.rmtree(found[-1])

    @property
    def _last_words(self) -> str:
        lines = self._errors.read_text().strip().splitlines() or ["it said nothing"]
        return lines[-1][:300]
