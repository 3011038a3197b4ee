"""Open a file below a folder without following a link on the way, for folders that others write to."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a pipe would wait for a writer


@contextlib.contextmanager
def plain_file(root: Path, *parts: str) -> Iterator[int]:
    """Open the plain file at `root`/`parts` for reading and give its descriptor.

    `root` itself may be a link: its user named it. Parts are names, never "..".

    Raises:
        OSError: there is no such file, or a part is a link, or it is no plain file.
    """
    with plain_folder(root, *parts[:-1]) as parent:
        _refuse(parts[-1])
        file = os.open(parts[-1], _FILE, dir_fd=parent)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(f"{'/'.join(parts)} is no plain file")
        yield file
    finally:
        os.close(file)


@contextlib.contextmanager
def plain_folder(root: Path, *parts: str) -> Iterator[int]:
    """Open the folder at `root`/`parts` and give its descriptor.

    Raises:
        OSError: there is no such folder, or a part is a link.
    """
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            _refuse(part)
            below = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def read_plain(root: Path, *parts: str, most: int) -> bytes:
    """Read a plain file as `plain_file` opens it, at most its first `most` bytes."""
    with plain_file(root, *parts) as file, open(os.dup(file), "rb") as stream:
        return stream.read(most)


def _refuse(part: str) -> None:
    if part in ("", ".", "..") or "/" in part or "\0" in part:
        raise OSError(f"{part!r} is no name of a file")
