"""A pool of canvases on a thread of its own, for tests that block."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future

from devices.api.server import running
from devices.config import PoolConfig
from devices.drivers import Driver
from guiagent.wire import Endpoint
from tests.support.canvas_device import DRIVERS, CanvasDevice


@contextlib.contextmanager
def pool_thread(config: PoolConfig, drivers: Mapping[str, Driver] = DRIVERS) -> Iterator[Endpoint]:
    """Its devices are up when this begins, and gone when it ends."""
    up: Future[tuple[Endpoint, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def main() -> None:
        CanvasDevice.let_go = asyncio.Event()
        stop = asyncio.Event()
        async with running(config, drivers) as farm:
            await farm.service.settled()
            up.set_result((farm.endpoint, asyncio.get_running_loop(), stop))
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    endpoint, loop, stop = up.result(30)
    try:
        yield endpoint
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
