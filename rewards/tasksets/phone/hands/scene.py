"""A phone's screen as the oracle sees it, and the actions of a finger on it. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from guiagent.actions import Action, Click, Drag, LongPress, PressButton, Scroll, Type
from guiagent.nodes import is_field
from guiagent.types import Box, Node

LAUNCHER = "com.android.launcher3"
_PLACES = (0.5, 0.25, 0.75, 0.1)  # of an element's width, from the left: where a finger may touch it
THIN = 8  # pixels: less of an element than this is no place to touch
_BAR = 16  # pixels around the words of a bar
_MARGIN = 5  # pixels beside what must not be touched: a dialect rounds places
BACK, HOME = PressButton(button="back"), PressButton(button="home")


@dataclass(frozen=True)
class Scene:
    """What a phone shows.

    Attributes:
        package: of the app in front.
        activity: the name of its screen on top, such as ".EditActivity".
        parameters: what that screen was opened with, such as the key of the row that it shows.
        recent: packages that were opened since the phone was reset.
        nodes: the app's part of the accessibility tree, from back to front.
        size: of the frame, in pixels.
        keyboard: whether the phone's keyboard is there.
        toast: what the phone says of the last input until the next one.
    """

    package: str
    activity: str
    nodes: Sequence[Node]
    size: tuple[int, int]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    recent: Sequence[str] = ()
    keyboard: bool = False
    toast: str = ""

    # -- what is there ---------------------------------------------------------------------------------------

    def find(self, name: str, role: str | None = None, *, last: bool = False) -> Node | None:
        """The first node of exactly this name, or the last."""
        return self.that(lambda node: node.name == name and role in (None, node.role), last=last)

    def that(self, fits: Callable[[Node], bool], *, last: bool = False) -> Node | None:
        nodes = reversed(self.nodes) if last else self.nodes
        return next((node for node in nodes if fits(node)), None)

    def shows(self, text: str) -> bool:
        """Whether a name or a value on the screen has this text in it."""
        return any(text in node.name or text in node.value for node in self.nodes)

    def field(self, name: str) -> Node | None:
        return self.that(lambda node: is_field(node) and node.name == name)

    def inside(self, around: Node, role: str, *, clickable: bool = False) -> Node | None:
        """The first node of a role directly inside another, as a switch is inside its row."""
        return self.that(
            lambda node: (
                node.parent == around.id
                and node.role == role
                and (not clickable or "clickable" in node.states)
            )
        )

    def around(self, node: Node) -> Node | None:
        return self.that(lambda one: one.id == node.parent)

    @property
    def title(self) -> str:
        """The name in the app's bar, which is the first text of a screen."""
        return next((node.name for node in self.nodes if node.role == "text"), "")

    @property
    def dialog(self) -> bool:
        """Whether a dialog with buttons lies over the screen, whose tree has nothing else then."""
        beside = self.find("Stopwatch") or self.shows(" here?")  # screens with such a button of their own
        return self.find("Cancel", "button") is not None and not beside

    @cached_property
    def _by_id(self) -> dict[str, Node]:
        return {node.id: node for node in self.nodes}

    # -- what a finger does ----------------------------------------------------------------------------------

    def tap(self, node: Node) -> Action:
        """Touch an element; scroll first if something in front covers it, or too little of it shows."""
        spot = self._free(node)
        return Click(x=spot[0], y=spot[1]) if spot else self._free_by_scrolling(node)

    def hold(self, node: Node) -> Action:
        spot = self._free(node)
        return LongPress(x=spot[0], y=spot[1]) if spot else self._free_by_scrolling(node)

    def tap_low(self, node: Node) -> Action:
        """Tap the lower end of a large field, which puts the cursor behind all that it says."""
        left, top, width, height = node.box
        return Click(x=left + width // 2, y=top + height - 1 - min(height // 8, 8))

    def slide(self, node: Node, *, up: bool) -> Action:
        """Drag a slider to its end, and beyond it."""
        spot = self._free(node)
        if spot is None:
            return self._free_by_scrolling(node)
        return Drag(path=(spot, (self.size[0] - 1 if up else 0, spot[1])))

    def scroll(self, *, down: bool = True) -> Action:
        """Scroll the list by half a screen; with the keyboard in the way, put it away first."""
        if self.keyboard:
            return BACK
        lists = [node for node in self.nodes if "scrollable" in node.states]
        body = max(lists, key=lambda node: node.box[2] * node.box[3], default=None)
        left, top, width, height = body.box if body else (0, 0, *self.size)
        half = self.size[1] // 2
        x, middle = left + width // 2, top + height // 2
        shut = [_with_margin(node.box) for node in self.nodes if node.role == "slider"]
        if body is not None:  # what lies over the list, such as the bar that says what was done
            after = self.nodes[self.nodes.index(body) + 1 :]
            shut += [_with_margin(node.box, _BAR) for node in after if not self._within(node, body)]
        for y in sorted(range(top, top + height), key=lambda y: abs(y - middle)):
            start = y + (half // 2 if down else -half // 2)  # of the finger, which would move a slider
            if top <= start < top + height and not any(_has(box, x, start) for box in shut):
                return Scroll(x=x, y=y, dy=half if down else -half)
        return Scroll(x=x, y=middle, dy=half if down else -half)

    def tap_in(self, name: str, order: Sequence[str] = (), role: str | None = None) -> Action:
        """Tap the element of this name, or scroll towards it: `order` names the list from top to bottom."""
        node = self.find(name, role)
        return self.tap(node) if node else self.towards(name, order)

    def towards(self, name: str, order: Sequence[str] = ()) -> Action:
        """Scroll to where `name` is in a list whose elements are in this order; down if nothing tells."""
        seen = [number for number, one in enumerate(order) if self.find(one)]
        above = name in order and bool(seen) and min(seen) > list(order).index(name)
        return self.scroll(down=not above)

    def _free_by_scrolling(self, node: Node) -> Action:
        return self.scroll(down=2 * node.box[1] > self.size[1])

    def _free(self, node: Node) -> tuple[int, int] | None:
        """A pixel of the node that nothing in front of it covers."""
        left, top, width, height = node.box
        if height < THIN:
            return None
        spots = [(left + int(width * part), top + height // 2) for part in _PLACES]
        before = self.nodes[self.nodes.index(node) + 1 :] if node in self.nodes else []
        others = [
            one.box if one.parent == node.parent else _with_margin(one.box)  # as the words of one row have
            for one in before
            if _overlap(one.box, node.box) and not self._within(one, node)
        ]
        return next((spot for spot in spots if not any(_has(one, *spot) for one in others)), None)

    def _within(self, node: Node, around: Node) -> bool:
        parent = node.parent
        while parent is not None and parent in self._by_id:
            if parent == around.id:
                return True
            parent = self._by_id[parent].parent
        return False


def _with_margin(box: Box, margin: int = _MARGIN) -> Box:
    left, top, width, height = box
    return left - margin, top - margin, width + 2 * margin, height + 2 * margin


def _overlap(one: Box, other: Box) -> bool:
    return all(one[n] < other[n] + other[n + 2] and other[n] < one[n] + one[n + 2] for n in (0, 1))


def _has(box: Box, x: int, y: int) -> bool:
    left, top, width, height = box
    return left <= x < left + width and top <= y < top + height


def opened(scene: Scene, package: str, label: str) -> Action | None:
    """The next action to bring an app to the front from the home screen; None if it is there."""
    if scene.package == package:
        return None
    if scene.package != LAUNCHER or scene.activity == ".RecentsActivity":
        return HOME
    icon = scene.find(label, "button")
    if icon is not None:
        return scene.tap(icon)
    apps = scene.find("Apps list", "button")
    return scene.tap(apps) if apps else scene.scroll()


def typing(scene: Scene, box: Node, text: str, *, submit: bool = False) -> Action:
    """The next action to make a field say `text`: touch it, touch it long to select what it says, or type."""
    said = "" if box.value in (box.name, *_HINTS) else box.value
    ready = "focused" in box.states and (not said or "selected" in box.states)
    if ready:
        return Type(text=text, submit=submit)
    return scene.hold(box) if said else scene.tap(box)


_HINTS = ("Text message", "Write here")  # what an empty field without a label of its own shows
