"""HTTP/1.1 as the proxy speaks it at both ends: h11 does the framing; what is of a connection stays there."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any
from urllib.parse import urlsplit

import h11

CHUNK = 1 << 16
# Headers of one connection, not of a message (RFC 9110, 7.6.1), so not forwarded. h11 does the framing.
_HOP_BY_HOP = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade", b"host"}


class Refused(Exception):
    """A refused request: the HTTP status to answer, the error type of RFC 9209, and the reason."""

    def __init__(self, status: int, error: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.error = error


class Peer:
    """One end of an HTTP/1.1 connection: h11's events, read from and written to a stream."""

    def __init__(
        self, http: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.http = http
        self.reader = reader
        self.writer = writer

    async def next(self) -> h11.Event:
        while True:
            event = self.http.next_event()
            if event is h11.NEED_DATA:
                self.http.receive_data(await self.reader.read(CHUNK))
            elif isinstance(event, h11.Event):
                return event
            else:  # PAUSED: more data came before this request was answered
                raise h11.RemoteProtocolError("unexpected data")

    async def send(self, event: h11.Event) -> None:
        if data := self.http.send(event):
            self.writer.write(data)
            await self.writer.drain()

    async def refuse(self, refused: Refused) -> None:
        body = f"{refused}\n".encode()
        headers = [
            ("Proxy-Status", f"guiagent; error={refused.error}"),
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        ]
        if refused.status == 407:
            headers.append(("Proxy-Authenticate", 'Basic realm="guiagent"'))
        await self.send(h11.Response(status_code=refused.status, headers=headers))
        await self.send(h11.Data(data=body))
        await self.send(h11.EndOfMessage())

    async def while_here(self, work: Coroutine[Any, Any, None]) -> None:
        """Await `work`, or raise EOFError if this end hangs up meanwhile."""
        task = asyncio.ensure_future(work)
        heard = asyncio.ensure_future(self.reader.read(CHUNK))
        try:
            await asyncio.wait((task, heard), return_when=asyncio.FIRST_COMPLETED)
            if heard.done():  # its next request may come in the moment in which `work` ends
                if data := heard.result():
                    self.http.receive_data(data)
                elif not task.done():
                    raise EOFError
            await task
        finally:
            await cancel(task, heard)


async def answer(origin: Peer, client: Peer) -> None:
    while True:
        event = await origin.next()
        match event:
            case h11.InformationalResponse():
                continue
            case h11.Response():
                headers = end_to_end(event.headers)
                event = h11.Response(status_code=event.status_code, reason=event.reason, headers=headers)
            case h11.ConnectionClosed():
                raise EOFError
            case h11.EndOfMessage():
                await client.send(h11.EndOfMessage())
                return
        await client.send(event)


def authority(url: bytes, default_port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(url.decode("ascii"))
        host, port = parts.hostname, parts.port or default_port
    except ValueError:  # an invalid address or port
        host = None
    if not host:
        raise Refused(400, "http_request_error", "no host and port in the request")
    return host, port


def require_one_framing(request: h11.Request) -> None:
    """Refuse a body whose end two headers state: an origin that believes the other one reads its rest as the
    next request (RFC 9112, 6.1 and 11.2).
    """
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in request.headers}:
        reason = "a request has Content-Length or Transfer-Encoding, not both"
        raise Refused(400, "http_request_error", reason)


def end_to_end(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    listed = {
        name.strip().lower() for key, value in headers if key == b"connection" for name in value.split(b",")
    }
    dropped = _HOP_BY_HOP | (listed - {b"content-length", b"transfer-encoding"})
    return [pair for pair in headers if pair[0] not in dropped and not pair[0].startswith(b"proxy-")]


async def cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
