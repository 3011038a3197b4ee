"""A leased device with blocking methods: the verbs of `LeasedDevice`, for scripts and notebooks."""

import contextlib
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from guiagent.actions import Action, Button
from guiagent.client.device import NO_PLAYWRIGHT, LeasedDevice
from guiagent.client.screen import Screenshot
from guiagent.errors import FaultError, MissingProgram, UsageError
from guiagent.types import CommandResult, FrameFormat, Node, Observation, ObserveSpec, ResetSpec
from guiagent.wire import HelpAnswer

if TYPE_CHECKING:
    import adbutils  # type: ignore[import-untyped]
    import playwright.sync_api

    from guiagent.client.autogui import PyAutoGUI

T = TypeVar("T")


class Loop(Protocol):
    """What runs a device's coroutines for blocking callers; `guiagent.client.sync.Farm` is one."""

    @property
    def live_url(self) -> str: ...

    @property
    def closed(self) -> bool: ...

    def wait(self, work: Coroutine[Any, Any, T]) -> T: ...


class SyncDevice:
    """A leased device with blocking methods. In a notebook, it shows its screen.

    The verbs of `guiagent.client.verbs.Verbs` are here under the same names, with the same arguments and
    errors; so are those of `LeasedDevice`, some with arguments for hand-written code.
    """

    def __init__(self, farm: Loop, device: LeasedDevice) -> None:
        self._farm = farm
        self._device = device
        self.id = device.id
        self.features = device.features

    @property
    def live_url(self) -> str:
        """URL of the page with this device's screen. It contains the pool's token: treat it as a secret."""
        return f"{self._farm.live_url}&device={self.id}"

    @property
    def asynchronous(self) -> LeasedDevice:
        """The device that does the work; its coroutines are for the `wait` of its farm."""
        return self._device

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of the device's farm, and return its result."""
        return self._farm.wait(work)

    # -- by pixels -------------------------------------------------------------------------------------------

    def open(self, target: str) -> Observation:
        """Open a page by its address, or an app by its name."""
        return self.wait(self._device.open(target))

    def click(self, x: int, y: int, button: Button = "left", count: int = 1) -> Observation:
        """Click or tap at a point; `count` 2 is a double click."""
        return self.wait(self._device.click(x, y, button, count))

    def long_press(self, x: int, y: int, ms: int = 1000) -> Observation:
        """Hold a finger or the left button on a point."""
        return self.wait(self._device.long_press(x, y, ms))

    def type(self, text: str, clear: bool = False, submit: bool = False) -> Observation:
        """Type into what has the focus; `clear` empties it first, `submit` presses Enter after it."""
        return self.wait(self._device.type(text, clear, submit))

    def key(self, *keys: str) -> Observation:
        """Press keys together: `key("Control", "a")`."""
        return self.wait(self._device.key(*keys))

    def press_button(self, button: str) -> Observation:
        """Press a button of a phone ("home", "recents" ...), or go "back" or "forward" in a browser."""
        return self.wait(self._device.press_button(button))

    def scroll(self, x: int, y: int, dx: int = 0, dy: int = 0) -> Observation:
        """Scroll at a point by pixels; positive `dy` is down."""
        return self.wait(self._device.scroll(x, y, dx, dy))

    def drag(self, *path: tuple[int, int]) -> Observation:
        """Press the left button at the first point, move along the others, and let go at the last one."""
        return self.wait(self._device.drag(*path))

    def act(self, *actions: Action) -> Observation:
        """Carry out several actions in one round trip; an error is in the observation's `action_error`."""
        return self.wait(self._device.act(actions, ObserveSpec(page="page" in self.features)))

    # -- by elements -----------------------------------------------------------------------------------------

    def find(self, text: str | None = None, *, role: str | None = None, nth: int = 0) -> Node:
        """The `nth` element that shows and is called `text`. Raises NotFoundError, which names near ones."""
        return self.wait(self._device.find(text, role=role, nth=nth))

    def find_all(self, text: str | None = None, *, role: str | None = None) -> list[Node]:
        """All elements that show and match; without arguments, the whole tree. Controls come first."""
        return self.wait(self._device.find_all(text, role=role))

    def text(self) -> str:
        """The text that shows on the screen, a line for each element that has some."""
        return self.wait(self._device.text())

    def scroll_to(self, text: str | None = None, *, role: str | None = None) -> Node:
        """Scroll down until an element matches, and return it. Raises NotFoundError at the end."""
        return self.wait(self._device.scroll_to(text, role=role))

    def click_on(
        self,
        target: Node | str,
        *,
        role: str | None = None,
        nth: int = 0,
        button: Button = "left",
        count: int = 1,
    ) -> Observation:
        """Click the middle of what shows of an element: of a node that was found, or found by its text."""
        work = self._device.click_on(target, role=role, nth=nth, button=button, count=count)
        return self.wait(work)

    def type_into(
        self, target: Node | str, text: str, *, nth: int = 0, clear: bool = False, submit: bool = False
    ) -> Observation:
        """Click on a field, found by its name or given as a node, and type into it."""
        return self.wait(self._device.type_into(target, text, nth=nth, clear=clear, submit=submit))

    # -- by looking ------------------------------------------------------------------------------------------

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
        return self.wait(self._device.observe(spec))

    def screenshot(self) -> Screenshot:
        """The screen as it is now, as a PNG that notebooks show."""
        return self.wait(self._device.screenshot())

    def evaluate(self, expression: str) -> Any:
        """Evaluate a JavaScript expression in the page; return its JSON value. Needs the grant "exec"."""
        return self.wait(self._device.evaluate(expression))

    def wait_for(
        self,
        text: str | None = None,
        *,
        role: str | None = None,
        url: str | None = None,
        stillness: float | None = None,
        timeout_s: float = 10.0,
    ) -> Observation:
        """Wait for an element, for a part of the page's address, and for seconds without a change."""
        awaited = self._device.wait_for(text, role=role, url=url, stillness=stillness, timeout_s=timeout_s)
        return self.wait(awaited)

    # -- the device ------------------------------------------------------------------------------------------

    def reset(
        self,
        url: str = "about:blank",
        seed: int = 0,
        script: str | None = None,
        snapshot: str | None = None,
        profile: str | None = None,
    ) -> Observation:
        """Reset to a clean device that shows `url`, or to a `snapshot`.

        `script` (grant "exec") runs in the page, where `SEED` is `seed`. `profile` names a browser profile,
        which the device's host keeps with its logins when the lease ends.
        """
        return self.wait(self._device.reset(seed, ResetSpec(url, script, snapshot, profile), ObserveSpec()))

    def exec(self, *command: str, timeout: float = 30.0) -> CommandResult:
        """Run a program on the device without a shell: `exec("ls", "/tmp")`. Needs the grant "shell"."""
        return self.wait(self._device.exec(command, timeout))

    def put(self, path: str, data: bytes) -> None:
        """Write a file on the device. Needs the grant "files"."""
        self.wait(self._device.put(path, data))

    def get(self, path: str) -> bytes:
        """Read a file of the device. Needs the grant "files"."""
        return self.wait(self._device.get(path))

    def snapshot(self) -> str:
        """Save the device's state; `reset(snapshot=...)` restores it, on this device or a fork of it."""
        return self.wait(self._device.snapshot())

    def fork(self, n: int = 1) -> "list[SyncDevice]":
        """Lease `n` more devices with this one's state; all of them or none."""
        return [SyncDevice(self._farm, one) for one in self.wait(self._device.fork(n))]

    def ask_human(self, reason: str, wait: float = 600.0) -> HelpAnswer:
        """Ask for a person, for a login say; wait until the device is given back. See `LeasedDevice`."""
        return self._farm.wait(self._device.ask_human(reason, wait))

    def stop_asking(self) -> bool:
        """Stop asking for a person, from another thread; return whether the device can act."""
        return self._farm.wait(self._device.stop_asking())

    @contextlib.contextmanager
    def forward(self, service: str) -> Iterator[int]:
        """Forward a loopback port of this machine to "adb", "cdp" or "osworld" of the device."""
        with self._entered(self._device.forward(service)) as port:
            yield port

    @contextlib.contextmanager
    def page(self) -> "Iterator[playwright.sync_api.Page]":
        """Open the device's page in Playwright. Lease with needs=["cdp"] and grants=["exec"].

        Needs the package `playwright`, but none of Playwright's own browsers. Where this thread runs an event
        loop, as in a notebook, use that of `asynchronous`.
        """
        try:
            from playwright.sync_api import sync_playwright
        except ImportError:
            raise MissingProgram(NO_PLAYWRIGHT) from None
        with self.forward("cdp") as port, sync_playwright() as client:
            browser = client.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")
            yield browser.contexts[-1].pages[-1]

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
        value = self.wait(manager.__aenter__())
        try:
            yield value
        finally:
            if not self._farm.closed:
                self.wait(_left(manager))

    def close(self) -> None:
        """Release the device; a closed farm has done so already."""
        if not self._farm.closed:
            self.wait(self._device.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repr_png_(self) -> bytes | None:
        """The screen, for notebooks; None if the device cannot show it any more."""
        with contextlib.suppress(FaultError, UsageError):
            return self.screenshot().png()
        return None


async def _left(manager: AbstractAsyncContextManager[object]) -> None:
    await manager.__aexit__(None, None, None)
