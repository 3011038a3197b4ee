"""The files of a device as E2B's clients ask for them: paths, entries of folders, moving, removing."""

import posixpath
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from guiagent.errors import Fault, FaultError, UsageError
from guiagent.protocols import Files, Shell

MOST_ENTRIES = 4_096  # of one answer
_MOST_DEPTH = 32
_CALL_S = 20.0
_LONGEST_PATH = 4_096
# Name, kind, path, size, mode, permissions, owner, group, seconds, target of a link.
_FORMAT = r"%f\0%y\0%p\0%s\0%m\0%M\0%u\0%g\0%T@\0%l\0"
_FIELDS = 10
_KINDS = {"f": "FILE_TYPE_FILE", "d": "FILE_TYPE_DIRECTORY", "l": "FILE_TYPE_SYMLINK"}


class Machine(Shell, Files, Protocol):
    """A device with a shell and files."""


class Folders:
    """Files of one device by paths as E2B writes them: from the user's home if they are not absolute."""

    def __init__(self, device: Machine) -> None:
        self._device = device
        self._home = ""

    async def path(self, said: str) -> str:
        """The absolute path that is meant. Raises UsageError for one that can be none."""
        if not said or "\0" in said or len(said) > _LONGEST_PATH:
            raise UsageError("send the path of a file: without NUL bytes, of at most 4096 characters")
        return posixpath.normpath(posixpath.join(await self.home(), said.removeprefix("~/")))

    async def home(self) -> str:
        """The home folder of the user that programs run as."""
        if not self._home:
            said = await self._device.exec(["/bin/sh", "-c", 'printf %s "$HOME"'], _CALL_S)
            self._home = said.stdout if said.stdout.startswith("/") else "/"
        return self._home

    async def read(self, said: str) -> bytes:
        return await self._device.get(await self.path(said))

    async def write(self, said: str, data: bytes) -> dict[str, str]:
        """Write a file, and the folders that it needs."""
        path = await self.path(said)
        await self._run(["mkdir", "-p", "--", posixpath.dirname(path)])
        await self._device.put(path, data)
        return {"name": posixpath.basename(path), "type": "file", "path": path}

    async def entry(self, said: str) -> dict[str, Any]:
        (found,) = await self._found([await self.path(said), "-maxdepth", "0"])
        return found

    async def entries(self, said: str, depth: int) -> list[dict[str, Any]]:
        """What is in a folder, `depth` levels of it."""
        if not 1 <= depth <= _MOST_DEPTH:
            raise UsageError(f"a depth is a number from 1 to {_MOST_DEPTH}")
        path = await self.path(said)
        if (await self.entry(path))["type"] != "FILE_TYPE_DIRECTORY":
            raise UsageError(f"{path} is no folder")
        return await self._found([path, "-mindepth", "1", "-maxdepth", str(depth)])

    async def make(self, said: str) -> dict[str, Any]:
        """Make a folder. Raises FaultError (code "exists") if there is something of that name."""
        path = await self.path(said)
        await self._run(["mkdir", "-p", "--", posixpath.dirname(path)])
        await self._run(["mkdir", "--", path])
        return await self.entry(path)

    async def move(self, source: str, to: str) -> dict[str, Any]:
        path = await self.path(to)
        await self._run(["mv", "-T", "--", await self.path(source), path])
        return await self.entry(path)

    async def remove(self, said: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        path = await self.path(said)
        await self.entry(path)
        await self._run(["rm", "-r", "-f", "--one-file-system", "--", path])

    async def _found(self, words: Sequence[str]) -> list[dict[str, Any]]:
        fields = (await self._run(["find", *words, "-printf", _FORMAT])).split("\0")
        rows = [fields[start : start + _FIELDS] for start in range(0, len(fields) - 1, _FIELDS)]
        if len(rows) > MOST_ENTRIES:
            raise FaultError(Fault("task", "too_large", f"there are more than {MOST_ENTRIES} entries"))
        return [_entry(*row) for row in rows if len(row) == _FIELDS]

    async def _run(self, command: Sequence[str]) -> str:
        said = await self._device.exec(["env", "LC_ALL=C", *command], _CALL_S)
        if said.code:
            why = (said.stderr.strip() or f"{command[0]} ended with {said.code}")[:300]
            raise FaultError(Fault("task", _code(why), why))
        return said.stdout


def _code(why: str) -> str:
    if "No such file" in why:
        return "not_found"
    return "exists" if "exists" in why else "refused"


def _entry(
    name: str,
    kind: str,
    path: str,
    size: str,
    mode: str,
    permissions: str,
    owner: str,
    group: str,
    modified: str,
    target: str,
) -> dict[str, Any]:
    moment = datetime.fromtimestamp(float(modified), UTC)
    return {
        "name": name or path,
        "type": _KINDS.get(kind, "FILE_TYPE_UNSPECIFIED"),
        "path": path,
        "size": size,  # a 64-bit number, which protobuf's JSON writes as a string
        "mode": int(mode, 8),
        "permissions": permissions,
        "owner": owner,
        "group": group,
        "modifiedTime": moment.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        **({"symlinkTarget": target, "isSymlink": True} if kind == "l" else {}),
    }
