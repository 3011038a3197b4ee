"""Follow files that another process writes: the lines added to a file, the trajectories added to a store.

Nothing is read twice and nothing more than is asked for: of a segment only the headers of its entries, of a
store only the segments that somebody looks into. No link below the folder is followed.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import xxhash

from guiagent.errors import DECODE_ERRORS
from guiagent.storage.plain import plain_file, plain_folder
from guiagent.storage.segments import FRAME, HASH_BYTES, HEADER, MARKER, SEGMENT, TRAJECTORY, segment_name
from guiagent.types import Trajectory

MOST_LINES = 64 * 2**20  # bytes of lines read at once; the rest comes with the next reading
MOST_FRAME = 32 * 2**20
MOST_TRAJECTORY = 64 * 2**20
_decode = msgspec.msgpack.Decoder(Trajectory).decode


class LineFollower:
    """The whole lines that were added to a file since the last reading; a torn last line waits for its end.

    A file that was replaced or cut off is read from its beginning again: `epoch` counts how often.
    """

    def __init__(self, root: Path, *parts: str) -> None:
        self.epoch = 0
        self._root, self._parts = root, parts
        self._identity: tuple[int, int] | None = None
        self._offset = 0

    def read(self) -> list[bytes]:
        """Return the new lines; [] if there are none, or no such file.

        Raises:
            OSError: the file cannot be read, or it is a link.
        """
        try:
            with plain_file(self._root, *self._parts) as file:
                return self._read(file)
        except FileNotFoundError:
            self._begin_anew(None)
            return []

    def _read(self, file: int) -> list[bytes]:
        about = os.fstat(file)
        identity = about.st_dev, about.st_ino
        if identity != self._identity or about.st_size < self._offset:
            self._begin_anew(identity)
        if about.st_size == self._offset:
            return []
        data = os.pread(file, MOST_LINES, self._offset)
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) == MOST_LINES:  # no line is that long
            self._offset += len(data)
            return []
        self._offset += end
        return data[:end].split(b"\n")[:-1]

    def _begin_anew(self, identity: tuple[int, int] | None) -> None:
        if self._identity is not None:
            self.epoch += 1
        self._identity, self._offset = identity, 0


class Place(NamedTuple):
    """The place of an entry's payload: its segment's number, offset and length in bytes, and checksum."""

    segment: int
    offset: int
    length: int
    checksum: int


class StoreFollower:
    """A trajectory store that another process may be writing to; only what somebody asks for is indexed.

    `damage` says what of the store cannot be read, in one line; "" if nothing. Not thread-safe.
    """

    def __init__(self, root: Path, *parts: str) -> None:
        self.damage = ""
        self._root, self._parts = root, parts
        self._segments: dict[int, _Segment] = {}

    def refresh(self) -> None:
        """Look for new segments, and for new entries in the last one."""
        numbers = self._numbers()
        for gone in self._segments.keys() - set(numbers):
            del self._segments[gone]
        last = max(self._segments, default=0)  # it may have grown before the next one began
        for number in numbers:
            if number == numbers[-1] or number == last:
                self._indexed(number, growing=True)

    def newest(self, count: int, before: tuple[int, int] | None = None) -> list[Place]:
        """Return the places of the last `count` trajectories, the newest first; those before a segment and
        offset if it is given."""
        found: list[Place] = []
        for number in reversed(self._numbers()):
            if before is not None and number > before[0]:
                continue
            for place in reversed(self._indexed(number).trajectories):
                if before is None or (place.segment, place.offset) < before:
                    found.append(place)
                    if len(found) == count:
                        return found
        return found

    def at(self, segment: int, offset: int) -> Place:
        """Return the place of the trajectory there. Raises KeyError if there is none."""
        if segment in self._numbers():
            for place in self._indexed(segment).trajectories:
                if place.offset == offset:
                    return place
        raise KeyError((segment, offset))

    def trajectory(self, place: Place) -> Trajectory:
        """Read a trajectory. Raises KeyError if it is not whole, or of another version."""
        if place.length > MOST_TRAJECTORY:
            raise KeyError(place)
        try:
            return _decode(self._payload(place, TRAJECTORY))
        except DECODE_ERRORS as error:
            raise KeyError(place) from error

    def frame(self, hash: str) -> bytes:
        """Read a frame by its hash: newer segments are looked into first, each once.

        Raises:
            KeyError: it is not in the store, or not whole.
        """
        try:
            name = bytes.fromhex(hash)
        except ValueError:
            raise KeyError(hash) from None
        for number in reversed(self._numbers()):
            place = self._indexed(number).frames.get(name)
            if place is not None and place.length <= MOST_FRAME:
                data = self._payload(place, FRAME)[HASH_BYTES:]
                if xxhash.xxh3_128_digest(data) == name:
                    return data
        raise KeyError(hash)

    def _numbers(self) -> list[int]:
        try:
            with plain_folder(self._root, *self._parts) as folder:
                names = os.listdir(folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            self.damage = f"the trajectory store cannot be read: {error.strerror or error}"
            return []
        return sorted(int(found[1]) for name in names if (found := SEGMENT.fullmatch(name)))

    def _indexed(self, number: int, *, growing: bool = False) -> "_Segment":
        """The index of a segment; one that is `growing` is read on from where its index ends."""
        known = self._segments.get(number)
        if known is not None and not growing:
            return known
        segment = known or _Segment(number)
        try:
            with plain_file(self._root, *self._parts, segment_name(number)) as file:
                size = os.fstat(file).st_size
                if size < segment.end:  # a commit that failed was cut off
                    segment = _Segment(number)
                segment.index(file, size)
        except OSError as error:
            self.damage = f"{segment_name(number)} cannot be read: {error.strerror or error}"
        if segment.broken and number != max(self._segments, default=number):
            self.damage = (
                f"{segment_name(number)} is damaged at byte {segment.end}: what follows is not shown"
            )
        self._segments[number] = segment
        return segment

    def _payload(self, place: Place, kind: int) -> bytes:
        try:
            with plain_file(self._root, *self._parts, segment_name(place.segment)) as file:
                data = os.pread(file, place.length, place.offset)
        except OSError as error:
            raise KeyError(place) from error
        if xxhash.xxh3_64_intdigest(data, seed=kind) != place.checksum:
            self._segments.pop(place.segment, None)  # cut off and written anew since it was indexed
            raise KeyError(place)
        return data


class _Segment:
    """The index of one segment, up to `end`; `broken` if no whole entry begins there, though there are bytes.

    The last segment may end so: in a commit in progress, or in a torn one.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.end = 0
        self.broken = False
        self.frames: dict[bytes, Place] = {}
        self.trajectories: list[Place] = []

    def index(self, file: int, size: int) -> None:
        """Read the headers of the entries that were added; payloads are verified when they are read."""
        for kind, place, head in self._entries(file, size):
            if kind == FRAME:
                self.frames[head] = place
            else:
                self.trajectories.append(place)

    def _entries(self, file: int, size: int) -> Iterator[tuple[int, Place, bytes]]:
        self.broken = True
        while self.end + HEADER.size <= size:
            data = os.pread(file, HEADER.size + HASH_BYTES, self.end)
            if len(data) < HEADER.size:
                return
            marker, kind, length, checksum = HEADER.unpack_from(data)
            if marker != MARKER or kind not in (FRAME, TRAJECTORY):
                return
            if self.end + HEADER.size + length > size:
                return  # a commit in progress, or a torn one
            place = Place(self.number, self.end + HEADER.size, length, checksum)
            self.end += HEADER.size + length
            yield kind, place, data[HEADER.size :]
        self.broken = self.end < size
