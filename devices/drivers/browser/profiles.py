"""Named browser profiles, which outlive leases: one folder each, used by one browser at a time.

A browser works on a copy, which is saved when its lease ends, without its caches: a browser that was killed
leaves the profile as it was, and so does one whose profile has become too large.
"""

import fcntl
import logging
import os
import re
import shutil
from pathlib import Path
from typing import IO, NamedTuple

from devices import foreign
from guiagent.client.local_pool import state_dir
from guiagent.errors import Fault, FaultError, UsageError

MAX_BYTES = 256 << 20  # of one profile
MAX_PROFILES = 64  # of one tenant
_NAME = re.compile(
    r"([a-z0-9][a-z0-9_-]{0,31}\.)?[a-z0-9][a-z0-9_-]{0,63}"
)  # a tenant's profile is TENANT.NAME
_CACHES = {
    *("Cache", "Code Cache", "GPUCache", "GrShaderCache", "ShaderCache", "GraphiteDawnCache"),
    *("DawnGraphiteCache", "DawnWebGPUCache", "Crashpad"),
}
_log = logging.getLogger(__name__)


class Profile:
    """The profile `name`, locked until `release`; the kernel frees the lock if its owner dies.

    Raises FaultError (origin "task") for an invalid name, a profile that another browser uses, and one more
    than a tenant may have.
    """

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            message = f"{name[:80]!r} cannot name a profile: up to 64 of a-z, 0-9, - and _"
            raise FaultError(Fault("task", "bad_profile", message))
        self.name = name
        self._folder = _root() / name
        self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock: IO[bytes] = (_root() / f"{name}.lock").open("wb")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(self._lock.fileno()).st_nlink:  # its profile has just been deleted
                raise BlockingIOError
        except BlockingIOError:
            self._lock.close()
            message = f"the profile {name!r} is in use by another browser"
            raise FaultError(Fault("task", "profile_in_use", message, retryable=True)) from None
        if not self._folder.exists() and self._old.exists():  # this service ended between two renames
            self._old.rename(self._folder)
        tenant = _tenant(name)
        if not self._folder.exists() and sum(_tenant(one) == tenant for one in _names()) >= MAX_PROFILES:
            self.delete()
            message = f"there are {MAX_PROFILES} profiles already: `guiagent profile delete` removes one"
            raise FaultError(Fault("task", "too_many_profiles", message))

    def fill(self, folder: Path) -> None:
        """Copy what was saved last to `folder`, if anything was."""
        if self._folder.exists():
            shutil.copytree(self._folder, folder)

    def save(self, folder: Path) -> None:
        """Save a copy of `folder`; if it is too large, the former one stays, and the log says so."""
        new = _root() / f".{self.name}.new"
        for leftover in (new, self._old):
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            foreign.copy(folder, new, MAX_BYTES, _CACHES)
        except OSError as error:
            shutil.rmtree(new, ignore_errors=True)
            _log.warning("the profile %s stays as it was before: %s", self.name, error)
            return
        if self._folder.exists():
            self._folder.rename(self._old)
        new.rename(self._folder)
        shutil.rmtree(self._old, ignore_errors=True)

    def delete(self) -> None:
        """Remove it, and release what is left of it."""
        shutil.rmtree(self._folder, ignore_errors=True)
        Path(self._lock.name).unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        self._lock.close()

    @property
    def _old(self) -> Path:
        return _root() / f".{self.name}.old"


class Kept(NamedTuple):
    """A profile on this machine, and the bytes it takes."""

    name: str
    size: int


def kept() -> list[Kept]:
    """All profiles of this machine, by name."""
    return [Kept(name, sum(foreign.sizes(_root() / name).values())) for name in _names()]


def delete(name: str) -> None:
    """Remove a profile. Raises UsageError if there is none of that name, FaultError if a browser uses it."""
    if name not in _names():
        raise UsageError(f"there is no profile {name[:80]!r}; there are {', '.join(_names()) or 'none'}")
    Profile(name).delete()


def _root() -> Path:
    return state_dir() / "profiles"


def _names() -> list[str]:
    return sorted(place.name for place in _root().glob("*/") if _NAME.fullmatch(place.name))


def _tenant(name: str) -> str:
    return name.rpartition(".")[0]
