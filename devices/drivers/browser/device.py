"""A browser as a `Device`: one Chromium process and one page at a time, driven over its pipe.

Small screens on a headless shell run under begin-frame control (see `page.py`), about 5 ms a step. From 720p
up, drawing dominates and removing the frame-rate limit is as fast, which is all a full Chromium offers.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

import xxhash

from devices.drivers.browser import sites
from devices.drivers.browser.cdp import Connection, ProtocolError
from devices.drivers.browser.input import Held, UnsupportedAction, after, commands
from devices.drivers.browser.page import Page, value
from devices.drivers.browser.process import (
    BEGIN_FRAME_FLAGS,
    EXPOSED_FLAGS,
    UNTHROTTLED_FLAGS,
    Executable,
    Process,
)
from guiagent.actions import (
    Action,
    Answer,
    Done,
    Drag,
    LongPress,
    MouseDown,
    MouseUp,
    Open,
    PressButton,
    Wait,
)
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.types import Baseline, Capabilities, Health, Observation, ObserveSpec

if TYPE_CHECKING:
    import playwright.async_api

_BEGIN_FRAME_MAX_PIXELS = 1280 * 720 - 1
_START_DEADLINE_S = 20.0
_VERB_DEADLINE_S = 25.0
_HEALTH_DEADLINE_S = 5.0
_TREE = files(__package__).joinpath("tree.js").read_text()
_WHERE = "({url: location.href, title: document.title})"


class BrowserDevice:
    """Implements `guiagent.protocols.Device`. Verbs must not overlap: one holder, one verb at a time.

    Attributes:
        pid: of the browser, which leads a process group of its own.
        cdp_url: where Playwright and other clients of the DevTools protocol connect; None unless started so.
    """

    def __init__(
        self, process: Process, connection: Connection, width: int, height: int, *, begin_frame: bool
    ) -> None:
        self.pid = process.pid
        self.cdp_url: str | None = None
        self._process = process
        self._connection = connection
        self._width = width
        self._height = height
        self._begin_frame = begin_frame
        self._software = ""
        self._page: Page
        self._held = Held()
        self._set_up = (
            "",
            "",
        )  # the baseline's URL and its document, while that can be set up again in place

    @classmethod
    async def start(
        cls, executable: Executable, width: int, height: int, *, expose_cdp: bool = False
    ) -> "BrowserDevice":
        small = width * height <= _BEGIN_FRAME_MAX_PIXELS
        begin_frame = executable.headless_shell and small and not expose_cdp
        flags = BEGIN_FRAME_FLAGS if begin_frame else UNTHROTTLED_FLAGS
        process = await Process.start(
            executable, width, height, flags + EXPOSED_FLAGS if expose_cdp else flags
        )
        connection = Connection(process.reader, process.writer)
        device = cls(process, connection, width, height, begin_frame=begin_frame)
        try:
            async with _deadline("start", _START_DEADLINE_S):
                await device._come_up()
                if expose_cdp:
                    device.cdp_url = f"http://127.0.0.1:{await process.port()}"
        except FaultError as error:
            await device.close()
            path, reason = executable.path, error.fault.message
            message = f"{path} did not come up: {reason}; `{path} --version` may say why"
            raise FaultError(Fault("device", "start_failed", message, retryable=True)) from error
        except BaseException:
            await device.close()
            raise
        return device

    async def describe(self) -> Capabilities:
        features = ["exec", "a11y", "page"]
        return Capabilities("browser", self._width, self._height, features, self._software)

    @contextlib.asynccontextmanager
    async def page(self) -> AsyncIterator["playwright.async_api.Page"]:
        """Playwright's page on what this device shows, for a user's own steps.

        Raises UsageError unless the browser was started with `expose_cdp`.
        """
        if self.cdp_url is None:
            raise UsageError("device.page() needs a browser started with expose_cdp=True")
        from playwright.async_api import async_playwright

        async with async_playwright() as client:
            browser = await client.chromium.connect_over_cdp(self.cdp_url)
            yield browser.contexts[0].pages[0]

    async def reset(self, seed: int, baseline: Baseline, spec: ObserveSpec) -> Observation:
        """Load the baseline's page and run its script with SEED.

        A page that comes with a package is set up again in place where it is still open. Any other page
        begins in a browser context of its own, where nothing of an earlier baseline is left.
        """
        async with _deadline("reset", _VERB_DEADLINE_S):
            url = sites.resolve(baseline.url)
            set_up, self._set_up = self._set_up, ("", "")  # a reset that fails leaves no page to trust
            self._page.note = None
            if set_up != (url, self._page.document) or not sites.is_site(baseline.url):
                await self._load(url)
            elif self._held.buttons:
                await self._page.send(commands(MouseUp(x=0, y=0), self._held))
            self._held = Held()
            await self._page.send([("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": 0, "y": 0})])
            if baseline.script is not None:
                await self._page.run(f"(SEED => {{{baseline.script}\n}})({int(seed)})")
            self._set_up = (url, self._page.document)
            await self._page.settle()
            return await self._observe(spec)

    async def observe(self, spec: ObserveSpec) -> Observation:
        async with _deadline("observe", _VERB_DEADLINE_S):
            await self._page.tick()
            return await self._observe(spec)

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        waits_s = sum(action.ms for action in actions if isinstance(action, Wait | LongPress)) / 1000
        async with _deadline("act", _VERB_DEADLINE_S + waits_s):
            self._page.note = None
            for action in actions:
                try:
                    await self._perform(action)
                except (UnsupportedAction, ProtocolError) as error:
                    self._page.note = str(error)
                    break
            await self._page.settle()
            return await self._observe(spec)

    async def health(self) -> Health:
        if not (self._connection.alive and self._process.running):
            return Health(False, "the browser process ended")
        try:
            async with _deadline("health", _HEALTH_DEADLINE_S):
                await self._page.run("1")
        except FaultError as error:
            return Health(False, str(error))
        return Health(True)

    async def attest(self) -> str:
        """Digest of open pages, cookies and buttons held down."""
        targets = (await self._connection.post("Target.getTargets"))["targetInfos"]
        cookies = (await self._connection.post("Storage.getCookies"))["cookies"]
        left = [sorted(target["url"] for target in targets if target["type"] == "page"), cookies]
        return xxhash.xxh3_64_hexdigest(repr(left).encode())

    async def close(self) -> None:
        await self._connection.close()
        await self._process.stop()

    async def _come_up(self) -> None:
        version = await self._connection.post("Browser.getVersion")
        self._software = str(version["product"])
        unused = (await self._connection.post("Target.getTargets"))["targetInfos"]
        self._page = await self._open_page()
        for target in unused:  # the page every browser opens with costs a process of its own
            with contextlib.suppress(ProtocolError):  # it left by itself
                await self._connection.post("Target.closeTarget", {"targetId": target["targetId"]})

    async def _open_page(self) -> Page:
        return await Page.open(self._connection, self._width, self._height, begin_frame=self._begin_frame)

    async def _load(self, url: str) -> None:
        # Pages of packages have no secrets, and a blank page has nowhere to keep one.
        kept = {"file", "about"} if url.startswith("file:") else set()
        if not self._page.schemes <= kept:
            await self._page.close()  # first: a second page in a begin-frame browser hangs it
            self._page = await self._open_page()
        await self._page.navigate(url)
        await self._page.forget_history()

    async def _observe(self, spec: ObserveSpec) -> Observation:
        # Probes are posted before the picture so that both describe the same moment.
        page = self._page
        probes = {name: page.probe(source) for name, source in spec.probes.items()}
        tree = page.probe(_TREE) if spec.tree else None
        where = page.probe(_WHERE) if spec.page else None
        frame = b"" if spec.frame == "none" else await page.picture(spec.frame, spec.quality)
        values = {name: value(await reply) for name, reply in probes.items()}
        at = value(await where) if where is not None else {}
        digest = xxhash.xxh3_128_hexdigest(frame) if frame else ""
        unchanged = bool(digest) and digest == spec.have
        return Observation(
            width=self._width,
            height=self._height,
            hash=digest,
            media_type=f"image/{spec.frame}" if frame else "",
            frame=b"" if unchanged else frame,
            unchanged=unchanged,
            url=at.get("url"),
            title=at.get("title"),
            tree=value(await tree) if tree is not None else None,
            probes=values,
            action_error=page.note,
        )

    async def _perform(self, action: Action) -> None:
        match action:
            case Open():
                await self._open(action.target)
            case PressButton(button="back" | "forward"):
                if not await self._page.travel(-1 if action.button == "back" else 1):
                    raise UnsupportedAction(f"there is no page to go {action.button} to")
            case Wait():
                await self._page.pause(action.ms)
            case LongPress():
                await self._perform(MouseDown(x=action.x, y=action.y))
                await self._page.pause(action.ms)
                await self._perform(MouseUp(x=action.x, y=action.y))
            case Drag():
                for command in commands(action, self._held):  # moves that wait for the same frame become one
                    await self._page.send([command])
            case Answer() | Done():
                pass  # words to the user; nothing on the screen moves
            case _:
                await self._page.send(commands(action, self._held))
                self._held = after(action, self._held)

    async def _open(self, target: str) -> None:
        try:
            await self._page.navigate(sites.resolve(target))
        except FaultError as error:
            if error.fault.origin != "task":
                raise
            self._page.note = error.fault.message  # the agent asked for what cannot be had: its own doing


@contextlib.asynccontextmanager
async def _deadline(verb: str, seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        message = f"the browser did not finish {verb!r} within {seconds:g} s"
        raise FaultError(Fault("device", "deadline", message, retryable=True)) from error
    except ProtocolError as error:
        message = f"the browser refused {verb!r}: {error}"
        raise FaultError(Fault("device", "protocol", message, retryable=True)) from error
