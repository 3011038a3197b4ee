"""Runs the server: over this process's standard streams, or over HTTP with a token."""

import asyncio
import contextlib
import hmac
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from guiagent.client import FarmClient
from guiagent.errors import InfrastructureError, UsageError
from guiagent.mcp.server import Settings, server_of
from guiagent.mcp.stdin import ended_by_signals
from guiagent.wire import Endpoint

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ANY = ("0.0.0.0", "::")  # every address of this machine
_LAST_WORDS_S = 2

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def over_stdio(endpoint: Endpoint, settings: Settings) -> None:
    """Serve the client at the other end of stdin and stdout, until it closes them or a signal comes."""
    async with FarmClient(endpoint.url, endpoint.token) as farm:
        await farm.devices()  # a pool that is away is said now, not at the first tool
        with ended_by_signals():
            await server_of(farm, settings).run_stdio_async()


async def over_http(
    endpoint: Endpoint, settings: Settings, host: str, port: int, token: str, announce: Callable[[str], None]
) -> None:
    """Serve whoever knows the token, until a signal comes; `announce` is called with the address.

    On loopback only requests that name this machine are answered, so that no page can reach it by a name of
    its own. Raises InfrastructureError for an address that is taken.
    """
    with contextlib.closing(_listen(host, port)) as listener:
        async with FarmClient(endpoint.url, endpoint.token) as farm:
            await farm.devices()
            app = server_of(farm, settings).streamable_http_app(
                streamable_http_path=PATH,
                transport_security=_named(host),
                session_idle_timeout=settings.idle_s,
            )
            server = _Server(
                uvicorn.Config(
                    with_token(app, token),
                    log_level="warning",
                    access_log=False,
                    timeout_graceful_shutdown=_LAST_WORDS_S,
                )
            )
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, setattr, server, "should_exit", True)
            announce(f"http://{_bracketed(host)}:{listener.getsockname()[1]}{PATH}")
            await server.serve([listener])


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to `over_http`, after which the devices are given back."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = error.strerror or str(error)
        raise InfrastructureError(
            f"cannot listen on {host} port {port}: {why.lower()}; --http 0 picks a free port of loopback"
        ) from None


def _named(host: str) -> TransportSecuritySettings:
    """The names by which a server on `host` may be called: on every address of a machine, any."""
    if host in _ANY:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = {host, *(_LOOPBACK if host in _LOOPBACK else ())}
    return TransportSecuritySettings(allowed_hosts=[f"{_bracketed(name)}:*" for name in sorted(names)])


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def with_token(app: App, token: str) -> App:
    """An ASGI application that answers only requests with the bearer token."""
    if len(token) < 16:
        raise UsageError("the token of this server needs at least 16 characters")
    wanted = f"Bearer {token}".encode()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, wanted):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
                line = b"send the token of this server as a bearer token\n"
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": line})
                return
        await app(scope, receive, send)

    return guarded
