"""The phone's file system: where its paths lie on the host, and which of them a shell may write.

Everything is below one folder. Paths are resolved here, so that no `..`, absolute path or link leads out of
it; failures are OSErrors with the errno that Android would give.
"""

import errno
import os
import posixpath
import shutil
from collections.abc import Callable
from pathlib import Path

MAX_FILE = 256 << 20
_MIN_FREE = 64 << 20  # bytes left on the host's disk, below which the phone's own disk counts as full
_ALIASES = (
    ("/storage/emulated/0", "/sdcard"),
    ("/storage/self/primary", "/sdcard"),
    ("/mnt/sdcard", "/sdcard"),
    ("/data/user/0", "/data/data"),
)
_TEMPORARY = "/data/local/tmp"
_WRITABLE = ("/sdcard", _TEMPORARY)
_BUILD_PROP = "/system/build.prop"


class Storage:
    """The files of one phone in `folder`; `now` tells its own clock, in seconds since the epoch."""

    def __init__(self, folder: Path, now: Callable[[], float]) -> None:
        self._folder = folder.resolve()
        self._now = now

    def prepare(self, build_prop: str) -> None:
        """Make the folders that every phone has."""
        for path in (*_WRITABLE, "/data/data", "/system"):
            self._host(path).mkdir(parents=True, exist_ok=True)
        self._host(_BUILD_PROP).write_text(build_prop)

    def modified(self, found: os.stat_result) -> float:
        """When a file was last changed: by the phone's clock, on which no file is younger than now."""
        return min(found.st_mtime, self._now())

    def wipe_temporary(self) -> None:
        for entry in self._host(_TEMPORARY).iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def temporary(self) -> list[tuple[str, int]]:
        """Path and size in bytes of every file in /data/local/tmp, sorted."""
        root = self._host(_TEMPORARY)
        return sorted(
            (str(path.relative_to(root)), path.stat().st_size) for path in root.rglob("*") if path.is_file()
        )

    def path(self, path: str, cwd: str = "/") -> str:
        """Canonical absolute name of a device path."""
        whole = "/" + posixpath.normpath(posixpath.join("/", cwd, path)).lstrip("/")
        for alias, name in _ALIASES:
            if whole == alias or whole.startswith(alias + "/"):
                whole = name + whole[len(alias) :]
        return whole

    def read(self, path: str, cwd: str = "/") -> Path:
        """Host path of `path`. Raises OSError if nothing exists there."""
        host = self._host(self.path(path, cwd))
        try:
            host.lstat()
        except OSError as error:
            raise OSError(error.errno, "", path) from None
        return host

    def write(self, path: str, cwd: str = "/") -> Path:
        """Host path of something to create, change or remove below /sdcard or /data/local/tmp.

        Raises OSError for any other place, and if the disk is nearly full.
        """
        whole = self.path(path, cwd)
        host = self._host(whole)
        if not any(whole.startswith(place + "/") for place in _WRITABLE):
            # A shell may read apps' data, which adb without root could not; only the apps may change it.
            raise OSError(errno.EACCES if host.exists() else errno.EROFS, "", path)
        if shutil.disk_usage(self._folder).free < _MIN_FREE:
            raise OSError(errno.ENOSPC, "", path)
        return host

    def _host(self, whole: str) -> Path:
        if "\0" in whole:
            raise OSError(errno.EINVAL, "", whole)
        host = self._folder / whole.lstrip("/")
        if not host.resolve().is_relative_to(self._folder):
            raise OSError(errno.EACCES, "", whole)
        return host

    def explain(self, error: OSError) -> str:
        """Message of `reason` after the phone's own name of the file."""
        name = error.filename
        if not isinstance(name, str):
            return reason(error)
        if Path(name).is_relative_to(self._folder):
            name = f"/{Path(name).relative_to(self._folder)}"
        return f"{name}: {reason(error)}"


def reason(error: OSError) -> str:
    """Message that an Android tool would print for an error; it never names a host path."""
    return os.strerror(error.errno or errno.EIO)
