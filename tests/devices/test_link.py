"""The link between a pool and a host: order, credit, long messages, and what ends it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest

from devices.hosts import link as links
from devices.hosts import messages
from devices.hosts.link import FRAME, WINDOW, Link, Overrun, carry


class Pipe:
    """Two links, each the other's connection, and tasks that receive for both."""

    def __init__(self, room: int = 1) -> None:
        self._ways = [asyncio.Queue[bytes](room), asyncio.Queue[bytes](room)]
        self.frames: list[int] = []  # their lengths
        self.got: tuple[list[object], list[object]] = ([], [])
        self.pool = Link(self._sender(0), self._ways[1].get, messages.decode_to_pool, self._room)
        self.host = Link(self._sender(1), self._ways[0].get, messages.decode_to_host)

    def _room(self, number: int) -> int:
        return messages.MAX_MESSAGE if number < 100 else 0

    def _sender(self, way: int):
        async def send(frame: bytes) -> None:
            self.frames.append(len(frame))
            await self._ways[way].put(frame)

        return send

    async def _receive(self, link, got: list[object]) -> None:
        while True:
            if (message := await link.receive()) is not None:
                got.append(message)

    async def __aenter__(self) -> "Pipe":
        self._stack = contextlib.AsyncExitStack()
        await self._stack.enter_async_context(self.pool)
        await self._stack.enter_async_context(self.host)
        self.receiving = [
            asyncio.create_task(self._receive(link, got))
            for link, got in zip((self.pool, self.host), self.got, strict=True)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.receiving:
            task.cancel()
        await asyncio.gather(*self.receiving, return_exceptions=True)
        await self._stack.aclose()


@pytest.fixture
async def pipe() -> AsyncIterator[Pipe]:
    async with Pipe() as pipe:
        yield pipe


async def turns(count: int = 2000) -> None:
    """Let everything that can happen happen: there is no wire in between that takes time."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_stream_stops_at_its_window_and_goes_on_when_it_is_read(pipe: Pipe) -> None:
    ours, theirs = pipe.pool.open(1), pipe.host.open(1)
    sent = 0

    async def write() -> None:
        nonlocal sent
        for _ in range(64):
            await ours.write(bytes(65536))
            sent += 65536
        await ours.finish()

    writing = asyncio.create_task(write())
    await turns()
    assert sent == WINDOW
    read = 0
    while data := await asyncio.wait_for(theirs.read(), 5.0):
        read += len(data)
    await writing
    assert read == 64 * 65536


async def test_a_stalled_stream_holds_up_neither_messages_nor_other_streams(pipe: Pipe) -> None:
    stalled, other, far = pipe.pool.open(1), pipe.pool.open(2), pipe.host.open(2)
    pipe.host.open(1)
    writing = asyncio.create_task(_write(stalled, 4 * WINDOW))
    await turns()
    await other.write(b"through")
    assert await far.read() == b"through"
    await pipe.pool.put(messages.Fence("a", 7, 0))
    await turns()
    assert pipe.got[1] == [messages.Fence("a", 7, 0)]
    assert not writing.done()
    writing.cancel()


async def _write(stream: links.Stream, count: int) -> None:
    for _ in range(count // 65536):
        await stream.write(bytes(65536))


async def test_a_long_message_goes_in_short_frames_and_others_pass_it(pipe: Pipe) -> None:
    value = bytes(range(256)) * (48 << 10)  # 12 MiB
    sending = asyncio.create_task(pipe.host.send(messages.Answer(7, value), 7))
    await turns(50)
    await pipe.host.put(messages.Answer(8, b"short"))
    await sending
    await turns()
    assert pipe.got[0] == [messages.Answer(8, b"short"), messages.Answer(7, value)]
    assert max(pipe.frames) <= FRAME


async def test_long_messages_wait_for_room(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "_BODIES", 5 * WINDOW)
    sending = [
        asyncio.create_task(pipe.host.send(messages.Answer(number, bytes(3 * WINDOW)), number))
        for number in (1, 2, 3)
    ]
    await asyncio.wait_for(asyncio.gather(*sending), 10.0)
    await turns()
    assert sorted(message.id for message in pipe.got[0]) == [1, 2, 3]


async def test_a_long_message_that_nobody_waits_for_any_more_is_not_sent_to_its_end(pipe: Pipe) -> None:
    with pytest.raises(ConnectionResetError):
        await pipe.host.send(messages.Answer(100, bytes(8 * WINDOW)), 100)
    assert pipe.got[0] == []


@pytest.mark.parametrize(
    "frames",
    [
        [messages.Data(1, bytes(65536))] * (WINDOW // 65536 + 1),  # more than the window
        [messages.Long(2, 2 * WINDOW), *[messages.Data(2, bytes(100_000))] * 21],  # more than announced
    ],
)
async def test_who_sends_more_than_was_granted_is_refused(pipe: Pipe, frames: list[object]) -> None:
    pipe.pool.open(1)
    receiving = pipe.receiving[0]
    for frame in frames:
        if not receiving.done():
            await asyncio.wait_for(pipe._ways[1].put(messages.encode(frame)), 5.0)
            await turns(20)
    assert isinstance(receiving.exception(), Overrun)


async def test_a_frame_that_is_too_long_and_one_that_is_none_are_refused(pipe: Pipe) -> None:
    await pipe._ways[1].put(bytes(FRAME + 1))
    with pytest.raises(Overrun):
        await pipe.receiving[0]
    await pipe._ways[0].put(b"\xc1")
    with pytest.raises(msgspec.DecodeError):
        await pipe.receiving[1]


async def test_an_end_that_does_not_read_is_noticed_and_costs_little() -> None:
    async def never(frame: bytes) -> None:
        await asyncio.Event().wait()

    arriving = asyncio.Queue[bytes]()
    async with Link(never, arriving.get, messages.decode_to_pool) as link:
        for token in range(10_000):
            link.post(messages.Fence("a", token, 0))
        assert len(link._posted) <= links._POSTED
        arriving.put_nowait(messages.encode(messages.Alive()))
        with pytest.raises(Overrun):
            await link.receive()


async def test_what_waits_on_a_link_ends_with_it(pipe: Pipe) -> None:
    stream = pipe.pool.open(1)
    waiting = [
        asyncio.create_task(_write(stream, 4 * WINDOW)),
        asyncio.create_task(pipe.pool.send(messages.Answer(5, bytes(4 * WINDOW)), 5)),
        *(asyncio.create_task(pipe.pool.put(messages.Fence("a", one, 0))) for one in range(20)),
    ]
    reading = asyncio.create_task(stream.read())
    await asyncio.sleep(0)
    pipe.pool._close()
    ended = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 5.0)
    assert {type(one) for one in ended} <= {ConnectionResetError, type(None)}
    assert isinstance(ended[0], ConnectionResetError)
    assert await asyncio.wait_for(reading, 5.0) == b""


async def test_either_end_of_a_carried_connection_ends_it(pipe: Pipe) -> None:
    async def ends() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(100):
                writer.write(data.upper())
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        return await asyncio.open_connection(*server.sockets[0].getsockname())

    near = pipe.pool.open(3)
    device = asyncio.create_task(carry(pipe.host.open(3), *await ends()))
    await near.write(b"hello")
    assert await asyncio.wait_for(near.read(), 5.0) == b"HELLO"
    await near.finish()
    await asyncio.wait_for(device, 5.0)
