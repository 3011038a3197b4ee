"""AndroidWorld's actions: `Reason: ...` and then `Action: {"action_type": "click", "x": 1, "y": 2}`.

Format: google-research/android_world, `env/json_action.py` and the prompt of its M3A agent. Coordinates are
pixels of the screenshot; `index`, an element of a list that only its own agents show, is refused. Its quirks:
`input_text` taps the field and presses Enter at the end; `scroll` names what comes into view; `swipe` crosses
the screen, up and down as the finger moves, left and right against it.
"""

import json
from typing import Any

from pydantic import ValidationError

from guiagent.actions import (
    Action,
    Answer,
    Click,
    Done,
    LongPress,
    Open,
    PressButton,
    Scroll,
    Swipe,
    Type,
    Wait,
)
from guiagent.dialects.coordinates import CoordinateSpace, Size
from guiagent.dialects.language import Language, Place, json_objects, optional_number, text_of
from guiagent.errors import DialectError, first_error

_WAIT_MS = 1000  # what wait means to its agents
_SWIPE_MS = 500
_FIELDS = {"action_type", "x", "y", "text", "direction", "goal_status", "app_name", "clear_text"}
_SYSTEM = """\
You operate the Android phone whose screen each picture shows. Answer every picture with
Reason: why the next step helps
Action: one JSON object, in pixels of the picture, from the list:
{"action_type": "click", "x": 0, "y": 0}
{"action_type": "double_tap", "x": 0, "y": 0}
{"action_type": "long_press", "x": 0, "y": 0}
{"action_type": "input_text", "text": "", "x": 0, "y": 0} taps the field, types and presses Enter
{"action_type": "keyboard_enter"}
{"action_type": "navigate_home"}
{"action_type": "navigate_back"}
{"action_type": "scroll", "direction": "up|down|left|right"} shows what lies there
{"action_type": "swipe", "direction": "up|down|left|right"} left starts at the left edge
{"action_type": "open_app", "app_name": ""}
{"action_type": "wait"}
{"action_type": "answer", "text": ""}
{"action_type": "status", "goal_status": "complete|infeasible"}"""
_STEPS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
_BUTTONS = {"keyboard_enter": "enter", "navigate_home": "home", "navigate_back": "back"}
_SPACE = CoordinateSpace("frame")
_STATUS = {"complete": "success", "infeasible": "infeasible"}


def actions_of(said: dict[str, Any], size: Size) -> list[Action]:
    """The actions of one JSON action that is an object already, on a screen of `size` pixels.

    Raises:
        DialectError: it is no action of AndroidWorld.
    """
    try:
        return _actions(said, Place(_SPACE, size))
    except ValidationError as error:
        raise DialectError(first_error(error.errors())) from None


def _read(text: str, place: Place) -> list[Action]:
    return [action for found in json_objects(text) for action in _actions(found, place)]


def _actions(said: dict[str, Any], place: Place) -> list[Action]:
    kind = said.get("action_type")
    if said.get("index") is not None:
        raise DialectError("an element's index says nothing here: give x and y")
    for name, value in said.items():
        if value is not None and name not in _FIELDS:
            raise DialectError(f"an action of AndroidWorld takes no {name[:60]!r} here")

    def point() -> tuple[int, int]:
        return place.pixel(optional_number(said.get("x"), "x"), optional_number(said.get("y"), "y"))

    match kind:
        case "click" | "double_tap":
            x, y = point()
            return [Click(x=x, y=y, count=1 if kind == "click" else 2)]
        case "long_press":
            x, y = point()
            return [LongPress(x=x, y=y)]
        case "input_text":
            typed = Type(
                text=text_of(said.get("text"), "text"), clear=said.get("clear_text") is True, submit=True
            )
            if said.get("x") is None:
                return [typed]
            x, y = point()
            return [Click(x=x, y=y), typed]
        case "keyboard_enter" | "navigate_home" | "navigate_back":
            return [PressButton.model_validate({"button": _BUTTONS[kind]})]
        case "scroll":
            (x, y), (dx, dy) = place.centre, _step(said)
            width, height = place.size
            return [Scroll(x=x, y=y, dx=dx * (width // 2), dy=dy * (height // 2))]
        case "swipe":
            return [_swipe(_step(said), place.size)]
        case "open_app":
            return [Open(target=text_of(said.get("app_name"), "app_name"))]
        case "wait":
            return [Wait(ms=_WAIT_MS)]
        case "answer":
            return [Answer(text=text_of(said.get("text"), "text"))]
        case "status":
            status = said.get("goal_status")
            if not isinstance(status, str) or status not in _STATUS:
                raise DialectError("goal_status is complete or infeasible")
            return [Done.model_validate({"status": _STATUS[status]})]
        case _:
            raise DialectError(f"AndroidWorld has no action {str(kind)[:60]!r}")


def _step(said: dict[str, Any]) -> tuple[int, int]:
    direction = said.get("direction")
    if not isinstance(direction, str) or direction not in _STEPS:
        raise DialectError("direction is up, down, left or right")
    return _STEPS[direction]


def _swipe(step: tuple[int, int], size: Size) -> Swipe:
    """A swipe over the whole screen; one to the left or right goes the other way, as in that environment."""
    (dx, dy), (right, bottom), (x, y) = step, (size[0] - 1, size[1] - 1), (size[0] // 2, size[1] // 2)
    if dx:
        x1, x2 = (0, right) if dx < 0 else (right, 0)
        return Swipe(x1=x1, y1=y, x2=x2, y2=y, ms=_SWIPE_MS)
    y1, y2 = (0, bottom) if dy > 0 else (bottom, 0)
    return Swipe(x1=x, y1=y1, x2=x, y2=y2, ms=_SWIPE_MS)


def _write(action: Action, place: Place) -> str | None:
    said = _say(action, place)
    return json.dumps(said, ensure_ascii=False) if said else None


def _say(action: Action, place: Place) -> dict[str, Any] | None:
    def at(x: int, y: int) -> dict[str, int]:
        x, y = place.units(x, y)
        return {"x": x, "y": y}

    width, height = place.size
    scrolls = {(dx * (width // 2), dy * (height // 2)): name for name, (dx, dy) in _STEPS.items()}
    swipes = {_swipe(step, place.size): name for name, step in _STEPS.items()}
    match action:
        case Click(x=x, y=y, button="left", count=1 | 2 as count, modifiers=()):
            return {"action_type": "click" if count == 1 else "double_tap", **at(x, y)}
        case LongPress(x=x, y=y, ms=800):
            return {"action_type": "long_press", **at(x, y)}
        case Type(text=text, clear=clear, submit=True):
            return {"action_type": "input_text", "text": text, **({"clear_text": True} if clear else {})}
        case PressButton(button="enter" | "home" | "back" as button):
            return {"action_type": next(name for name, ours in _BUTTONS.items() if ours == button)}
        case Scroll(x=x, y=y, dx=dx, dy=dy) if (x, y) == place.centre and (dx, dy) in scrolls:
            return {"action_type": "scroll", "direction": scrolls[dx, dy]}
        case Swipe() if action in swipes:
            return {"action_type": "swipe", "direction": swipes[action]}
        case Open(target=target):
            return {"action_type": "open_app", "app_name": target}
        case Wait(ms=ms) if ms == _WAIT_MS:
            return {"action_type": "wait"}
        case Answer(text=text):
            return {"action_type": "answer", "text": text}
        case Done(status="success" | "infeasible" as status, evidence=()):
            return {"action_type": "status", "goal_status": "complete" if status == "success" else status}
        case _:
            return None


def androidworld() -> Language:
    """The dialect of AndroidWorld's JSON actions."""
    return Language(
        "androidworld",
        _SYSTEM,
        _SPACE,
        _read,
        _write,
        join=lambda words: "\n".join(f"Action: {word}" for word in words),
    )
