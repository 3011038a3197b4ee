"""Files of a browser device: `/home/user` for uploads, `/home/user/Downloads` for downloads of pages."""

import asyncio
import contextlib
import errno
from pathlib import Path, PurePosixPath

from devices import foreign
from devices.chromium.cdp import Connection, Json
from guiagent.errors import Fault, FaultError

HOME = PurePosixPath("/home/user")
_MAX_BYTES = 256 << 20  # of all files together
_MAX_DEPTH = 8
_BEGIN_S = 1.0  # for a download to begin; a link that opens no page may not start one either
_CAP_S = 10.0  # a step does not wait longer for downloads


class Home:
    """The device's `/home/user`, kept in `folder` on the host; no path and no link leads outside of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.downloads = folder / "Downloads"
        self.downloads.mkdir(exist_ok=True)

    def put(self, path: str, data: bytes) -> None:
        """Write a file and its folders. Raises FaultError (origin "task") for a bad path or too much data."""
        parts = _parts(path)
        others = (size for name, size in self.listing().items() if name != "/".join(parts))
        if sum(others) + len(data) > _MAX_BYTES:
            message = f"no room for {path} ({len(data)} bytes): all files may have {_MAX_BYTES >> 20} MiB"
            raise FaultError(Fault("task", "too_large", message))
        try:
            foreign.write(self.folder, parts, data)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            message = f"{path} cannot be written: {error.strerror}"
            raise FaultError(Fault("task", "bad_path", message)) from None

    def get(self, path: str) -> bytes:
        self.find(path)
        return foreign.read(self.folder, _parts(path), _MAX_BYTES)

    def find(self, path: str) -> Path:
        """Host path of a file. Raises FaultError (origin "task") if the device has no file of that name."""
        parts = _parts(path)
        if not foreign.is_file(self.folder, parts):
            raise FaultError(Fault("task", "missing_file", f"there is no file {path} on this device"))
        return self.folder.joinpath(*parts)

    def listing(self) -> dict[str, int]:
        """Size in bytes of every file, by its path below the folder."""
        return foreign.sizes(self.folder)

    def clear(self) -> None:
        """Remove all files, and all folders but that of downloads."""
        foreign.empty(self.folder, {self.downloads.name})
        foreign.empty(self.downloads)


def _parts(path: str) -> tuple[str, ...]:
    """Names on the way to a file of the device, below its home. Raises FaultError (origin "task")."""
    device_path = PurePosixPath(path)
    parts = device_path.parts[len(HOME.parts) :]
    legal = parts and len(parts) <= _MAX_DEPTH and ".." not in parts and "\0" not in path
    if not (device_path.is_relative_to(HOME) and legal and len(path) <= 512):
        message = f"{path[:80]!r} is no file of this device: they are all below {HOME}/"
        raise FaultError(Fault("task", "bad_path", message))
    return parts


class Downloads:
    """Downloads to `/home/user/Downloads`; one that gets too large is cancelled, and `note` says so."""

    def __init__(self, connection: Connection, home: Home, context: str | None) -> None:
        self.note: str | None = None
        self._running: set[str] = set()
        self._begun = asyncio.Event()  # since the last step
        self._ended = asyncio.Event()
        self._connection = connection
        self._home = home
        self._context: Json = {"browserContextId": context} if context else {}

    async def accept(self) -> None:
        where: Json = {"behavior": "allow", "downloadPath": str(self._home.downloads), "eventsEnabled": True}
        await self._connection.post("Browser.setDownloadBehavior", where | self._context)

    async def settle(self, expected: bool) -> None:
        """Wait until no download is running, including one that is `expected` to begin; with a cap."""
        with contextlib.suppress(TimeoutError):
            if expected:
                await asyncio.wait_for(self._begun.wait(), _BEGIN_S)
            async with asyncio.timeout(_CAP_S):
                while self._running:
                    self._ended.clear()
                    await self._ended.wait()
        self._begun.clear()

    def heard(self, method: str, event: Json) -> None:
        match method:
            case "Browser.downloadWillBegin":
                self._running.add(event["guid"])
                self._begun.set()
            case "Browser.downloadProgress" if event["state"] == "inProgress":
                size = max(event["totalBytes"], event["receivedBytes"])
                if event["guid"] in self._running and size > self._room(event["receivedBytes"]):
                    self._give_up(event["guid"])
            case "Browser.downloadProgress":
                self._running.discard(event["guid"])
                self._ended.set()

    def _room(self, received: float) -> float:
        """Largest size allowed for a download that already has `received` bytes on disk."""
        return _MAX_BYTES - sum(self._home.listing().values()) + received

    def _give_up(self, guid: str) -> None:
        self._running.discard(guid)
        self.note = f"a download was given up: all files may have {_MAX_BYTES >> 20} MiB"
        self._connection.post("Browser.cancelDownload", {"guid": guid} | self._context)
