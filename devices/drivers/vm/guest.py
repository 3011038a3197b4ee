"""Client of the server inside a guest: OSWorld's paths, and ours under `/guiagent/` if the guest has them.

Everything it answers comes from a machine that a lease holder may have taken over: sizes are bounded and
values are checked.
"""

import asyncio
import json
from pathlib import Path
from typing import Any, TypeVar

import httpx

from devices.drivers import atspi
from devices.drivers.replies import MAX_FILE, MAX_JSON, Executed, Unacceptable, ask, parse
from guiagent.errors import Fault, FaultError
from guiagent.types import CommandResult, Node

T = TypeVar("T")
_MAX_OUTPUT = 1 << 20  # characters of a command's output that are passed on
_TREE = "/guiagent/tree?deadline_ms=10000&max_nodes=1000"  # an emulated guest takes seconds for its first
_ANSWERS_S = 2.0
_POLL_S = 0.02


class Guest:
    """The server of one guest, on a unix socket. Deadlines are the caller's."""

    def __init__(self, socket: Path) -> None:
        transport = httpx.AsyncHTTPTransport(uds=str(socket))
        self._client = httpx.AsyncClient(
            transport=transport, base_url="http://guest", timeout=None, trust_env=False
        )

    async def answers(self) -> bool:
        """True if the server answers within two seconds."""
        try:
            status, _ = await ask(self._client, "GET", "/platform", MAX_JSON, _ANSWERS_S)
        except Unacceptable:
            return False
        return status == httpx.codes.OK

    async def wait(self, poll_s: float = _POLL_S) -> None:
        """Wait until the server answers."""
        while not await self.answers():  # noqa: ASYNC110  # only asking tells
            await asyncio.sleep(poll_s)

    async def warm(self) -> None:
        """Make the server load what its answers need, so that no fork of the guest has to."""
        await self.run(["true"])
        for path in (_TREE, "/guiagent/windows"):
            await self._request("GET", path, MAX_JSON)

    async def windows(self) -> bytes:
        """The open windows, as the unparsed JSON of the guest."""
        return (await self._request("GET", "/guiagent/windows", MAX_JSON))[1]

    async def run(self, command: list[str]) -> CommandResult:
        """Run a program and wait for it."""
        status, body = await self._request("POST", "/execute", MAX_JSON, json={"command": command})
        if status != httpx.codes.OK:
            return CommandResult(127, stderr=_text(_object(body).get("message")))
        return _parsed(body, Executed).result(_MAX_OUTPUT)

    async def launch(self, command: list[str]) -> str | None:
        """Start a program and leave it running; return why it could not start, or None."""
        status, body = await self._request("POST", "/setup/launch", MAX_JSON, json={"command": command})
        return None if status == httpx.codes.OK else body.decode(errors="replace")[:500]

    async def put(self, path: str, data: bytes) -> None:
        status, body = await self._request(
            "POST", "/setup/upload", MAX_JSON, data={"file_path": path}, files={"file_data": data}
        )
        if status != httpx.codes.OK:
            raise _task(f"the guest did not write {path}: {_reason(body)}")

    async def get(self, path: str) -> bytes:
        status, body = await self._request("POST", "/file", MAX_FILE, data={"file_path": path})
        if status != httpx.codes.OK:
            raise _task(f"the guest has no file {path}: {_reason(body)}")
        return body

    async def tree(self) -> list[Node]:
        """The accessibility tree as `Observation.tree`. Raises FaultError if the guest gives none."""
        status, body = await self._request("GET", _TREE, MAX_JSON)
        if status != httpx.codes.OK:
            raise _device("a11y", f"the guest gives no accessibility tree: {_reason(body)}")
        return atspi.nodes(_parsed(body, atspi.Tree).nodes)

    async def act(self, actions: list[dict[str, Any]]) -> str | None:
        """Let the guest itself carry out actions; return why it did not, or None."""
        status, body = await self._request("POST", "/guiagent/input", MAX_JSON, json={"actions": actions})
        return None if status == httpx.codes.OK else _reason(body)

    async def close(self) -> None:
        await self._client.aclose()

    async def _request(self, method: str, path: str, most: int, **content: Any) -> tuple[int, bytes]:
        try:
            return await ask(self._client, method, path, most, **content)
        except Unacceptable as error:
            raise _device("guest", f"the guest's server: {error}") from error


def _parsed(body: bytes, kind: type[T]) -> T:
    try:
        return parse(body, kind)
    except ValueError as error:
        raise _device("guest", f"the answer of the guest's server cannot be read: {error}") from error


def _object(body: bytes) -> dict[str, Any]:
    value = _parsed(body, object)
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value[:_MAX_OUTPUT] if isinstance(value, str) else ""


def _reason(body: bytes) -> str:
    """The message of an error response: OSWorld's are JSON with a message or an error, or plain text."""
    text = body.decode(errors="replace")[:500]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return str(value.get("message") or value.get("error") or text) if isinstance(value, dict) else text


def _device(code: str, message: str) -> FaultError:
    return FaultError(Fault("device", code, message, retryable=True))


def _task(message: str) -> FaultError:
    return FaultError(Fault("task", "file", message))
