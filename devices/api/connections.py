"""Limits on connections: how many there are, and how long each may take to send or to read.

A connection is a stranger's until a request on it came with a token. Strangers have half of the places, and
all tenants together the other half; the operator's connections are not counted. Where a half is full, the
address or the tenant that has the most of it loses its oldest connection: whoever opens thousands closes his
own, and a newcomer always gets in.
"""

import asyncio
import resource
from collections.abc import Iterator
from functools import partial
from ipaddress import IPv6Address
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from devices.leases import OPERATOR

HEAD_BYTES = 64 << 10  # of a request's line and headers; one read of the socket more is possible
HEADERS = 100
HEAD_S = 10.0  # from the first byte of a request, or from the connection's beginning, to the end of its head
BODY_S = 120.0  # from the first byte of a request to its last
STALLED_S = 60.0  # in which a caller takes nothing of an answer
_SWEEP_EVERY_S = 1.0
_DESCRIPTORS = 1 << 16
_LARGEST = 8192  # connections, however many descriptors there are


def raise_descriptors() -> None:
    """Let this process have as many open files as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def places(descriptors: int) -> int:
    """How many connections a process with so many descriptors may have; a quarter is for all the rest."""
    return min(_LARGEST, descriptors * 3 // 4)


def overdue(head: float | None, body: float | None, stalled: float | None, now: float) -> bool:
    """Whether a connection has waited for too long for a head, for the end of a body, or for its reader."""
    limits = (head, HEAD_S), (body, BODY_S), (stalled, STALLED_S)
    return any(since is not None and now - since > limit for since, limit in limits)


class Door:
    """The connections of one server, and which of them have to make room."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._strangers = _Group()  # by address
        self._tenants = _Group()  # by name
        self._operator = _Group()

    @classmethod
    def of_this_process(cls) -> "Door":
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return cls(places(_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft))

    @property
    def protocol(self) -> Any:
        """Factory of the protocols of this server's connections."""
        return partial(BoundedHttp, self)

    def opened(self, one: "BoundedHttp") -> None:
        """Count a new connection, and close an old one of a stranger if there are too many."""
        self._strangers.add(one.address, one)
        while self._strangers.count > self._size // 2:
            oldest = self._strangers.oldest()
            if oldest.tenant is None:
                self.closed(oldest)
                oldest.transport.abort()
            else:
                self.recognised(oldest, oldest.tenant)

    def recognised(self, one: "BoundedHttp", tenant: str) -> None:
        """Count a stranger's connection as a tenant's, and close an old one if tenants have too many."""
        self._strangers.remove(one.address, one)
        (self._operator if tenant == OPERATOR else self._tenants).add(tenant, one)
        if self._tenants.count > self._size // 2:
            oldest = self._tenants.oldest()
            self.closed(oldest)
            oldest.shutdown()  # after the answer that is under way

    def closed(self, one: "BoundedHttp") -> None:
        """Forget a connection that ended, or became a WebSocket (see `devices.api.admission`)."""
        self._strangers.remove(one.address, one)
        for group in (self._tenants, self._operator):
            group.remove(one.tenant or OPERATOR, one)

    async def keep(self) -> None:
        """End the connections that take too long, until cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_EVERY_S)
            now = asyncio.get_running_loop().time()
            for one in [*self._strangers, *self._tenants, *self._operator]:
                if overdue(one.head_since, one.body_since, one.stalled_since, now):
                    one.transport.abort()


class _Group:
    """Connections by whose they are, oldest first."""

    def __init__(self) -> None:
        self.count = 0
        self._of: dict[str, dict[BoundedHttp, None]] = {}

    def __iter__(self) -> "Iterator[BoundedHttp]":
        return (one for of in self._of.values() for one in of)

    def add(self, whose: str, one: "BoundedHttp") -> None:
        self._of.setdefault(whose, {})[one] = None
        self.count += 1

    def remove(self, whose: str, one: "BoundedHttp") -> None:
        of = self._of.get(whose)
        if of is not None and one in of:
            del of[one]
            self.count -= 1
            if not of:
                del self._of[whose]

    def oldest(self) -> "BoundedHttp":
        """The oldest connection of whoever has the most."""
        most = max(self._of, key=lambda whose: len(self._of[whose]))
        return next(iter(self._of[most]))


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol, with limits on what a connection may send and how long it may take.

    Attributes:
        address: where it comes from; of IPv6 the network, of which one machine has all addresses.
        head_since, body_since, stalled_since: times of the event loop since which a request's head or body
            is not whole, or an answer is not taken; None where that is not so.
    """

    def __init__(self, door: Door, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._door = door
        self._head_bytes = 0
        self._tenant: str | None = None
        self.address = ""
        self.head_since: float | None = None
        self.body_since: float | None = None
        self.stalled_since: float | None = None

    @property
    def tenant(self) -> str | None:
        """Whose token came with a request on it; None for a stranger."""
        if self._tenant is None and self.scope is not None:
            self._tenant = self.scope.get("tenant")  # type: ignore[assignment]
        return self._tenant

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = _network(self.client[0]) if self.client else ""
        self.head_since = self.loop.time()
        self._door.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        goes_on = self.head_since is not None
        super().data_received(data)
        if self.head_since is not None:
            self._head_bytes += len(data) if goes_on else 0
            if self._head_bytes > HEAD_BYTES:
                self._refuse_head()
        elif self.body_since is None and self.timeout_keep_alive_task is None:
            self._keep_alive()

    def _keep_alive(self) -> None:
        """Wait for the next request again, after data that was not the beginning of one."""
        if self.transport.is_closing() or self.transport.get_protocol() is not self:  # a WebSocket now
            return
        if self.cycle is not None and self.cycle.response_complete:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_message_begin(self) -> None:
        if self._tenant is None and (tenant := self.tenant) is not None:
            self._door.recognised(self, tenant)
        super().on_message_begin()
        self._head_bytes = 0
        self.body_since = self.head_since = self.loop.time()

    def on_headers_complete(self) -> None:
        self.head_since = None
        if len(self.headers) > HEADERS:
            self._refuse_head()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self.cycle is not None:  # else its head was refused
            super().on_body(body)

    def on_message_complete(self) -> None:
        self.body_since = None
        if self.cycle is not None:
            super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._door.closed(self)
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stalled_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.stalled_since = None

    def _refuse_head(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_HEAD_TOO_LARGE)
            self.transport.close()


def _network(address: str) -> str:
    if ":" not in address:
        return address
    return IPv6Address(address.partition("%")[0]).exploded[:19]  # the first 64 bits


_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)
