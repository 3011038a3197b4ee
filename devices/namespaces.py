"""Processes of a sandbox as the host sees them: which there are, and stopping them for a moment."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

_ROUNDS = 20
_STOPS_S = 2.0  # for a system call under way to end


def children(pid: int) -> list[int]:
    """Process ids of a process's children; [] if it is gone."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def sharing(inner: int) -> list[int]:
    """Process ids in the process namespace of the process `inner`."""
    found = []
    with contextlib.suppress(OSError):
        inside = os.readlink(f"/proc/{inner}/ns/pid")
        for entry in os.scandir("/proc"):
            with contextlib.suppress(OSError):  # it ended meanwhile, or is not ours to read
                if entry.name.isdigit() and os.readlink(f"{entry.path}/ns/pid") == inside:
                    found.append(int(entry.name))
    return found


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop every process inside the sandbox that the process `pid` is the outer end of.

    What a program in it had written by then is all there is to read, as after a power cut. Raises OSError if
    new processes appear faster than they can be stopped.
    """
    stopped: set[int] = set()
    try:
        for _ in range(_ROUNDS):
            new = {one for child in children(pid) for one in sharing(child)} - stopped
            if not new:
                break
            for one in new:
                kill(one, signal.SIGSTOP)
            stopped |= new
            _wait_until_stopped(new)
        else:
            raise OSError("its processes cannot be stopped")
        yield
    finally:
        for one in stopped:
            kill(one, signal.SIGCONT)


def _wait_until_stopped(pids: set[int]) -> None:
    until = time.monotonic() + _STOPS_S
    while any(_runs(pid) for pid in pids):
        if time.monotonic() > until:
            raise OSError("its processes do not stop")
        time.sleep(0.001)


def _runs(pid: int) -> bool:
    """Whether a thread of the process is neither stopped nor ended."""
    try:
        stats = [stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:
        return False
    return any(stat.rpartition(")")[2].split()[0] not in "TtZX" for stat in stats)
