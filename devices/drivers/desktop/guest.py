"""Client of the guest server of one desktop over its unix socket: commands, files, the accessibility tree.

The server is inside the sandbox and not trusted: answers are bounded, and the socket that existed before any
agent is kept by a descriptor, so that no link in its place can lead to a socket of the host.
"""

import asyncio
import os
import stat
from asyncio import StreamReader, StreamWriter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx

from devices.drivers import atspi
from devices.drivers.replies import Executed, parse
from guiagent.errors import Fault, FaultError
from guiagent.types import CommandResult, Node

T = TypeVar("T")
_MAX_ANSWER = 64 << 20
_MAX_OUTPUT = 1 << 20  # characters of a stream
_TREE_MS = 2000
_TIMED_OUT = 124  # of coreutils' timeout


class Guest:
    """Client of one desktop's guest server; commands run as the desktop's user."""

    def __init__(self, socket: int) -> None:
        self._socket = socket
        self._path = f"/proc/self/fd/{socket}"
        transport = httpx.AsyncHTTPTransport(
            uds=self._path, verify=False
        )  # no TLS: loading roots takes 0.1 s
        self._http = httpx.AsyncClient(
            transport=transport, base_url="http://guest", timeout=None, trust_env=False
        )

    @classmethod
    async def connect(cls, path: Path) -> "Guest":
        """Wait until the guest server listens at `path`; the caller sets the deadline."""
        while True:
            try:
                _, writer = await asyncio.open_unix_connection(path)
            except (FileNotFoundError, ConnectionRefusedError, PermissionError):  # not there, or not ours yet
                await asyncio.sleep(0.01)
                continue
            writer.close()
            socket = os.open(path, os.O_PATH | os.O_NOFOLLOW)
            if stat.S_ISSOCK(os.fstat(socket).st_mode):
                return cls(socket)
            os.close(socket)
            raise FaultError(Fault("device", "start_failed", "the guest server's socket is none"))

    async def close(self) -> None:
        await self._http.aclose()
        os.close(self._socket)

    async def stream(self) -> tuple[StreamReader, StreamWriter]:
        """Open a separate connection to the guest server. Raises FaultError."""
        try:
            return await asyncio.open_unix_connection(self._path)
        except OSError as error:
            raise _gone(error) from error

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        """Run a command. Raises FaultError (origin "task") if it cannot start or does not end in time."""
        limited = ["timeout", "--kill-after=1", f"{timeout_s:.3f}", *command]
        answer = await self._parsed(Executed, "POST", "/execute", json={"command": limited})
        if answer.returncode == _TIMED_OUT:
            raise FaultError(Fault("task", "timeout", f"{command[0]} took longer than {timeout_s:g} s"))
        return answer.result(_MAX_OUTPUT)

    async def launch(self, command: Sequence[str]) -> None:
        """Start a program and do not wait for it."""
        await self._ask("POST", "/setup/launch", json={"command": list(command)})

    async def put(self, path: str, data: bytes) -> None:
        await self._ask("POST", "/setup/upload", data={"file_path": path}, files={"file_data": data})

    async def get(self, path: str) -> bytes:
        return await self._ask("POST", "/file", data={"file_path": path})

    async def tree(self) -> list[Node]:
        """The accessibility tree, as much of it as the guest collects in two seconds."""
        query = {"deadline_ms": _TREE_MS, "max_nodes": atspi.MAX_NODES}
        return atspi.nodes((await self._parsed(atspi.Tree, "GET", "/guiagent/tree", params=query)).nodes)

    async def _parsed(self, kind: type[T], method: str, path: str, **request: Any) -> T:
        body = await self._ask(method, path, **request)
        try:
            return parse(body, kind)
        except ValueError as error:
            message = f"the guest server's answer to {path} cannot be read: {error}"
            raise FaultError(Fault("device", "protocol", message)) from error

    async def _ask(self, method: str, path: str, **request: Any) -> bytes:
        body = bytearray()
        try:
            async with self._http.stream(method, path, **request) as response:
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > _MAX_ANSWER:
                        message = f"the answer is longer than {_MAX_ANSWER >> 20} MiB"
                        raise FaultError(Fault("task", "too_large", message))
        except (httpx.HTTPError, OSError) as error:
            raise _gone(error) from error
        if response.is_error:
            said = body[:300].decode("utf-8", "replace").strip()
            code = "not_found" if response.status_code == 404 else "refused"
            raise FaultError(Fault("task", code, f"the desktop answered {response.status_code}: {said}"))
        return bytes(body)


def _gone(error: Exception) -> FaultError:
    message = f"the guest server does not answer: {error or type(error).__name__}"
    return FaultError(Fault("device", "unreachable", message, retryable=True))
