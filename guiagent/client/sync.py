"""Synchronous client of a farm, for scripts and notebooks; without an address it finds or starts a pool.

    with guiagent.connect() as farm, farm.lease("browser") as device:
        device.open("https://example.org")
        device.click_on("More information")
    print(device.text())
        device.screenshot().image.show()

The async client does the work, on an event loop in a thread of its own.
"""

import asyncio
import atexit
import contextlib
import threading
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Self, TypeVar

from guiagent.client.farm import FarmClient, LeasedDevice, Record
from guiagent.client.local_pool import endpoint_of, find_pool, private_pool
from guiagent.client.sync_device import SyncDevice
from guiagent.errors import UsageError
from guiagent.wire import Endpoint, FarmInfo, Grant

T = TypeVar("T")


def connect(
    url: str | None = None, token: str | None = None, *, devices: Sequence[str] = ("browser",)
) -> "Farm":
    """Connect to a farm of devices; use it in `with`, or call its `close`.

    With `url`: the pool at that URL, whose token is `token` or $GUIAGENT_TOKEN, or with that state folder on
    this machine. Without `url`: the pool that this user has running (`guiagent up`), or else a new pool of
    `devices` (words such as "browser=4@1280x720" or "phone") that ends with this process.

    Raises InfrastructureError if no pool answers or can be started, UsageError for a missing token.
    """
    if url is None:
        return Farm(None, devices)
    return Farm(endpoint_of(url) if token is None else Endpoint(url, token, pid=0), devices)


class Farm:
    """A connection to a pool; several threads may share it."""

    def __init__(self, endpoint: Endpoint | None, devices: Sequence[str]) -> None:
        self._resources = contextlib.ExitStack()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="guiagent", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        try:
            self._endpoint, self._client = self.wait(self._open(endpoint, devices))
        except BaseException:
            self._end_loop()
            raise

    @property
    def live_url(self) -> str:
        """URL of the page with all screens. It contains the pool's token: treat it as a secret."""
        return self._endpoint.live_url

    @property
    def endpoint(self) -> Endpoint:
        """Address and token of the pool, for a `FarmClient` on another event loop or in another process."""
        return self._endpoint

    @property
    def client(self) -> FarmClient:
        """The async client that does the work; its coroutines are for `wait`."""
        return self._client

    def lease(
        self,
        kind: str = "browser",
        *,
        ttl: float = 60.0,
        needs: Iterable[str] = (),
        grants: Iterable[Grant] = (),
        egress: Iterable[str] = ("public",),
        label: str = "",
        wait: float = 30.0,
        device: str = "",
        takeover: bool = False,
        record: Record = False,
    ) -> SyncDevice:
        """Lease a device; use it in `with`, or call `close`. Arguments and errors as `FarmClient.lease`."""

        async def take() -> LeasedDevice:
            return await self._client.lease(
                kind,
                ttl=ttl,
                needs=needs,
                grants=grants,
                egress=egress,
                label=label,
                wait=wait,
                device=device,
                takeover=takeover,
                record=record,
            )

        return SyncDevice(self, self.wait(take()))

    def devices(self) -> FarmInfo:
        return self.wait(self._client.devices())

    @property
    def closed(self) -> bool:
        return self._loop.is_closed()

    def close(self) -> None:
        """Release all devices, and stop the pool if it was started for this connection."""
        if not self.closed:
            try:
                self.wait(self._shut())
            finally:
                self._end_loop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on this connection's event loop and return its result.

        Raises UsageError if the connection is closed.
        """
        if self.closed:
            work.close()
            raise UsageError("this connection to the farm is closed: open another with guiagent.connect()")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()  # where the caller was interrupted; nothing to do for one that is done

    # Both run on the loop's thread: a pool is tied to the life of the thread that started it.

    async def _open(self, endpoint: Endpoint | None, devices: Sequence[str]) -> tuple[Endpoint, FarmClient]:
        endpoint = endpoint or await find_pool()
        if endpoint is None:
            endpoint = self._resources.enter_context(private_pool(*devices))
        client = FarmClient(endpoint.url, endpoint.token)
        await client.devices()  # a wrong address or token shows here, not at the first click
        return endpoint, client

    async def _shut(self) -> None:
        with self._resources:
            await self._client.close()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        atexit.unregister(self.close)
