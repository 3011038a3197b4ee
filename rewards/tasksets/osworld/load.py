"""Taskset over a folder of OSWorld's task files."""

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import xxhash

from guiagent.errors import UsageError
from rewards.checks.assets import Assets
from rewards.tasksets.osworld.schema import MAX_FILE, TaskFile, read
from rewards.tasksets.osworld.solved import SOLUTIONS, SolvedOsworldTask, solutions
from rewards.tasksets.osworld.task import OsworldTask
from rewards.tasksets.task_files import content

MIRROR = "assets"  # in the task files' folder: what they name by URL, as HOST/PATH
_MAX_STEPS = 50
_PASSWORD = "password"  # of the user in OSWorld's images


def paths(where: Path) -> list[Path]:
    """List the task files below a folder, or the one file. Raises UsageError if there is none."""
    if where.is_file():
        return [where]
    found = sorted(
        path
        for path in where.rglob("*.json")
        if MIRROR not in path.relative_to(where).parts and path != where / SOLUTIONS
    )
    if not found:
        raise UsageError(f"{where} holds no task files (*.json)")
    return found


def load(path: Path) -> TaskFile:
    """Read a task file.

    Raises:
        UsageError: it is no task file; the message names the file and the key.
        InfrastructureError: it cannot be read.
    """
    return read(content(path, MAX_FILE), str(path))


class Osworld:
    """The taskset of every task file below `where`, by its id.

    Assets come from `where/assets`, then from a cache in $XDG_CACHE_HOME/guiagent/assets, which downloads
    fill.

    Raises:
        UsageError: a file is no task file, or two files have the same id.
    """

    def __init__(self, where: Path, assets: Assets | None = None) -> None:
        folder = where if where.is_dir() else where.parent
        self._folder = folder
        self._assets = assets or Assets(default_cache(), folder / MIRROR)
        self._files: dict[str, TaskFile] = {}
        self._solutions = solutions(folder)
        self._digest = xxhash.xxh3_128()
        for path in paths(where):
            file = load(path)
            if file.id in self._files:
                raise UsageError(f"{path}: id: {file.id} is also that of another file")
            self._files[file.id] = file
            self._digest.update(path.read_bytes())

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._files)

    @cached_property
    def digest(self) -> str:
        """xxh3-128 of the task files: results under different digests must not be compared."""
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[TaskFile]:
        return iter(self._files.values())

    def task(self, name: str, seed: int) -> OsworldTask:
        """Return the task of an id, one that proves its check if it has a solution.

        `seed` only seeds the device: OSWorld's tasks have no parameters.
        """
        file = self._files.get(name)
        if file is None:
            raise UsageError(f"{self._folder} has no task {name!r}")
        parts = (file, seed, _MAX_STEPS, self._assets, self._folder, _PASSWORD)
        if name not in self._solutions and not file.infeasible:
            return OsworldTask(*parts)
        return SolvedOsworldTask(*parts, solution=self._solutions.get(name, ()))


def default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "guiagent", "assets")
