"""The phone's screen: one headless shell with a document for the system and a frame for each running app.

Every app runs in a sandboxed frame with its own origin, under a policy that allows no other script and no
network. It can reach only the `bridge`, whose calls arrive here with the name of the calling app.
"""

import asyncio
import contextlib
import itertools
import json
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from devices.chromium.cdp import Json, ProtocolError
from devices.chromium.keys import key_event
from devices.phone.apps import App
from devices.phone.surface import Surface
from devices.phone.views import View, from_page
from guiagent.errors import Fault, FaultError

_ASSETS = Path(__file__).parent / "assets"
SYSTEM = "com.android.systemui"
_MAX_ROUNDS = 24
_SWIPE_EVENTS = 8
_OPEN_S = 10.0
_APP_SCRIPTS = (
    "dom.js",
    "icons.js",
    "gestures.js",
    "widgets.js",
    "dialogs.js",
    "pickers.js",
    "app.js",
    "views.js",
)
_SYSTEM_SCRIPTS = ("dom.js", "icons.js", "gestures.js", "keyboard.js", "system.js", "views.js")

Answer = Callable[[str, str, list[Any]], Awaitable[Any]]
"""`answer(package, call, arguments)` is what the bridge returns to the app."""


class Refused(Exception):
    """A bridge call that is invalid or that the app may not make; the app gets the message."""


class Screen:
    """The phone's screen in a headless shell. Coordinates are pixels of the frame; calls must not overlap."""

    def __init__(self, surface: Surface, size: "Size", answer: Answer) -> None:
        self.size = size
        self._surface = surface
        self._answer = answer
        self._nonce = secrets.token_urlsafe(12)
        self._names = itertools.count(1)
        self._expected: dict[str, str] = {}  # name of a new frame: its package
        self._packages: dict[str, str] = {}  # frame: package
        self._frames: dict[str, str] = {}  # package: name of its frame
        self._contexts: dict[int, str] = {}  # execution context: package
        self._context_of: dict[str, int] = {}
        self._ready: dict[str, asyncio.Event] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._time = 0.0  # of the last touch event

    @classmethod
    async def start(cls, size: "Size", answer: Answer, *, allow_unisolated: bool = False) -> "Screen":
        surface = await Surface.open(
            size.css_width, size.css_height, size.scale, allow_unisolated=allow_unisolated
        )
        screen = cls(surface, size, answer)
        try:
            async with asyncio.timeout(_OPEN_S * 2):
                await screen._come_up()
        except TimeoutError:
            await screen.close()
            message = f"the browser did not come up within {2 * _OPEN_S:g} s"
            raise FaultError(Fault("device", "start_failed", message, retryable=True)) from None
        except BaseException:
            await screen.close()
            raise
        return screen

    async def close(self) -> None:
        for task in self._work:
            task.cancel()
        await self._surface.close()

    @property
    def alive(self) -> bool:
        return self._surface.alive

    @property
    def pid(self) -> int:
        return self._surface.pid

    # -- apps -----------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[str]:
        return list(self._frames)

    async def open(self, app: App) -> None:
        """Start the app in a frame of its own and wait until it has called `ready`."""
        name = f"frame{next(self._names)}"
        self._expected[name] = app.package
        self._frames[app.package] = name
        ready = self._ready[app.package] = asyncio.Event()
        document = _document(self._nonce, _shared(_APP_SCRIPTS), "app.css", app.styles, app.scripts)
        self.tell(SYSTEM, "openFrame", name, document)
        try:
            async with asyncio.timeout(_OPEN_S):
                while not ready.is_set():
                    self._raise_failure()
                    await self._surface.tick()
                    await asyncio.wait((asyncio.ensure_future(ready.wait()),), timeout=0.002)
        except TimeoutError:
            message = f"the app {app.package} did not start within {_OPEN_S:g} s"
            raise FaultError(Fault("device", "app_failed", message, retryable=True)) from None

    def show(self, package: str, configuration: Json) -> None:
        self.tell(SYSTEM, "showFrame", self._frames[package], configuration)

    def drop(self, package: str) -> None:
        """End the app and discard its frame."""
        if name := self._frames.pop(package, None):
            self._context_of.pop(package, None)
            self.tell(SYSTEM, "closeFrame", name)

    async def call(self, package: str, function: str, *arguments: Any) -> Any:
        """Call a function of an app's page and return its JSON result; None if the app is not running."""
        context = self._context_of.get(package)
        if context is None:
            return None
        return _value(await self._evaluate(_spelled(function, arguments), context))

    def tell(self, package: str, function: str, *arguments: Any) -> None:
        """Call a function of an app's page without waiting for it; `settle` raises what it throws."""
        context = self._context_of.get(package)
        if context is not None:
            self._evaluate(_spelled(function, arguments), context).add_done_callback(self._note_failure)

    def mark_ready(self, package: str) -> None:
        if package in self._ready:
            self._ready[package].set()

    # -- input ----------------------------------------------------------------------------------------------

    async def touch(self, path: Sequence[tuple[int, int]], ms: int) -> None:
        """Touch the first point, move in a straight line to the last within `ms`, and lift the finger.

        The timestamps of the events span `ms`, which is enough for a long press or a fling: no real time is
        spent waiting.
        """
        start = max(self._time + 1.0, time.time())
        points = _along(path, _SWIPE_EVENTS) if len(path) > 1 else list(path)
        events: list[Json] = []
        for index, (x, y) in enumerate(points):
            at = start + ms / 1000 * index / max(1, len(points) - 1)
            place = {"x": x / self.size.scale, "y": y / self.size.scale}
            kind = "touchMove" if index else "touchStart"
            events.append({"type": kind, "touchPoints": [place], "timestamp": at})
        self._time = start + ms / 1000
        events.append({"type": "touchEnd", "touchPoints": [], "timestamp": self._time})
        for event in events:  # moves that wait for the same frame would be merged
            await self._surface.ticking(self._surface.post("Input.dispatchTouchEvent", event))

    async def press(self, key: str, modifiers: int = 0) -> None:
        for kind in ("keyDown", "keyUp"):
            event = key_event(kind, key, modifiers)
            await self._surface.ticking(self._surface.post("Input.dispatchKeyEvent", event))

    async def insert(self, text: str) -> None:
        await self._surface.ticking(self._surface.post("Input.insertText", {"text": text}))

    # -- output ---------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait until no bridge call is running and the screen stops changing, with a cap.

        Raises FaultError if a script of an app failed.
        """
        for _ in range(_MAX_ROUNDS):
            await self._heard_all()
            while self._work:
                await asyncio.wait(set(self._work))
                await self._heard_all()
            self._raise_failure()
            if not await self._surface.tick() and not self._work:
                return

    async def frame(self, encoding: Literal["jpeg", "png"], quality: int) -> bytes:
        return await self._surface.picture(encoding, quality)

    async def views(self, front: str) -> View:
        """The system's views and those of the app in front, under one root of the screen's size."""
        system = await self.call(SYSTEM, "views")
        top = float(system["app"])
        bars = from_page(system["tree"], SYSTEM, 0.0, self.size.scale)
        shown = await self.call(front, "views") if system["shows_app"] else None
        app = (from_page(shown["tree"], front, top, self.size.scale),) if shown else ()
        whole = (0, 0, self.size.width, self.size.height)
        return View("android.widget.FrameLayout", front, whole, children=(*app, *bars.children))

    # -- the browser's side ---------------------------------------------------------------------------------

    async def _come_up(self) -> None:
        self._packages[self._surface.page] = SYSTEM
        self._surface.listen(self._heard)
        setup: list[tuple[str, Json]] = [
            ("Page.enable", {}),
            ("Runtime.enable", {}),
            ("Inspector.enable", {}),
            ("Runtime.addBinding", {"name": "bridge"}),
            ("Emulation.setFocusEmulationEnabled", {"enabled": True}),
            ("Emulation.setTimezoneOverride", {"timezoneId": "UTC"}),
            ("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 1}),
        ]
        await asyncio.gather(*(self._surface.post(method, params) for method, params in setup))
        await self._surface.tick()  # without it one page in a hundred never drew anything
        document = _document(self._nonce, _shared(_SYSTEM_SCRIPTS), "system.css")
        write = f"document.open(); document.write({json.dumps(document)}); document.close()"
        _value(await self._surface.ticking(self._surface.post("Runtime.evaluate", {"expression": write})))

    async def _heard_all(self) -> None:
        """Wait until every event that the page has triggered so far was handled."""
        await self._surface.post("Runtime.evaluate", {"expression": "0"})

    def _heard(self, method: str, event: Json) -> None:
        match method:
            case "Page.frameNavigated":
                frame = event["frame"]
                if package := self._expected.pop(frame.get("name", ""), None):
                    self._packages[frame["id"]] = package
            case "Page.frameDetached":
                self._packages.pop(event["frameId"], None)
            case "Runtime.executionContextCreated":
                context = event["context"]
                package = self._packages.get(context["auxData"]["frameId"])
                if package and context["auxData"]["isDefault"]:
                    self._contexts[context["id"]] = package
                    self._context_of[package] = context["id"]
            case "Runtime.executionContextDestroyed":
                self._contexts.pop(event["executionContextId"], None)
            case "Runtime.bindingCalled":
                context_id = event["executionContextId"]
                if package := self._contexts.get(context_id):
                    task = asyncio.create_task(self._reply(package, context_id, event["payload"]))
                    self._work.add(task)
                    task.add_done_callback(self._finished)
            case "Runtime.exceptionThrown":
                details = event["exceptionDetails"]
                package = self._contexts.get(details.get("executionContextId", 0), "an app")
                self._failure = _script_failure(details, package)
            case "Inspector.targetCrashed":
                self._surface.fail(Fault("device", "crashed", "the phone's screen crashed", retryable=True))

    def _evaluate(self, expression: str, context: int) -> asyncio.Future[Json]:
        request = {"expression": expression, "contextId": context, "returnByValue": True}
        return self._surface.post("Runtime.evaluate", request)

    def _note_failure(self, future: asyncio.Future[Json]) -> None:
        if future.cancelled() or isinstance(future.exception(), ProtocolError):
            return  # the app was ended meanwhile
        try:
            _value(future.result())
        except FaultError as error:
            self._failure = error

    async def _reply(self, package: str, context: int, payload: str) -> None:
        call = json.loads(payload)
        try:
            answer = {"value": await self._answer(package, str(call["call"]), list(call["arguments"]))}
        except Refused as error:
            answer = {"error": str(error)}
        with contextlib.suppress(ProtocolError):  # the app was ended meanwhile
            _value(await self._evaluate(_spelled("answered", (call["id"], answer)), context))

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._failure = error

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure


class Size:
    """A screen of `width` x `height` pixels whose layout is as close to `density` as whole pixels allow.

    Attributes:
        scale: pixels of the frame to one CSS pixel (Android's dp).
    """

    def __init__(self, width: int, height: int, density: int) -> None:
        common = math.gcd(width, height)
        units = max(1, round(width * 160 / density / (width // common)))
        self.width, self.height, self.density = width, height, density
        self.css_width, self.css_height = units * (width // common), units * (height // common)
        # Rounded down: Chromium rounds the frame's size up, so a scale a hair too large adds a pixel.
        self.scale = math.floor(width / self.css_width * 1e6) / 1e6


def _along(path: Sequence[tuple[int, int]], count: int) -> list[tuple[float, float]]:
    """`count` + 1 points evenly spread over the straight line from the first to the last point of `path`."""
    (x1, y1), (x2, y2) = path[0], path[-1]
    return [(x1 + (x2 - x1) * k / count, y1 + (y2 - y1) * k / count) for k in range(count + 1)]


@cache
def _shared(names: tuple[str, ...]) -> str:
    return "\n".join(_asset(name) for name in names)


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text()


def _document(nonce: str, shared: str, style: str, styles: str = "", scripts: str = "") -> str:
    """HTML of a page without markup, whose scripts run because they carry the secret nonce.

    All documents of a screen share one nonce: a frame is under its parent's policy, too.
    """
    policy = f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src data:"
    whole = f"{shared}\n{{\n{scripts}\n}}"  # a block, so that an app may reuse names of the shared scripts
    safe = whole.replace("</script", "<\\/script")
    css = f"{_asset('base.css')}{_asset(style)}{styles}"
    return (
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<style>{css}</style><body><script nonce="{nonce}">{safe}</script>'
    )


def _spelled(function: str, arguments: Sequence[Any]) -> str:
    return f"phone.{function}({', '.join(json.dumps(one) for one in arguments)})"


def _value(reply: Json) -> Any:
    if details := reply.get("exceptionDetails"):
        raise _script_failure(details, "the phone")
    return reply.get("result", {}).get("value")


def _script_failure(details: Json, package: str) -> FaultError:
    text = details.get("exception", {}).get("description") or details.get("text", "unknown error")
    line = " | ".join(text.splitlines()[:3])[:300]
    return FaultError(Fault("device", "app_failed", f"a script of {package} failed: {line}"))
