"""Forwards requests and WebSockets to the pool instance that leads."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any
from urllib.parse import quote, urlsplit

import h11
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from guiagent.wire import PROBLEM, TRY_LATER

FORWARDED = b"x-guiagent-forwarded"  # header of a forwarded request, which is not forwarded again
_CONNECT_S = 3.0
_VISIBLE = "".join(map(chr, range(0x21, 0x7F)))
_READ = 1 << 18  # bytes
_MAX_MESSAGE = 1 << 26  # bytes
_OF_ONE_HOP = frozenset(
    b"connection keep-alive transfer-encoding upgrade te trailer host date expect".split()
)
MISDIRECTED = 421  # HTTP status: a request was forwarded to an instance that does not lead
BUFFERED = 64 << 10  # bytes of a body that is read before there is a leader to send it to


class Unreached(Exception):
    """No leading instance took the request, so it can safely be sent to another one."""


class Unanswered(Exception):
    """The connection broke before the answer: the request may or may not have been carried out."""


class _Gone(Exception):
    """The client hung up before its request was whole."""


async def forward(
    url: str, over: asyncio.Event, scope: Scope, body: bytes | None, receive: Receive, send: Send
) -> None:
    """Forward a request to the instance at `url`; stop when its leadership is `over` or the client hangs up.

    `body` is the request's body if it was read already, and `receive` yields the messages after it. A body
    that was not (None) passes through in pieces, once the leader has asked for it.

    Raises:
        Unreached, Unanswered: before anything was sent to the client.
    """
    if scope["type"] == "websocket":
        await _socket(url, over, scope, receive, send)
        return
    sent, begun = asyncio.Event(), asyncio.Event()
    exchange = asyncio.create_task(_exchange(url, scope, body, receive, send, sent, begun))
    gone, ended = asyncio.create_task(_disconnected(receive, sent)), asyncio.create_task(over.wait())
    async with _cancelled(exchange, gone, ended):
        await asyncio.wait((exchange, gone, ended), return_when=asyncio.FIRST_COMPLETED)
        if begun.is_set():  # what the leader answers it has done
            await asyncio.wait((exchange, gone), return_when=asyncio.FIRST_COMPLETED)
        if exchange.done():
            with contextlib.suppress(_Gone):
                exchange.result()
        elif not gone.done():
            raise Unanswered


async def _exchange(
    url: str,
    scope: Scope,
    body: bytes | None,
    receive: Receive,
    send: Send,
    sent: asyncio.Event,
    begun: asyncio.Event,
) -> None:
    """Send one HTTP request on a new connection, since a reused one could belong to a leader that died.

    Sets `sent` when nothing is read from the client any more, and `begun` before the answer is passed on.
    """
    where, http = urlsplit(url), h11.Connection(h11.CLIENT)
    try:
        async with asyncio.timeout(_CONNECT_S):
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
    except OSError as error:  # a timeout among them
        raise Unreached from error
    try:
        try:
            writer.write(http.send(_head(url, scope, waits=body is None)) or b"")
            event = await _next(http, reader) if body is None else None
            if body is not None or isinstance(event, h11.InformationalResponse):
                async for piece in _whole(body) if body is not None else _pieces(receive):
                    writer.write(http.send(h11.Data(data=piece)) or b"")
                    await writer.drain()
                writer.write(http.send(h11.EndOfMessage()) or b"")
            sent.set()
            while not isinstance(event, h11.Response):
                event = await _next(http, reader)
        except (OSError, h11.RemoteProtocolError) as error:
            raise Unanswered from error
        if event.status_code == MISDIRECTED:
            raise Unreached
        begun.set()
        headers = list(_end_to_end(event.headers))
        await send({"type": "http.response.start", "status": event.status_code, "headers": headers})
        with contextlib.suppress(OSError, h11.RemoteProtocolError):  # the client sees that it is not whole
            while not isinstance(event := await _next(http, reader), h11.EndOfMessage):
                await send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
            await send({"type": "http.response.body", "body": b""})
    finally:
        writer.close()


def _head(url: str, scope: Scope, *, waits: bool) -> h11.Request:
    """The head of a forwarded request; if it `waits`, the leader is to ask for the body."""
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    own = [(b"host", urlsplit(url).netloc.encode()), (b"connection", b"close"), (FORWARDED, b"1")]
    if waits:
        own.append((b"expect", b"100-continue"))
    headers = [*own, *_end_to_end(scope["headers"])]
    return h11.Request(method=scope["method"], target=quote(target, safe=_VISIBLE), headers=headers)


async def _next(http: h11.Connection, reader: asyncio.StreamReader) -> Any:
    """The next event of the answer. Raises h11.RemoteProtocolError, also if it is cut short."""
    while (event := http.next_event()) is h11.NEED_DATA:
        http.receive_data(await reader.read(_READ))
    return event


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        yield message.get("body", b"")
        more = message.get("more_body", False)


async def _socket(url: str, over: asyncio.Event, scope: Scope, receive: Receive, send: Send) -> None:
    """Forward a WebSocket. The Origin header is not forwarded: this instance has checked it already.

    A refusal passes through with its status. Raises Unreached if the other instance does not lead.
    """
    target = scope["path"] + (f"?{scope['query_string'].decode()}" if scope["query_string"] else "")
    passed = [(FORWARDED.decode(), "1")]
    passed += [
        (name.decode(), value.decode()) for name, value in scope["headers"] if name == b"authorization"
    ]
    try:
        upstream = await connect(
            url.replace("http", "ws", 1) + target,
            subprotocols=[Subprotocol(name) for name in scope.get("subprotocols", [])] or None,
            additional_headers=passed,
            open_timeout=_CONNECT_S,
            max_size=_MAX_MESSAGE,
            compression=None,
            proxy=None,
        )
    except InvalidStatus as error:
        refusal = error.response
        if refusal.status_code == MISDIRECTED:
            raise Unreached from error
        kind = refusal.headers.get("content-type", PROBLEM)
        await Response(bytes(refusal.body), refusal.status_code, media_type=kind)(scope, receive, send)
        return
    except (OSError, WebSocketException) as error:
        raise Unreached from error
    await receive()  # websocket.connect
    await send({"type": "websocket.accept", "subprotocol": upstream.subprotocol})
    there = asyncio.create_task(_there(receive, upstream))
    back = asyncio.create_task(_back(upstream, send))
    ended = asyncio.create_task(over.wait())
    async with upstream, _cancelled(there, back, ended):
        await asyncio.wait((there, back, ended), return_when=asyncio.FIRST_COMPLETED)
        if not there.done() and not back.done():
            await send({"type": "websocket.close", "code": TRY_LATER})


@contextlib.asynccontextmanager
async def _cancelled(*tasks: asyncio.Task[Any]) -> AsyncIterator[None]:
    """Cancel the tasks on leaving, and wait until they have ended."""
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def body_of(receive: Receive) -> bytes | None:
    """Read the whole body of a request; None if the client hung up before its end."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def with_body(body: bytes, receive: Receive) -> Receive:
    """Wrap `receive` so that it yields the `body` that was read already, and then what follows."""
    unread = [body]

    async def again() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return again


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[bytes, bytes]]:
    return ((name, value) for name, value in headers if name.lower() not in _OF_ONE_HOP)


async def _disconnected(receive: Receive, sent: asyncio.Event) -> None:
    await sent.wait()
    while (await receive())["type"] != "http.disconnect":
        pass


async def _there(receive: Receive, upstream: ClientConnection) -> None:
    with contextlib.suppress(ConnectionClosed):
        while (message := await receive())["type"] == "websocket.receive":
            text = message.get("text")
            await upstream.send(text if text is not None else message["bytes"])


async def _back(upstream: ClientConnection, send: Send) -> None:
    async for message in upstream:
        kind = "text" if isinstance(message, str) else "bytes"
        await send({"type": "websocket.send", kind: message})
    await send({"type": "websocket.close", "code": upstream.close_code or TRY_LATER})
