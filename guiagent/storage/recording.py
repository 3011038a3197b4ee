"""The record of a lease, as it is written: episodes of a trajectory store, of which the last is still open.

The open one is a journal of steps with its pictures as files beside it, so that one process after another can
add to it and a killed one loses nothing. `finish` commits it to the store.
"""

import shutil
from pathlib import Path

import msgspec
import xxhash

from guiagent.errors import Fault, InfrastructureError
from guiagent.storage.journal import Journal
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Score, Step, Trajectory

STORE = "trajectories"
_OPEN, _STEPS, _FRAMES = "open", "steps.jsonl", "frames"
MOST_STEPS = 5_000  # of an episode
MOST_BYTES = 1 << 30  # of its pictures


class _Line(msgspec.Struct, omit_defaults=True):
    """The beginning of an episode, a step of it, the hash of what the device showed next, or a fork there."""

    begun: Trajectory | None = None
    step: Step | None = None
    shown: str = ""
    forked: bool = False


class Recording:
    """A folder with the store `trajectories`, and `open` while an episode is being recorded.

    Nothing is on the disk before `begin`. One process at a time may write, from one thread at a time.

    Attributes:
        steps: of the open episode.
        shown: hash of what the device showed last; "" if nothing was seen of it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps = 0
        self.shown = ""
        self._bytes = 0
        self._journal: Journal[_Line] | None = None

    @property
    def is_open(self) -> bool:
        """True if an episode was begun and not finished, in this process or in an earlier one."""
        return (self.folder / _OPEN / _STEPS).exists()

    @property
    def full(self) -> bool:
        return self.steps >= MOST_STEPS or self._bytes >= MOST_BYTES

    def begin(self, about: Trajectory) -> None:
        """Open an episode that has no steps yet; the open one goes on instead, if there is one.

        Raises InfrastructureError if the disk fails, or another process is writing.
        """
        frames = self.folder / _OPEN / _FRAMES
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            frames.mkdir(parents=True, exist_ok=True)
            self._bytes = sum(path.stat().st_size for path in frames.iterdir())
        except OSError as error:
            raise InfrastructureError(f"cannot write to {self.folder}: {error.strerror}") from error
        self._journal = Journal(self.folder / _OPEN / _STEPS, _Line)
        begun, steps, self.shown = _read(self._journal)
        self.steps = len(steps)
        if begun is None:
            self._journal.append(_Line(begun=about))

    def keep(self, frame: bytes) -> str:
        """Keep a picture; return its hash. Raises InfrastructureError if the disk is full."""
        hash = xxhash.xxh3_128_hexdigest(frame)
        path = self.folder / _OPEN / _FRAMES / hash
        try:
            if not path.exists():
                path.write_bytes(frame)
                self._bytes += len(frame)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise InfrastructureError(f"cannot write {path}: {error.strerror}") from error
        return hash

    def frame(self, hash: str) -> bytes:
        """The bytes of a picture of the open episode; b"" if it is gone."""
        try:
            return (self.folder / _OPEN / _FRAMES / hash).read_bytes() if hash else b""
        except OSError:
            return b""

    def add(self, step: Step | None, shown: str) -> None:
        """Add a step, and what was shown after it. Raises InfrastructureError; then it is not added."""
        assert self._journal is not None
        self._journal.append(_Line(step=step, shown=shown))
        self.steps += step is not None
        self.shown = shown

    def fork(self) -> None:
        """Note that the steps so far repeat the episode's parent, and those to come are its own."""
        assert self._journal is not None
        self._journal.append(_Line(forked=True))

    def close(self) -> None:
        """Leave the open episode for a later process to go on with."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def finish(self, fault: Fault | None = None, score: Score | None = None) -> Trajectory | None:
        """Commit the open episode, which a fault may have ended; return it, if there is one with steps.

        `score`: instead of the one that it began with.

        Raises InfrastructureError if it cannot be read or written; then it stays open.
        """
        if not self.is_open:
            return None
        self.close()
        path = self.folder / _OPEN / _STEPS
        last = path.stat().st_mtime
        with Journal(path, _Line) as journal:
            whole, steps, shown = _read(journal)
        if whole is not None and steps:
            whole.steps, whole.final_frame = steps, shown
            whole.seconds = max(0.0, last - whole.started)
            if fault is not None:
                whole.stop, whole.fault = "fault", fault
            whole.score = score or whole.score
            self._commit(whole)
        shutil.rmtree(self.folder / _OPEN, ignore_errors=True)
        self.steps, self.shown, self._bytes = 0, "", 0
        return whole if steps else None

    def _commit(self, whole: Trajectory) -> None:
        with TrajectoryStore(self.folder / STORE) as store:
            if whole.id in store:  # its commit was the last thing that a killed process did
                return
            for hash in {*(step.frame for step in whole.steps), whole.final_frame} - {""}:
                if (data := self.frame(hash)) and xxhash.xxh3_128_hexdigest(data) == hash:
                    store.put_frame(data)
                else:  # the machine went down before it was on the disk
                    _forget(whole, hash)
            store.commit([whole])


def _forget(whole: Trajectory, hash: str) -> None:
    for step in whole.steps:
        step.frame = "" if step.frame == hash else step.frame
    whole.final_frame = "" if whole.final_frame == hash else whole.final_frame


def _read(journal: Journal[_Line]) -> tuple[Trajectory | None, list[Step], str]:
    """What the journal has: the episode without its steps, those, and what was shown last."""
    begun, steps, shown = None, list[Step](), ""
    for line in journal:
        begun = begun or line.begun
        steps += [line.step] if line.step is not None else []
        if line.forked and begun is not None:
            begun.forked_at = len(steps)
        shown = line.shown or shown
    return begun, steps, shown
