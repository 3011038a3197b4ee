"""A server inside a guest whose answers are small on the wire and huge in memory, or never end."""

import asyncio
import gzip
import struct
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable

import pytest

from devices.drivers.remote.osworld import OSWorldDevice
from guiagent.errors import FaultError
from guiagent.types import ObserveSpec

SIZE = b'{"width": 640, "height": 480}'
PICTURE = ObserveSpec(frame="jpeg", tree=True)
TREE = ObserveSpec(frame="none", tree=True)
LEFT_MB = 96  # the bound of one answer, with room for what else runs here
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def whole(body: bytes, *headers: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        head = b"".join(b"\r\n" + header for header in headers)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d%s\r\n\r\n" % (len(body), head) + body)
        await writer.drain()

    return answer


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    while not writer.is_closing():
        writer.write(piece)
        await writer.drain()


def compressed_picture(width: int, height: int) -> bytes:
    """A PNG of a few kilobytes that decodes to `width` x `height` pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


async def device_that_answers(answer: Answer) -> tuple[OSWorldDevice, asyncio.Server]:
    """A desktop that starts as it should; then `answer` is its answer to everything."""
    first = {b"/platform": whole(b"Linux"), b"/screen_size": whole(SIZE)}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await first.pop(head.split(b" ")[1], answer)(writer)
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    return await OSWorldDevice.start(f"http://127.0.0.1:{port}", "desktop"), server


BOMB = gzip.compress(bytes(256 << 20), 1)
TWICE = gzip.compress(BOMB, 1)


@pytest.mark.parametrize(
    ("answer", "spec", "says"),
    [
        (whole(BOMB, b"Content-Encoding: gzip"), PICTURE, "compressed"),
        (whole(BOMB, b"Content-Encoding: gzip"), TREE, "compressed"),
        (whole(TWICE, b"Content-Encoding: gzip, gzip"), PICTURE, "compressed"),
        (whole(zlib.compress(bytes(1 << 20)), b"Content-Encoding: deflate"), TREE, "compressed"),
        (endless, PICTURE, "over 32 MiB"),
        (endless, TREE, "over 16 MiB"),
        (whole(compressed_picture(20_000, 20_000)), ObserveSpec(frame="png"), "screenshot cannot be read"),
        (whole(compressed_picture(9_000, 9_000)), ObserveSpec(frame="jpeg"), "is refused"),
        (whole(b'{"AT": ' + b"[" * 100_000), TREE, "does not answer as"),
    ],
)
async def test_an_answer_costs_no_more_than_its_bound(answer: Answer, spec: ObserveSpec, says: str) -> None:
    device, server = await device_that_answers(answer)
    tracemalloc.start()
    try:
        with pytest.raises(FaultError, match=says) as caught:
            await device.observe(spec)
        assert caught.value.fault.origin == "device"
        assert tracemalloc.get_traced_memory()[1] < LEFT_MB << 20
    finally:
        tracemalloc.stop()
        await device.close()
        server.close()


@pytest.mark.parametrize("verb", ["exec", "get", "put"])
async def test_no_other_answer_does_either(verb: str) -> None:
    device, server = await device_that_answers(whole(BOMB, b"Content-Encoding: gzip"))
    verbs = {
        "exec": lambda: device.exec(["true"], 1.0),
        "get": lambda: device.get("/a"),
        "put": lambda: device.put("/a", b""),
    }
    try:
        with pytest.raises(FaultError, match="compressed"):
            await verbs[verb]()
    finally:
        await device.close()
        server.close()
