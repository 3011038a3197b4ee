"""Folders and processes named after their owner process, so that a killed owner's leftovers can be found.

A folder is `guiagent-KIND-PID-STARTTIME-xxxx` in the temporary directory. A process belongs to the folder
that its command line names; it leads a session of its own and dies with its owner's thread (see
`devices.processes`).
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")


def create_folder(kind: str, parent: Path | None = None) -> Path:
    """Create a private folder of this process, in `parent` or else in the temporary directory."""
    return Path(
        tempfile.mkdtemp(prefix=f"{prefix(kind)}{os.getpid()}-{_start_time(os.getpid())}-", dir=parent)
    )


def prefix(kind: str) -> str:
    """The prefix of the names of all folders of a kind."""
    return f"guiagent-{kind}-"


def folders(kind: str = "") -> Iterator[Path]:
    """All folders of a kind, or of every kind, whoever owns them."""
    yield from Path(tempfile.gettempdir()).glob(f"{prefix(kind) if kind else 'guiagent-'}*")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a spawned process with its whole group. Idempotent."""
    if process.returncode is None:  # not waited for, so its pid cannot be reused yet
        kill_group(process.pid)
        process.wait()


def kill_group(group: int) -> bool:
    """Whether there was such a group, and it was ours to end."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def end_all(folder: Path) -> None:
    """End every process whose command line names `folder`, with its group."""
    _end_groups(_group_naming(re.compile(re.escape(folder.name))))


def sweep(kind: str) -> int:
    """End processes of `kind` whose owner is gone, and remove its folders; returns how many were ended."""
    ended = _end_groups(_group_naming(_name(kind), _owner_gone))
    remove_orphaned(kind)
    return ended


def end_commands(is_wanted: Callable[[list[str]], bool]) -> int:
    """End the groups of all processes whose command line, as arguments, is wanted; return how many groups."""

    def group_of(process: Path) -> int | None:
        arguments = [os.fsdecode(one) for one in (process / "cmdline").read_bytes().split(b"\0")]
        return os.getpgid(int(process.name)) if is_wanted(arguments) else None

    return _end_groups(group_of)


def survey(look: Callable[[Path], Found | None]) -> list[Found]:
    """Call `look` with the /proc folder of every process of this pid namespace; collect its results.

    A None is left out, and so is a process for which `look` raises OSError: it ended meanwhile or may not be
    read. Other pid namespaces are left out because a container's folders have the container's own pids in
    their names: from outside, all their owners would look dead.
    """
    found = []
    ours = os.readlink("/proc/self/ns/pid")
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if _is_in(process, ours) and (made := look(process)) is not None:
                found.append(made)
    return found


def _is_in(process: Path, namespace: str) -> bool:
    try:
        return os.readlink(process / "ns/pid") == namespace
    except PermissionError:  # another user's; how many namespaces it has a pid in anybody may read
        (pids,) = (
            line for line in (process / "status").read_text().splitlines() if line.startswith("NSpid:")
        )
        return len(pids.split()) == 2


def remove_orphaned(kind: str, parent: Path | None = None) -> None:
    """Remove the folders of owners that are gone."""
    for folder in (parent or Path(tempfile.gettempdir())).glob(f"{prefix(kind)}*"):
        if is_orphaned(kind, folder.name):
            remove_folder(folder)


def is_orphaned(kind: str, name: str) -> bool:
    """True for the name of a folder of that kind whose owner is gone."""
    match = _name(kind).fullmatch(name)
    return match is not None and _owner_gone(match)


def _name(kind: str) -> re.Pattern[str]:
    return re.compile(rf"{prefix(kind)}(?P<pid>\d+)-(?P<start_time>\d+)-\w+")


def _end_groups(group_of: Callable[[Path], int | None]) -> int:
    return sum([kill_group(group) for group in set(survey(group_of))])


def _group_naming(
    name: re.Pattern[str], wanted: Callable[[re.Match[str]], bool] = lambda _: True
) -> Callable[[Path], int | None]:
    """Function for `_end_groups`: the group of a process whose command line names a wanted folder."""
    folder = re.compile(re.escape(f"{tempfile.gettempdir()}/") + name.pattern)

    def group_of(process: Path) -> int | None:
        match = folder.search(os.fsdecode((process / "cmdline").read_bytes()))
        group = os.getpgid(int(process.name))
        # Ours lead sessions; somebody's editor that looks into the folder does not.
        leads = group == os.getsid(int(process.name)) != os.getsid(0)
        return group if match and leads and wanted(match) else None

    return group_of


def _owner_gone(match: re.Match[str]) -> bool:
    return _start_time(int(match["pid"])) != match["start_time"]


def _start_time(pid: int) -> str:
    """When the process started, in clock ticks since boot; "" if it is gone. Distinguishes reused pids."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
