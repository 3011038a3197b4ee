"""A farm for one command: a private pool that ends with the command, or one that is running already."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from guiagent.client import FarmClient
from guiagent.client.local_pool import endpoint_of, private_pool
from training.config import TrainConfig


@dataclass(frozen=True)
class Farm:
    """A running farm: a client of it, its address and token, and the address of its live page."""

    client: FarmClient
    url: str
    token: str
    live_url: str  # as it may be printed: without the token


@asynccontextmanager
async def own_farm(
    devices: int, width: int, height: int, *, kind: str = "browser", port: int = 0
) -> AsyncIterator[Farm]:
    """Start `devices` of one kind and size behind a private pool; all of it ends with the context."""
    with private_pool(f"{kind}={devices}@{width}x{height}", port=port) as endpoint:
        async with FarmClient(endpoint.url, endpoint.token) as client:
            yield Farm(client, endpoint.url, endpoint.token, endpoint.live_page)


@asynccontextmanager
async def farm_of(config: TrainConfig, port: int = 0) -> AsyncIterator[Farm]:
    """Connect to the farm that a recipe names, which keeps running, or start a private one."""
    wanted = config.device
    if wanted.farm is None:
        devices = config.rollout.devices
        async with own_farm(devices, wanted.width, wanted.height, kind=wanted.kind, port=port) as farm:
            yield farm
        return
    endpoint = endpoint_of(wanted.farm)
    async with FarmClient(endpoint.url, endpoint.token) as client:
        yield Farm(client, endpoint.url, endpoint.token, endpoint.url)
