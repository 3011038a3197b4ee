"""A minimal HTTP/1.1 client with kept-alive connections, for the many small requests of device steps.

Steps are up to a hundred requests a second on one warm connection. Measured there (loopback, 20 kB answers,
one core each side): a general client costs 1.5 ms a request, this one 0.2 ms, most of it the server's. It
talks only to pools, whose answers have a Content-Length, no redirects, and no compression.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec

from guiagent.errors import DECODE_ERRORS, Fault, FaultError, UsageError

T = TypeVar("T")

_BUFFER = 1 << 20  # bytes; also the longest head of an answer
_MAX_BODY = 1 << 28
_CONNECT_S = 5.0


class BadAnswer(ConnectionError):
    """The received bytes are not a valid HTTP answer of a pool."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes

    def json(self, kind: type[T]) -> T:
        """The message in the body. Raises as `decoded`."""
        return self.decoded(lambda body: msgspec.json.decode(body, type=kind))

    def decoded(self, decode: Callable[[bytes], T]) -> T:
        """What `decode` makes of the body. Raises FaultError (code "protocol") where that is no message."""
        try:
            return decode(self.body)
        except DECODE_ERRORS as error:
            what = f"what answered is no pool of this version, or its devices spoil what they say: {error}"
            raise FaultError(Fault("farm", "protocol", what)) from error


class Connections:
    """Connections to one server; a request takes an idle one or opens one, so none waits for another."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not _has_legal_port(parts):
            raise UsageError(f"{url!r} is not the address of a pool; it looks like http://127.0.0.1:8700")
        if not (token.isascii() and token.isprintable()):
            raise UsageError("this is no token of a pool: it has a line end, or a character beyond ASCII")
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._host = parts.hostname
        self._port = parts.port or (443 if self._tls else 80)
        self._prefix = parts.path.rstrip("/")
        self._common = (
            f"Host: {parts.netloc.rpartition('@')[2]}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def request(self, method: str, path: str, body: bytes, timeout_s: float) -> Answer:
        """Send a request and return its answer. Raises OSError (such as TimeoutError) if there is none."""
        head = f"{method} {self._prefix}{path} HTTP/1.1\r\n{self._common}{len(body)}\r\n\r\n"
        async with asyncio.timeout(timeout_s):
            reader, writer = self._idle.pop() if self._idle else await self._open()
            try:
                writer.write(head.encode("ascii") + body)
                answer = await _read(reader)
            except asyncio.IncompleteReadError as error:
                writer.close()
                raise ConnectionResetError("the pool closed the connection") from error
            except BaseException:
                writer.close()
                raise
        if answer.headers.get("connection", "").lower() == "close":
            writer.close()
        else:
            self._idle.append((reader, writer))
        return answer

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(_CONNECT_S):
            return await asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=_BUFFER)

    def close(self) -> None:
        idle, self._idle = self._idle, []
        for _, writer in idle:
            writer.close()


def _has_legal_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


async def _read(reader: asyncio.StreamReader) -> Answer:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise BadAnswer("the answer's head is too long for a pool's") from error
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    version, _, rest = first.partition(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status, length = rest[:3], headers.get("content-length", "0")
    if not version.startswith("HTTP/1.") or not status.isdecimal() or not length.isdecimal():
        raise BadAnswer("the answer is not HTTP/1.1")
    if "transfer-encoding" in headers or int(length) > _MAX_BODY:
        raise BadAnswer("the answer has no bounded length, as a pool's always has")
    return Answer(int(status), headers, await reader.readexactly(int(length)))
