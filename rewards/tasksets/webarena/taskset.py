"""Taskset over WebArena's task files on the user's sites."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import xxhash

from guiagent.errors import UsageError
from rewards.tasksets.webarena import sites
from rewards.tasksets.webarena.files import TaskFile, VerifiedFile, paths, read
from rewards.tasksets.webarena.task import SameMeaning, WebArenaTask
from rewards.tasksets.webarena.verified import VerifiedTask


@dataclass(frozen=True)
class WebArena:
    """The tasks of a file, or of all `*.json` below a folder, in WebArena's form or in -Verified's.

    `sites` gives the address of every placeholder, by its name without underscores ("SHOPPING"), in any case.

    Raises:
        UsageError: a file is no task file (the message names file and key), two tasks have the same id, or,
            from `task`, a site has no address.
    """

    path: Path
    sites: Mapping[str, str] = field(default_factory=dict)
    same_meaning: SameMeaning | None = None

    @cached_property
    def files(self) -> dict[str, TaskFile | VerifiedFile]:
        found: dict[str, TaskFile | VerifiedFile] = {}
        for path in paths(self.path):
            for one in read(path):
                if (id := str(one.task_id)) in found:
                    raise UsageError(f"{path}: task_id: {id} is also that of another task: name one file")
                found[id] = one
        return found

    @cached_property
    def digest(self) -> str:
        """xxh3-128 of the task files: results under different digests must not be compared."""
        digest = xxhash.xxh3_128()
        for path in paths(self.path):
            digest.update(path.read_bytes())
        return digest.hexdigest()

    @cached_property
    def addresses(self) -> dict[str, str]:
        """The addresses of the sites that the files name, as far as they were given."""
        given, named = sites.checked(self.sites), self._named
        return {name: url for name, url in given.items() if name in named}

    @property
    def names(self) -> Sequence[str]:
        return list(self.files)

    def __iter__(self) -> Iterator[WebArenaTask | VerifiedTask]:
        """Every task, with its sites' names in place of the addresses that are missing."""
        return (self._made(file, 0) for file in self.files.values())

    def task(self, name: str, seed: int) -> WebArenaTask | VerifiedTask:
        """Return the task of a name. `seed` only seeds the browser: these tasks have no parameters."""
        if name not in self.files:
            raise UsageError(f"no WebArena task {name!r} in {self.path}; it holds {len(self.files)} tasks")
        task = self._made(self.files[name], seed)
        if missing := sorted(_named(self.files[name]) - set(self.addresses)):
            others = sorted(self._named - set(self.addresses))
            raise UsageError(
                f"WebArena task {name} is on {', '.join(missing)}: give the site's address, "
                f"--site {missing[0]}=http://HOST:PORT; without one in {self.path}: {', '.join(others)}"
            )
        return task

    def _made(self, file: TaskFile | VerifiedFile, seed: int) -> WebArenaTask | VerifiedTask:
        here = {name: url for name, url in self.addresses.items() if name in _named(file)}
        if isinstance(file, VerifiedFile):
            return VerifiedTask(file, seed, here)
        folder = self.path if self.path.is_dir() else self.path.parent
        filled = sites.filled(file, here)
        return WebArenaTask(filled, seed, self.same_meaning, addresses=here, folder=folder)

    @cached_property
    def _named(self) -> set[str]:
        return set().union(*map(_named, self.files.values()))


def _named(file: TaskFile | VerifiedFile) -> set[str]:
    """The sites that a task needs: those that its addresses name."""
    if isinstance(file, VerifiedFile):
        return sites.placeholders(file.start_urls, [one.expected.get("url") for one in file.eval])
    return sites.placeholders(file.start_url, file.eval, file.image)
