"""The verbs of a person at a screen: find, click, type, scroll, read, wait; over `act` and `observe`.

`guiagent.client.LeasedDevice` has them, and `guiagent.client.sync_device.SyncDevice` as blocking methods.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from guiagent.actions import ACTIONS, Action, Button
from guiagent.client.screen import Screenshot
from guiagent.errors import NotFoundError, UsageError, WaitTimeoutError, first_error
from guiagent.nodes import centre, described, is_field, matching, picked, reading, visible
from guiagent.types import Node, Observation, ObserveSpec

_POLL_S = 0.2
_TREE = ObserveSpec(frame="none", tree=True)
_MOST_SCROLLS = 50
_UNMOVED = 3  # scrolls that show nothing new: one may only cross an empty part of a page
_PAGE = 0.7  # of the screen's height, to scroll at once while looking for something
_TRIES = 3  # to scroll an element into view whose place is known


class Verbs(ABC):
    """Verbs of a device with `act` and `observe`, by what shows on its screen.

    Those that do something return the observation after it, with the page's url and title where the device
    has the feature "page". They raise UsageError if the device could not do it (`action_error`). Elements
    are found in its accessibility tree (feature "a11y"; see `guiagent.types.Node`) as `matching` in
    `guiagent.nodes` says, by their `text`, their `role`, or both.

    Attributes:
        id: the device's name.
        features: what it can do, as `Capabilities.features`.
    """

    id: str
    features: frozenset[str]

    @abstractmethod
    async def observe(self, spec: ObserveSpec) -> Observation: ...

    @abstractmethod
    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation: ...

    # -- by pixels -------------------------------------------------------------------------------------------

    async def open(self, target: str) -> Observation:
        """Open a page by its address, or an app by its name."""
        return await self._do({"type": "open", "target": target})

    async def click(self, x: int, y: int, button: Button = "left", count: int = 1) -> Observation:
        """Click or tap at a point; `count` 2 is a double click."""
        return await self._do({"type": "click", "x": x, "y": y, "button": button, "count": count})

    async def long_press(self, x: int, y: int, ms: int = 1000) -> Observation:
        """Hold a finger or the left button on a point."""
        return await self._do({"type": "long_press", "x": x, "y": y, "ms": ms})

    async def type(self, text: str, clear: bool = False, submit: bool = False) -> Observation:
        """Type into what has the focus; `clear` empties it first, `submit` presses Enter after it."""
        return await self._do({"type": "type", "text": text, "clear": clear, "submit": submit})

    async def key(self, *keys: str) -> Observation:
        """Press keys together: `key("Control", "a")`."""
        return await self._do({"type": "key", "keys": keys})

    async def press_button(self, button: str) -> Observation:
        """Press a button of a phone ("home", "recents" ...), or go "back" or "forward" in a browser."""
        return await self._do({"type": "press_button", "button": button})

    async def scroll(self, x: int, y: int, dx: int = 0, dy: int = 0) -> Observation:
        """Scroll at a point by pixels; positive `dy` is down."""
        return await self._do({"type": "scroll", "x": x, "y": y, "dx": dx, "dy": dy})

    async def drag(self, *path: tuple[int, int]) -> Observation:
        """Press the left button at the first point, move along the others, and let go at the last one."""
        return await self._do({"type": "drag", "path": path})

    # -- by elements -----------------------------------------------------------------------------------------

    async def find(self, text: str | None = None, *, role: str | None = None, nth: int = 0) -> Node:
        """The `nth` element that shows and is called `text`. Raises NotFoundError, which names near ones."""
        return picked((await self._seen()).tree or [], text, role, nth)

    async def find_all(self, text: str | None = None, *, role: str | None = None) -> list[Node]:
        """All elements that show and match; without arguments, the whole tree. Controls come first."""
        return matching((await self._seen()).tree or [], text, role)

    async def text(self) -> str:
        """The text that shows on the screen, a line for each element that has some."""
        return reading((await self._seen()).tree or [])

    async def scroll_to(self, text: str | None = None, *, role: str | None = None) -> Node:
        """Scroll down until an element matches, and return it.

        Raises NotFoundError at the end, or if the device cannot scroll.
        """
        before: list[Node] | None = None
        unmoved = 0
        for _ in range(_MOST_SCROLLS):
            seen = await self._seen()
            tree = seen.tree or []
            on_screen = [node for node in tree if visible(node.box, seen.width, seen.height)]
            if found := matching(on_screen, text, role):
                return found[0]
            unmoved = unmoved + 1 if tree == before else 0
            if unmoved == _UNMOVED:
                break
            before = tree
            middle = {"x": seen.width // 2, "y": seen.height // 2}
            await self._do({"type": "scroll", **middle, "dx": 0, "dy": round(seen.height * _PAGE)})
        return picked(before or [], text, role)

    async def click_on(
        self,
        target: Node | str,
        *,
        role: str | None = None,
        nth: int = 0,
        button: Button = "left",
        count: int = 1,
    ) -> Observation:
        """Click the middle of what shows of an element: of a node that was found, or found by its text.

        A node beside the screen is scrolled to. Raises NotFoundError if there is no such element, or if it
        stays beside the screen.
        """
        x, y = await self._spot(target, role, nth)
        return await self.click(x, y, button, count)

    async def type_into(
        self, target: Node | str, text: str, *, nth: int = 0, clear: bool = False, submit: bool = False
    ) -> Observation:
        """Click on a field, found by its name or given as a node, and type into it."""
        if isinstance(target, str):
            fields = [node for node in (await self._seen()).tree or [] if is_field(node)]
            target = picked(fields, target, None, nth)
        x, y = await self._spot(target)
        typing = {"type": "type", "text": text, "clear": clear, "submit": submit}
        return await self._do({"type": "click", "x": x, "y": y}, typing)

    # -- by looking ------------------------------------------------------------------------------------------

    async def screenshot(self) -> Screenshot:
        """The screen as it is now, as a PNG that notebooks show."""
        return Screenshot(await self.observe(ObserveSpec(frame="png")))

    async def evaluate(self, expression: str) -> Any:
        """Evaluate a JavaScript expression in the page; return its JSON value. Needs the grant "exec"."""
        return (await self.observe(ObserveSpec("none", probes={"value": expression}))).probes["value"]

    async def wait_for(
        self,
        text: str | None = None,
        *,
        role: str | None = None,
        url: str | None = None,
        stillness: float | None = None,
        timeout_s: float = 10.0,
    ) -> Observation:
        """Wait until an element matches, the page's address contains `url`, and nothing on the screen changed
        for `stillness` seconds, as far as they are given; return the observation in which all of it held.

        Raises WaitTimeoutError, which says what was missing; UsageError without anything to wait for.
        """
        by_element = text is not None or role is not None
        if not (by_element or url is not None or stillness is not None):
            raise UsageError("wait_for what? Give a text, a role, a url, or seconds of stillness")
        if url is not None and "page" not in self.features:
            raise UsageError(f"{self.id} has no pages, so no url: wait for a text, or for stillness")
        if by_element:
            self._require_tree()
        spec = ObserveSpec("none" if stillness is None else "jpeg", 50, by_element, url is not None)
        clock = asyncio.get_running_loop().time
        until, since, frame = clock() + timeout_s, clock(), ""
        while True:
            asked = clock()
            seen = await self.observe(spec)
            if seen.hash != frame:
                since, frame = asked, seen.hash
            missing = []
            if by_element and not matching(seen.tree or [], text, role):
                missing.append(f"no {role or 'element'}{'' if text is None else f' {text[:60]!r}'} shows")
            if url is not None and url not in (seen.url or ""):
                missing.append(f"the address is {(seen.url or '')[:200]!r}")
            if stillness is not None and clock() - since < stillness:
                missing.append("the screen still changes")
            if not missing:
                return seen
            if clock() >= until:
                raise WaitTimeoutError(f"{self.id}: after {timeout_s:g} s, {' and '.join(missing)}")
            await asyncio.sleep(min(_POLL_S, max(until - clock(), 0.0)))

    # -- inside ----------------------------------------------------------------------------------------------

    def _require_tree(self) -> None:
        if "a11y" not in self.features:
            message = 'tells no elements: lease with needs=["a11y"], or click at pixels of a screenshot'
            raise UsageError(f"{self.id} {message}")

    async def _seen(self) -> Observation:
        """What shows, with its tree. Raises UsageError if the device has none."""
        self._require_tree()
        return await self.observe(_TREE)

    async def _spot(self, target: Node | str, role: str | None = None, nth: int = 0) -> tuple[int, int]:
        """The point to click for an element. Raises NotFoundError."""
        seen = await self._seen()
        node = target if isinstance(target, Node) else picked(seen.tree or [], target, role, nth)
        for _ in range(_TRIES):
            if shows := visible(node.box, seen.width, seen.height):
                return centre(shows)
            if node.box[2] <= 0 or node.box[3] <= 0:
                raise NotFoundError(f"{described(node)} has no place on the screen of {self.id}")
            (x, y), middle = centre(node.box), (seen.width // 2, seen.height // 2)
            by = {"dx": x - middle[0], "dy": y - middle[1]}
            await self._do({"type": "scroll", "x": middle[0], "y": middle[1], **by})
            seen = await self._seen()
            same = [one for one in seen.tree or [] if (one.role, one.name) == (node.role, node.name)]
            node = same[0] if same else node
        where = f"({node.box[0]}, {node.box[1]})"
        message = f"{described(node)} lies at {where}, beside the screen of {seen.width}x{seen.height}"
        raise NotFoundError(f"{message}, and scrolling does not bring it there")

    async def _do(self, *told: dict[str, Any]) -> Observation:
        """Carry out actions given as JSON. Raises UsageError if one is none, or could not be done."""
        what = told[-1]["type"]
        try:
            actions = ACTIONS.validate_python(list(told))
        except ValidationError as error:
            raise UsageError(f"{what}: {first_error(error.errors(), skip=2)}") from error
        seen = await self.act(actions, ObserveSpec(page="page" in self.features))
        if seen.action_error is not None:
            raise UsageError(f"{what}: {seen.action_error}")
        return seen
