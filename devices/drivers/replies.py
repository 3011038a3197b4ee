"""Requests to a server inside a guest, which is not trusted, and parsing of its answers: OSWorld's paths."""

import asyncio
from typing import Annotated, Any, TypeVar

import httpx
import msgspec

from guiagent.types import CommandResult

T = TypeVar("T")
MAX_JSON = 16 << 20
MAX_FILE = 256 << 20


class Unacceptable(Exception):
    """An answer that is too long, comes too slowly, breaks off, or is compressed."""


async def ask(
    client: httpx.AsyncClient, method: str, path: str, most: int, seconds: float | None = None, **content: Any
) -> tuple[int, bytes]:
    """Send a request and return the status and the body of the answer.

    The body is counted while it comes, and is kept as it came: a few compressed bytes could be gigabytes.
    Raises Unacceptable if it has more than `most` bytes, is not there whole after `seconds`, or is compressed
    though the request does not accept that.
    """
    body = bytearray()
    try:
        async with (
            asyncio.timeout(seconds),
            client.stream(method, path, headers={"Accept-Encoding": "identity"}, **content) as answer,
        ):
            if (encoding := answer.headers.get("content-encoding", "identity").lower()) != "identity":
                raise Unacceptable(f"the answer to {path} is compressed ({encoding[:40]}), which is refused")
            async for chunk in answer.aiter_raw():
                if len(body) + len(chunk) > most:
                    raise Unacceptable(f"the answer to {path} has over {most >> 20} MiB")
                body += chunk
            return answer.status_code, bytes(body)
    except TimeoutError as error:
        raise Unacceptable(f"no whole answer to {path} within {seconds:g} s") from error
    except httpx.HTTPError as error:
        raise Unacceptable(f"{path}: {error or type(error).__name__}") from error


class Executed(msgspec.Struct, frozen=True):
    """Answer to `POST /execute`."""

    returncode: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
    output: str
    error: str

    def result(self, longest: int) -> CommandResult:
        """As a result with at most `longest` characters of each stream."""
        return CommandResult(self.returncode, self.output[:longest], self.error[:longest])


def parse(body: bytes, kind: type[T]) -> T:
    """Body of an answer, which is JSON, as `kind`. Raises ValueError if it is none."""
    try:
        return msgspec.json.decode(body, type=kind)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
