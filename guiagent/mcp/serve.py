"""Runs the server: over this process's standard streams, or over HTTP with a token."""

import contextlib
from collections.abc import Callable

from mcp.server.transport_security import TransportSecuritySettings

from guiagent import serving
from guiagent.client import FarmClient
from guiagent.mcp.server import Settings, server_of
from guiagent.mcp.stdin import ended_by_signals
from guiagent.wire import Endpoint

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ANY = ("0.0.0.0", "::")  # every address of this machine


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
    with contextlib.closing(serving.listen(host, port, "--http")) as listener:
        async with FarmClient(endpoint.url, endpoint.token) as farm:
            await farm.devices()
            app = server_of(farm, settings).streamable_http_app(
                streamable_http_path=PATH,
                transport_security=_named(host),
                session_idle_timeout=settings.idle_s,
            )
            url = serving.url_of(listener, host) + PATH
            await serving.run(serving.with_token(app, token), listener, lambda: announce(url))


def _named(host: str) -> TransportSecuritySettings:
    """The names by which a server on `host` may be called: on every address of a machine, any."""
    if host in _ANY:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = {host, *(_LOOPBACK if host in _LOOPBACK else ())}
    return TransportSecuritySettings(allowed_hosts=[f"{serving.bracketed(name)}:*" for name in sorted(names)])
