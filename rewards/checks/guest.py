"""Client of the server inside a desktop (OSWorld's interface), over byte streams of the device.

The server is inside the guest, where the agent was: its answers are bounded and only parsed.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import h11
import httpx
import msgspec

from guiagent.errors import DECODE_ERRORS, Fault, FaultError
from guiagent.protocols import Services

MAX_FILE = 64 << 20
_MAX_JSON = 34 << 20  # two streams of 16 MiB, and what is around them
_CHUNK = 256 << 10
_EXECUTE_S = 130.0  # the server itself ends a command after 120 s
_ASK_S = 70.0  # an accessibility tree may take 60 s
_UNFIT = (501, 503)  # a package is missing; there is no X server or no bus


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return self.status == 200

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def object(self) -> dict[str, Any]:
        """The body as a JSON object; {} if it is not one, since the agent may have replaced the server."""
        try:
            return msgspec.json.decode(self.body, type=dict[str, Any])
        except DECODE_ERRORS:
            return {}


@dataclass(frozen=True)
class Execution:
    """The result of a command in the guest."""

    output: str
    error: str
    code: int


class TooLong(Exception):
    """An answer has more bytes than its limit."""


class Guest:
    """Client of one guest's server. Each request has its own connection: there are few, and none can mix."""

    def __init__(self, device: Services) -> None:
        self._device = device

    async def ask(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        form: Mapping[str, str] | None = None,
        file: bytes | None = None,
        deadline_s: float = _ASK_S,
        limit: int = _MAX_JSON,
    ) -> Answer:
        """Send one request: JSON, a form, or a form with one file (`file_data`, multipart).

        Raises:
            FaultError: the server does not answer, or the guest lacks a program or a bus for it.
            TooLong: the answer has more than `limit` bytes.
        """
        files = None if file is None else {"file_data": ("file", file)}
        request = httpx.Request(
            method,
            f"http://guest{path}",
            json=json,
            data=dict(form or {}),
            files=files,
            headers={"Connection": "close"},
        )
        body = request.read()
        try:
            async with asyncio.timeout(deadline_s):
                answer = await self._exchange(request, body, limit)
        except TimeoutError as error:
            raise _unreachable(f"{path} did not answer within {deadline_s:g} s") from error
        except (OSError, EOFError, h11.RemoteProtocolError) as error:
            raise _unreachable(f"{path}: {str(error) or type(error).__name__}") from error
        if answer.status in _UNFIT:
            message = f"{path} answered {answer.status}: {answer.text[:300].strip()}"
            raise FaultError(Fault("device", "unfit", message))
        return answer

    async def execute(self, command: str | Sequence[str], shell: bool = False) -> Execution | None:
        """Run a command to its end; None if it cannot be started or takes over 120 s."""
        wanted = {"command": command if isinstance(command, str) else list(command), "shell": shell}
        try:
            answer = await self.ask("POST", "/execute", json=wanted, deadline_s=_EXECUTE_S)
        except TooLong:
            return None
        said = answer.object()
        if not answer.ok or not said:
            return None
        output, error, code = (said.get(name) for name in ("output", "error", "returncode"))
        return Execution(
            output if isinstance(output, str) else "",
            error if isinstance(error, str) else "",
            code if isinstance(code, int) else -1,
        )

    async def read(self, path: str) -> bytes | None:
        """Read a file of the guest; None if it is missing, unreadable or larger than 64 MiB.

        An agent can cause each of these, so none is a fault.
        """
        try:
            answer = await self.ask("POST", "/file", form={"file_path": path}, limit=MAX_FILE)
        except TooLong:
            return None
        return answer.body if answer.ok else None

    async def write(self, path: str, data: bytes) -> Answer:
        deadline_s = _ASK_S + len(data) / 1e6
        return await self.ask(
            "POST", "/setup/upload", form={"file_path": path}, file=data, deadline_s=deadline_s
        )

    async def _exchange(self, request: httpx.Request, body: bytes, limit: int) -> Answer:
        reader, writer = await self._device.connect("osworld")
        try:
            http = h11.Connection(h11.CLIENT)
            head = h11.Request(
                method=request.method, target=request.url.raw_path, headers=request.headers.raw
            )
            writer.write(http.send(head) or b"")
            for start in range(0, len(body), _CHUNK):
                writer.write(http.send(h11.Data(data=body[start : start + _CHUNK])) or b"")
                await writer.drain()
            writer.write(http.send(h11.EndOfMessage()) or b"")
            await writer.drain()
            return await _answer(http, reader, limit)
        finally:
            writer.close()


async def _answer(http: h11.Connection, reader: asyncio.StreamReader, limit: int) -> Answer:
    status, body = 0, bytearray()
    while True:
        event = http.next_event()
        match event:
            case h11.NEED_DATA:
                http.receive_data(await reader.read(_CHUNK))
            case h11.Response():
                status = event.status_code
            case h11.Data():
                body += event.data
                if len(body) > limit:
                    raise TooLong(f"the answer has more than {limit} bytes")
            case h11.EndOfMessage():
                return Answer(status, bytes(body))
            case h11.ConnectionClosed():
                raise EOFError("the connection ended before the answer did")


def _unreachable(message: str) -> FaultError:
    return FaultError(Fault("device", "unreachable", f"the guest server: {message}", retryable=True))
