"""Folders of running VMs, named after their owner so that what a killed one left is found."""

import os
import tempfile
from itertools import pairwise
from pathlib import Path

from devices import owned

_KIND = "vm"
PREFIX = owned.prefix(_KIND)
_MEMORY = Path("/dev/shm")


def create() -> Path:
    """Create a private folder for one VM: its disk overlay and its socket."""
    return owned.create_folder(_KIND)


def create_in_memory(needed_mb: int) -> Path:
    """Create a private folder for RAM that a guest writes to: in memory, if there is room.

    On a disk the kernel would write pages back while the guest works on them, and each fault costs more.
    """
    try:
        room = os.statvfs(_MEMORY)
    except OSError:
        return owned.create_folder(_KIND)
    fits = room.f_bavail * room.f_frsize > 2 * needed_mb << 20
    return owned.create_folder(_KIND, _MEMORY if fits else None)


def remove(folder: Path) -> None:
    owned.remove_folder(folder)


def sweep() -> int:
    """End QEMUs whose owner is gone and remove such owners' folders; returns how many were ended."""
    ended = owned.end_commands(_is_orphan)
    for parent in (Path(tempfile.gettempdir()), _MEMORY):
        owned.remove_orphaned(_KIND, parent)
    return ended


def _is_orphan(arguments: list[str]) -> bool:
    """True for the command line of a QEMU whose name, `-name FOLDER`, is that of a dead owner's folder."""
    named = dict(pairwise(arguments)).get("-name", "")
    return "qemu" in arguments[0] and owned.is_orphaned(_KIND, named)
