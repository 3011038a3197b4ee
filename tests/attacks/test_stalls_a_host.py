"""A tenant, or a host, that stops reading or never stops writing takes nothing from anybody else."""

import array
import asyncio
import contextlib
import fcntl
import socket
import termios
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
import websockets

from devices.api.server import Running
from devices.config import SimConfig
from devices.drivers.sim import SimDevice
from devices.hosts import messages
from guiagent.client import LeasedDevice
from guiagent.errors import FaultError
from guiagent.wire import LEASES
from tests.support.joined_hosts import NOTHING, OTHER, TENANT, TOKEN, client_of, farm_of, host, ready, until
from tests.support.rogue_host import rogue_host, until_called

_MIB = 1 << 20
_BOUND = 32 * _MIB  # far above what the buffers on the way hold, far below what an attacker can send


class Stuck(SimDevice):
    """Its service takes connections and reads nothing."""

    served: ClassVar[list[socket.socket]] = []

    async def connect(self, service: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        ours, theirs = socket.socketpair()
        self.served.append(theirs)
        return await asyncio.open_connection(sock=ours)


class Flooding(SimDevice):
    """Its service writes for as long as anybody takes it."""

    written = 0

    async def connect(self, service: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while Flooding.written < 4 * _BOUND:
                    writer.write(bytes(65536))
                    await writer.drain()
                    Flooding.written += 65536

        ours, theirs = socket.socketpair()
        self.flood = asyncio.create_task(flood(*await asyncio.open_connection(sock=theirs)))
        return await asyncio.open_connection(sock=ours)

    async def close(self) -> None:
        if hasattr(self, "flood"):
            self.flood.cancel()
        await super().close()


async def start_stuck(config: SimConfig) -> Stuck:
    return Stuck(config)


async def start_flooding(config: SimConfig) -> Flooding:
    return Flooding(config)


@pytest.fixture
async def farm(tmp_path: Path) -> AsyncIterator[Running]:
    async with farm_of(tmp_path) as farm:
        yield farm


def tunnel(farm: Running, device: LeasedDevice, token: str) -> Any:
    """A connection to a device's service that takes nothing by itself."""
    path = f"{LEASES}/{device._lease}/connect/adb?token={device.token}"
    return websockets.connect(
        farm.endpoint.url.replace("http", "ws") + path,
        additional_headers={"Authorization": f"Bearer {token}"},
        compression=None,
        max_queue=1,
        close_timeout=0.5,
    )


def unread(end: socket.socket) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(end, termios.FIONREAD, count)
    return count[0]


async def test_a_stalled_stream_stops_neither_the_neighbour_nor_the_end_of_the_lease(farm: Running) -> None:
    async with (
        client_of(farm) as operator,
        client_of(farm, TENANT) as tenant,
        client_of(farm, OTHER) as other,
        host(farm.endpoint.url, "far", 2, start=start_stuck),
    ):
        await ready(operator, 2)
        neighbour = await other.lease("sim", ttl=60)
        device = await tenant.lease("sim", grants=["shell"], ttl=60)
        async with tunnel(farm, device, TENANT) as stalled:

            async def push() -> None:
                for _ in range(1024):
                    await stalled.send(bytes(65536))

            pushing = asyncio.create_task(push())
            await until(lambda: bool(Stuck.served) and unread(Stuck.served[-1]) > 65536)
            for _ in range(50):  # behind all that the host was sent
                await asyncio.wait_for(neighbour.observe(NOTHING), 5.0)
            assert not pushing.done()  # nobody between them has taken 64 MiB
            await device.close()
            await asyncio.wait_for(ready(operator, 1), 10.0)  # its reset came through
            with pytest.raises(websockets.ConnectionClosed):
                await pushing


async def test_the_pool_keeps_little_of_what_nobody_reads(farm: Running) -> None:
    Flooding.written = 0
    async with (
        client_of(farm) as operator,
        client_of(farm, TENANT) as tenant,
        client_of(farm, OTHER) as other,
        host(farm.endpoint.url, "far", 2, start=start_flooding),
    ):
        await ready(operator, 2)
        neighbour = await other.lease("sim", ttl=60)
        device = await tenant.lease("sim", grants=["shell"], ttl=60)
        async with tunnel(farm, device, TENANT) as reading_nothing:
            before = -1
            while Flooding.written != before:
                before = Flooding.written
                assert before < _BOUND
                for _ in range(50):
                    await asyncio.wait_for(neighbour.observe(NOTHING), 5.0)
            while Flooding.written < before + _BOUND:  # read, it goes on
                await asyncio.wait_for(reading_nothing.recv(), 5.0)


async def test_a_large_file_of_one_device_passes_and_lets_others_pass(
    farm: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "devices.hosts.agent")
    async with (
        client_of(farm) as operator,
        client_of(farm, TENANT) as tenant,
        client_of(farm, OTHER) as other,
        host(farm.endpoint.url, "far", 2),
    ):
        await ready(operator, 2)
        neighbour = await other.lease("sim", ttl=60)
        device = await tenant.lease("sim", grants=["files"], ttl=60)
        large = bytes(range(256)) * (80 << 10)  # 20 MiB
        await asyncio.wait_for(device.put("/large", large), 20.0)
        fetched = asyncio.create_task(device.get("/large"))
        served = 0
        while not fetched.done():
            await asyncio.wait_for(neighbour.observe(NOTHING), 5.0)
            served += 1
            assert served < 5000
        assert await fetched == large
        assert served > 1
    assert caplog.text.count("joined the pool") == 1


async def test_a_host_that_sends_more_than_it_may_is_cut_off(farm: Running) -> None:
    async with client_of(farm) as operator, rogue_host(farm.endpoint.url) as joined:
        called = asyncio.create_task(until_called(joined))
        await ready(operator, 1)
        device = await operator.lease("sim", grants=["shell"], ttl=60)
        opening = asyncio.create_task(tunnel(farm, device, TOKEN).__aenter__())
        call = await asyncio.wait_for(called, 10.0)
        await joined.send(messages.encode(messages.Answer(call.id, msgspec.msgpack.encode(None))))
        unheeded = await asyncio.wait_for(opening, 10.0)
        try:
            with pytest.raises(websockets.ConnectionClosed):
                for _ in range(_BOUND // 65536):
                    await joined.send(messages.encode(messages.Data(call.id, bytes(65536))))
                await asyncio.wait_for(joined.wait_closed(), 5.0)
                await joined.recv()
            assert joined.close_code == 1008
        finally:
            unheeded.transport.abort()


@pytest.mark.parametrize("value", [b"", b"\xc1", b"\x01", b"\x92\x01\x02", msgspec.msgpack.encode("text")])
async def test_an_answer_that_is_none_is_a_fault_of_the_call(farm: Running, value: bytes) -> None:
    async with client_of(farm) as operator, rogue_host(farm.endpoint.url) as joined:
        called = asyncio.create_task(until_called(joined))
        await ready(operator, 1)
        device = await operator.lease("sim", grants=["files"], ttl=60)
        getting = asyncio.create_task(device.get("/a"))
        call = await asyncio.wait_for(called, 10.0)
        await joined.send(messages.encode(messages.Answer(call.id, value)))
        with pytest.raises(FaultError):
            await asyncio.wait_for(getting, 10.0)
        assert not farm.work.done()
