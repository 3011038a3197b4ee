"""Harbor's task folders (0.26) as a taskset on desktops: instruction, files, test and solution."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import xxhash

from guiagent.errors import UsageError
from rewards.tasksets.harbor.folder import TaskFolder, below, load
from rewards.tasksets.harbor.task import HarborTask, SolvableHarborTask

__all__ = ["PREFIX", "Harbor", "HarborTask", "TaskFolder"]

PREFIX = "harbor:"


class Harbor:
    """The taskset of the task folders in a folder, or of the one it is. Raises UsageError for a bad one."""

    def __init__(self, where: Path) -> None:
        self._where = where
        self._folders = {folder.name: folder for folder in map(load, below(where))}

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._folders)

    def __iter__(self) -> Iterator[TaskFolder]:
        return iter(self._folders.values())

    @cached_property
    def digest(self) -> str:
        """xxh3-128 of all files: results under different digests must not be compared."""
        return xxhash.xxh3_128_hexdigest("".join(folder.digest for folder in self).encode())

    def task(self, name: str, seed: int) -> HarborTask:
        folder = self._folders.get(name)
        if folder is None:
            raise UsageError(f"{self._where} has no task {name!r}")
        return (SolvableHarborTask if folder.solvable else HarborTask)(folder, seed)
