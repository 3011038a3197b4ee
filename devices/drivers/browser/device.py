"""A browser as a `Device`: one Chromium process, one page, driven over its pipe.

Small screens on a headless shell run under begin-frame control: the browser draws only when told to, so a step is as
fast as the page itself (about 5 ms) and a frame is never older than the input before it. The rule that makes it so:
tick frames *until the input is acknowledged*, then take the picture. From 1280x720 up, drawing dominates and removing
the frame-rate limit is as fast; so is the full Chromium's only mode.
"""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable, Sequence
from importlib.resources import files
from typing import Any, TypeVar

import xxhash

from devices.drivers.browser import sites
from devices.drivers.browser.cdp import Connection, Json, ProtocolError
from devices.drivers.browser.input import UnsupportedAction, commands
from devices.drivers.browser.process import (
    BEGIN_FRAME_FLAGS,
    UNTHROTTLED_FLAGS,
    Executable,
    Process,
)
from guiagent.actions import Action, Answer, Done, LongPress, Open, PressButton, Wait
from guiagent.errors import Fault, FaultError
from guiagent.types import Baseline, Capabilities, Health, Observation, ObserveSpec

_BEGIN_FRAME_MAX_PIXELS = 1280 * 720 - 1
_TICK_PAUSE_S = 0.0005  # gives the renderer a moment to acknowledge input before the next frame
_START_DEADLINE_S = 20.0
_VERB_DEADLINE_S = 15.0
_MAX_QUIET_TICKS = 8
_TREE = files(__package__).joinpath("tree.js").read_text()
T = TypeVar("T")
_PAGE = "({url: location.href, title: document.title})"


class BrowserDevice:
    """Implements `guiagent.protocols.Device`. Verbs must not overlap: one holder, one verb at a time."""

    def __init__(
        self, process: Process, connection: Connection, width: int, height: int, *, begin_frame: bool
    ):
        self.pid = process.pid
        self._process = process
        self._connection = connection
        self._width = width
        self._height = height
        self._begin_frame = begin_frame
        self._session = ""
        self._context = ""
        self._software = ""
        self._baseline: Baseline | None = None
        self._loaded = asyncio.Event()
        self._note: str | None = None  # what happened to the last action, for Observation.action_error
        self._frames: dict[
            tuple[str, int], bytes
        ] = {}  # last picture per encoding, while nothing was drawn since

    @classmethod
    async def start(cls, executable: Executable, width: int, height: int) -> "BrowserDevice":
        begin_frame = executable.headless_shell and width * height <= _BEGIN_FRAME_MAX_PIXELS
        flags = BEGIN_FRAME_FLAGS if begin_frame else UNTHROTTLED_FLAGS
        process = await Process.start(executable, width, height, flags)
        device = cls(
            process, Connection(process.reader, process.writer), width, height, begin_frame=begin_frame
        )
        try:
            async with _deadline("start", _START_DEADLINE_S):
                await device._open_page()
        except BaseException:
            await device.close()
            raise
        return device

    async def describe(self) -> Capabilities:
        features = ["exec", "tree", "page"]
        return Capabilities("browser", self._width, self._height, features, self._software)

    async def reset(self, seed: int, baseline: Baseline, spec: ObserveSpec) -> Observation:
        """Load the baseline's page (or set up a package's page again in place) and run its script with SEED."""
        async with _deadline("reset", _VERB_DEADLINE_S):
            self._note = None
            previous = self._baseline
            self._baseline = None  # a reset that fails leaves no page to trust
            in_place = previous is not None and previous.url == baseline.url and sites.is_site(baseline.url)
            if not in_place:
                await self._clear()
                await self._navigate(sites.resolve(baseline.url))
            await self._send([("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": 0, "y": 0})])
            if baseline.script is not None:
                await self._evaluate(f"(SEED => {{{baseline.script}\n}})({int(seed)})")
            self._baseline = baseline
            self._frames.clear()
            await self._quiet()
            return await self._observe(spec)

    async def observe(self, spec: ObserveSpec) -> Observation:
        async with _deadline("observe", _VERB_DEADLINE_S):
            await self._tick()
            return await self._observe(spec)

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        async with _deadline("act", _VERB_DEADLINE_S):
            self._note = None
            for action in actions:
                try:
                    await self._perform(action)
                except (UnsupportedAction, ProtocolError) as error:
                    self._note = str(error)
                    break
            await self._quiet()
            return await self._observe(spec)

    async def health(self) -> Health:
        if not (self._connection.alive and self._process.running):
            return Health(False, "the browser process ended")
        try:
            async with _deadline("health", 5.0):
                await self._evaluate("1")
        except (FaultError, ProtocolError) as error:
            return Health(False, str(error))
        return Health(True)

    async def close(self) -> None:
        await self._connection.close()
        await self._process.stop()

    # -- the page ---------------------------------------------------------------------------------------------

    async def _open_page(self) -> None:
        version = await self._connection.post("Browser.getVersion")
        self._software = str(version["product"])
        await self._connection.post("Browser.setDownloadBehavior", {"behavior": "deny"})
        context = await self._connection.post("Target.createBrowserContext", {"disposeOnDetach": True})
        self._context = context["browserContextId"]
        target = await self._connection.post(
            "Target.createTarget",
            {
                "url": "about:blank",
                "width": self._width,
                "height": self._height,
                "browserContextId": self._context,
                "enableBeginFrameControl": self._begin_frame,
            },
        )
        attached = await self._connection.post(
            "Target.attachToTarget", {"targetId": target["targetId"], "flatten": True}
        )
        self._session = attached["sessionId"]
        self._connection.listen(self._session, "Page.loadEventFired", lambda _: self._loaded.set())
        self._connection.listen(self._session, "Page.javascriptDialogOpening", self._dismiss_dialog)
        self._connection.listen(None, "Target.targetCrashed", self._crashed)
        self._connection.listen(self._session, "Inspector.targetCrashed", self._crashed)
        await asyncio.gather(self._post("Page.enable"), self._post("Runtime.enable"))
        if not self._begin_frame:
            metrics = {"width": self._width, "height": self._height, "deviceScaleFactor": 1, "mobile": False}
            await self._post("Emulation.setDeviceMetricsOverride", metrics)
            await self._post("Emulation.setFocusEmulationEnabled", {"enabled": True})
        await self._navigate("about:blank")

    def _post(self, method: str, params: Json | None = None) -> asyncio.Future[Json]:
        return self._connection.post(method, params, self._session)

    def _crashed(self, _: Json) -> None:
        self._connection.fail(Fault("device", "crashed", "the page's process crashed", retryable=True))

    def _dismiss_dialog(self, event: Json) -> None:
        self._note = (
            f"the page showed a {event.get('type', 'dialog')}: {str(event.get('message', ''))[:200]!r}"
        )
        self._post("Page.handleJavaScriptDialog", {"accept": event.get("type") == "beforeunload"})

    async def _clear(self) -> None:
        """Forget cookies, storage and caches of whoever held the device before."""
        await self._connection.post("Storage.clearCookies", {"browserContextId": self._context})
        everything = {"origin": "*", "storageTypes": "all"}
        await self._post("Storage.clearDataForOrigin", everything)

    async def _navigate(self, url: str) -> None:
        self._loaded.clear()
        reply = await self._ticking(self._post("Page.navigate", {"url": url}))
        if failure := reply.get("errorText"):
            raise FaultError(
                Fault("task", "unreachable", f"cannot open {url[:120]}: {failure}", retryable=True)
            )
        if "loaderId" in reply:  # absent when only the fragment changed
            await self._ticking(self._loaded.wait())

    async def _evaluate(self, expression: str) -> Any:
        """The JSON value of a JavaScript expression; FaultError (origin "task") when it throws."""
        call = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        reply = await self._ticking(self._post("Runtime.evaluate", call))
        return _value(reply)

    # -- frames -----------------------------------------------------------------------------------------------

    async def _ticking(self, work: Awaitable[T]) -> T:
        """Await `work`; under begin-frame control draw frames meanwhile, since the page may wait for one."""
        if not self._begin_frame:
            return await work
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait((task,), timeout=_TICK_PAUSE_S)
                if not task.done():
                    await self._tick()
            return task.result()
        except BaseException:
            task.cancel()
            raise

    async def _tick(self) -> bool:
        """Draw one frame under begin-frame control; True when something on the screen changed."""
        if not self._begin_frame:
            self._frames.clear()
            return False
        reply = await self._post("HeadlessExperimental.beginFrame")
        damaged = bool(reply.get("hasDamage"))
        if damaged:
            self._frames.clear()
        return damaged

    async def _quiet(self) -> None:
        """Settle: tick until a frame changes nothing, with a cap for pages that never rest."""
        for _ in range(_MAX_QUIET_TICKS):
            if not await self._tick():
                return

    async def _observe(self, spec: ObserveSpec) -> Observation:
        # Probes are posted before the picture so that both describe the same moment.
        probes = {name: self._probe(source) for name, source in spec.probes.items()}
        tree = self._probe(_TREE) if spec.tree else None
        page = self._probe(_PAGE) if spec.page else None
        frame = await self._frame(spec)
        values = {name: _value(await reply) for name, reply in probes.items()}
        where = _value(await page) if page is not None else {}
        digest = xxhash.xxh3_128_hexdigest(frame) if frame else ""
        unchanged = bool(digest) and digest == spec.have
        return Observation(
            width=self._width,
            height=self._height,
            hash=digest,
            media_type=f"image/{spec.frame}" if frame else "",
            frame=b"" if unchanged else frame,
            unchanged=unchanged,
            url=where.get("url"),
            title=where.get("title"),
            tree=_value(await tree) if tree is not None else None,
            probes=values,
            action_error=self._note,
        )

    def _probe(self, expression: str) -> asyncio.Future[Json]:
        return self._post("Runtime.evaluate", {"expression": expression, "returnByValue": True})

    async def _frame(self, spec: ObserveSpec) -> bytes:
        if spec.frame == "none":
            return b""
        encoding = (spec.frame, spec.quality if spec.frame == "jpeg" else 0)
        picture: Json = {"format": spec.frame, "optimizeForSpeed": True}
        if spec.frame == "jpeg":
            picture["quality"] = spec.quality
        if self._begin_frame:
            reply = await self._post("HeadlessExperimental.beginFrame", {"screenshot": picture})
            if reply.get("hasDamage"):
                self._frames.clear()
            data = reply.get("screenshotData")
            if data is None and encoding in self._frames:
                return self._frames[encoding]
            if data is None:  # nothing was drawn since a picture in another encoding: ask the page to repaint
                await self._evaluate("document.documentElement.style.transform = 'translateZ(0)'")
                await self._tick()
                await self._evaluate("document.documentElement.style.transform = ''")
                return await self._frame(spec)
        else:
            data = (await self._post("Page.captureScreenshot", picture))["data"]
        frame = base64.b64decode(data)
        self._frames[encoding] = frame
        return frame

    # -- actions ----------------------------------------------------------------------------------------------

    async def _perform(self, action: Action) -> None:
        match action:
            case Open():
                await self._open(action.target)
            case PressButton(button="back" | "forward"):
                await self._history(-1 if action.button == "back" else 1)
            case Wait():
                await self._pause(action.ms)
            case LongPress():
                press, release = (
                    (
                        "Input.dispatchMouseEvent",
                        {"type": kind, "x": action.x, "y": action.y, "button": "left"},
                    )
                    for kind in ("mousePressed", "mouseReleased")
                )
                await self._send([press])
                await self._pause(action.ms)
                await self._send([release])
            case Answer() | Done():
                pass  # words to the user; nothing on the screen moves
            case _:
                await self._send(commands(action))

    async def _send(self, inputs: Sequence[tuple[str, Json]]) -> None:
        await self._ticking(asyncio.gather(*(self._post(method, params) for method, params in inputs)))

    async def _pause(self, ms: int) -> None:
        await self._ticking(asyncio.sleep(ms / 1000))

    async def _open(self, target: str) -> None:
        try:
            await self._navigate(sites.resolve(target))
        except FaultError as error:
            if error.fault.origin != "task":
                raise
            self._note = error.fault.message  # the agent asked for a page that cannot be had: its own doing

    async def _history(self, offset: int) -> None:
        history = await self._post("Page.getNavigationHistory")
        index = history["currentIndex"] + offset
        if not 0 <= index < len(history["entries"]):
            raise UnsupportedAction("there is no page to go " + ("back" if offset < 0 else "forward") + " to")
        self._loaded.clear()
        entry = {"entryId": history["entries"][index]["id"]}
        await self._ticking(self._post("Page.navigateToHistoryEntry", entry))
        with contextlib.suppress(TimeoutError):  # a page from the back-forward cache fires no load event
            await asyncio.wait_for(self._ticking(self._loaded.wait()), 1.0)


def _value(reply: Json) -> Any:
    if failure := reply.get("exceptionDetails"):
        text = failure.get("exception", {}).get("description") or failure.get("text", "unknown error")
        raise FaultError(
            Fault("task", "script_error", f"a script failed in the page: {text.splitlines()[0][:200]}")
        )
    return reply.get("result", {}).get("value")


@contextlib.asynccontextmanager
async def _deadline(verb: str, seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        message = f"the browser did not finish {verb!r} within {seconds:g} s"
        raise FaultError(Fault("device", "deadline", message, retryable=True)) from error
