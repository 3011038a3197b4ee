"""Files in folders that hostile programs write to: no link is followed, and nothing but plain files is read.

A device's folder is written to by programs that strangers may have taken over, and read by this service,
which may have rights that they lack. So every part of a path is opened by itself, below the folder.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # opening a pipe would wait for a writer
_CHUNK = 1 << 20


def read(folder: Path, parts: Sequence[str], most: int) -> bytes:
    """Read a file of at most `most` bytes.

    Raises:
        OSError: there is no such plain file, or it is larger.
    """
    with _parent(folder, parts) as parent, _plain(parts[-1], parent) as file:
        data = bytearray()
        while chunk := os.read(file, _CHUNK):
            data += chunk
            if len(data) > most:
                raise OSError(f"a file of more than {most} bytes")
        return bytes(data)


def write(folder: Path, parts: Sequence[str], data: bytes) -> None:
    """Write a file, and the folders on the way to it that are missing.

    Raises:
        OSError: it cannot be written, or something on the way is no folder.
    """
    with _parent(folder, parts, make=True) as parent:
        with contextlib.suppress(FileNotFoundError):  # never into a file that is there, which may be a link
            os.unlink(parts[-1], dir_fd=parent)
        file = os.open(parts[-1], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=parent)
        with open(file, "wb") as target:
            target.write(data)


def is_file(folder: Path, parts: Sequence[str]) -> bool:
    try:
        with _parent(folder, parts) as parent:
            return stat.S_ISREG(os.stat(parts[-1], dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return False


def is_folder(folder: Path, parts: Sequence[str]) -> bool:
    """Whether these parts lead to a folder, without a link on the way."""
    try:
        with _parent(folder, [*parts, ""]):
            return True
    except OSError:
        return False


def sizes(folder: Path) -> dict[str, int]:
    """Size in bytes of every plain file, by its path below the folder."""
    found = {}
    for above, _, names, parent in _walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # it went meanwhile
                about = os.stat(name, dir_fd=parent, follow_symlinks=False)
                if stat.S_ISREG(about.st_mode):
                    found[str(above / name)] = about.st_size
    return found


def copy(source: Path, target: Path, most: int, without: Collection[str] = ()) -> None:
    """Copy the plain files of a folder, without the folders of these names.

    Raises:
        OSError: together they have more than `most` bytes, or the disk is full.
    """
    target.mkdir(mode=0o700)
    left = most
    for above, folders, names, parent in _walk(source):
        folders[:] = [name for name in folders if name not in without]
        for name in folders:
            (target / above / name).mkdir(mode=0o700)
        for name in names:
            with contextlib.ExitStack() as stack:
                try:
                    file = stack.enter_context(_plain(name, parent))
                except OSError:
                    continue
                with (target / above / name).open("xb") as copied:
                    while chunk := os.read(file, _CHUNK):
                        left -= len(chunk)
                        if left < 0:
                            raise OSError(f"more than {most} bytes")
                        copied.write(chunk)


def empty(folder: Path, but: Collection[str] = ()) -> None:
    """Remove all that is in a folder, but what has one of these names."""
    for entry in folder.iterdir():
        if entry.name in but and not entry.is_symlink():
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _walk(folder: Path) -> Iterator[tuple[Path, list[str], list[str], int]]:
    """As `os.fwalk`, with sorted names and paths relative to the folder; links to folders are no folders."""
    for above, folders, names, parent in os.fwalk(folder, follow_symlinks=False):
        folders[:] = sorted(
            name
            for name in folders
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        )
        yield Path(above).relative_to(folder), folders, sorted(names), parent


@contextlib.contextmanager
def _parent(folder: Path, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """Open the folder that the last part is in."""
    with contextlib.ExitStack() as stack:
        parent = os.open(folder, _FOLDER)
        stack.callback(os.close, parent)
        for part in parts[:-1]:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=parent)
            parent = os.open(part, _FOLDER, dir_fd=parent)
            stack.callback(os.close, parent)
        yield parent


@contextlib.contextmanager
def _plain(name: str, parent: int) -> Iterator[int]:
    file = os.open(name, _FILE, dir_fd=parent)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(f"{name} is no plain file")
        yield file
    finally:
        os.close(file)
