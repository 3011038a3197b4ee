"""Sizes and digests of files: what a manifest says of them, and whether it is still so."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
import xxhash


class Written(msgspec.Struct, frozen=True):
    """A file as it was written: its size, and the xxh3-128 of its bytes."""

    bytes: int
    xxh3_128: str


def written(file: Path) -> Written:
    with file.open("rb") as stream:
        return Written(file.stat().st_size, hashlib.file_digest(stream, xxhash.xxh3_128).hexdigest())


def written_in(folder: Path, files: Iterable[Path]) -> dict[str, Written]:
    """Size and digest of each file, by its path below `folder`."""
    return {str(file.relative_to(folder)): written(file) for file in sorted(files)}


def difference(file: Path, expected: Written) -> str | None:
    """How a file differs from what was written, in a few words; None if every byte is the same."""
    size = file.stat().st_size
    if size != expected.bytes:
        return f"has {size} bytes, not {expected.bytes}"
    return None if written(file) == expected else "is damaged"


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
