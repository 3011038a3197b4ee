"""OpenAI's computer tool: `{"type": "click", "button": "left", "x": 1, "y": 2}`, alone or several at once.

Format: https://platform.openai.com/docs/guides/tools-computer-use ; a `computer_call` has one `action`, or
`actions` in order. Coordinates are pixels of the screenshot. A reply without a call is what the agent says at
the end.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from guiagent.actions import Action, Click, Drag, KeyChord, Modifier, Move, Scroll, Type, Wait
from guiagent.dialects.coordinates import CoordinateSpace
from guiagent.dialects.keys import read_key, write_key
from guiagent.dialects.language import Language, Place, json_objects, scroll_distance, typed
from guiagent.errors import DialectError

_WAIT_MS = 2000  # what wait means to these models
_SYSTEM = """\
You operate the device whose screen each picture shows. Answer every picture with one JSON object, or a \
list of them, in pixels of the picture:
{"type": "click", "button": "left|right|wheel|back|forward", "x": 0, "y": 0, "keys": []}
{"type": "double_click", "x": 0, "y": 0}
{"type": "drag", "path": [{"x": 0, "y": 0}, {"x": 9, "y": 9}]}
{"type": "move", "x": 0, "y": 0}
{"type": "scroll", "x": 0, "y": 0, "scroll_x": 0, "scroll_y": 100}
{"type": "keypress", "keys": ["CTRL", "A"]}
{"type": "type", "text": ""}
{"type": "wait"}
{"type": "screenshot"}
When the task is done, answer in plain words instead."""
_BUTTONS = {"left": "left", "right": "right", "wheel": "middle", "back": "back", "forward": "forward"}
_BUTTON_NAMES = {ours: theirs for theirs, ours in _BUTTONS.items()}
_MODIFIERS = ("Alt", "Control", "Meta", "Shift")
_Keys = Annotated[list[str], msgspec.Meta(max_length=5)]
_NoKeys = Annotated[list[str], msgspec.Meta(max_length=0)]  # none can be held here


class _Point(msgspec.Struct):
    x: float
    y: float


class _Click(msgspec.Struct, tag="click", forbid_unknown_fields=True):
    x: float
    y: float
    button: Literal["left", "right", "wheel", "back", "forward"] = "left"
    keys: _Keys | None = None


class _DoubleClick(msgspec.Struct, tag="double_click", forbid_unknown_fields=True):
    x: float
    y: float
    keys: _Keys | None = None


class _Drag(msgspec.Struct, tag="drag", forbid_unknown_fields=True):
    path: list[_Point | Annotated[list[float], msgspec.Meta(min_length=2, max_length=2)]]
    keys: _NoKeys | None = None


class _Move(msgspec.Struct, tag="move", forbid_unknown_fields=True):
    x: float
    y: float
    keys: _NoKeys | None = None


class _Scroll(msgspec.Struct, tag="scroll", forbid_unknown_fields=True):
    x: float
    y: float
    scroll_x: float = 0.0
    scroll_y: float = 0.0
    keys: _NoKeys | None = None


class _Keypress(msgspec.Struct, tag="keypress", forbid_unknown_fields=True):
    keys: Annotated[list[str], msgspec.Meta(min_length=1, max_length=5)]


class _Type(msgspec.Struct, tag="type", forbid_unknown_fields=True):
    text: str


class _Wait(msgspec.Struct, tag="wait", forbid_unknown_fields=True):
    pass


class _Screenshot(msgspec.Struct, tag="screenshot", forbid_unknown_fields=True):
    pass


_Any = _Click | _DoubleClick | _Drag | _Move | _Scroll | _Keypress | _Type | _Wait | _Screenshot


def _read(text: str, place: Place) -> list[Action]:
    return [_action(typed(found, _Any), place) for one in json_objects(text) for found in _unwrapped(one)]


def _unwrapped(found: dict[str, Any]) -> Sequence[Any]:
    """The actions of a `computer_call` item; an action itself is one.

    Raises DialectError for a call with a pending safety check, which only a person may acknowledge.
    """
    if found.get("pending_safety_checks"):
        raise DialectError("the call has a pending safety check: a person has to acknowledge it first")
    if found.get("type") != "computer_call":
        return [found]
    several = found.get("actions")
    return several if isinstance(several, list) else [found.get("action")]


def _action(said: _Any, place: Place) -> Action:
    match said:
        case _Click(x=x, y=y, button=button, keys=keys):
            return _click(place.pixel(x, y), _BUTTONS[button], 1, keys)
        case _DoubleClick(x=x, y=y, keys=keys):
            return _click(place.pixel(x, y), "left", 2, keys)
        case _Drag(path=path):
            ends = [(one.x, one.y) if isinstance(one, _Point) else (one[0], one[1]) for one in path]
            return Drag(path=tuple(place.pixel(*one) for one in ends))
        case _Move(x=x, y=y):
            px, py = place.pixel(x, y)
            return Move(x=px, y=py)
        case _Scroll(x=x, y=y, scroll_x=dx, scroll_y=dy):
            px, py = place.pixel(x, y)
            return Scroll(x=px, y=py, dx=scroll_distance(dx), dy=scroll_distance(dy))
        case _Keypress(keys=keys):
            return KeyChord(keys=_chord(keys))
        case _Type(text=text):
            return Type(text=text.removesuffix("\n"), submit=text.endswith("\n"))
        case _Wait():
            return Wait(ms=_WAIT_MS)
        case _Screenshot():  # every action is answered with one
            return Wait(ms=0)


def _chord(keys: Sequence[str]) -> tuple[str, ...]:
    """The keys of a chord, whose letters these models write large without meaning Shift."""
    return tuple(read_key(key.lower() if len(keys) > 1 else key) for key in keys)


def _click(pixel: tuple[int, int], button: str, count: int, keys: Sequence[str] | None) -> Click:
    held = [read_key(key) for key in keys or ()]
    if not set(held) <= set(_MODIFIERS):
        raise DialectError(f"only {', '.join(_MODIFIERS)} are held at a click, not {', '.join(held)}"[:200])
    x, y = pixel
    return Click.model_validate({"x": x, "y": y, "button": button, "count": count, "modifiers": held})


def _write(action: Action, place: Place) -> str | None:
    said = _say(action, place)
    return json.dumps(said, ensure_ascii=False) if said else None


def _say(action: Action, place: Place) -> dict[str, Any] | None:
    def at(x: int, y: int) -> dict[str, int]:
        x, y = place.units(x, y)
        return {"x": x, "y": y}

    match action:
        case Click(x=x, y=y, count=1, button=button):
            return {"type": "click", "button": _BUTTON_NAMES[button], **at(x, y), **_held(action.modifiers)}
        case Click(x=x, y=y, count=2, button="left"):
            return {"type": "double_click", **at(x, y), **_held(action.modifiers)}
        case Drag(path=path, button="left"):
            return {"type": "drag", "path": [at(*one) for one in path]}
        case Move(x=x, y=y):
            return {"type": "move", **at(x, y)}
        case Scroll(x=x, y=y, dx=dx, dy=dy):
            return {"type": "scroll", **at(x, y), "scroll_x": dx, "scroll_y": dy}
        case KeyChord(keys=(key,)):
            return {"type": "keypress", "keys": [key if len(key) == 1 else write_key(key).upper()]}
        case KeyChord(keys=keys) if all(len(key) > 1 or key == key.lower() for key in keys):
            return {"type": "keypress", "keys": [write_key(key).upper() for key in keys]}
        case Type(text=text, clear=False, submit=submit) if submit or not text.endswith("\n"):
            return {"type": "type", "text": text + "\n" * submit}
        case Wait(ms=ms):
            return {"type": "wait" if ms else "screenshot"}
        case _:
            return None


def _held(modifiers: Sequence[Modifier]) -> dict[str, list[str]]:
    return {"keys": [write_key(key).upper() for key in modifiers]} if modifiers else {}


def openai_computer() -> Language:
    """The dialect of OpenAI's computer tool."""
    return Language("openai-computer", _SYSTEM, CoordinateSpace("frame"), _read, _write, speaks=True)
