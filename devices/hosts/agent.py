"""`guiagent host`: runs this machine's devices for a pool on another machine, to which it connects."""

import asyncio
import contextlib
import itertools
import logging
import secrets
import time
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from devices.config import DeviceConfig
from devices.drivers import DRIVERS, Driver
from devices.hosts import messages
from devices.hosts.edge import escaped
from devices.hosts.link import FRAME, Link, Overrun, Stream, carry
from devices.hosts.local import DeviceHost
from devices.hosts.slot_record import LogLine
from devices.leases import Lease
from guiagent.errors import (
    DECODE_ERRORS,
    Fault,
    FaultError,
    GuiAgentError,
    InfrastructureError,
    UsageError,
)
from guiagent.protocols import Clock
from guiagent.wire import HOSTS, ConnectRequest

_log = logging.getLogger(__name__)

_CLOSE_S = 1.0  # for the WebSocket's closing handshake
_PAUSE_S = 0.5  # between two attempts to reach the pool
_REPORT_S = 0.5


class Agent:
    """One host: its devices, and its connection to one of the pools at `urls`, which it tries in turn.

    `run` raises UsageError if a pool refuses the host. If no pool was heard of for `messages.GRACE_S`, the
    devices are stopped: their leases have ended, and a former holder must not drive them any longer.
    """

    def __init__(
        self,
        urls: Sequence[str],
        token: str,
        name: str,
        slots: Mapping[str, DeviceConfig],
        drivers: Mapping[str, Driver] = DRIVERS,
        clock: Clock = time,
    ) -> None:
        named = {f"{name}.{slot}": config for slot, config in slots.items()}
        self._urls = [_join_url(url) for url in urls]
        self._token = token
        self._name = name
        self._host = DeviceHost(named, drivers, clock)
        self._clock = clock
        self._session = secrets.token_hex(8)
        self._heard = clock.monotonic()  # when a pool last said something
        self._jobs: set[asyncio.Task[None]] = set()
        self._reported: dict[str, LogLine] = {}  # the last line of each device's log that a pool was sent

    async def run(self) -> None:
        """Serve a pool, and reconnect when the connection breaks, until cancelled."""
        self._host.sweep()
        running = True  # whether devices may be up
        try:
            for attempt in itertools.count():
                url = self._urls[attempt % len(self._urls)]
                joined = False
                try:
                    async with connect(
                        url,
                        additional_headers={"Authorization": f"Bearer {self._token}"},
                        max_size=FRAME,
                        open_timeout=min(messages.SILENCE_S, max(_PAUSE_S, self._left_s())),
                        ping_interval=None,  # `messages.Alive` does more: it comes from the pool itself
                        close_timeout=_CLOSE_S,
                        compression=None,
                        proxy=None,
                    ) as socket:
                        await self._greet(socket)
                        _log.info("joined the pool at %s as %s", url, self._name)
                        joined = running = True
                        await self._serve(socket)
                except (OSError, WebSocketException) as error:  # TimeoutError is an OSError
                    if _is_refusal(error):
                        raise UsageError(f"the pool at {url} refuses this host: {error}") from error
                    _log.info("%s the pool at %s: %s", "lost" if joined else "cannot reach", url, _why(error))
                if running and self._left_s() <= 0:
                    await self._give_up()
                    running = False
                await asyncio.sleep(_PAUSE_S)
        finally:
            await self._drop_jobs()
            await self._host.close()

    def _left_s(self) -> float:
        """Seconds for which the pool will still wait for this host."""
        return self._heard + messages.GRACE_S - self._clock.monotonic()

    async def _give_up(self) -> None:
        """Stop all devices and take a new session id, so that the pool does not resume the old session."""
        _log.warning("no pool for %g s: stopping the devices of this host", messages.GRACE_S)
        await self._drop_jobs()
        await self._host.close()
        self._session = secrets.token_hex(8)

    async def _greet(self, socket: ClientConnection) -> None:
        hello = messages.Hello(self._name, self._session, list(self._host.slots), messages.PROTOCOL)
        await socket.send(messages.encode(hello))
        async with asyncio.timeout(messages.SILENCE_S):
            answer = messages.decode_to_host(await _bytes(socket))
        if isinstance(answer, messages.Refused):
            raise UsageError(f"the pool refuses this host: {answer.reason}")
        self._heard = self._clock.monotonic()

    async def _serve(self, socket: ClientConnection) -> None:
        """Take messages until the connection ends. Nothing here waits for a device, or for a stream's end."""
        async with Link(socket.send, partial(_bytes, socket), messages.decode_to_host) as link:
            reports = [asyncio.create_task(self._keep_alive(link)), asyncio.create_task(self._report(link))]
            try:
                while True:
                    async with asyncio.timeout(messages.SILENCE_S):
                        message = await link.receive()
                    self._heard = self._clock.monotonic()
                    match message:
                        case messages.Fence():
                            self._host.fence(message.device, message.token, message.epoch)
                        case messages.Open():
                            self._host.open(message.device, stale=message.stale)
                        case messages.Start() | messages.Stop() | messages.Recycle() | messages.Check():
                            self._begin(self._answer(link, message))
                        case messages.VerbCall():
                            self._begin(self._answer(link, message))
                        case _:
                            pass
            except Overrun as error:
                raise ConnectionError(str(error)) from error
            except DECODE_ERRORS as error:
                raise InfrastructureError(
                    f"the pool speaks another version of this protocol ({error}); "
                    "upgrade this host or the pool"
                ) from error
            finally:
                for report in reports:
                    report.cancel()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        job = asyncio.create_task(work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    async def _drop_jobs(self) -> None:
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)

    async def _answer(self, link: Link[messages.ToHost], call: messages.Call) -> None:
        try:
            value = await self._do(call)
            if isinstance(call, messages.VerbCall) and call.verb is ConnectRequest:
                self._begin(self._carry(link.open(call.id), call.lease.device, *value))
                value = None
            reply: Any = messages.Answer(call.id, msgspec.msgpack.encode(value))
        except GuiAgentError as error:
            reply = messages.failure(call.id, error)
        except KeyError:
            gone = FaultError(Fault("farm", "unknown", "this host has no such device"))
            reply = messages.failure(call.id, gone)
        except Exception as error:
            _log.exception("a call of the pool failed")
            what = f"this host failed: {type(error).__name__}: {escaped(str(error))}"
            reply = messages.failure(call.id, FaultError(Fault("farm", "host_error", what, retryable=True)))
        with contextlib.suppress(ConnectionResetError):  # the pool is away; it will ask again
            await link.send(reply, call.id)

    def _do(self, call: messages.Call) -> Awaitable[Any]:
        host = self._host
        match call:
            case messages.Start():
                return host.start(call.device)
            case messages.Stop():
                return host.stop(call.device)
            case messages.Recycle():
                return host.recycle(call.device)
            case messages.Check():
                return host.check(call.device)
            case messages.VerbCall():
                return host.call(_lease(call.lease), messages.message_of(call))

    async def _carry(
        self, stream: Stream, device: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await carry(stream, reader, writer)
        finally:
            self._host.on_disconnect(device, writer)

    async def _keep_alive(self, link: Link[messages.ToHost]) -> None:
        while True:
            link.post(messages.Alive())
            await asyncio.sleep(messages.ALIVE_S)

    async def _report(self, link: Link[messages.ToHost]) -> None:
        """Send the pool changed frames and new log lines, twice a second."""
        shown: dict[str, tuple[str, int]] = {}
        with contextlib.suppress(ConnectionResetError):
            while True:
                for device, record in self._host.records.items():
                    lines, frame = list(record.log), record.frame
                    new = _after(self._reported.get(device), lines)
                    if not new and shown.get(device) == (frame.hash, frame.token):
                        continue
                    shown[device] = frame.hash, frame.token
                    if new:
                        self._reported[device] = new[-1]
                    seen = messages.Seen(device, frame.token, frame.data, frame.media_type, frame.hash, new)
                    await link.send(seen, messages.REPORTS)
                await asyncio.sleep(_REPORT_S)


def _after(last: LogLine | None, lines: Sequence[LogLine]) -> list[LogLine]:
    """The lines after `last`; all of them if the log no longer has that line."""
    for index in range(len(lines) - 1, -1, -1):
        if lines[index] is last:
            return list(lines[index + 1 :])
    return list(lines)


def _lease(bearer: messages.Bearer) -> Lease:
    """Create a lease with the fields that a host needs."""
    return Lease(
        id="",
        device=bearer.device,
        token=bearer.token,
        ttl=0.0,
        grants=frozenset(bearer.grants),
        label="",
        key="",
        egress=tuple(bearer.egress),
    )


async def _bytes(socket: ClientConnection) -> bytes:
    message = await socket.recv(decode=False)
    return bytes(message)


def _why(error: Exception) -> str:
    """Why there is no connection: the pool's own reason if it gave one."""
    if isinstance(error, ConnectionClosed) and error.rcvd is not None and error.rcvd.reason:
        return error.rcvd.reason
    if isinstance(error, TimeoutError):
        return "it says nothing"
    return str(error)


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, InvalidStatus) and error.response.status_code in (401, 403, 404)


def _join_url(url: str) -> str:
    scheme, separator, rest = url.rstrip("/").partition("://")
    if scheme not in ("http", "https") or not separator:
        raise UsageError(f"a pool's address begins with http:// or https://, not {url[:80]!r}")
    return f"{'wss' if scheme == 'https' else 'ws'}://{rest}{HOSTS}/join"
