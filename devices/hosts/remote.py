"""A device host on another machine: implements `Host` over the WebSocket that the host opened."""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from devices.hosts import messages
from devices.hosts.link import Link, Stream, carry
from devices.hosts.slot_record import LARGEST_FRAME, LOG_LINES, Frame, SlotRecord
from devices.leases import Lease
from guiagent.errors import DECODE_ERRORS, Fault, FaultError, InfrastructureError, UsageError
from guiagent.types import Capabilities
from guiagent.wire import ConnectRequest, Verb

T = TypeVar("T")

_REPORT = LARGEST_FRAME + (1 << 20)  # bytes of a report
_START_S = 600.0  # the host has a deadline of its own for every kind of device
_CONTROL_S = 30.0
_MARGIN_S = 5.0  # on top of the deadline the host keeps


class _Away(FaultError):
    def __init__(self, message: str) -> None:
        super().__init__(Fault("farm", "host_away", message, retryable=True))


class RemoteHost:
    """A `devices.hosts.host.Host` on another machine.

    While the host is away, a call waits within its deadline and is sent again when the host is back: every
    call is idempotent, by itself or by its key. A `Fence` or `Open` goes ahead of later calls, and is
    repeated when the host is back. What the host sends is checked here; its devices are not trusted with
    the pool's memory or time, see `devices.hosts.link`.
    """

    def __init__(self, hello: messages.Hello) -> None:
        self.id = hello.name
        self.session = hello.session
        self.slots = hello.slots
        self.records: Mapping[str, SlotRecord] = {slot.id: SlotRecord() for slot in hello.slots}
        self.heard = asyncio.get_running_loop().time()  # when it last said something
        self._numbers = itertools.count(messages.REPORTS + 1)
        self._link: Link[messages.ToPool] | None = None  # None while the host is away
        self._connected = asyncio.Event()
        self._lost = False
        self._answers: dict[int, tuple[Link[messages.ToPool], asyncio.Future[bytes]]] = {}
        self._carrying: set[asyncio.Task[None]] = set()

    # -- the connection --------------------------------------------------------------------------------------

    async def attend(
        self, send: Callable[[bytes], Awaitable[None]], receive: Callable[[], Awaitable[bytes]]
    ) -> None:
        """Exchange messages until the connection ends (`send` and `receive` raise).

        Raises TimeoutError if the host is silent for `messages.SILENCE_S`, Overrun if it sends more than it
        may, one of DECODE_ERRORS if it sends anything else.
        """
        async with Link(send, receive, messages.decode_to_pool, self._room) as link:
            for device, record in self.records.items():
                link.post(messages.Fence(device, record.fence, record.epoch))
                if record.up.is_set():
                    link.post(messages.Open(device, record.stale))
            self._link = link
            self._connected.set()
            try:
                while True:
                    async with asyncio.timeout(messages.SILENCE_S):
                        message = await link.receive()
                    self.heard = asyncio.get_running_loop().time()
                    if message is not None:
                        self._take(message)
            finally:
                if self._link is link:  # and it has not connected again meanwhile
                    self._link = None
                    self._connected.clear()
                away = _Away(f"host {self.id} is not connected")
                for over, waiting in self._answers.values():
                    if over is link and not waiting.done():
                        waiting.set_exception(away)

    def _room(self, number: int) -> int:
        """The bytes that a long message of this number may have."""
        if number == messages.REPORTS:
            return _REPORT
        return messages.MAX_MESSAGE if number in self._answers else 0

    def _post(self, message: Any) -> None:
        if self._link is not None:
            self._link.post(message)

    def _take(self, message: messages.ToPool) -> None:
        match message:
            case messages.Answer(id=id, value=value):
                if (waiting := self._waiting(id)) is not None:
                    waiting.set_result(value)
            case messages.Failure(id=id):
                if (waiting := self._waiting(id)) is not None:
                    waiting.set_exception(messages.error_of(message))
            case messages.Seen(device=device) if device in self.records:
                record = self.records[device]
                for line in message.log[-LOG_LINES:]:
                    record.note(line.at, line.token, line.text)
                if message.hash != record.frame.hash:
                    record.show(Frame(message.frame, message.media_type, message.hash, token=message.token))
            case messages.Alive():
                self._post(message)
            case _:
                pass

    def _waiting(self, number: int) -> asyncio.Future[bytes] | None:
        _, waiting = self._answers.get(number, (None, None))
        return waiting if waiting is not None and not waiting.done() else None

    async def _ask(
        self, make: Callable[[int, Link[Any]], messages.Call], type_: type[T], deadline_s: float
    ) -> T:
        """Send a call and return its answer; send it again each time the host was away.

        Raises FaultError: the host's own, or `host_lost`, or `host_away` after `deadline_s`. `make` gets the
        number of the call and the connection that it goes over.
        """
        try:
            async with asyncio.timeout(deadline_s):
                while True:
                    await self._connected.wait()
                    if self._lost:
                        raise FaultError(
                            Fault("farm", "host_lost", f"host {self.id} is gone", retryable=True)
                        )
                    if (link := self._link) is None:
                        continue
                    number = next(self._numbers)
                    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
                    self._answers[number] = link, answer
                    try:
                        with contextlib.suppress(ConnectionResetError):  # the answer will be that it is away
                            await link.send(make(number, link), number)
                        return msgspec.msgpack.decode(await answer, type=type_)
                    except _Away:
                        pass
                    except DECODE_ERRORS as error:
                        message = f"host {self.id} gave an answer that is none: {error}"
                        raise FaultError(Fault("farm", "protocol", message, retryable=True)) from error
                    finally:
                        del self._answers[number]
                        answer.cancel()
                        link.drop(number)
        except TimeoutError:
            message = f"host {self.id} did not answer within {deadline_s:g} s"
            raise _Away(message) from None

    async def _control(self, call: Callable[[int], messages.Call], deadline_s: float = _CONTROL_S) -> None:
        """Ask for what has no value. Raises FaultError whatever goes wrong at the host."""
        try:
            await self._ask(lambda number, _: call(number), type(None), deadline_s)
        except (UsageError, InfrastructureError) as error:
            raise FaultError(Fault("device", "driver_error", str(error), retryable=True)) from error

    # -- what the reconciler asks for ------------------------------------------------------------------------

    async def start(self, device: str) -> Capabilities:
        self.records[device].up.clear()
        return await self._ask(lambda id, _: messages.Start(id, device), Capabilities, _START_S)

    def open(self, device: str, *, stale: bool) -> None:
        self.records[device].stale = stale
        self.records[device].up.set()
        self._post(messages.Open(device, stale))

    async def stop(self, device: str) -> None:
        self.records[device].up.clear()
        await self._control(lambda id: messages.Stop(id, device))

    async def recycle(self, device: str) -> None:
        await self._control(lambda id: messages.Recycle(id, device))

    async def check(self, device: str) -> None:
        await self._control(lambda id: messages.Check(id, device))

    def fence(self, device: str, token: int, epoch: int) -> None:
        self.records[device].set_fence(token, epoch)
        self._post(messages.Fence(device, token, epoch))

    async def close(self) -> None:
        """End the waiting calls and streams; the devices are left to the host itself."""
        self._lost = True
        self._connected.set()
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    # -- verbs -----------------------------------------------------------------------------------------------

    async def call(self, lease: Lease, message: Verb[T]) -> T:
        value: T = await self._ask(
            lambda id, _: messages.call_of(id, lease, message), message.result, message.deadline_s + _MARGIN_S
        )
        record = self.records[lease.device]
        record.performed(message, value, lease.token, asyncio.get_running_loop().time())
        return value

    async def connect(
        self, lease: Lease, message: ConnectRequest
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        stream: Stream | None = None

        def call(id: int, link: Link[Any]) -> messages.Call:
            nonlocal stream
            stream = link.open(id)  # now: what the device says first comes right after the answer
            return messages.call_of(id, lease, message)

        try:
            await self._ask(call, message.result, message.deadline_s + _MARGIN_S)
        except BaseException:
            if stream is not None:
                stream.end()
            raise
        assert stream is not None
        ours, theirs = socket.socketpair()
        far_reader, far_writer = await asyncio.open_connection(sock=theirs)
        task = asyncio.create_task(self._carry(lease, stream, far_reader, far_writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        return await asyncio.open_connection(sock=ours)

    def on_disconnect(self, device: str, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def _carry(
        self, lease: Lease, stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        record = self.records[lease.device]
        if lease.token < record.fence:  # it ended while the stream was opened
            stream.end()
            writer.close()
            return
        record.streams.add(writer)  # so that the end of the lease cuts it here, too
        try:
            await carry(stream, reader, writer)
        finally:
            record.streams.discard(writer)
            writer.close()
