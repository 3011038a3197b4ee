"""Requests made to take the pool's memory: endless heads, bodies that nobody asked for, files never read."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devices.api.server import running
from devices.config import TenantConfig
from guiagent import wire
from guiagent.client import FarmClient
from guiagent.errors import FaultError
from tests.support.canvas_device import DRIVERS, farm_of

ANN, BOB = "a-token-that-is-anns", "a-token-that-is-bobs"
TENANTS = TenantConfig(name="ann", token=ANN), TenantConfig(name="bob", token=BOB)
MANY = 32 << 20  # bytes: more than the buffers of two sockets hold
LONG_S = 20.0


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with running(farm_of(2, tmp_path, tenants=TENANTS), DRIVERS) as farm:
        await farm.service.settled()
        yield farm.endpoint.url


class Caller:
    """One connection, on which bytes are sent as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def status(self) -> int:
        """Of the next answer."""
        line = await asyncio.wait_for(self.reader.readline(), LONG_S)
        return int(line.split()[1])

    async def sends(self, piece: bytes, most: int) -> int:
        """How many bytes go out before the other end has had enough."""
        sent = 0
        with contextlib.suppress(OSError):
            while sent < most:
                self.writer.write(piece)
                await asyncio.wait_for(self.writer.drain(), LONG_S)
                sent += len(piece)
        return sent


@contextlib.asynccontextmanager
async def caller(url: str, *head: str) -> AsyncIterator[Caller]:
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 16)
    writer.write("\r\n".join(head).encode())
    try:
        yield Caller(reader, writer)
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (("GET /v1/devices HTTP/1.1", "Host: a", "X-A: "), b"a" * 65536),
        (("GET /v1/devices HTTP/1.1", "Host: a", ""), b"x: y\r\n" * 10000),
        (("GET /",), b"a" * 65536),
        (
            ("GET / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "1", "a", "0", ""),
            b"x: y\r\n" * 10000,
        ),
    ],
    ids=["a header", "headers", "a path", "trailers"],
)
async def test_a_head_that_never_ends_is_cut_off(url: str, head: tuple[str, ...], piece: bytes) -> None:
    async with caller(url, *head) as stranger:
        assert await stranger.sends(piece, MANY) < MANY


def put(lease: str, size: int, token: int = 1, bearer: str = ANN) -> tuple[str, ...]:
    return (
        f"PUT {wire.LEASES}/{lease}/files?path=/x&token={token} HTTP/1.1",
        "Host: a",
        f"Authorization: Bearer {bearer}",
        f"Content-Length: {size}",
        "",
        "",
    )


async def test_a_body_is_refused_before_it_is_sent(url: str) -> None:
    async with FarmClient(url, BOB) as bob, FarmClient(url, ANN) as ann:
        his, hers = await bob.lease("sim", grants=("files",)), await ann.lease("sim")
        for lease, token, status in (
            ("nothing", 1, 404),
            (his._lease, his.token, 404),  # another tenant's
            (hers._lease, hers.token + 1, 409),
            (hers._lease, hers.token, 403),  # without the grant
        ):
            async with caller(url, *put(lease, wire.MAX_FILE, token)) as one:
                assert await one.status() == status
        step = (f"POST {wire.LEASES}/nothing/step HTTP/1.1", *put("nothing", 100)[1:])
        async with caller(url, *step) as one:
            assert await one.status() == 404


async def test_a_tenant_has_so_many_bytes_under_way_and_no_more(url: str) -> None:
    async with FarmClient(url, ANN) as ann, FarmClient(url, BOB) as bob, contextlib.AsyncExitStack() as stack:
        hers, his = await ann.lease("sim", grants=("files",)), await bob.lease("sim", grants=("files",))
        head = put(hers._lease, wire.MAX_FILE, hers.token)
        slow = [await stack.enter_async_context(caller(url, *head)) for _ in range(2)]
        for one in slow:
            await one.sends(b"x" * (1 << 20), 8 << 20)
        async with caller(url, *head) as third:
            assert await third.status() == 429
        await his.put("/x", b"his own")  # nobody else's share
        assert await his.get("/x") == b"his own"
        rest = b"x" * (wire.MAX_FILE - (8 << 20))
        for one in slow:
            assert await one.sends(rest, len(rest)) == len(rest)
            assert await one.status() == 204
        await hers.put("/x", b"there is room again")


async def test_files_that_nobody_reads_count_as_well(url: str) -> None:
    async with FarmClient(url, ANN) as ann, contextlib.AsyncExitStack() as stack:
        hers = await ann.lease("sim", grants=("files",))
        await hers.put("/x", bytes(60 << 20))
        get = [
            f"GET{head[3:]}" if head.startswith("PUT") else head for head in put(hers._lease, 0, hers.token)
        ]
        statuses = []
        for _ in range(3):
            one = await stack.enter_async_context(caller(url, *get))
            statuses.append(await one.status())
        assert statuses == [200, 200, 429]
        with pytest.raises(FaultError, match="MiB of files and requests under way"):
            await ann.call("GET", hers._file("/x"), pauses=())
