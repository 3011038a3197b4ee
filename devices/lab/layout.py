"""The layout of a screen: which box each control has, in pixels."""

from typing import Literal, NamedTuple

from devices.lab.theme import Theme
from guiagent.lab.state import BACK, POPUP, AppState, Tap, furthest, rows, value
from guiagent.lab.world import World

Role = Literal["link", "switch", "textbox", "button", "text", "heading", "dialog"]
_HEADER = 0.125  # of the height
_ROLES: dict[str, Role] = {
    "link": "link",
    "toggle": "switch",
    "field": "textbox",
    "save": "button",
    "fact": "text",
}


class Box(NamedTuple):
    """A part of the picture; `value` is what its control is set to, or what a fact says."""

    key: str
    role: Role
    label: str
    value: str | bool
    left: int
    top: int
    width: int
    height: int
    focused: bool = False

    @property
    def centre(self) -> tuple[int, int]:
        return self.left + self.width // 2, self.top + self.height // 2

    def has(self, x: int, y: int) -> bool:
        return self.left <= x < self.left + self.width and self.top <= y < self.top + self.height


def layout(world: World, state: AppState, theme: Theme, size: tuple[int, int]) -> list[Box]:
    """The boxes of what is on the display, from back to front; the last one at a point has its taps."""
    width, height = size
    screen, fit = world.screens[state.screen], state.app.rows
    tall = row_height(size, fit)
    head = height - fit * tall
    down = 0 if theme.header == "top" else height - head
    first = head if theme.header == "top" else 0
    boxes = [Box("", "heading", screen.title, "", 0, down, width, head)]
    if screen.up >= 0:
        left = 0 if theme.back == "left" else width - head
        boxes.append(Box(BACK, "button", "Back", "", left, down, head, head))
    for index, one in enumerate(rows(world, state)[state.top : state.top + fit]):
        shown = (
            one.value if one.kind == "fact" else value(state, one) if one.kind in ("toggle", "field") else ""
        )
        top = first + index * tall
        boxes.append(
            Box(one.key, _ROLES[one.kind], one.label, shown, 0, top, width, tall, one.key == state.focus)
        )
    if state.popup:
        wide, high = width * 3 // 4, height // 3
        left, top = (width - wide) // 2, (height - high) // 2
        boxes.append(Box("", "dialog", "Rate this app?", "", left, top, wide, high))
        boxes.append(
            Box(POPUP, "button", "Not now", "", left + wide // 6, top + high // 2, wide * 2 // 3, high // 3)
        )
    return boxes


def row_height(size: tuple[int, int], fit: int) -> int:
    """The height in pixels of each of `fit` rows below the header, which has what is left."""
    return int(size[1] * (1 - _HEADER)) // fit


def tapped(boxes: list[Box], x: int, y: int) -> Tap | None:
    """The tap that a click at a point is; None where nothing can be pressed."""
    box = next((one for one in reversed(boxes) if one.has(x, y)), None)
    return Tap(box.key) if box is not None and box.key else None


def scrolled(world: World, state: AppState) -> tuple[float, float] | None:
    """Where the visible part of a long screen begins and ends, as shares of it; None if all is visible."""
    count, fit = len(world.screens[state.screen].rows), state.app.rows
    if not furthest(world.screens[state.screen], fit):
        return None
    return state.top / count, min(1.0, (state.top + fit) / count)
