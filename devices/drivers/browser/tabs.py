"""The pages of one browser context, of which a device shows one at a time.

Under begin-frame control there is only ever one. Else every new window becomes a tab and comes to the front;
it is paused until it is set up, so that none of its events is missed.
"""

import asyncio
import contextlib

from devices.chromium.cdp import Connection, Json, SessionEnded
from devices.drivers import UnsupportedAction
from devices.drivers.browser.page import Page, View
from devices.drivers.browser.requests import Requests
from guiagent.types import Node

MAX_TABS = 16
_WINDOW_S = 2.0  # for a window that a page has asked for; the browser may refuse it without a word
_CHORDS: dict[tuple[str, ...], str] = {
    ("Control", "t"): "new",
    ("Control", "w"): "close",
    ("Control", "Tab"): "next",
    ("Control", "PageDown"): "next",
    ("Control", "Shift", "Tab"): "previous",
    ("Control", "PageUp"): "previous",
    ("Control", "9"): "last",
    **{("Control", str(number)): str(number) for number in range(1, 9)},
}


def command(keys: tuple[str, ...]) -> str | None:
    """The command for `Tabs.do` that a key chord means; None for keys that go to the page."""
    return _CHORDS.get(keys)


class Tabs:
    """Tabs of one browser context, which share its cookies, storage and cache.

    `context`: the id of the browser context; None for the profile's own.

    Attributes:
        note: why a further tab was refused, for `Observation.action_error`.
    """

    def __init__(self, connection: Connection, view: View, context: str | None) -> None:
        self.context = context
        self.note: str | None = None
        self.several = not view.begin_frame
        self._connection = connection
        self._view = view
        self._pages: list[Page] = []
        self._shown = 0
        self._ready: dict[Page, asyncio.Future[None]] = {}
        self._in_front: Page | None = None
        self._changed = asyncio.Event()

    @property
    def current(self) -> Page:
        return self._pages[self._shown]

    @property
    def pages(self) -> tuple[Page, ...]:
        return tuple(self._pages)

    async def new(self) -> None:
        """Open a blank tab in front."""
        view = self._view
        place: Json = {"url": "about:blank"}
        if view.begin_frame:
            place |= {"width": view.width, "height": view.height, "enableBeginFrameControl": True}
        if self.context is not None:
            place["browserContextId"] = self.context
        target = (await self._connection.post("Target.createTarget", place))["targetId"]
        if not self.several:
            await self._connection.post("Target.attachToTarget", {"targetId": target, "flatten": True})
        while target not in [page.target for page in self._pages]:
            await self._change()
        await self._front()

    async def do(self, command: str) -> None:
        """Do "new", "close", "next", "previous" or "last", or show tab 1, 2, ... Raises UnsupportedAction."""
        if not self.several:
            message = "this browser shows one page at a time; a full Chromium, or 1280x720 and up, has tabs"
            raise UnsupportedAction(message)
        count = len(self._pages)
        match command:
            case "new" if count == MAX_TABS:
                raise UnsupportedAction(f"there are {MAX_TABS} tabs already")
            case "new":
                await self.new()
            case "close":
                closing = self.current
                if count == 1:
                    await self.new()
                await self._close(closing)
            case "next":
                await self._show((self._shown + 1) % count)
            case "previous":
                await self._show((self._shown - 1) % count)
            case "last":
                await self._show(count - 1)
            case _ if command in [str(number) for number in range(1, count + 1)]:
                await self._show(int(command) - 1)
            case _:
                message = (
                    f"no tab {command[:20]!r}: there are 1 to {count}, new, close, next, previous and last"
                )
                raise UnsupportedAction(message)

    async def settle(self) -> None:
        """Wait until the tab in front is quiet, also if the last action opened that tab."""
        while True:
            page = await self.ensure()
            with contextlib.suppress(SessionEnded):  # it closed itself: another one is in front
                await page.settle()
            if any(page.windows for page in self._pages):  # a click asked for one, but it did not come yet
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._change(), _WINDOW_S)
                for page in self._pages:
                    page.windows.clear()
            elif self._pages and page is self.current:
                return

    async def ensure(self) -> Page:
        """The tab in front, ready to be driven; a new one if all were closed."""
        if not self._pages:
            await self.new()
        await self._front()
        return self.current

    def nodes(self, targets: list[Json]) -> list[Node]:
        """The tabs as nodes of an accessibility tree; empty under begin-frame control.

        `targets`: the answer of `Target.getTargets` at the moment of the tree.
        """
        if not self.several:
            return []
        by_id = {target["targetId"]: target for target in targets}
        return [
            Node(
                role="tab",
                name=str(by_id.get(page.target, {}).get("title", ""))[:200],
                id=f"tab:{number}",
                value=str(by_id.get(page.target, {}).get("url", ""))[:200],
                states=("selected",) if page is self.current else (),
            )
            for number, page in enumerate(self._pages, 1)
        ]

    def heard(self, method: str, event: Json) -> None:
        """Handle an event of the browser about its targets."""
        match method:
            case "Target.attachedToTarget":
                info = event["targetInfo"]
                if self.context in (None, info.get("browserContextId")):
                    self._add(info["targetId"], event["sessionId"], info.get("openerId"))
                else:  # made by another client over the DevTools port
                    self._let_go_on(event["sessionId"])
            case "Target.detachedFromTarget":
                self._remove(event["sessionId"])

    def _let_go_on(self, session: str) -> None:
        """Let another client's page begin, once what its requests need is there."""
        requests = Requests(self._connection, session, self._view.egress, authenticated=False)
        self._connection.listen(session, requests.heard)
        method, patterns = requests.enable
        self._connection.post(method, patterns, session)
        self._connection.post("Runtime.runIfWaitingForDebugger", session=session)

    def close(self) -> None:
        """Forget every page; they end with their context."""
        for page in self._pages:
            self._remove(page.session)

    def _add(self, target: str, session: str, opener: str | None = None) -> None:
        asked = next(
            (page.windows.pop(0) for page in self._pages if page.target == opener and page.windows), ""
        )
        if len(self._pages) >= MAX_TABS:
            self.note = f"a window was closed at once: there are {MAX_TABS} tabs already"
            self._connection.post(
                "Runtime.runIfWaitingForDebugger", session=session
            )  # its opener waits for it
            self._connection.post("Target.closeTarget", {"targetId": target})
            return
        page = Page(self._connection, target, session, self._view)
        if asked not in ("", "about:blank"):
            page.expect_load()
        self._pages.append(page)
        self._shown = len(self._pages) - 1
        self._in_front = None
        self._ready[page] = ready = asyncio.ensure_future(page.set_up())
        ready.add_done_callback(lambda done: done.exception())  # errors are for the awaiter, not for the log
        self._changed.set()

    def _remove(self, session: str) -> None:
        for index, page in enumerate(self._pages):
            if page.session == session:
                self._pages.remove(page)
                self._shown = max(0, self._shown - (index <= self._shown))
                page.ended()
                del self._ready[page]
                self._changed.set()
                return
        self._connection.forget(session)  # another client's

    async def _close(self, page: Page) -> None:
        await self._connection.post("Target.closeTarget", {"targetId": page.target})
        while page in self._pages:
            await self._change()

    async def _show(self, index: int) -> None:
        self._shown = index
        await self._front()

    async def _front(self) -> None:
        """Bring the tab that is shown to the front; the browser draws no other."""
        while self._pages and self.current is not self._in_front:
            page = self.current
            with contextlib.suppress(SessionEnded):
                await asyncio.shield(self._ready[page])
                if self.several:
                    await page.bring_to_front()
                self._in_front = page

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
