"""The trajectory store: a folder of append-only log segments that survives being killed at any instant.

A trajectory is committed once its entry (see `guiagent.storage.segments`) is synced; until then it does not
exist.
"""

import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import NamedTuple, NoReturn, Self

import msgspec
import xxhash

from guiagent.errors import DECODE_ERRORS, InfrastructureError, UsageError
from guiagent.storage.segments import (
    FRAME,
    HASH_BYTES,
    HEADER,
    MARKER,
    SEGMENT,
    TRAJECTORY,
    entry,
    segment_name,
    valid,
)
from guiagent.types import Trajectory

SEGMENT_BYTES = 64 * 2**20

_decode = msgspec.msgpack.Decoder(Trajectory).decode


class _Id(msgspec.Struct):
    """The one field of a stored trajectory that opening a store needs."""

    id: str


_decode_id = msgspec.msgpack.Decoder(_Id).decode


class _Place(NamedTuple):
    """The place of a payload in a segment."""

    segment: Path
    offset: int
    length: int


class TrajectoryStore:
    """A store of frames by their hash and trajectories in the order of their commits. Thread-safe.

    One process writes, under a lock file; any number of processes read with `readonly=True` what was
    committed when they opened the store. `recovered` is the number of bytes of an interrupted commit that
    were cut off on opening.

    Raises:
        UsageError: there is nothing to read at `root`.
        InfrastructureError: another process is writing, or a segment is damaged before its end.
    """

    def __init__(self, root: Path, *, readonly: bool = False) -> None:
        self.root = Path(root)
        self.recovered = 0
        self._readonly = readonly
        self._frames: dict[str, _Place] = {}
        self._pending: dict[str, bytes] = {}  # frames that no commit has written yet
        self._trajectories: list[_Place] = []
        self._ids: dict[str, None] = {}  # in the order of `_trajectories`
        self._index = Lock()  # guards the fields above; never held over I/O
        self._writing = Lock()
        self._number = (
            0  # of the segment being written; its file descriptor, and where its committed part ends
        )
        self._file = self._lock_file = -1
        self._end = 0
        try:
            if readonly and not self.root.is_dir():
                raise UsageError(f"there is no trajectory store at {root}: give the folder of one")
            self._open()
        except OSError as error:
            self.close()
            raise InfrastructureError(f"cannot open the trajectory store {root}: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files and release the lock, after a commit in progress. Unwritten frames are dropped."""
        with self._writing:
            for descriptor in (self._file, self._lock_file):
                if descriptor >= 0:
                    os.close(descriptor)
            self._file = self._lock_file = -1

    def __len__(self) -> int:
        return len(self._trajectories)

    def __contains__(self, id: str) -> bool:
        return id in self._ids

    def __iter__(self) -> Iterator[Trajectory]:
        return self.read(0)

    @property
    def ids(self) -> list[str]:
        """The ids of the committed trajectories, in order."""
        return list(self._ids)

    def read(self, start: int) -> Iterator[Trajectory]:
        """The committed trajectories from ordinal `start` on, with those committed during the iteration."""
        ordinal = start
        while ordinal < len(self._trajectories):
            place = self._trajectories[ordinal]
            try:
                yield _decode(_payload(place))
            except DECODE_ERRORS as error:
                _damaged(place.segment, place.offset, f"no trajectory of this version: {error}")
            ordinal += 1

    def frame(self, hash: str) -> bytes:
        """The bytes of a frame.

        Raises:
            KeyError: no such frame was put.
            InfrastructureError: its bytes on the disk have changed.
        """
        with self._index:
            pending, place = self._pending.get(hash), self._frames.get(hash)
        if pending is not None:
            return pending
        if place is None:
            raise KeyError(hash)
        data = _payload(place)[HASH_BYTES:]
        if xxhash.xxh3_128_hexdigest(data) != hash:
            _damaged(place.segment, place.offset, "a frame's bytes have changed")
        return data

    def put_frame(self, data: bytes) -> str:
        """Keep a frame for the next commit to write, unless it is stored already; return its hash."""
        hash = xxhash.xxh3_128_hexdigest(data)
        with self._index:
            if hash not in self._frames:
                self._pending[hash] = data
        return hash

    def commit(self, trajectories: Sequence[Trajectory]) -> None:
        """Make `trajectories` and every frame put so far durable, with one write and one sync.

        When it returns, they are on the disk, in order. When it raises, none of them is, and the same commit
        can be tried again.

        Raises:
            UsageError: an id is already stored or given twice, or a step's frame was never put.
            InfrastructureError: the disk is full or failing.
        """
        if self._readonly:
            raise UsageError(f"the trajectory store {self.root} was opened read-only")
        with self._writing:
            with self._index:
                frames = dict(self._pending)
                self._refuse(trajectories)
            entries = [entry(FRAME, bytes.fromhex(hash) + data) for hash, data in frames.items()]
            entries += [entry(TRAJECTORY, msgspec.msgpack.encode(trajectory)) for trajectory in trajectories]
            segment, offset = self._append(b"".join(entries))

            places = []
            for written in entries:
                places.append(_Place(segment, offset + HEADER.size, len(written) - HEADER.size))
                offset += len(written)
            with self._index:
                self._frames.update(zip(frames, places, strict=False))
                self._pending = {hash: data for hash, data in self._pending.items() if hash not in frames}
                self._trajectories += places[len(frames) :]
                self._ids.update(dict.fromkeys(trajectory.id for trajectory in trajectories))

    def _refuse(self, trajectories: Sequence[Trajectory]) -> None:
        """Raise UsageError for trajectories that cannot be committed."""
        new: set[str] = set()
        for trajectory in trajectories:
            if trajectory.id in self._ids or trajectory.id in new:
                raise UsageError(f"trajectory {trajectory.id} is already stored; a commit is never changed")
            new.add(trajectory.id)
            for hash in trajectory.frames:
                if hash not in self._frames and hash not in self._pending:
                    raise UsageError(f"trajectory {trajectory.id} shows frame {hash}, which was never put")

    def _append(self, data: bytes) -> tuple[Path, int]:
        """Write and sync `data`, whole or not at all; return its segment and offset."""
        try:
            if self._end and self._end + len(data) > SEGMENT_BYTES:
                self._start_segment(self._number + 1)
            offset = self._end
            view = memoryview(data)
            try:
                self._cut()
                while view:
                    view = view[os.pwrite(self._file, view, self._end + len(data) - len(view)) :]
                os.fsync(self._file)
            except BaseException:
                self._cut()
                raise
        except OSError as error:
            raise InfrastructureError(
                f"cannot write to {self._segment(self._number)}: {error.strerror}; "
                "nothing of this commit was kept: make room or mend the disk, and try again"
            ) from error
        self._end += len(data)
        return self._segment(self._number), offset

    def _cut(self) -> None:
        """Cut off what a failed commit left; if that fails now, the next commit does it first."""
        if os.fstat(self._file).st_size > self._end:
            os.ftruncate(self._file, self._end)

    def _segment(self, number: int) -> Path:
        return self.root / segment_name(number)

    def _start_segment(self, number: int) -> None:
        """Switch to segment `number`; its name is on the disk before anything is written to it."""
        file = os.open(self._segment(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        folder = os.open(self.root, os.O_RDONLY)
        try:
            os.fsync(folder)
        except OSError:
            os.close(file)
            raise
        finally:
            os.close(folder)
        if self._file >= 0:
            os.close(self._file)
        self._number, self._file, self._end = number, file, 0

    def _open(self) -> None:
        if not self._readonly:
            self.root.mkdir(parents=True, exist_ok=True)
            self._lock_file = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InfrastructureError(
                    f"another process is writing to {self.root}: stop it, or use another folder"
                ) from None
        # Not by glob, which takes an unreadable folder for an empty one: commits would begin anew.
        segments = sorted(self.root / name for name in os.listdir(self.root) if SEGMENT.fullmatch(name))
        end = 0
        for number, segment in enumerate(segments, 1):
            if segment != self._segment(number):
                raise InfrastructureError(f"{self._segment(number)} is missing: restore it from a copy")
            end = self._load(segment, is_last=segment == segments[-1])
        if not self._readonly:
            self._start_segment(int(segments[-1].stem.removeprefix("segment-")) if segments else 1)
            self.recovered = os.fstat(self._file).st_size - end
            if self.recovered:
                os.ftruncate(self._file, end)
                os.fsync(self._file)
            self._end = end

    def _load(self, segment: Path, is_last: bool) -> int:
        """Index a segment's entries; return where the last whole one ends.

        What follows is the torn tail of an interrupted commit only in the last segment, and only if no whole
        entry comes later; anything else is damage.
        """
        data = segment.read_bytes()
        offset = 0
        while (payload := valid(data, offset)) is not None:
            place = _Place(segment, offset + HEADER.size, len(payload))
            if data[offset + len(MARKER)] == FRAME:
                self._frames[bytes(payload[:HASH_BYTES]).hex()] = place
            else:
                try:
                    self._ids[_decode_id(payload).id] = None
                except DECODE_ERRORS as error:
                    _damaged(segment, offset, f"no trajectory of this version: {error}")
                self._trajectories.append(place)
            offset += HEADER.size + len(payload)
        if offset < len(data) and not is_last:
            _damaged(segment, offset, "an entry is damaged")
        later = data.find(MARKER, offset + 1)
        while later >= 0:
            if valid(data, later) is not None:
                _damaged(segment, offset, "an entry before the last is damaged")
            later = data.find(MARKER, later + 1)
        return offset


def _payload(place: _Place) -> bytes:
    try:
        with place.segment.open("rb") as file:
            file.seek(place.offset)
            return file.read(place.length)
    except OSError as error:
        raise InfrastructureError(f"cannot read {place.segment}: {error.strerror}") from error


def _damaged(segment: Path, offset: int, what: str) -> NoReturn:
    raise InfrastructureError(
        f"{segment} is damaged at byte {offset}: {what}; restore it from a copy, "
        f"or give up what follows with 'truncate -s {offset} {segment}'"
    )
