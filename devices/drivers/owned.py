"""Folders and processes named after the process that owns them, so that what a killed owner left is found.

A folder is `guiagent-KIND-PID-STARTTIME-xxxx` in the temporary directory. A process belongs to the folder
that its command line names; it leads a session of its own and dies with its owner's thread (`setpriv`).
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from guiagent.errors import InfrastructureError


def create_folder(kind: str) -> Path:
    """A new private folder of this process."""
    return Path(tempfile.mkdtemp(prefix=f"guiagent-{kind}-{os.getpid()}-{_start_time(os.getpid())}-"))


def spawn(
    command: Sequence[str],
    output: int | IO[bytes] = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program that lives no longer than this thread. Raises InfrastructureError."""
    setpriv = shutil.which("setpriv")
    bound = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
    try:
        return subprocess.Popen(
            [*bound, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=None if environment is None else {**os.environ, **environment},
            start_new_session=True,
        )
    except OSError as error:
        raise InfrastructureError(f"cannot start {command[0]}: {error.strerror}") from None


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a spawned process with its whole group. Idempotent."""
    if process.returncode is None:  # not waited for, so its number is nobody else's
        kill_group(process.pid)
        process.wait()


def kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def end_all(folder: Path) -> None:
    """End every process whose command line names `folder`, with its group."""
    for group in _groups(re.compile(re.escape(folder.name))):
        kill_group(group)


def sweep(kind: str) -> int:
    """End processes of `kind` whose owner is gone, and remove its folders; returns how many were ended."""
    name = re.compile(rf"guiagent-{kind}-(?P<pid>\d+)-(?P<start_time>\d+)-\w+")
    groups = _groups(name, _owner_gone)
    for group in groups:
        kill_group(group)
    for folder in Path(tempfile.gettempdir()).glob(f"guiagent-{kind}-*"):
        if (match := name.fullmatch(folder.name)) and _owner_gone(match):
            remove_folder(folder)
    return len(groups)


def _groups(name: re.Pattern[str], wanted: Callable[[re.Match[str]], bool] = lambda _: True) -> set[int]:
    """Process groups of the processes whose command lines name a wanted folder."""
    folder = re.compile(re.escape(f"{tempfile.gettempdir()}/") + name.pattern)
    groups = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # it ended meanwhile, or is not ours to read
            match = folder.search(os.fsdecode((entry / "cmdline").read_bytes()))
            group = os.getpgid(int(entry.name))
            # Ours lead sessions; somebody's editor that looks into the folder does not.
            if match and wanted(match) and group == os.getsid(int(entry.name)) != os.getsid(0):
                groups.add(group)
    return groups


def _owner_gone(match: re.Match[str]) -> bool:
    return _start_time(int(match["pid"])) != match["start_time"]


def _start_time(pid: int) -> str:
    """When the process started, in clock ticks since boot; "" when it is gone. Tells reused pids apart."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
