"""Upload a run's folder to a storage in parts, each round only the parts that the storage lacks."""

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import xxhash

from guiagent.storage.segments import whole_entries
from training.checkpoints.storage import PART_BYTES, Part, Storage

OWN = "mirror.json"  # in the folder, with its writer identity; never uploaded
_MANY = 64  # so many small parts at a file's end are uploaded anew as one
_MIRRORED = tuple(
    map(
        re.compile,
        (
            r"checkpoints/step-[^/]*/.*",  # first: they refer to entries of the store, which is listed later
            r"(.*/)?trajectories/segment-[^/]*\.log",
            r"[^/]*\.(jsonl|toml|json|html)",
            r"eval/.*",
            r"tensorboard/[^/]*",
        ),
    )
)


class Range(NamedTuple):
    """Bytes of a file that are to be one part."""

    start: int
    end: int


def ranges(kept: Sequence[Part], size: int) -> tuple[int, list[Range]]:
    """Plan a file of `size` bytes that has `kept` parts: how many of them stay, and which ranges are added.

    All stay until there are too many small ones at the end, which are then replaced by one; so a file of b
    full parts has fewer than b + 65, and no byte is uploaded more than twice per 64 rounds.
    """
    full = next((n for n, part in enumerate(kept) if part.bytes < PART_BYTES), len(kept))
    stay = len(kept) if len(kept) - full < _MANY else full
    start = sum(part.bytes for part in kept[:stay])
    cuts = [*range(start, size, PART_BYTES), size]
    return stay, [Range(a, b) for a, b in itertools.pairwise(cuts)]


def unchanged(file: Path, parts: Sequence[Part], size: int) -> list[Part]:
    """The leading parts whose bytes the file still has, within its first `size`."""
    kept: list[Part] = []
    offset = 0
    with file.open("rb") as stream:
        for part in parts:
            offset += part.bytes
            if offset > size or xxhash.xxh3_128_hexdigest(stream.read(part.bytes)) != part.hash:
                break
            kept.append(part)
    return kept


class Uploader:
    """Upload a folder, round by round; a file with the same size and modification time is not read again."""

    def __init__(self, folder: Path, storage: Storage) -> None:
        self.bytes = 0  # uploaded so far
        self._folder = folder
        self._storage = storage
        self._read: dict[str, tuple[tuple[int, int], list[Part]]] = {}

    def upload(self, before: Mapping[str, list[Part]]) -> dict[str, list[Part]]:
        """Upload what the folder has and `before` lacks; return the files of the next snapshot.

        A checkpoint that is removed meanwhile is left out; if none is left, those of `before` stay. Raises
        what the storage raises.
        """
        files: dict[str, list[Part]] = {}
        gone: set[str] = set()  # checkpoints and other files that were removed while they were read
        for name, file in listed(self._folder):
            if checkpoint_of(name) in gone:
                continue
            try:
                files[name] = self._upload(name, file, before.get(name, []))
            except FileNotFoundError:
                if file.exists():
                    raise
                gone.add(checkpoint_of(name) or name)
        files = {name: parts for name, parts in files.items() if checkpoint_of(name) not in gone}
        if not any(map(checkpoint_of, files)):
            files |= {name: parts for name, parts in before.items() if checkpoint_of(name)}
        return files

    def _upload(self, name: str, file: Path, before: list[Part]) -> list[Part]:
        stat = file.stat()
        state, size = (stat.st_size, stat.st_mtime_ns), stat.st_size
        if self._read.get(name) == (state, before):
            return before
        kept = unchanged(file, before, size)
        if file.name.startswith("segment-"):
            offset = sum(part.bytes for part in kept)
            size = offset + whole_entries(file, offset)
        stay, added = ranges(kept, size)
        parts = list(kept[:stay])
        with file.open("rb") as stream:
            for start, end in added:
                stream.seek(start)
                data = stream.read(end - start)
                part = Part(xxhash.xxh3_128_hexdigest(data), len(data))
                self._storage.put_part(part, data)
                self.bytes += part.bytes
                parts.append(part)
        self._read[name] = (state, parts)
        return parts


def listed(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files that are mirrored, by their paths below the run's folder, checkpoints first."""
    seen = {OWN}
    for pattern in _MIRRORED:
        for name in sorted(_files(folder)):
            if pattern.fullmatch(name) and name not in seen:
                seen.add(name)
                yield name, folder / name


def _files(folder: Path) -> Iterator[str]:
    """All files below `folder`, by their relative paths.

    Raises OSError for a folder that may not be listed: its files, left out of a snapshot, would soon be
    removed from the storage.
    """

    def failed(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # removed meanwhile
            raise error

    for parent, _, names in os.walk(folder, onerror=failed):
        for file in (Path(parent, name) for name in names):
            if file.is_file() and not file.is_symlink():
                yield file.relative_to(folder).as_posix()


def checkpoint_of(name: str) -> str:
    """The folder name of the checkpoint that a file belongs to; "" for any other file."""
    parts = name.split("/")
    return parts[1] if parts[0] == "checkpoints" else ""
