"""Peak memory of this process and its descendants, as proportional set size: shared pages count once."""

import contextlib
import os
import threading
from pathlib import Path

_INTERVAL_S = 5.0


class PeakMemory:
    """Sample memory in a thread while the context is open; `megabytes` is the largest sum seen."""

    def __init__(self) -> None:
        self.megabytes = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.megabytes = max(self.megabytes, sum(map(pss_kb, descendants(os.getpid()))) / 1024)
            self._stop.wait(_INTERVAL_S)


def descendants(root: int) -> list[int]:
    """Return the ids of `root` and of all processes below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, index = [root], 0
    while index < len(found):
        found += children.get(found[index], [])
        index += 1
    return found


def pss_kb(pid: int) -> int:
    """Return a process's proportional set size in kB; 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0
