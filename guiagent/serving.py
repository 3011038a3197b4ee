"""Serves an ASGI application over HTTP to whoever knows its token, until a signal comes. Needs uvicorn."""

import asyncio
import base64
import contextlib
import hmac
import os
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import uvicorn

from guiagent.errors import InfrastructureError, UsageError

_LAST_WORDS_S = 2
_SHORTEST_TOKEN = 16  # characters

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def address_of(text: str, option: str) -> tuple[str, int]:
    """The host and port of `[HOST:]PORT`, else loopback. Raises UsageError that names the option."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{option} {text}: write PORT or HOST:PORT; 0 picks a free port")
    return host.strip("[]") or "127.0.0.1", int(port)


def listen(host: str, port: int, option: str) -> socket.socket:
    """Listen on an address. Raises InfrastructureError, which names the option, where it is taken."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = error.strerror or str(error)
        raise InfrastructureError(
            f"cannot listen on {host} port {port}: {why.lower()}; {option} 0 picks a free port of loopback"
        ) from None


def url_of(listener: socket.socket, host: str) -> str:
    return f"http://{bracketed(host)}:{listener.getsockname()[1]}"


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def token_of(variable: str) -> tuple[str, str]:
    """The token in a variable of the environment, or a new one; and what to print of it.

    Raises UsageError for one that is too short.
    """
    given = os.environ.get(variable)
    if given is None:
        token = secrets.token_urlsafe(24)
        return token, f"  token {token}"
    if len(given) < _SHORTEST_TOKEN:
        raise UsageError(f"the token in ${variable} needs at least {_SHORTEST_TOKEN} characters")
    return given, ""


async def run(
    app: App, listener: socket.socket, announce: Callable[[], None], longest_message: int = 1 << 20
) -> None:
    """Serve until SIGINT or SIGTERM. Messages over WebSockets have at most `longest_message` bytes.

    The application checks tokens itself, or is one `with_token`.

    `announce` is called once requests are answered: a signal that comes after it ends the server in order,
    where one that came before its handler would end the process with what it holds.
    """
    server = _server(app, longest_message, announce)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, setattr, server, "should_exit", True)
    await server.serve([listener])


@contextlib.asynccontextmanager
async def meanwhile(app: App, listener: socket.socket) -> AsyncIterator[None]:
    """Serve in this context, on the running loop. The application checks tokens itself."""
    server = _server(app)
    web = asyncio.create_task(server.serve([listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await web


def _server(
    app: App, longest_message: int = 1 << 20, announce: Callable[[], None] = lambda: None
) -> "_Server":
    return _Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            ws_max_size=longest_message,
            timeout_graceful_shutdown=_LAST_WORDS_S,
        ),
        announce,
    )


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to whoever runs it, after which it can give devices back."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._announce()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def with_limit(app: App, most: int) -> App:
    """An ASGI application whose requests have at most `most` bytes; longer ones are answered 413."""

    async def bounded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        body = bytearray()
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if len(body) > most:
                await _refuse(send, 413, f"a request has at most {most} bytes\n", [])
                return
            if not message.get("more_body", False):
                break
        whole = [{**message, "body": bytes(body)}]

        async def replayed() -> Any:
            return whole.pop() if whole else await receive()

        await app(scope, replayed, send)

    return bounded


async def _refuse(send: Send, status: int, line: str, headers: list[tuple[bytes, bytes]]) -> None:
    told = [*headers, (b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": line.encode()})


def with_token(app: App, token: str, user: str | None = None) -> App:
    """An ASGI application that answers only requests and WebSockets with the bearer token.

    With a `user` the token may be that user's password, too (basic authentication), for clients that are told
    an address and nothing else: `http://USER:TOKEN@HOST:PORT`.
    """
    if len(token) < _SHORTEST_TOKEN:
        raise UsageError(f"the token of this server needs at least {_SHORTEST_TOKEN} characters")
    wanted = [f"Bearer {token}".encode()]
    if user is not None:
        wanted.append(b"Basic " + base64.b64encode(f"{user}:{token}".encode()))

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if kind == "lifespan" or any([hmac.compare_digest(given, one) for one in wanted]):
            await app(scope, receive, send)
        elif kind == "http":
            line = "send the token of this server as a bearer token\n"
            await _refuse(send, 401, line, [(b"www-authenticate", b"Bearer")])
        else:  # a WebSocket that is closed before it was accepted is answered 403
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    return guarded
