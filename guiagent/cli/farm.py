"""A farm for one command: a pool in a process of its own, gone with the command."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from guiagent.client import FarmClient
from guiagent.embedded import private_pool


@dataclass(frozen=True)
class OwnFarm:
    client: FarmClient
    live_url: str


@asynccontextmanager
async def own_farm(
    devices: int, width: int, height: int, *, kind: str = "browser", port: int = 0
) -> AsyncIterator[OwnFarm]:
    """`devices` of one kind and size behind a pool; all of it ends with the context."""
    with private_pool(f"{kind}={devices}@{width}x{height}", port=port) as endpoint:
        async with FarmClient(endpoint.url, endpoint.token) as client:
            yield OwnFarm(client, endpoint.live_url)
