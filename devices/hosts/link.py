"""One connection between a pool and a host: messages, and numbered streams of bytes under credit.

Nothing waits for a device or a caller while it reads the connection, and nothing piles up: the sender of a
stream may have `WINDOW` bytes under way, and more only when the receiver, which has passed some on, grants
it. One task writes; each sender waits until its frame is taken, and frames are short, so that a file of one
device does not hold up a call of another. A message longer than a frame is sent like a stream, too.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Self, TypeVar

from devices.hosts import messages

M = TypeVar("M")

FRAME = 256 << 10  # bytes of the longest frame
WINDOW = 1 << 20  # bytes of a stream that may be under way without being granted
_CHUNK = 64 << 10
_BODIES = 4 * messages.MAX_MESSAGE  # bytes that all long messages which are arriving may take
_QUEUED = 4  # frames that wait to be written; their senders wait for room
_POSTED = 4096  # short messages that wait to be written; more, and the other end does not read


class Overrun(Exception):
    """The other end sends what it was not granted, or does not read what it is sent."""


class _Credit:
    """The bytes that may still be sent of one stream."""

    def __init__(self) -> None:
        self._left = WINDOW
        self._changed = asyncio.Event()
        self._cut = False

    async def take(self, count: int) -> None:
        """Wait until so many bytes may be sent. Raises ConnectionResetError if the stream is cut."""
        while self._left < count and not self._cut:
            self._changed.clear()
            await self._changed.wait()
        if self._cut:
            raise ConnectionResetError("the other end takes no more of this stream")
        self._left -= count

    def add(self, count: int) -> None:
        self._left += count
        self._changed.set()

    def cut(self) -> None:
        self._cut = True
        self._changed.set()


class Stream:
    """One end of a stream: `read` and `write` wait for the other end; `end` does not."""

    def __init__(self, link: "Link[Any]", number: int) -> None:
        self._link = link
        self._number = number
        self._credit = _Credit()
        self._arrived: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._granted = WINDOW  # bytes that may still arrive
        self._passed_on = 0  # bytes that were read and not granted again yet
        self._over = False  # nothing more arrives
        self._ended = False  # the other end was told, or told us

    async def read(self) -> bytes:
        """The next bytes, for which the other end may send others; empty after the last ones."""
        while not self._arrived and not self._over:
            self._changed.clear()
            await self._changed.wait()
        if not self._arrived:
            return b""
        data = self._arrived.popleft()
        self._passed_on += len(data)
        if self._passed_on >= WINDOW // 2:
            self._granted += self._passed_on
            self._link.post(messages.Credit(self._number, self._passed_on))
            self._passed_on = 0
        return data

    async def write(self, data: bytes) -> None:
        """Send some bytes when they may be sent. Raises ConnectionResetError if the stream is over."""
        await self._credit.take(len(data))
        await self._link.put(messages.Data(self._number, data))

    async def finish(self) -> None:
        """Tell the other end, after what was written, that this was all."""
        if not self._ended:
            self._ended = True
            await self._link.put(messages.Data(self._number, b""))

    def end(self) -> None:
        """Forget the stream, and cut it if the other end does not know that it is over."""
        if not self._ended:
            self._ended = True
            self._link.post(messages.Data(self._number, b""))
        self._link.forget(self._number)

    def took(self, data: bytes) -> None:
        """Take what arrived. Raises Overrun if it was not granted."""
        if len(data) > self._granted:
            raise Overrun(f"{len(data)} bytes arrived of a stream that had {self._granted} left")
        self._granted -= len(data)
        if data:
            self._arrived.append(data)
            self._changed.set()
        else:
            self._ended = True
            self.cut()

    def granted(self, count: int) -> None:
        self._credit.add(count)

    def cut(self) -> None:
        """Nothing more arrives, and nothing more is taken; what has arrived can be read."""
        self._over = True
        self._changed.set()
        self._credit.cut()


class _Body:
    """A long message that is arriving."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.granted = size <= WINDOW
        self.data = bytearray()


class Link(Generic[M]):
    """One end of a connection; an asynchronous context, in which it writes.

    `decode` decodes a message; `room(number)` says how many bytes a long one may have, 0 if nobody waits
    for it.
    """

    def __init__(
        self,
        send: Callable[[bytes], Awaitable[None]],
        receive: Callable[[], Awaitable[bytes]],
        decode: Callable[[bytes | bytearray], M],
        room: Callable[[int], int] = lambda _: messages.MAX_MESSAGE,
    ) -> None:
        self._send = send
        self._receive = receive
        self._decode = decode
        self._room_for = room
        self._posted: deque[bytes] = deque()  # before the frames
        self._frames: deque[bytes] = deque()
        self._places = asyncio.Semaphore(_QUEUED)
        self._work = asyncio.Event()
        self._closed = False
        self._unread = False  # the other end does not take what is posted
        self._streams: dict[int, Stream] = {}
        self._bodies: dict[int, _Body] = {}  # arriving
        self._sending: dict[int, _Credit] = {}  # of long messages

    async def __aenter__(self) -> Self:
        self._writer = asyncio.create_task(self._write())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close()
        self._writer.cancel()
        await asyncio.gather(self._writer, return_exceptions=True)

    # -- sending ---------------------------------------------------------------------------------------------

    def post(self, message: Any) -> None:
        """Send a short message ahead of what others wait to send; without waiting, and never failing."""
        if not self._closed:
            self._posted.append(messages.encode(message))
            self._unread = self._unread or len(self._posted) > _POSTED
            if self._unread:
                self._posted.clear()
            self._work.set()

    async def put(self, message: Any) -> None:
        """Send a message that fits a frame. Raises ConnectionResetError if the connection is gone."""
        await self._put(messages.encode(message))

    async def send(self, message: Any, number: int) -> None:
        """Send a message of any length; a long one as the stream `number`.

        Raises ConnectionResetError if the connection is gone, or the other end does not want it any more.
        """
        data = messages.encode(message)
        if len(data) <= FRAME:
            await self._put(data)
            return
        credit = self._sending[number] = _Credit()
        try:
            await self.put(messages.Long(number, len(data)))
            for at in range(0, len(data), _CHUNK):
                await credit.take(len(part := data[at : at + _CHUNK]))
                await self.put(messages.Data(number, part))
        except asyncio.CancelledError:
            self.post(messages.Data(number, b""))
            raise
        finally:
            del self._sending[number]

    async def _put(self, frame: bytes) -> None:
        await self._places.acquire()
        if self._closed:
            self._places.release()  # whoever waits, too, is to know
            raise ConnectionResetError("the connection is gone")
        self._frames.append(frame)
        self._work.set()

    async def _write(self) -> None:
        try:
            while True:
                if self._posted:
                    await self._send(self._posted.popleft())
                elif self._frames:
                    frame = self._frames.popleft()
                    self._places.release()
                    await self._send(frame)
                else:
                    self._work.clear()
                    await self._work.wait()
        except Exception:  # of the connection: whoever receives from it raises its own
            self._close()

    def _close(self) -> None:
        self._closed = True
        self._places.release()
        for stream in self._streams.values():
            stream.cut()
        for credit in self._sending.values():
            credit.cut()
        self._bodies.clear()

    # -- streams ---------------------------------------------------------------------------------------------

    def open(self, number: int) -> Stream:
        """Our end of a stream, in which what arrives is kept from now on."""
        stream = self._streams[number] = Stream(self, number)
        if self._closed:
            stream.cut()
        return stream

    def forget(self, number: int) -> None:
        self._streams.pop(number, None)

    def drop(self, number: int) -> None:
        """Tell the other end that nobody waits for this long message any more, if one is arriving."""
        if self._bodies.pop(number, None) is not None:
            self.post(messages.Data(number, b""))
            self._grant()

    # -- receiving -------------------------------------------------------------------------------------------

    async def receive(self) -> M | None:
        """The next message; None if what came belongs to a stream or is not the end of a long message.

        Raises one of DECODE_ERRORS, Overrun, and what the connection raises.
        """
        frame = await self._receive()
        if len(frame) > FRAME:
            raise Overrun(f"a frame has {len(frame)} bytes; at most {FRAME} are allowed")
        if self._unread:
            raise Overrun("the other end does not read")
        message = self._decode(frame)
        match message:
            case messages.Data(stream=number, data=data):
                return self._take(number, data)
            case messages.Credit(stream=number, bytes=count):
                if (credit := self._sending.get(number)) is not None:
                    credit.add(count)
                elif (stream := self._streams.get(number)) is not None:
                    stream.granted(count)
                return None
            case messages.Long(stream=number, size=size):
                self._announced(number, size)
                return None
        return message

    def _take(self, number: int, data: bytes) -> M | None:
        if (body := self._bodies.get(number)) is not None:
            body.data += data
            if not data:
                self.drop(number)
            elif len(body.data) > (body.size if body.granted else WINDOW):
                raise Overrun("a message is longer than it was announced or granted")
            elif len(body.data) == body.size:
                del self._bodies[number]
                self._grant()
                return self._decode(body.data)
        elif (stream := self._streams.get(number)) is not None:
            stream.took(data)
        elif not data and (credit := self._sending.get(number)) is not None:
            credit.cut()
        return None

    def _announced(self, number: int, size: int) -> None:
        if number in self._bodies or size > self._room_for(number):
            self.post(messages.Data(number, b""))
            return
        self._bodies[number] = _Body(size)
        self._grant()

    def _grant(self) -> None:
        """Let long messages come that have room, the oldest first."""
        free = _BODIES - sum(body.size for body in self._bodies.values() if body.granted)
        for number, body in self._bodies.items():
            if not body.granted and body.size <= free:
                free -= body.size
                body.granted = True
                self.post(messages.Credit(number, body.size - WINDOW))


async def carry(stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes between a stream and a connection until either of them ends; then end the stream."""
    there = asyncio.create_task(_there(reader, stream))
    back = asyncio.create_task(_back(stream, writer))
    try:
        await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
    finally:
        there.cancel()
        back.cancel()
        await asyncio.gather(there, back, return_exceptions=True)
        stream.end()


async def _there(reader: asyncio.StreamReader, stream: Stream) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            await stream.write(data)
        await stream.finish()


async def _back(stream: Stream, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await stream.read():
            writer.write(data)
            await writer.drain()
