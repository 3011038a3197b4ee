"""One page in a browser context of its own: loading, JavaScript, input and frames.

Under begin-frame control the browser draws only when told to, so a step is as fast as the page itself and a
frame is never older than the input before it. The rule that makes it so: tick frames *until the input is
acknowledged*, then take the picture.
"""

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Sequence
from importlib.resources import files
from typing import Any, TypeVar

from devices.drivers.browser import sites
from devices.drivers.browser.cdp import Connection, Json, ProtocolError
from devices.drivers.browser.input import Command
from devices.drivers.browser.keys import key_event
from guiagent.errors import Fault, FaultError
from guiagent.types import FrameFormat

T = TypeVar("T")
_FIRST_PAUSE_S = 0.0005  # gives the renderer a moment to acknowledge input before the next frame
_FRAME_S = 1 / 60  # longest pause between frames
_MAX_RESTLESS_FRAMES = 8
_MAX_IN_FLIGHT = 64  # input events; a page draws nothing before it has handled those it got
_LOAD_CAP_S = 10.0
_POPUP_S = 2.0
_PICTURE_S = 2.0  # the browser forgets one it was asked for while a document made way for another
_DRAG_EVENTS = {
    "mouseMoved": ("dragEnter", "dragOver"),
    "mouseReleased": ("dragEnter", "dragOver", "drop"),
}
_POPUPS = files(__package__).joinpath("popups.js").read_text()


class Page:
    """What happened to the last action besides its effect is in `note`, for `Observation.action_error`."""

    def __init__(
        self, connection: Connection, context: str, target: str, session: str, *, begin_frame: bool
    ) -> None:
        self.note: str | None = None
        self.schemes: set[str] = set()  # of every document that was ever in this page
        self.document = ""  # changes with every document in the main frame
        self._connection = connection
        self._context = context
        self._frame = target  # a page's main frame has the page's id
        self._session = session
        self._begin_frame = begin_frame
        self._dragged: Json | None = None
        self._loaded = asyncio.Event()
        self._loaded.set()
        self._drawing: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._drawing.set_result({})

    @classmethod
    async def open(cls, connection: Connection, width: int, height: int, *, begin_frame: bool) -> "Page":
        """A blank page that shares nothing with any page before it: no cookies, storage, cache, history."""
        created = await connection.post("Target.createBrowserContext", {"disposeOnDetach": True})
        place: Json = {"browserContextId": created["browserContextId"], "width": width, "height": height}
        place["enableBeginFrameControl"] = begin_frame
        target = (await connection.post("Target.createTarget", {"url": "about:blank", **place}))["targetId"]
        attach = {"targetId": target, "flatten": True}
        session = (await connection.post("Target.attachToTarget", attach))["sessionId"]
        page = cls(connection, created["browserContextId"], target, session, begin_frame=begin_frame)
        connection.listen(session, page._heard)
        setup: list[Command] = [
            ("Page.enable", {}),
            ("Runtime.enable", {}),  # without it the next runs only in pages that have scripts of their own
            ("Page.addScriptToEvaluateOnNewDocument", {"source": _POPUPS, "worldName": "guiagent"}),
            ("Inspector.enable", {}),
            ("Input.setInterceptDrags", {"enabled": True}),
            ("Fetch.enable", {"patterns": [{"urlPattern": "file://*", "resourceType": "Document"}]}),
            ("Emulation.setFocusEmulationEnabled", {"enabled": True}),
        ]
        if not begin_frame:
            screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            setup.append(("Emulation.setDeviceMetricsOverride", screen))
        deny = {"behavior": "deny", "browserContextId": page._context}
        await asyncio.gather(
            connection.post("Browser.setDownloadBehavior", deny),
            *(page._post(method, params) for method, params in setup),
        )
        await page.tick()  # without it one page in a hundred never drew anything
        return page

    async def close(self) -> None:
        """Dispose of the context and all it remembers, even where a script never lets go of the page."""
        self._connection.forget(self._session)
        await self._connection.post("Target.disposeBrowserContext", {"browserContextId": self._context})

    # -- loading --------------------------------------------------------------------------------------------

    async def navigate(self, url: str) -> None:
        """Open `url` and wait until it has loaded; one that still loads after ten seconds is shown as it is.

        Raises FaultError (origin "task") where no page comes back.
        """
        opening = self._post("Page.navigate", {"url": url})
        try:
            async with asyncio.timeout(_LOAD_CAP_S):
                reply = await self._ticking(opening)
                if failure := reply.get("errorText"):
                    raise _unreachable(url, failure)
                await self._ticking(self._loaded.wait())
        except TimeoutError:
            self._stop_loading()
            if opening.cancelled():
                raise _unreachable(url, f"no answer within {_LOAD_CAP_S:g} s") from None

    async def forget_history(self) -> None:
        await self._post("Page.resetNavigationHistory")

    async def travel(self, offset: int) -> bool:
        """Go back (-1) or forward (1) in the page's history; False where there is nothing to go to."""
        history = await self._post("Page.getNavigationHistory")
        index = history["currentIndex"] + offset
        if not 0 <= index < len(history["entries"]):
            return False
        await self._ticking(
            self._post("Page.navigateToHistoryEntry", {"entryId": history["entries"][index]["id"]})
        )
        return True

    def _stop_loading(self) -> None:
        self.note = f"the page was still loading after {_LOAD_CAP_S:g} s"
        self._post("Page.stopLoading")
        self._loaded.set()

    # -- scripts --------------------------------------------------------------------------------------------

    def probe(self, expression: str) -> asyncio.Future[Json]:
        """Evaluate a JavaScript expression now; `value` reads the reply."""
        return self._post("Runtime.evaluate", {"expression": expression, "returnByValue": True})

    async def run(self, expression: str) -> Any:
        """The JSON value of an expression, or of the promise it makes."""
        call = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        return value(await self._ticking(self._post("Runtime.evaluate", call)))

    # -- input and frames -----------------------------------------------------------------------------------

    async def send(self, inputs: Sequence[Command]) -> None:
        """Send input events and return once the page has handled them all."""
        for first in range(0, len(inputs), _MAX_IN_FLIGHT):
            for sent in [self._input(*command) for command in inputs[first : first + _MAX_IN_FLIGHT]]:
                await self._ticking(sent)

    def _input(self, method: str, event: Json) -> asyncio.Future[Json]:
        """While something is dragged along, the mouse moves and lets go of that."""
        kinds = _DRAG_EVENTS.get(event.get("type", ""))
        if self._dragged is None or kinds is None:
            return self._post(method, event)
        drag = {"x": event["x"], "y": event["y"], "data": self._dragged}
        if "drop" in kinds:
            self._dragged = None
        return [self._post("Input.dispatchDragEvent", drag | {"type": kind}) for kind in kinds][-1]

    async def pause(self, ms: int) -> None:
        await self._ticking(asyncio.sleep(ms / 1000))

    async def settle(self) -> None:
        """Return when the screen is quiet; with a cap, for pages that never are."""
        await self._rest()
        if not self._loaded.is_set():  # the input led to another document
            try:
                async with asyncio.timeout(_LOAD_CAP_S):
                    await self._ticking(self._loaded.wait())
            except TimeoutError:
                self._stop_loading()
            await self._rest()

    async def tick(self) -> bool:
        """Draw one frame under begin-frame control; True when something on the screen changed."""
        return self._begin_frame and bool((await self._draw()).get("hasDamage"))

    async def picture(self, encoding: FrameFormat, quality: int) -> bytes:
        """The screen as it is now, as PNG or JPEG (`quality` 0 to 100)."""
        wanted: Json = {"format": encoding, "optimizeForSpeed": True}
        if encoding == "jpeg":
            wanted["quality"] = quality
        while not self._begin_frame:
            asked = self._post("Page.captureScreenshot", wanted)
            await asyncio.wait((asked,), timeout=_PICTURE_S)
            if asked.done():
                return base64.b64decode(asked.result()["data"])
        for _ in range(_MAX_RESTLESS_FRAMES):
            if data := (await self._draw(screenshot=wanted)).get("screenshotData"):
                return base64.b64decode(data)
            await asyncio.sleep(_FRAME_S)  # between two documents there is nothing to draw
        raise FaultError(Fault("device", "no_frame", "the browser drew no frame", retryable=True))

    async def _rest(self) -> None:
        if not self._begin_frame:
            with contextlib.suppress(ProtocolError):  # it is leaving already
                await self.probe("0")  # a turn for what the input has set off in the page
        for _ in range(_MAX_RESTLESS_FRAMES):
            if not await self.tick():
                return

    async def _ticking(self, work: Awaitable[T]) -> T:
        """Await `work`; under begin-frame control draw frames meanwhile, since the page may wait for one."""
        task = asyncio.ensure_future(work)
        pause = _FIRST_PAUSE_S
        try:
            while self._begin_frame and not task.done():
                await asyncio.wait((task,), timeout=pause)
                if not task.done():
                    await self._draw()
                pause = min(2 * pause, _FRAME_S)
            return await task
        finally:
            task.cancel()

    async def _draw(self, **options: Json) -> Json:
        if not self._drawing.done():  # its caller gave up; the browser takes one frame at a time
            await asyncio.wait((self._drawing,))
        popup = asyncio.get_running_loop().call_later(_POPUP_S, self._close_popup)
        self._drawing = self._post("HeadlessExperimental.beginFrame", options)
        try:
            return await asyncio.shield(self._drawing)
        finally:
            popup.cancel()

    def _close_popup(self) -> None:
        """The browser waits for a native popup that got past popups.js, and would for ever."""
        self.note = "a popup that cannot be shown was closed"
        self._post("Input.dispatchKeyEvent", key_event("keyDown", "Escape"))

    # -- the browser's side ---------------------------------------------------------------------------------

    def _post(self, method: str, params: Json | None = None) -> asyncio.Future[Json]:
        return self._connection.post(method, params, self._session)

    def _heard(self, method: str, event: Json) -> None:
        match method:
            case "Page.frameStartedLoading" if event["frameId"] == self._frame:
                self._loaded.clear()
            case "Page.frameRequestedNavigation" if event["frameId"] == self._frame:
                if event["disposition"] == "currentTab":
                    self._loaded.clear()
            case "Page.frameStoppedLoading" if event["frameId"] == self._frame:
                self._loaded.set()
            case "Page.frameNavigated":
                frame = event["frame"]
                self.schemes.add(frame["url"].partition(":")[0])
                if frame["id"] == self._frame:
                    self.document = frame["loaderId"]
            case "Page.windowOpen":
                self._open_here(event)
            case "Page.javascriptDialogOpening":
                self._dismiss(event)
            case "Fetch.requestPaused":
                self._admit(event)
            case "Input.dragIntercepted":
                self._dragged = event["data"]
            case "Inspector.targetCrashed":
                fault = Fault("device", "crashed", "the page's process crashed", retryable=True)
                self._connection.fail(fault)

    def _open_here(self, event: Json) -> None:
        """A device is one page: what a click would open in a new window opens in place of the old one."""
        url: str = event["url"]
        if event["userGesture"] and url.startswith(("http://", "https://")):
            self._post("Page.navigate", {"url": url})

    def _dismiss(self, event: Json) -> None:
        leaving = event["type"] == "beforeunload"
        if not leaving:
            self.note = f"the page showed a dialog ({event['type']}): {event['message'][:200]!r}"
        self._post("Page.handleJavaScriptDialog", {"accept": leaving})

    def _admit(self, event: Json) -> None:
        request: Json = {"requestId": event["requestId"]}
        if sites.is_served(event["request"]["url"]):
            self._post("Fetch.continueRequest", request)
        else:
            self._post("Fetch.failRequest", request | {"errorReason": "AccessDenied"})


def value(reply: Json) -> Any:
    """The JSON value in a reply of `Runtime.evaluate`; FaultError (origin "task") where the script threw."""
    if failure := reply.get("exceptionDetails"):
        text = failure.get("exception", {}).get("description") or failure.get("text", "unknown error")
        message = f"a script failed in the page: {text.splitlines()[0][:200]}"
        raise FaultError(Fault("task", "script_error", message))
    return reply.get("result", {}).get("value")


def _unreachable(url: str, reason: str) -> FaultError:
    return FaultError(Fault("task", "unreachable", f"cannot open {url[:120]}: {reason}", retryable=True))
