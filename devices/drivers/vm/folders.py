"""Folders of running VMs, named after their owner so that what a killed one left is found."""

import contextlib
import os
import re
import shutil
import signal
import tempfile
from itertools import pairwise
from pathlib import Path

PREFIX = "guiagent-vm-"
_MEMORY = Path("/dev/shm")
_NAME = re.compile(PREFIX + r"(?P<pid>\d+)-(?P<start_time>\d+)-\w+")


def create() -> Path:
    """A new private folder for one VM: its disk overlay and its socket."""
    return _create(None)


def create_in_memory(needed_mb: int) -> Path:
    """A new private folder for RAM that a guest writes to: in memory, if there is room.

    On a disk the kernel would write pages back while the guest works on them, and each fault costs more.
    """
    try:
        room = os.statvfs(_MEMORY)
    except OSError:
        return _create(None)
    return _create(_MEMORY if room.f_bavail * room.f_frsize > 2 * needed_mb << 20 else None)


def _create(parent: Path | None) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-{_start_time(os.getpid())}-", dir=parent))


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def sweep() -> int:
    """End QEMUs whose owner is gone and remove such owners' folders; returns how many were ended."""
    ended = 0
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it ended meanwhile, or is not ours to read
            if entry.name.isdigit() and _is_orphan((entry / "cmdline").read_bytes()):
                os.killpg(os.getpgid(int(entry.name)), signal.SIGKILL)
                ended += 1
    for parent in (Path(tempfile.gettempdir()), _MEMORY):
        for folder in parent.glob(f"{PREFIX}*"):
            if _owner_gone(folder.name):
                remove(folder)
    return ended


def _is_orphan(cmdline: bytes) -> bool:
    """True for the command line of a QEMU whose name, `-name FOLDER`, is that of a dead owner's folder."""
    arguments = [os.fsdecode(argument) for argument in cmdline.split(b"\0")]
    named = dict(pairwise(arguments)).get("-name", "")
    return "qemu" in arguments[0] and _owner_gone(named)


def _owner_gone(name: str) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and _start_time(int(match["pid"])) != match["start_time"]


def _start_time(pid: int) -> str:
    """When the process started, in clock ticks since boot; "" when it is gone. Tells reused pids apart."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
