"""A farm for one command: a private pool that ends with the command, or one that is running already."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from devices.drivers.desktop.applications import command_for
from eval.suites.suite import Suite
from guiagent.cli.common.place import HERE, Place
from guiagent.client import FarmClient
from guiagent.client.local_pool import endpoint_of, pool_beside
from guiagent.client.still import STILL
from guiagent.errors import MissingProgram
from guiagent.storage.atomic import write_file
from training.config import TrainConfig

POOL = "pool"  # in a run's folder: the state folder of the pool on this machine that the run last used


@dataclass(frozen=True)
class Farm:
    """A running farm: a client of it, its address and token, and the address of its live page."""

    client: FarmClient
    url: str
    token: str
    live_url: str  # as it may be printed: without the token
    state_dir: Path | None = None  # of the pool, if it is on this machine

    def tell(self, run: Path) -> None:
        """Write into a run's folder where its pool is, for `guiagent watch`; never the token."""
        if self.state_dir is not None:
            write_file(run / POOL, f"{self.state_dir}\n".encode())


@asynccontextmanager
async def own_farm(
    devices: int, width: int, height: int, *, kind: str = "browser", port: int = 0
) -> AsyncIterator[Farm]:
    """Start `devices` of one kind and size behind a private pool; all of it ends with the context."""
    async with _pool_of(f"{kind}={devices}@{width}x{height}", port=port) as farm:
        yield farm


@asynccontextmanager
async def _pool_of(*devices: str, port: int) -> AsyncIterator[Farm]:
    async with (
        pool_beside(*devices, port=port) as endpoint,
        FarmClient(endpoint.url, endpoint.token) as client,
    ):
        page = Path(url2pathname(urlsplit(endpoint.page).path))
        yield Farm(client, endpoint.url, endpoint.token, endpoint.live_page, page.parent)


@asynccontextmanager
async def suite_farm(suite: Suite, devices: int, place: Place = HERE) -> AsyncIterator[Farm | None]:
    """Start devices for a suite, or connect to the pool that has them; None for a suite of pictures.

    Raises MissingProgram if an application of the suite's tasks is missing on the desktops of this machine.
    """
    if suite.device == STILL:
        yield None
    elif place.pool is not None:
        async with _running(place.pool) as farm:
            yield farm
    else:
        if suite.device == "desktop" and place.config is None:  # a config may name another system
            require_applications(suite)
        async with _pool_of(*place.words(suite, devices), port=0) as farm:
            yield farm


def require_applications(suite: Suite, root: Path = Path("/")) -> None:
    """Raise MissingProgram if the system below `root` lacks a program of the suite's tasks."""
    lacking = {
        task: program
        for task, program in suite.programs.items()
        if task in suite.tasks and command_for(program, root) is None
    }
    if lacking:
        names = ", ".join(sorted(set(lacking.values())))
        raise MissingProgram(
            f"{len(lacking)} of {len(suite.tasks)} tasks of {suite.name} need applications that are not "
            f"installed ({names}): sudo scripts/farm desktop applications"
        )


@asynccontextmanager
async def _running(address: str) -> AsyncIterator[Farm]:
    endpoint = endpoint_of(address)
    here = None if "://" in address else Path.cwd() / address
    async with FarmClient(endpoint.url, endpoint.token) as client:
        yield Farm(client, endpoint.url, endpoint.token, endpoint.url, here)


@asynccontextmanager
async def farm_of(config: TrainConfig, port: int = 0) -> AsyncIterator[Farm]:
    """Connect to the farm that a recipe names, which keeps running, or start a private one."""
    address = config.device.farm
    if address is None:
        devices = [
            f"{one.device.kind}={one.devices}@{one.device.width}x{one.device.height}"
            for one in config.all_platforms().values()
        ]
        async with _pool_of(*devices, port=port) as farm:
            yield farm
        return
    async with _running(address) as farm:
        yield farm


def named_devices(config: TrainConfig) -> str:
    """Return how many devices of which kinds a run has, for people."""
    return " and ".join(f"{one.devices} of kind {one.device.kind}" for one in config.all_platforms().values())
