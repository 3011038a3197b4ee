"""Forward proxy of one device (CONNECT and plain HTTP) that connects only to what its rules permit.

A name is resolved once, and the connection goes to one of the addresses that were checked, so no second
answer of a DNS server can lead elsewhere. Nothing is permitted before `allow`. A refused request is answered
with 403 and a `Proxy-Status` (RFC 9209), counted, and remembered.
"""

import asyncio
import base64
import contextlib
import os
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import h11

from devices.egress.peer import (
    CHUNK,
    Peer,
    Refused,
    answer,
    authority,
    cancel,
    end_to_end,
    require_one_framing,
)
from devices.egress.rules import Address, Rule, canonical, may_permit, parse, permits

Resolve = Callable[[str], Awaitable[list[Address]]]
Reach = Callable[[str], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]

_CONNECT_S = 10.0
_MAX_CLIENTS = 512  # of one device
_REMEMBERED = 256  # refused or unreachable targets


@dataclass(frozen=True, slots=True, eq=False)
class _Route:
    """An open connection from the device through the proxy to a target."""

    host: str
    port: int
    address: Address | None  # None: a host that is served, not one of the network
    ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]

    def cut(self) -> None:
        for end in self.ends:
            end.transport.abort()


class EgressProxy:
    """Proxy of one device, on a loopback port with a password of its own or on a unix socket without one.

    Attributes:
        port: on 127.0.0.1; 0 on a unix socket.
        username, password: what the device must send as `Proxy-Authorization: Basic`.
        refused: number of refusals by `host:port`, of the last 256 targets.
        refusals: number of all refusals.
    """

    username = "device"

    def __init__(self, path: Path | None, resolve: Resolve) -> None:
        self.port = 0
        self.password = None if path else secrets.token_urlsafe(24)
        self._path = path
        self.refused: dict[str, int] = {}
        self.refusals = 0
        self._resolve = resolve
        self._rules: tuple[Rule, ...] = ()
        self._served: dict[str, Reach] = {}
        self._routes: set[_Route] = set()
        self._clients: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._failures: dict[str, str] = {}
        self._server: asyncio.Server

    @classmethod
    async def start(cls, path: Path | None = None, *, resolve: Resolve | None = None) -> "EgressProxy":
        """Listen on the unix socket `path`, or on a free loopback port if it is None."""
        proxy = cls(path, resolve or _getaddrinfo)
        if path:
            proxy._server = await asyncio.start_unix_server(proxy._accept, sock=_listener(path))
        else:
            proxy._server = await asyncio.start_server(proxy._accept, "127.0.0.1", 0)
            proxy.port = proxy._server.sockets[0].getsockname()[1]
        return proxy

    @property
    def url(self) -> str:
        """URL for `http_proxy` and `https_proxy`, for programs that accept a password there."""
        return f"http://{self.username}:{self.password}@127.0.0.1:{self.port}"

    def allow(self, rules: Iterable[str]) -> None:
        """Permit these targets and nothing else from now on; open connections to others are cut.

        Raises UsageError for an invalid rule, with nothing changed.
        """
        self._rules = parse(rules)
        for route in list(self._routes):
            if route.address and not self._permits(route.host, route.port, route.address):
                route.cut()

    def serve(self, hosts: Iterable[str], reach: Reach) -> None:
        """Connect requests for these host names, at port 80, by `reach`, which may raise OSError."""
        self._served = dict.fromkeys(map(canonical, hosts), reach)

    def failure(self, host: str, port: int) -> str | None:
        """Why the last connection to this target failed; None if it succeeded or none was tried."""
        return self._failures.get(_named(host, port))

    async def close(self) -> None:
        """Stop listening and end every connection."""
        self._server.close()
        for client, writer in self._clients.items():
            client.cancel()
            writer.transport.abort()
        await asyncio.gather(*self._clients, return_exceptions=True)
        await self._server.wait_closed()
        if self._path:
            self._path.unlink(missing_ok=True)

    # -- the device's side -----------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients[task] = writer
        client = Peer(h11.Connection(h11.SERVER), reader, writer)
        try:
            if len(self._clients) <= _MAX_CLIENTS:
                while await self._exchange(client):
                    client.http.start_next_cycle()
        except (OSError, EOFError, h11.ProtocolError):
            pass  # either end hung up, or did not speak HTTP
        finally:
            del self._clients[task]
            writer.close()

    async def _exchange(self, client: "Peer") -> bool:
        """Serve one request; return True if another one may follow on this connection."""
        request = await client.next()
        if not isinstance(request, h11.Request):
            return False
        try:
            self._require_password(request)
            if request.method == b"CONNECT":
                await self._tunnel(client, request)
                return False
            await self._forward(client, request)
        except Refused as refused:
            await client.refuse(refused)
            return False
        return client.http.our_state is h11.DONE and client.http.their_state is h11.DONE

    def _require_password(self, request: h11.Request) -> None:
        if self.password is None:
            return
        expected = b"Basic " + base64.b64encode(f"{self.username}:{self.password}".encode())
        given = next((value for name, value in request.headers if name == b"proxy-authorization"), b"")
        if not secrets.compare_digest(given, expected):
            raise Refused(407, "http_request_denied", "this proxy serves one device, and wants its password")

    async def _tunnel(self, client: "Peer", request: h11.Request) -> None:
        host, port = authority(b"//" + request.target, 443)
        async with self._reaching(host, port, client.writer) as (reader, writer):
            await client.send(h11.Response(status_code=200, headers=[], reason=b"Connection established"))
            writer.write(client.http.trailing_data[0])
            await _first(_copy(client.reader, writer), _copy(reader, client.writer))

    async def _forward(self, client: "Peer", request: h11.Request) -> None:
        """Forward one request on a connection of its own, so that the client's next one is checked again."""
        url = urlsplit(request.target)
        if url.scheme != b"http":
            raise Refused(400, "http_request_error", "this is a proxy: it takes http:// URLs and CONNECT")
        require_one_framing(request)
        host, port = authority(request.target, 80)
        async with self._reaching(host, port, client.writer) as (reader, writer):
            origin = Peer(h11.Connection(h11.CLIENT), reader, writer)
            headers = [(b"Host", url.netloc.rpartition(b"@")[2]), *end_to_end(request.headers)]
            target = (url.path or b"/") + (b"?" + url.query if url.query else b"")
            headers.append((b"Connection", b"close"))
            await origin.send(h11.Request(method=request.method, target=target, headers=headers))
            while not isinstance(part := await client.next(), h11.EndOfMessage):
                await origin.send(part)
            await origin.send(h11.EndOfMessage())  # without trailers, which may be left out (RFC 9110, 6.5.1)
            await client.while_here(answer(origin, client))

    # -- the other side --------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _reaching(
        self, host: str, port: int, client: asyncio.StreamWriter
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Open a connection to a permitted target; it is cut when no rule permits it. Raises Refused."""
        target = _named(host, port)
        try:
            reader, writer, address = await self._connect(host, port)
        except Refused as refused:
            self._failures.pop(target, None)
            _remember(self._failures, target, str(refused))
            raise
        self._failures.pop(target, None)
        route = _Route(host, port, address, (client, writer))
        self._routes.add(route)
        try:
            yield reader, writer
        finally:
            self._routes.discard(route)
            writer.close()

    async def _connect(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Address | None]:
        if (reach := self._served.get(canonical(host))) is not None:
            return *await self._reach(host, port, reach), None
        if canonical(host).endswith(".invalid"):  # exists nowhere (RFC 6761)
            raise Refused(502, "dns_error", f"the name {host} cannot be resolved")
        if not may_permit(self._rules, host, port):
            raise self._refusal(host, port)  # not resolved: a DNS query can carry data out, too
        try:
            addresses = await asyncio.wait_for(self._resolve(host), _CONNECT_S)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise Refused(502, "dns_error", f"the name {host} cannot be resolved") from error
        permitted = [address for address in addresses if self._permits(host, port, address)]
        if not permitted:
            raise self._refusal(host, port)
        reason = "no answer"
        for address in permitted:
            try:
                opening = asyncio.open_connection(str(address), port, limit=CHUNK)
                reader, writer = await asyncio.wait_for(opening, _CONNECT_S)
            except TimeoutError:
                continue
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno else str(error)
                continue
            if self._permits(host, port, address):  # the rules may have changed meanwhile
                return reader, writer, address
            writer.transport.abort()
        raise Refused(502, "destination_unavailable", f"{_named(host, port)}: {reason}")

    async def _reach(
        self, host: str, port: int, reach: Reach
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if port != 80:
            raise self._refusal(host, port)
        try:
            return await reach(canonical(host))
        except OSError as error:
            raise Refused(502, "destination_unavailable", f"{_named(host, port)}: {error}") from error

    def _refusal(self, host: str, port: int) -> Refused:
        target = _named(host, port)
        self.refusals += 1
        _remember(self.refused, target, self.refused.pop(target, 0) + 1)
        reason = f"{target} is not among what this lease may reach"
        return Refused(403, "destination_ip_prohibited", reason)

    def _permits(self, host: str, port: int, address: Address) -> bool:
        return permits(self._rules, host, port, address, own=_is_own(address))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()


async def _first(*work: Coroutine[Any, Any, None]) -> None:
    """Run all until one ends: a tunnel closes when either side does (RFC 9110, 9.3.6)."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await cancel(*tasks)


def _listener(path: Path) -> socket.socket:
    """A unix socket that only this user may connect to."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(mask)
    return listener


def _named(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _remember(kept: dict[str, Any], key: str, value: object) -> None:
    kept[key] = value
    if len(kept) > _REMEMBERED:
        del kept[next(iter(kept))]


async def _getaddrinfo(host: str) -> list[Address]:
    answers = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [ip_address(address[0]) for *_, address in answers]


def _is_own(address: Address) -> bool:
    """True for an address of this machine: packets sent to it would also come from it."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), 9))  # sends nothing: it is a datagram socket
        except OSError:
            return False
        return ip_address(probe.getsockname()[0]) == address
