"""Ends devices that take too much of this machine: memory of all their processes together, and disk.

One thread looks at all devices of this process. What a single process may have the kernel limits at once (see
`devices.processes`); this is for those that share the work among many.
"""

import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

from devices import foreign, owned

MEMORY = 4 << 30  # bytes of a device's processes
DISK = 2 << 30  # bytes in a device's folder
_PERIOD_S = 1.0
_LOOKS_A_WALK = 5  # folders are walked as often as this less
_log = logging.getLogger(__name__)


class _Watcher:
    """Devices by their process group. Its thread runs while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folders: dict[int, Path] = {}
        self._thread: threading.Thread | None = None

    def add(self, group: int, folder: Path) -> None:
        with self._lock:
            self._folders[group] = folder
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="watch of devices", daemon=True)
                self._thread.start()

    def remove(self, group: int) -> None:
        with self._lock:
            self._folders.pop(group, None)

    def _run(self) -> None:
        looks = 0
        while True:
            time.sleep(_PERIOD_S)
            with self._lock:
                folders = dict(self._folders)
                if not folders:
                    self._thread = None
                    return
            looks += 1
            for group, size in memory(folders).items():
                self._require(group, "memory", size, MEMORY)
            if looks % _LOOKS_A_WALK == 0:
                for group, folder in folders.items():
                    self._require(group, "disk", disk(folder), DISK)

    def _require(self, group: int, what: str, size: int, most: int) -> None:
        with self._lock:  # so that the group is still this device's
            if size > most and group in self._folders:
                owned.kill_group(group)
                _log.warning(
                    "ended a device (process %d): it took %d MiB of %s, and may take %d",
                    *(group, size >> 20, what, most >> 20),
                )


def memory(groups: Collection[int]) -> dict[int, int]:
    """Bytes that the processes of each group have for themselves or share with each other.

    What two of them share counts twice. Anybody may read it, unlike exact figures, of any process.
    """
    taken: dict[int, int] = defaultdict(int)
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            stat = Path(entry.path, "stat").read_bytes()
            group = int(stat.rpartition(b")")[2].split()[2])
            if group in groups:
                status = Path(entry.path, "status").read_bytes()
                taken[group] += sum(
                    int(line.split()[1]) << 10
                    for line in status.splitlines()
                    if line.startswith((b"RssAnon:", b"RssShmem:"))
                )
        except OSError:  # it ended meanwhile
            pass
    return taken


def disk(folder: Path) -> int:
    """Bytes of the files in a folder."""
    try:
        return sum(foreign.sizes(folder).values())
    except OSError:  # it was removed meanwhile
        return 0


_WATCHER = _Watcher()
add = _WATCHER.add
remove = _WATCHER.remove
