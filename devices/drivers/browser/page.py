"""One page of a browser, which is one tab: loading, JavaScript, input and frames.

Under begin-frame control the browser draws only when told to, so a step is as fast as the page itself and a
frame is never older than the input before it. The rule that makes it so: tick frames *until the input is
acknowledged*, then take the picture. Every frame costs the browser 1 to 5 ms of CPU, so none is drawn that
nobody waits for: clicks and keys are acknowledged without one, and a page that has asked for no frame, timer
or animation since the last picture is still (`still.js`): its first frame is the picture. For any other page
frames are drawn until one changes nothing.
"""

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import urlsplit

from devices.chromium.cdp import Connection, Json, ProtocolError
from devices.chromium.keys import key_event
from devices.drivers.browser.input import Command
from devices.drivers.browser.loading import Loading
from devices.drivers.browser.requests import NOWHERE, Requests
from devices.egress.proxy import EgressProxy
from guiagent.errors import Fault, FaultError
from guiagent.types import FrameFormat

T = TypeVar("T")
_FIRST_PAUSE_S = 0.0005  # gives the renderer a moment to acknowledge input before the next frame
_UNDRAWN_PAUSE_S = 0.03  # the same for what needs no frame, unless the page makes it wait for one
_FRAME_S = 1 / 60  # longest pause between frames
_MAX_RESTLESS_FRAMES = 8
_MAX_IN_FLIGHT = 64  # input events; a page draws nothing before it has handled those it got
_LOAD_CAP_S = 10.0
_POPUP_S = 2.0
_CHOOSER_S = 1.0  # between a click on a file field and its file chooser, which the page may suppress
_CLICKED = "clicked"  # a function of popups.js
_DRAWN = "drawn"  # a function of drawn.js
_DRAWN_S = 2.0  # for the first frame of a document, whose scripts may hold it up
_PICTURE_S = 2.0  # the browser forgets a request that came while one document replaced another
_DRAG_EVENTS = {
    "mouseMoved": ("dragEnter", "dragOver"),
    "mouseReleased": ("dragEnter", "dragOver", "drop"),
}
_POPUPS = files(__package__).joinpath("popups.js").read_text()
_DRAWN_SOURCE = files(__package__).joinpath("drawn.js").read_text()
_STILL = files(__package__).joinpath("still.js").read_text()
_WORLD = "guiagent"  # of our scripts: pages see nothing of it
_AT_ONCE = ("mousePressed", "mouseReleased", "keyDown", "keyUp")  # acknowledged without a frame
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class View:
    """Settings that all pages of a device share: size in pixels, begin-frame control, egress proxy."""

    width: int
    height: int
    begin_frame: bool
    egress: EgressProxy


@dataclass(frozen=True, slots=True)
class FileChooser:
    """An open file chooser of a page, which no screenshot shows."""

    node: int
    multiple: bool


class Page:
    """One page of a browser.

    Attributes:
        note: what happened to the last action besides its effect, for `Observation.action_error`.
        target: the DevTools protocol's id of the page.
        loading: the loading state of its documents.
        chooser: its open file chooser, or None.
        windows: URLs of windows that clicks requested and that have not opened yet.
    """

    def __init__(self, connection: Connection, target: str, session: str, view: View) -> None:
        self.target = target
        self.note: str | None = None
        self.loading = Loading(target, self._failure)
        self.chooser: FileChooser | None = None
        self.windows: list[str] = []
        self.session = session
        self._connection = connection
        self._requests = Requests(connection, session, view.egress, authenticated=True)
        self._view = view
        self._begin_frame = view.begin_frame
        self._dragged: Json | None = None
        self._world: int | None = None  # the execution context of our scripts in the main frame
        self._asked: tuple[str, int, int] | None = None  # at the last picture: document, frames, timers
        self._choosing = asyncio.Event()
        self._clicked_for_files = False
        self._drawing: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._drawing.set_result({})
        connection.listen(session, self._on_event)

    async def set_up(self) -> None:
        """Prepare a page that was just attached, and may be paused, so that it can be driven."""
        view = self._view
        setup: list[Command] = [
            ("Page.enable", {}),
            ("Page.setLifecycleEventsEnabled", {"enabled": True}),
            ("Runtime.enable", {}),  # without it the next runs only in pages that have scripts of their own
            ("Runtime.addBinding", {"name": _CLICKED, "executionContextName": _WORLD}),
            ("Runtime.addBinding", {"name": _DRAWN, "executionContextName": _WORLD}),
            ("Page.addScriptToEvaluateOnNewDocument", {"source": _POPUPS, "worldName": _WORLD}),
            ("Page.addScriptToEvaluateOnNewDocument", {"source": _DRAWN_SOURCE, "worldName": _WORLD}),
            ("Page.setInterceptFileChooserDialog", {"enabled": True}),
            ("Inspector.enable", {}),
            ("Input.setInterceptDrags", {"enabled": True}),
            self._requests.enable,
            ("Emulation.setFocusEmulationEnabled", {"enabled": True}),
        ]
        if not self._begin_frame:
            screen = {"width": view.width, "height": view.height, "deviceScaleFactor": 1, "mobile": False}
            setup.append(("Emulation.setDeviceMetricsOverride", screen))
            setup.append(("Runtime.runIfWaitingForDebugger", {}))
        await asyncio.gather(*(self.post(method, params) for method, params in setup))
        await self.tick()  # without it one page in a hundred never drew anything

    def expect_load(self) -> None:
        """Mark the page as loading, although no event has said so yet."""
        self.loading.done.clear()

    async def authenticate_proxy(self) -> None:
        """Tell the browser the password of its proxy, with a first request that leads nowhere.

        From then on the page's whole browser context sends it with every connection, without being asked.
        """
        await self.run(f"fetch({NOWHERE!r}).then(() => null, () => null)")

    def ended(self) -> None:
        """Forget a page that is gone: whatever still waits for it ends in SessionEnded."""
        self._connection.forget(self.session)
        self.loading.done.set()
        self.loading.drawn.set()

    # -- loading --------------------------------------------------------------------------------------------

    async def navigate(self, url: str) -> None:
        """Open `url` and wait until it has loaded; one that still loads after ten seconds is shown as it is.

        Raises FaultError (origin "task") if no page comes back.
        """
        self.loading.failed = None
        opening = self.post("Page.navigate", {"url": url})
        try:
            async with asyncio.timeout(_LOAD_CAP_S):
                reply = await self._await_drawing(opening, _FRAME_S)
                if reply.get("isDownload"):
                    self.loading.saves = True
                    return
                if failure := reply.get("errorText"):
                    raise _unreachable(url, self._failure(url) or failure)
                await self._await_drawing(self.loading.done.wait(), _FRAME_S)
        except TimeoutError:
            self._stop_loading()
            if opening.cancelled():
                raise _unreachable(url, f"no answer within {_LOAD_CAP_S:g} s") from None
        if self.loading.failed:
            raise FaultError(Fault("task", "unreachable", self.loading.failed, retryable=True))

    async def forget_history(self) -> None:
        await self.post("Page.resetNavigationHistory")

    async def go_history(self, offset: int) -> bool:
        """Go back (-1) or forward (1) in the page's history; return False if there is no such entry."""
        history = await self.post("Page.getNavigationHistory")
        index = history["currentIndex"] + offset
        if not 0 <= index < len(history["entries"]):
            return False
        await self._await_drawing(
            self.post("Page.navigateToHistoryEntry", {"entryId": history["entries"][index]["id"]})
        )
        return True

    def _failure(self, url: str) -> str | None:
        """Why the proxy could not connect to the host of `url`; None if it could, or was not asked."""
        parts = urlsplit(url)
        if parts.hostname is None or parts.scheme not in _PORTS:
            return None
        return self._view.egress.failure(parts.hostname, parts.port or _PORTS[parts.scheme])

    def _stop_loading(self) -> None:
        self.note = f"the page was still loading after {_LOAD_CAP_S:g} s"
        self.post("Page.stopLoading")
        self.loading.done.set()

    # -- commands and scripts --------------------------------------------------------------------------------

    def post(self, method: str, params: Json | None = None) -> asyncio.Future[Json]:
        """Send the page a command of the protocol now; the future resolves with its result."""
        return self._connection.post(method, params, self.session)

    def probe(self, expression: str) -> asyncio.Future[Json]:
        """Evaluate a JavaScript expression now; `value` reads the reply."""
        return self.post("Runtime.evaluate", {"expression": expression, "returnByValue": True})

    async def run(self, expression: str, *, user: bool = False) -> Any:
        """The JSON value of an expression, or of its promise; `user` makes it count as a user's action."""
        call = {"expression": expression, "returnByValue": True, "awaitPromise": True, "userGesture": user}
        return value(await self._await_drawing(self.post("Runtime.evaluate", call)))

    async def start_over(self, expression: str) -> None:
        """Evaluate an expression, and its promise, while the pointer moves to the corner, in one frame."""
        moved = self._input("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": 0, "y": 0})
        call = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        ran = self.post("Runtime.evaluate", call)
        await self.tick()  # a move is acknowledged with a frame; this one comes after both
        await self._await_drawing(moved)
        value(await self._await_drawing(ran))

    async def wait_for_file_chooser(self) -> None:
        """Wait for the file chooser of the last click, if that was on a file field; with a cap."""
        await self._await_drawing(self.probe("0"))  # events of the click arrive before this answer
        if self._clicked_for_files:
            self._clicked_for_files = False
            with contextlib.suppress(TimeoutError):
                await self._await_drawing(asyncio.wait_for(self._choosing.wait(), _CHOOSER_S))

    async def choose(self, paths: Sequence[str]) -> None:
        """Give the pending file chooser these files of the host."""
        assert self.chooser is not None
        answer = {"files": list(paths), "backendNodeId": self.chooser.node}
        self.chooser = None
        await self._await_drawing(self.post("DOM.setFileInputFiles", answer))

    async def bring_to_front(self) -> None:
        await self.post("Page.bringToFront")

    # -- input and frames -----------------------------------------------------------------------------------

    async def send(self, inputs: Sequence[Command]) -> None:
        """Send input events and return once the page has handled them all."""
        await self._first_frame()
        for first in range(0, len(inputs), _MAX_IN_FLIGHT):
            batch = inputs[first : first + _MAX_IN_FLIGHT]
            at_once = self._dragged is None and batch[-1][1].get("type") in _AT_ONCE
            pause = _UNDRAWN_PAUSE_S if at_once else _FIRST_PAUSE_S
            for sent in [self._input(*command) for command in batch]:
                await self._await_drawing(sent, pause)
        if self._dragged is None and any(map(_pulls, inputs)):
            # The move may have begun a drag. The browser reports that before it answers a request sent after
            # the move, though not always before it acknowledges the move.
            with contextlib.suppress(ProtocolError):  # the page is leaving
                await self._await_drawing(self.probe("0"))

    async def _first_frame(self) -> None:
        """Wait until the page's document is ready for input."""
        if not self.loading.drawn.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DRAWN_S):
                    await self._await_drawing(self.loading.drawn.wait())
            self.loading.drawn.set()  # a blank document without scripts never says so: wait only once

    def _input(self, method: str, event: Json) -> asyncio.Future[Json]:
        """Send an input event; during a drag, a mouse move or release becomes a drag event."""
        if event.get("type") == "mouseWheel":
            self._asked = None  # scripts read the old place until the frame that scrolls was drawn
        kinds = _DRAG_EVENTS.get(event.get("type", ""))
        if self._dragged is None or kinds is None:
            return self.post(method, event)
        drag = {"x": event["x"], "y": event["y"], "data": self._dragged}
        if "drop" in kinds:
            self._dragged = None
        return [self.post("Input.dispatchDragEvent", drag | {"type": kind}) for kind in kinds][-1]

    async def pause(self, ms: int) -> None:
        await self._await_drawing(asyncio.sleep(ms / 1000))

    async def settle(self) -> None:
        """Wait until the screen is quiet, with a cap for pages that never are.

        Nothing is drawn for a page that is still: its next picture shows all that the last input did.
        """
        if not (self._begin_frame and self.loading.done.is_set() and await self._is_still()):
            await self._rest()
        if self._clicked_for_files:
            await self.wait_for_file_chooser()
        if not self.loading.done.is_set():  # the input led to another document
            try:
                async with asyncio.timeout(_LOAD_CAP_S):
                    await self._await_drawing(self.loading.done.wait())
            except TimeoutError:
                self._stop_loading()
            await self._rest()

    async def tick(self) -> bool:
        """Draw one frame under begin-frame control; return True if something on the screen changed."""
        return self._begin_frame and bool((await self._draw()).get("hasDamage"))

    async def picture(self, encoding: FrameFormat, quality: int) -> bytes:
        """The screen as it is now, as PNG or JPEG (`quality` 0 to 100)."""
        wanted: Json = {"format": encoding, "optimizeForSpeed": True}
        if encoding == "jpeg":
            wanted["quality"] = quality
        while not self._begin_frame:
            asked = self.post("Page.captureScreenshot", wanted)
            await asyncio.wait((asked,), timeout=_PICTURE_S)
            if asked.done():
                return base64.b64decode(asked.result()["data"])
        for _ in range(_MAX_RESTLESS_FRAMES):
            if data := (await self._draw(screenshot=wanted)).get("screenshotData"):
                return base64.b64decode(data)
            await asyncio.sleep(_FRAME_S)  # between two documents there is nothing to draw
        raise FaultError(Fault("device", "no_frame", "the browser drew no frame", retryable=True))

    async def _is_still(self) -> bool:
        """True if nothing but the input can have changed this page since the last time that it settled.

        It has asked for no frame and no timer, and runs no animation.
        """
        document, asked = self.loading.document, self._asked
        self._asked = None
        if self._world is None or not self.loading.drawn.is_set():
            return False
        call = {"expression": _STILL, "contextId": self._world, "returnByValue": True}
        with contextlib.suppress(ProtocolError):  # the document is leaving
            reply = await self._await_drawing(self.post("Runtime.evaluate", call), _UNDRAWN_PAUSE_S)
            match reply.get("result", {}).get("value"):
                case [int() as frames, int() as timers, bool() as moves]:
                    self._asked = document, frames, timers
                    return not moves and asked == (document, frames - 1, timers - 1)
        return False

    async def _rest(self) -> None:
        if not self._begin_frame:
            with contextlib.suppress(ProtocolError):  # it is leaving already
                await self.probe("0")  # lets the page run what the input triggered
        for _ in range(_MAX_RESTLESS_FRAMES):
            if not await self.tick():
                return

    async def _await_drawing(self, work: Awaitable[T], pause: float = _FIRST_PAUSE_S) -> T:
        """Await `work`; under begin-frame control draw frames meanwhile, since the page may wait for one.

        `pause`: seconds until the first of them.
        """
        task = asyncio.ensure_future(work)
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
        self._drawing = self.post("HeadlessExperimental.beginFrame", options)
        try:
            return await asyncio.shield(self._drawing)
        finally:
            popup.cancel()

    def _close_popup(self) -> None:
        """Close a native popup that got past popups.js: the browser would wait for it forever."""
        self.note = "a popup that cannot be shown was closed"
        with contextlib.suppress(FaultError):  # the frame's caller gets the fault
            self.post("Input.dispatchKeyEvent", key_event("keyDown", "Escape"))

    # -- the browser's side ---------------------------------------------------------------------------------

    def _on_event(self, method: str, event: Json) -> None:
        self.loading.heard(method, event)
        self._requests.heard(method, event)
        match method:
            case "Page.windowOpen":
                if self._begin_frame:
                    self._open_here(event)
                elif event["userGesture"]:
                    self.windows.append(event["url"])
            case "Runtime.executionContextCreated":
                self._enter(event["context"])
            case "Runtime.executionContextDestroyed" if event["executionContextId"] == self._world:
                self._world = None
            case "Runtime.executionContextsCleared":
                self._world = None
            case "Runtime.bindingCalled" if event["name"] == _CLICKED:
                self._click_led_to(event["payload"])
            case "Runtime.bindingCalled" if event["name"] == _DRAWN:
                self.loading.drawn.set()
            case "Page.frameNavigated" if event["frame"]["id"] == self.target:
                self._dragged = None  # it went with its document
            case "Page.fileChooserOpened":
                self._ask_for_files(event)
            case "Page.javascriptDialogOpening":
                self._dismiss(event)
            case "Input.dragIntercepted":
                self._dragged = event["data"]
            case "Inspector.targetCrashed":
                fault = Fault("device", "crashed", "the page's process crashed", retryable=True)
                self._connection.fail(fault)

    def _enter(self, context: Json) -> None:
        if (context["name"], context.get("auxData", {}).get("frameId")) == (_WORLD, self.target):
            self._world = context["id"]

    def _click_led_to(self, what: str) -> None:
        if what == "download":
            self.loading.saves = True
        elif what == "file":
            self._clicked_for_files = True
            self._choosing.clear()

    def _ask_for_files(self, event: Json) -> None:
        self._choosing.set()
        if "backendNodeId" in event:
            self.chooser = FileChooser(event["backendNodeId"], event["mode"] == "selectMultiple")
        else:
            self.note = "the page asks for files in a way that this browser cannot answer"

    def _open_here(self, event: Json) -> None:
        """Open here what a click would open in a new window, since there are no tabs."""
        url: str = event["url"]
        if event["userGesture"] and url.startswith(("http://", "https://")):
            self.post("Page.navigate", {"url": url})

    def _dismiss(self, event: Json) -> None:
        leaving = event["type"] == "beforeunload"
        if not leaving:
            self.note = f"the page showed a dialog ({event['type']}): {event['message'][:200]!r}"
        self.post("Page.handleJavaScriptDialog", {"accept": leaving})


def value(reply: Json) -> Any:
    """The JSON value in a reply of `Runtime.evaluate`. Raises FaultError (origin "task") for an exception."""
    if failure := reply.get("exceptionDetails"):
        text = failure.get("exception", {}).get("description") or failure.get("text", "unknown error")
        message = f"a script failed in the page: {text.splitlines()[0][:200]}"
        raise FaultError(Fault("task", "script_error", message))
    return reply.get("result", {}).get("value")


def _pulls(command: Command) -> bool:
    """True for a move with a button held."""
    _, event = command
    return event.get("type") == "mouseMoved" and bool(event.get("buttons"))


def _unreachable(url: str, reason: str) -> FaultError:
    return FaultError(Fault("task", "unreachable", f"cannot open {url[:120]}: {reason}", retryable=True))
