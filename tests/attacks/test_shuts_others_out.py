"""Connections that take all places: silent ones, slow ones, and ones that never read."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from devices.api import connections
from devices.api.connections import overdue, places
from devices.api.server import running
from guiagent import wire
from guiagent.client import FarmClient
from tests.support import canvas_device
from tests.support.canvas_device import DRIVERS, TOKEN, farm_of

LONG_S = 20.0
DESCRIPTORS = 128


@pytest.fixture
def small_pool(tmp_path: Path) -> Iterator[str]:
    """A pool whose process may have few files open."""
    script = [sys.executable, canvas_device.__file__, str(tmp_path), "0", "1"]
    pool = subprocess.Popen(
        ["/bin/sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$0" "$@"', *script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(canvas_device.__file__).parents[2])},
    )
    assert pool.stdout is not None
    try:
        yield pool.stdout.readline().strip()
    finally:
        pool.terminate()
        pool.wait()
        pool.stdout.close()


async def opened(
    url: str, stack: contextlib.AsyncExitStack
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    stack.callback(writer.transport.abort)
    return reader, writer


async def test_silent_connections_leave_room_for_others(small_pool: str) -> None:
    async with contextlib.AsyncExitStack() as stack, FarmClient(small_pool, TOKEN) as operator:
        held = await operator.lease("sim")
        silent = [await opened(small_pool, stack) for _ in range(2 * DESCRIPTORS)]
        async with httpx.AsyncClient(base_url=small_pool, timeout=LONG_S, trust_env=False) as stranger:
            assert (await stranger.get(wire.HEALTH)).status_code == 200
        assert (await held.health()).ok
        async with FarmClient(small_pool, TOKEN) as another:
            assert len((await another.devices()).devices) == 1
        assert len(silent) > DESCRIPTORS


async def test_whoever_has_the_most_connections_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "places", lambda _: 20)
    async with running(farm_of(1, tmp_path), DRIVERS) as farm, contextlib.AsyncExitStack() as stack:
        await farm.service.settled()
        silent = [await opened(farm.endpoint.url, stack) for _ in range(15)]
        for reader, _ in silent[:5]:  # the oldest ones were hung up on
            with contextlib.suppress(ConnectionResetError):
                await asyncio.wait_for(reader.read(), LONG_S)
        reader, writer = silent[-1]
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"200" in await asyncio.wait_for(reader.readline(), LONG_S)


@pytest.fixture
async def impatient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    for name in ("HEAD_S", "BODY_S", "STALLED_S", "_SWEEP_EVERY_S"):
        monkeypatch.setattr(connections, name, 0.2)
    async with running(farm_of(1, tmp_path), DRIVERS) as farm:
        await farm.service.settled()
        yield farm.endpoint.url


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /healthz HT",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /heal",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc",
        f"POST {wire.LEASES} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Length: 10\r\n\r\nabc".encode(),
    ],
    ids=["nothing", "half a line", "half a head", "half of a second one", "a refused body", "half a body"],
)
async def test_what_never_comes_to_an_end_is_hung_up_on(impatient: str, said: bytes) -> None:
    async with contextlib.AsyncExitStack() as stack:
        reader, writer = await opened(impatient, stack)
        writer.write(said)
        with contextlib.suppress(ConnectionResetError):
            await asyncio.wait_for(reader.read(), LONG_S)


async def test_who_does_not_read_is_hung_up_on(impatient: str) -> None:
    async with FarmClient(impatient, TOKEN) as operator, contextlib.AsyncExitStack() as stack:
        device = await operator.lease("sim", grants=("files",))
        await device.put("/x", bytes(32 << 20))
        _, writer = await opened(impatient, stack)
        get = f"GET {device._file('/x')} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(get.encode())
        keep = asyncio.create_task(asyncio.sleep(LONG_S))
        while not writer.transport.is_closing() and not keep.done():
            writer.write(b"\r\n")  # an error says that the other end is gone
            await asyncio.sleep(0.02)
        assert not keep.done()
        keep.cancel()
        assert await device.get("/x") == bytes(32 << 20)  # who reads gets it all


def test_limits_on_time_and_places_as_numbers() -> None:
    assert not overdue(None, None, None, 1e9)
    assert overdue(0.0, None, None, connections.HEAD_S + 1.0)
    assert not overdue(5.0, 5.0, 5.0, 6.0)
    assert places(1024) == 768
    assert places(1 << 20) == 8192
