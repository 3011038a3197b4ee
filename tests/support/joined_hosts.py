"""A pool on the current event loop and hosts that join it, for tests of what goes between them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from devices.api.server import Running, running
from devices.config import PoolConfig, SimConfig, TenantConfig, named
from devices.drivers import Driver, HostedDevice
from devices.drivers.sim import SimDevice
from devices.hosts.agent import Agent
from guiagent.client import FarmClient
from guiagent.protocols import Clock
from guiagent.types import ObserveSpec

TOKEN = "a-token-for-the-tests"
TENANT = "a-token-of-a-tenant"
OTHER = "a-token-of-another-tenant"
NOTHING = ObserveSpec(frame="none")
Start = Callable[[SimConfig], Awaitable[HostedDevice]]


async def start_sim(config: SimConfig) -> SimDevice:
    return SimDevice(config)


class EchoDevice(SimDevice):
    """A simulated device with a service: what is sent to it comes back in capitals."""

    async def connect(self, service: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(100):
                writer.write(data.upper())
            writer.close()

        server = await asyncio.start_server(shout, "127.0.0.1", 0)
        return await asyncio.open_connection(*server.sockets[0].getsockname())


async def start_echo(config: SimConfig) -> EchoDevice:
    return EchoDevice(config)


@contextlib.asynccontextmanager
async def farm_of(
    folder: Path, devices: Sequence[SimConfig] = (), start: Start = start_sim
) -> AsyncIterator[Running]:
    """A pool with two tenants and `devices` of its own."""
    config = PoolConfig(
        state_dir=folder,
        port=0,
        token=TOKEN,
        devices=list(devices),
        tenants=[TenantConfig(name="tenant", token=TENANT), TenantConfig(name="other", token=OTHER)],
    )
    async with running(config, {"sim": Driver(start)}) as farm:
        yield farm


@contextlib.asynccontextmanager
async def host(
    url: str, name: str, count: int = 2, token: str = TOKEN, clock: Clock = time, start: Start = start_sim
) -> AsyncIterator[Agent]:
    """A host that joins the pool at `url`, with devices `NAME.sim-0` and so on."""
    agent = Agent([url], token, name, named([SimConfig(count=count)]), {"sim": Driver(start)}, clock)
    work = asyncio.create_task(agent.run())
    try:
        yield agent
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


@contextlib.asynccontextmanager
async def client_of(farm: Running, token: str = TOKEN) -> AsyncIterator[FarmClient]:
    async with FarmClient(farm.endpoint.url, token) as client:
        yield client


async def until(met: Callable[[], bool], timeout_s: float = 30.0) -> None:
    give_up = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.01)


async def ready(client: FarmClient, count: int, timeout_s: float = 30.0) -> None:
    """Wait until so many devices of the farm are ready to be leased; `client` is the operator's."""
    give_up = time.monotonic() + timeout_s
    while sum(one.state == "ready" for one in (await client.devices()).devices) != count:
        assert time.monotonic() < give_up
        await asyncio.sleep(0.02)
