"""The pipe to a browser: whatever comes through it, every command ends, and the fault says why."""

import asyncio
from typing import Any, cast

import pytest

from devices.chromium.cdp import Connection
from guiagent.errors import FaultError


class Pipe:
    """The end that is written to."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("said", [b"[1]\0", b"no JSON\0", b'{"method":"Page.x","sessionId":"s"}\0'])
async def test_a_message_that_cannot_be_followed_ends_every_command(said: bytes) -> None:
    def listener(method: str, params: dict[str, Any]) -> None:
        raise KeyError(method)

    reader = asyncio.StreamReader()
    connection = Connection(reader, cast(asyncio.StreamWriter, Pipe()))
    connection.listen("s", listener)
    waiting = connection.post("Page.enable", session="s")
    reader.feed_data(said)
    for command in (waiting, None):
        with pytest.raises(FaultError, match="cannot be followed") as ended:
            await (command or connection.post("Page.enable"))
        assert (ended.value.fault.code, ended.value.fault.retryable) == ("protocol", True)
    await connection.close()
