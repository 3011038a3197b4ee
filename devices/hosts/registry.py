"""Registry of joined hosts: checks what a host offers, and keeps its leases while it is briefly away."""

import asyncio
import contextlib
import logging
import re
from typing import Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from devices.hosts import messages
from devices.hosts.host import Host
from devices.hosts.link import Overrun
from devices.hosts.remote import RemoteHost
from guiagent.errors import DECODE_ERRORS, Fault, InfrastructureError
from guiagent.wire import CLOSED, TRY_LATER

_log = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_NORMAL = 1000
_BAD_MESSAGE = 1008
_CLOSE_S = 1.0
_SILENT = CLOSED + 408
_FOREIGN = "it does not speak this version of the protocol: upgrade the host or the pool"
_ELSEWHERE = "another pool instance may lead"
_MAX_SLOTS = 256


class Farm(Protocol):
    """The part of the pool service that the registry calls."""

    def add_host(self, host: Host) -> None: ...

    async def remove_host(self, id: str, fault: Fault) -> None: ...


class HostRegistry:
    """Admits hosts. A host that reconnects in time with the same session keeps its devices and leases."""

    def __init__(self, farm: Farm) -> None:
        self._farm = farm
        self._hosts: dict[str, RemoteHost] = {}
        self._attended: dict[str, WebSocket] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    async def endpoint(self, socket: WebSocket) -> None:
        await socket.accept()
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            try:
                await self._admit(socket)
            except (*DECODE_ERRORS, KeyError):  # KeyError: a text message where bytes belong
                await _refuse(socket, _FOREIGN)
            except Overrun as overrun:
                _log.warning("a host is cut off: %s", overrun)
                await _close(socket, _BAD_MESSAGE, str(overrun))
            except InfrastructureError as error:  # the database is away, or another instance leads
                _log.warning("a host is sent away for now: %s", error)
                await _close(socket, TRY_LATER, "the pool cannot write to its database")
            except TimeoutError:
                await _close(socket, _SILENT, f"this host was not heard of for {messages.SILENCE_S:g} s")

    async def _admit(self, socket: WebSocket) -> None:
        """Accept a host and exchange messages with it, or refuse it. Raises TimeoutError if it is silent."""
        async with asyncio.timeout(messages.SILENCE_S):
            hello = messages.decode_to_pool(await socket.receive_bytes())
        if self._closed:
            await _close(socket, TRY_LATER, _ELSEWHERE)
        elif not isinstance(hello, messages.Hello) or hello.protocol != messages.PROTOCOL:
            await _refuse(socket, _FOREIGN)
        elif (reason := _objection(hello)) or (reason := self._rival(hello)):
            await _refuse(socket, reason)
        else:
            await socket.send_bytes(messages.encode(messages.Welcome()))
            await self._attend(await self._take_in(hello), socket)

    def _rival(self, hello: messages.Hello) -> str:
        """A reason to refuse the host: another one with its name is connected. Empty if there is none."""
        present = self._hosts.get(hello.name)
        if present is None or present.session == hello.session or hello.name not in self._attended:
            return ""
        return f"a host named {hello.name} is connected already; choose another --name"

    async def _take_in(self, hello: messages.Hello) -> RemoteHost:
        if (leaving := self._leaving.pop(hello.name, None)) is not None:
            leaving.cancel()
        present = self._hosts.get(hello.name)
        if present is not None and present.session == hello.session:
            return present
        if present is not None:
            await self._remove(hello.name, "it was started anew")
        host = self._hosts[hello.name] = RemoteHost(hello)
        self._farm.add_host(host)
        return host

    async def _attend(self, host: RemoteHost, socket: WebSocket) -> None:
        former = self._attended.get(host.id)
        self._attended[host.id] = socket
        if former is not None:  # a connection that died without either end noticing
            await _close(former, _NORMAL, "this host dialled again")
        try:
            await host.attend(socket.send_bytes, socket.receive_bytes)
        finally:
            if self._attended.get(host.id) is socket and not self._closed:
                del self._attended[host.id]
                self._leaving[host.id] = asyncio.create_task(self._miss(host))

    async def _miss(self, host: RemoteHost) -> None:
        """Remove a host that stays away for `GRACE_S`, counted from the last message that it sent."""
        await asyncio.sleep(host.heard + messages.GRACE_S - asyncio.get_running_loop().time())
        self._leaving.pop(host.id, None)
        try:
            await self._remove(host.id, f"it was not heard of for {messages.GRACE_S:g} s")
        except InfrastructureError as error:
            _log.warning("that host %s is gone is not on disk: %s", host.id, error)

    async def _remove(self, id: str, why: str) -> None:
        host = self._hosts.pop(id)
        try:
            await self._farm.remove_host(id, Fault("farm", "host_lost", f"host {id} is gone: {why}", True))
        finally:
            await host.close()

    def dismiss(self) -> None:
        """Close the connections of all hosts. One that is back in time keeps its devices and leases."""
        for socket in self._attended.values():
            task = asyncio.create_task(_close(socket, TRY_LATER, _ELSEWHERE))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Send all hosts away and admit no more.

        A process that led and follows now goes on running: a host whose connection it kept would hear its
        `Alive` for ever, and never look for the leader.
        """
        self._closed = True
        self.dismiss()
        await asyncio.gather(*self._closing)
        for task in self._leaving.values():
            task.cancel()
        await asyncio.gather(*self._leaving.values(), return_exceptions=True)


async def _refuse(socket: WebSocket, reason: str) -> None:
    await socket.send_bytes(messages.encode(messages.Refused(reason)))
    await _close(socket, _BAD_MESSAGE, reason)


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    """Close a connection, without waiting for long where the other end does not read."""
    with contextlib.suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
        async with asyncio.timeout(_CLOSE_S):
            await socket.close(code, reason)


def _objection(hello: messages.Hello) -> str:
    """What is wrong with a host's offer; empty if nothing is."""
    if not _NAME.fullmatch(hello.name):
        return "a host's name has letters, digits, - and _, at most 63"
    if not 1 <= len(hello.slots) <= _MAX_SLOTS:
        return f"a host offers 1 to {_MAX_SLOTS} devices"
    ids = {slot.id for slot in hello.slots}
    if len(ids) != len(hello.slots) or not all(
        one.startswith(f"{hello.name}.") and _NAME.fullmatch(one.removeprefix(f"{hello.name}."))
        for one in ids
    ):
        return "a host's devices are named after it, each once"
    return ""
