"""Client side of tunnels to a device's services (adb, DevTools, OSWorld), over WebSockets of the pool."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from guiagent.errors import Fault, FaultError
from guiagent.wire import LEASES, error_of

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

_CHUNK = 64 << 10
_OPEN_S = 15.0


class Tunnel:
    """A tunnel to one service of a leased device; each connection is a separate WebSocket."""

    def __init__(self, url: str, bearer: str, lease: str, token: int, service: str) -> None:
        base = "ws" + url.removeprefix("http")
        self._url = f"{base}{LEASES}/{quote(lease, safe='')}/connect/{quote(service, safe='')}?token={token}"
        self._bearer = bearer
        self._work: set[asyncio.Task[None]] = set()

    async def stream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open one connection as a byte stream, which ends with the device or the lease.

        Raises the error of the pool's refusal (`guiagent.wire.error_of`), or FaultError.
        """
        wire = await self._open()
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=theirs)
        self._own(asyncio.create_task(_carry(wire, reader, writer)))
        return await asyncio.open_connection(sock=ours)

    @contextlib.asynccontextmanager
    async def listener(self) -> AsyncIterator[int]:
        """Listen on a loopback port of this machine and connect each connection to the service.

        Any process of this machine can use it while it is open. Raises as `stream`.
        """
        await (await self._open()).close()  # raises errors here, and not at the first connection

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._own(asyncio.current_task())
            try:
                wire = await self._open()
                await _carry(wire, reader, writer)
            except (FaultError, asyncio.CancelledError):  # a cancelled one would be a traceback of asyncio's
                writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    def _own(self, task: asyncio.Task[None] | None) -> None:
        """Keep a connection's task, so that `close` can end it."""
        assert task is not None
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def close(self) -> None:
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def _open(self) -> "ClientConnection":
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidStatus, WebSocketException

        try:
            return await connect(
                self._url,
                additional_headers={"Authorization": f"Bearer {self._bearer}"},
                compression=None,
                proxy=None,
                open_timeout=_OPEN_S,
            )
        except InvalidStatus as error:
            raise error_of(error.response.status_code, bytes(error.response.body)) from None
        except (OSError, WebSocketException) as error:  # TimeoutError is an OSError
            message = f"the pool does not connect to the service: {error}"
            raise FaultError(Fault("farm", "unreachable", message, retryable=True)) from error


async def _carry(
    wire: "ClientConnection", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Copy bytes in both directions until one end closes; then close both."""

    async def up() -> None:
        while data := await reader.read(_CHUNK):
            await wire.send(data)

    async def down() -> None:
        async for message in wire:
            if isinstance(message, bytes):
                writer.write(message)
                await writer.drain()

    ways = [asyncio.create_task(up()), asyncio.create_task(down())]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)  # a side that is gone has nothing more to say
        writer.close()
        await wire.close()
