"""Synchronous client of a farm, for scripts and notebooks; without an address it finds or starts a pool.

    with guiagent.connect() as farm, farm.lease("browser") as device:
        device.open("https://example.org")
        device.click(120, 80)
        device.screenshot().image.show()

The async client does the work, on an event loop in a thread of its own.
"""

import asyncio
import atexit
import contextlib
import threading
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import ValidationError

from guiagent.actions import ACTION, Action, Button
from guiagent.client.farm import FarmClient, LeasedDevice
from guiagent.client.local_pool import endpoint_of, find_pool, private_pool
from guiagent.client.screen import Screenshot
from guiagent.errors import UsageError, first_error
from guiagent.types import CommandResult, FrameFormat, Observation, ObserveSpec, ResetSpec
from guiagent.wire import Endpoint, FarmInfo, Grant, HelpAnswer

if TYPE_CHECKING:
    import adbutils  # type: ignore[import-untyped]

    from guiagent.client.autogui import PyAutoGUI

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
    ) -> "SyncDevice":
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


class SyncDevice:
    """A leased device with blocking methods.

    Methods that carry out a single action return the observation after it, and raise UsageError if the action
    failed (`action_error`).
    """

    def __init__(self, farm: Farm, device: LeasedDevice) -> None:
        self._farm = farm
        self._device = device
        self.id = device.id
        self.features = device.features

    @property
    def live_url(self) -> str:
        """URL of the page with this device's screen. It contains the pool's token: treat it as a secret."""
        return f"{self._farm.live_url}&device={self.id}"

    def open(self, target: str) -> Observation:
        """Open a page by its address, or an app by its name."""
        return self._do("open", target=target)

    def click(self, x: int, y: int, button: Button = "left", count: int = 1) -> Observation:
        return self._do("click", x=x, y=y, button=button, count=count)

    def type(self, text: str, clear: bool = False, submit: bool = False) -> Observation:
        """Type into the element that has the focus."""
        return self._do("type", text=text, clear=clear, submit=submit)

    def key(self, *keys: str) -> Observation:
        """Press keys together: `key("Control", "a")`."""
        return self._do("key", keys=keys)

    def scroll(self, x: int, y: int, dx: int = 0, dy: int = 0) -> Observation:
        """Scroll at a point by pixels; positive `dy` is down."""
        return self._do("scroll", x=x, y=y, dx=dx, dy=dy)

    def drag(self, *path: tuple[int, int]) -> Observation:
        return self._do("drag", path=path)

    def act(self, *actions: Action) -> Observation:
        """Carry out several actions in one round trip; an error is in the observation's `action_error`."""
        return self._farm.wait(self._device.act(actions, ObserveSpec()))

    def reset(
        self,
        url: str = "about:blank",
        seed: int = 0,
        script: str | None = None,
        snapshot: str | None = None,
    ) -> Observation:
        """Reset to a clean device that shows `url`, or to a `snapshot`.

        `script` (grant "exec") runs in the page, where `SEED` is `seed`.
        """
        baseline = ResetSpec(url, script, snapshot)
        return self._farm.wait(self._device.reset(seed, baseline, ObserveSpec()))

    def observe(
        self,
        frame: FrameFormat = "jpeg",
        *,
        tree: bool = False,
        page: bool = False,
        probes: Mapping[str, str] | None = None,
    ) -> Observation:
        """Observe the device; on request with its accessibility tree, its url and title, and probes."""
        spec = ObserveSpec(frame=frame, tree=tree, page=page, probes=dict(probes or {}))
        return self._farm.wait(self._device.observe(spec))

    def screenshot(self) -> Screenshot:
        return Screenshot(self.observe("png"))

    def evaluate(self, expression: str) -> Any:
        """Evaluate a JavaScript expression in the page; return its JSON value. Needs the grant "exec"."""
        return self.observe("none", probes={"value": expression}).probes["value"]

    def exec(self, *command: str, timeout: float = 30.0) -> CommandResult:
        """Run a program on the device without a shell: `exec("ls", "/tmp")`. Needs the grant "shell"."""
        return self._farm.wait(self._device.exec(command, timeout))

    def put(self, path: str, data: bytes) -> None:
        """Write a file on the device. Needs the grant "files"."""
        self._farm.wait(self._device.put(path, data))

    def get(self, path: str) -> bytes:
        """Read a file of the device. Needs the grant "files"."""
        return self._farm.wait(self._device.get(path))

    def snapshot(self) -> str:
        """Save the device's state; `reset(snapshot=...)` restores it, on this device or a fork of it."""
        return self._farm.wait(self._device.snapshot())

    def fork(self, n: int = 1) -> "list[SyncDevice]":
        """Lease `n` more devices with this one's state; all of them or none."""
        return [SyncDevice(self._farm, one) for one in self._farm.wait(self._device.fork(n))]

    def ask_human(self, reason: str, wait: float = 600.0) -> HelpAnswer:
        """Ask for a person, for a login say; wait until the device is given back. See `LeasedDevice`."""
        return self._farm.wait(self._device.ask_human(reason, wait))

    @contextlib.contextmanager
    def forward(self, service: str) -> Iterator[int]:
        """Forward a loopback port of this machine to "adb", "cdp" or "osworld" of the device."""
        with self._entered(self._device.forward(service)) as port:
            yield port

    @contextlib.contextmanager
    def adb(self) -> "Iterator[adbutils.AdbDevice]":
        """Open a phone in adbutils: `with device.adb() as adb: adb.shell("ls")`.

        Needs the grant "shell", the package `adbutils`, and the program `adb`.
        """
        with self._entered(self._device.adb()) as adb:
            yield adb

    @cached_property
    def pyautogui(self) -> "PyAutoGUI":
        """pyautogui's functions on this device: `device.pyautogui.hotkey("ctrl", "s")`."""
        from guiagent.client.autogui import PyAutoGUI

        return PyAutoGUI(self)

    @contextlib.contextmanager
    def _entered(self, manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Enter and leave an async context manager on the connection's event loop; yield its value."""
        value = self._farm.wait(manager.__aenter__())
        try:
            yield value
        finally:
            if not self._farm.closed:
                self._farm.wait(_left(manager))

    def close(self) -> None:
        """Release the device; a closed farm has done so already."""
        if not self._farm.closed:
            self._farm.wait(self._device.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, kind: str, **fields: Any) -> Observation:
        try:
            action = ACTION.validate_python({"type": kind, **fields})
        except ValidationError as error:
            raise UsageError(f"{kind}: {first_error(error.errors(), skip=1)}") from error
        observation = self.act(action)
        if observation.action_error is not None:
            raise UsageError(f"{kind}: {observation.action_error}")
        return observation


async def _left(manager: AbstractAsyncContextManager[object]) -> None:
    await manager.__aexit__(None, None, None)
