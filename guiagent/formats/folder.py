"""Folders that appear whole under their name or not at all, and names of files for ids that others chose."""

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import xxhash

from guiagent.errors import InfrastructureError, UsageError


@contextlib.contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Give a new folder to fill. At a good end it is on the disk as `folder`; else nothing is left of it.

    Raises:
        UsageError: there is something under that name.
        InfrastructureError: the disk is full or failing.
    """
    folder = Path(os.path.abspath(folder))
    if os.path.lexists(folder):
        raise UsageError(f"{folder} is there already: name another folder, or remove it")
    partial = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        partial.mkdir(parents=True)
        try:
            yield partial
            os.sync()  # thousands of files: one by one it would take minutes
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise InfrastructureError(
            f"cannot write {folder}: {error.strerror}; make room or choose another folder"
        ) from error


def file_name(id: str) -> str:
    """Return a plain name for a file; different ids get different names, whatever is in them."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", id).strip(".-")[:80]
    return plain if plain == id else f"{plain}-{xxhash.xxh3_64_hexdigest(id.encode())}".lstrip("-")
