"""Anthropic's computer tools: `{"action": "left_click", "coordinate": [x, y]}`, by the date of the tool.

Format: https://docs.claude.com/en/docs/agents-and-tools/tool-use/computer-use-tool ; 20241022 has keys, text,
the pointer, clicks and drags; 20250124 adds scroll, wait, hold_key, triple_click and the buttons by
themselves; 20251124 adds zoom. Coordinates are pixels of the picture as the API shrinks it. A reply without a
call is what the agent says at the end.
"""

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from guiagent.actions import (
    Action,
    Click,
    Drag,
    KeyChord,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Scroll,
    Type,
    Wait,
    Zoom,
)
from guiagent.dialects.coordinates import CoordinateSpace
from guiagent.dialects.keys import read_key, write_key
from guiagent.dialects.language import (
    MAX_ACTIONS,
    NOTCH,
    Language,
    Place,
    json_objects,
    milliseconds,
    typed,
)
from guiagent.errors import DialectError

Given = TypeVar("Given")
Version = Literal["20241022", "20250124", "20251124"]
_CLICKS = {
    "left_click": ("left", 1),
    "right_click": ("right", 1),
    "middle_click": ("middle", 1),
    "double_click": ("left", 2),
    "triple_click": ("left", 3),
}
_CLICK_NAMES = {done: name for name, done in _CLICKS.items()}
_SINCE: dict[Version, dict[str, str]] = {  # what each version adds: actions and their other arguments
    "20241022": {
        "key": '"text": "ctrl+s"',
        "type": '"text": ""',
        "mouse_move": '"coordinate": [x, y]',
        "left_click": '"coordinate": [x, y]',
        "left_click_drag": '"start_coordinate": [x, y], "coordinate": [x, y]',
        "right_click": '"coordinate": [x, y]',
        "middle_click": '"coordinate": [x, y]',
        "double_click": '"coordinate": [x, y]',
        "screenshot": "",
    },
    "20250124": {
        "triple_click": '"coordinate": [x, y]',
        "left_mouse_down": "",
        "left_mouse_up": "",
        "scroll": '"coordinate": [x, y], "scroll_direction": "up|down|left|right", "scroll_amount": 3',
        "hold_key": '"text": "shift", "duration": 1',
        "wait": '"duration": 1',
    },
    "20251124": {"zoom": '"region": [x1, y1, x2, y2]'},
}
_NAMES = re.compile(r'"(\w+)":')
_ALSO = {  # arguments that the prompt does not speak of
    **dict.fromkeys(_CLICKS, ("text",)),  # keys that are held
    "key": ("repeat",),
    "left_mouse_down": ("coordinate",),
    "left_mouse_up": ("coordinate",),
}
_STEPS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
_MODIFIERS = {"Alt", "Control", "Meta", "Shift"}
_Pair = Annotated[list[float], msgspec.Meta(min_length=2, max_length=2)]


class _Input(msgspec.Struct, forbid_unknown_fields=True):
    """Every argument of every action; those that an action does not take are refused."""

    action: str
    coordinate: _Pair | None = None
    start_coordinate: _Pair | None = None
    region: Annotated[list[float], msgspec.Meta(min_length=4, max_length=4)] | None = None
    text: str | None = None
    scroll_direction: Literal["up", "down", "left", "right"] | None = None
    scroll_amount: float | None = None
    duration: float | None = None
    repeat: Annotated[int, msgspec.Meta(ge=1, le=MAX_ACTIONS)] | None = None


class _Computer:
    """Reads and writes one version of the tool."""

    def __init__(self, version: Version) -> None:
        versions = list(_SINCE)
        self.actions = {
            name: arguments
            for one in versions[: versions.index(version) + 1]
            for name, arguments in _SINCE[one].items()
        }

    def read(self, text: str, place: Place) -> list[Action]:
        actions: list[Action] = []
        for found in json_objects(text):
            inner = found.get("input", found) if found.get("type") == "tool_use" else found
            actions += self._actions(typed(inner, _Input), place)
        return actions

    def _actions(self, said: _Input, place: Place) -> Sequence[Action]:
        def point(pair: list[float] | None) -> tuple[int, int]:
            place.pointer = place.pixel(*(pair or (None, None)))
            return place.pointer

        if said.action not in self.actions:
            raise DialectError(f"this version of the tool has no action {said.action[:60]!r}")
        takes = {"action", *_NAMES.findall(self.actions[said.action]), *_ALSO.get(said.action, ())}
        for name in said.__struct_fields__:
            if name not in takes and getattr(said, name) is not None:
                raise DialectError(f"{said.action} takes no {name} here")
        match said.action:
            case "mouse_move":
                x, y = point(said.coordinate)
                return [Move(x=x, y=y)]
            case "left_click_drag":
                start = point(said.start_coordinate)  # the first version drags from the pointer
                return [Drag(path=(start, point(said.coordinate)))]
            case "left_mouse_down" | "left_mouse_up":
                x, y = point(said.coordinate)
                return [MouseDown(x=x, y=y) if said.action.endswith("down") else MouseUp(x=x, y=y)]
            case "key":
                return [KeyChord(keys=_keys(said.text))] * (said.repeat or 1)
            case "hold_key":
                keys = _keys(said.text)
                held = Wait(ms=milliseconds(1.0 if said.duration is None else said.duration))
                return [*(KeyDown(key=k) for k in keys), held, *(KeyUp(key=k) for k in reversed(keys))]
            case "type":
                text = _needed(said.text, "text")
                return [Type(text=text.removesuffix("\n"), submit=text.endswith("\n"))]
            case "scroll":
                x, y = point(said.coordinate)
                dx, dy = _STEPS[_needed(said.scroll_direction, "scroll_direction")]
                notches = _needed(said.scroll_amount, "scroll_amount")
                if not 0 <= notches <= 100:
                    raise DialectError(f"nobody turns the wheel by {notches} notches")
                distance = round(NOTCH * notches)
                return [Scroll(x=x, y=y, dx=dx * distance, dy=dy * distance)]
            case "zoom":
                x1, y1, x2, y2 = _needed(said.region, "region")
                return [Zoom(region=(*place.pixel(x1, y1), *place.pixel(x2, y2)))]
            case "wait":
                return [Wait(ms=milliseconds(_needed(said.duration, "duration")))]
            case "screenshot":  # every action is answered with one
                return [Wait(ms=0)]
            case _:
                (x, y), (button, count) = point(said.coordinate), _CLICKS[said.action]
                held_keys = _keys(said.text) if said.text else ()
                if not _MODIFIERS.issuperset(held_keys):
                    raise DialectError(f"only {', '.join(sorted(_MODIFIERS))} are held at a click")
                click = {"x": x, "y": y, "button": button, "count": count, "modifiers": held_keys}
                return [Click.model_validate(click)]

    def write(self, action: Action, place: Place) -> str | None:
        said = _say(action, place)
        return json.dumps(said, ensure_ascii=False) if said and said["action"] in self.actions else None


def _keys(text: str | None) -> tuple[str, ...]:
    """The keys of a chord in xdotool's words, such as "ctrl+s"."""
    said = _needed(text, "text")
    return tuple(read_key(key) for key in (said.split("+") if len(said) > 1 else [said]))


def _needed(value: Given | None, what: str) -> Given:
    if value is None:
        raise DialectError(f"the action needs {what}")
    return value


def _say(action: Action, place: Place) -> dict[str, Any] | None:
    def at(x: int, y: int) -> list[int]:
        return list(place.units(x, y))

    match action:
        case Click(x=x, y=y, modifiers=held) if (action.button, action.count) in _CLICK_NAMES:
            keys = {"text": "+".join(write_key(key) for key in held)} if held else {}
            return {"action": _CLICK_NAMES[action.button, action.count], "coordinate": at(x, y), **keys}
        case Move(x=x, y=y):
            return {"action": "mouse_move", "coordinate": at(x, y)}
        case Drag(path=(start, end), button="left"):
            return {"action": "left_click_drag", "start_coordinate": at(*start), "coordinate": at(*end)}
        case MouseDown(x=x, y=y, button="left") if place.pointer == (x, y):
            return {"action": "left_mouse_down"}
        case MouseUp(x=x, y=y, button="left") if place.pointer == (x, y):
            return {"action": "left_mouse_up"}
        case KeyChord(keys=keys) if "+" not in keys or keys == ("+",):
            return {"action": "key", "text": "+".join(write_key(key) for key in keys)}
        case Type(text=text, clear=False, submit=submit) if submit or not text.endswith("\n"):
            return {"action": "type", "text": text + "\n" * submit}
        case Scroll(x=x, y=y, dx=dx, dy=dy) if (dx == 0) != (dy == 0) and (dx + dy) % NOTCH == 0:
            direction = ("down" if dy > 0 else "up") if dy else ("right" if dx > 0 else "left")
            amount = abs(dx + dy) // NOTCH
            return {
                "action": "scroll",
                "coordinate": at(x, y),
                "scroll_direction": direction,
                "scroll_amount": amount,
            }
        case Wait(ms=0):
            return {"action": "screenshot"}
        case Wait(ms=ms):
            return {"action": "wait", "duration": ms / 1000}
        case Zoom(region=(x1, y1, x2, y2)):
            return {"action": "zoom", "region": [*at(x1, y1), *at(x2, y2)]}
        case _:
            return None


def anthropic_computer(version: Version) -> Language:
    """The dialect of one version of the tool."""
    tool = _Computer(version)
    lines = "\n".join(
        f'{{"action": "{name}"{", " if arguments else ""}{arguments}}}'
        for name, arguments in tool.actions.items()
    )
    system = (
        "You operate the device whose screen each picture shows. Answer every picture with one JSON object, "
        f"in pixels of the picture:\n{lines}\nWhen the task is done, answer in plain words instead."
    )
    return Language(
        f"anthropic-{version}", system, CoordinateSpace("fitted"), tool.read, tool.write, speaks=True
    )
