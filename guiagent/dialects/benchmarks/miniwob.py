"""MiniWoB++'s actions: `{"action_type": "CLICK_COORDS", "coords": [x, y]}`.

Format: Farama-Foundation/miniwob-plusplus, `miniwob/action.py` and `miniwob/constants.py`: the names of its
action types and keys; coordinates are pixels of the page. A wheel turns by 50 px. Keys are characters or
`<Names>`, with `C-`, `A-`, `M-` and `S-` for keys that are held. Elements by `ref` and fields by number mean
something only to its own environment, and are refused. There is no word for being done: the page knows.
"""

import json
from typing import Any

from guiagent.actions import (
    Action,
    Click,
    KeyChord,
    MouseDown,
    MouseUp,
    Move,
    Scroll,
    Type,
    Wait,
)
from guiagent.dialects.coordinates import CoordinateSpace
from guiagent.dialects.keys import read_key
from guiagent.dialects.language import Language, Place, excerpt, json_objects, number, text_of
from guiagent.errors import DialectError

_SCROLL = 50  # pixels
_MOST_TYPED = 64  # characters of one action
_FIELDS = {"action_type", "coords", "key", "text"}
_HELD = {"C-": "Control", "A-": "Alt", "M-": "Meta", "S-": "Shift"}
_NUMPAD = {"Add": "+", "Multiply": "*", "Subtract": "-", "Divide": "/", "Decimal": ".", "Enter": "Enter"}
_SYSTEM = """\
You operate the page that each picture shows. Answer every picture with one JSON object from the list, in \
pixels of the picture:
{"action_type": "NONE"}
{"action_type": "MOVE_COORDS", "coords": [x, y]}
{"action_type": "CLICK_COORDS", "coords": [x, y]}
{"action_type": "DBLCLICK_COORDS", "coords": [x, y]}
{"action_type": "MOUSEDOWN_COORDS", "coords": [x, y]}
{"action_type": "MOUSEUP_COORDS", "coords": [x, y]}
{"action_type": "SCROLL_UP_COORDS", "coords": [x, y]}
{"action_type": "SCROLL_DOWN_COORDS", "coords": [x, y]}
{"action_type": "PRESS_KEY", "key": "<Enter>"} a character or a name in brackets, after C-, A-, M- or S- for \
Control, Alt, Meta or Shift
{"action_type": "TYPE_TEXT", "text": ""}"""


def _read(text: str, place: Place) -> list[Action]:
    return [_action(found, place) for found in json_objects(text)]


def _action(said: dict[str, Any], place: Place) -> Action:
    if unknown := next((name for name in said if name not in _FIELDS), None):
        raise DialectError(f"an action of MiniWoB++ takes no {unknown[:60]!r} here: say where, in pixels")

    def point() -> tuple[int, int]:
        match said.get("coords"):
            case [x, y]:
                return place.pixel(number(x, "x"), number(y, "y"))
            case _:
                raise DialectError(f"{excerpt(str(said['action_type']))} needs coords as [x, y]")

    match said.get("action_type"):
        case "NONE":
            return Wait(ms=0)
        case "MOVE_COORDS":
            x, y = point()
            return Move(x=x, y=y)
        case "CLICK_COORDS" | "DBLCLICK_COORDS" as kind:
            x, y = point()
            return Click(x=x, y=y, count=1 if kind == "CLICK_COORDS" else 2)
        case "MOUSEDOWN_COORDS":
            x, y = point()
            return MouseDown(x=x, y=y)
        case "MOUSEUP_COORDS":
            x, y = point()
            return MouseUp(x=x, y=y)
        case "SCROLL_UP_COORDS" | "SCROLL_DOWN_COORDS" as kind:
            x, y = point()
            return Scroll(x=x, y=y, dy=_SCROLL if kind == "SCROLL_DOWN_COORDS" else -_SCROLL)
        case "PRESS_KEY":
            return KeyChord(keys=_keys(text_of(said.get("key"), "key")))
        case "TYPE_TEXT":
            return Type(text=text_of(said.get("text"), "text"))
        case unknown:
            raise DialectError(f"MiniWoB++ has no action {excerpt(str(unknown))} by place")


def _keys(key: str) -> tuple[str, ...]:
    held = []
    while len(key) > 2 and key[:2] in _HELD:
        held.append(_HELD[key[:2]])
        key = key[2:]
    name = key[1:-1] if len(key) > 2 and key[0] == "<" and key[-1] == ">" else ""
    if len(key) != 1 and not name:
        raise DialectError(f"no key is called {excerpt(key)}")
    if name.startswith("Numpad"):
        rest = name.removeprefix("Numpad")
        name = _NUMPAD.get(rest, rest)
    return (*held, read_key(name or key))


def _write(action: Action, place: Place) -> str | None:
    said = _say(action, place)
    return json.dumps(said, ensure_ascii=False) if said else None


def _say(action: Action, place: Place) -> dict[str, Any] | None:
    def at(kind: str, x: int, y: int) -> dict[str, Any]:
        return {"action_type": f"{kind}_COORDS", "coords": list(place.units(x, y))}

    match action:
        case Click(x=x, y=y, button="left", count=1 | 2 as count, modifiers=()):
            return at("CLICK" if count == 1 else "DBLCLICK", x, y)
        case Move(x=x, y=y):
            return at("MOVE", x, y)
        case MouseDown(x=x, y=y, button="left"):
            return at("MOUSEDOWN", x, y)
        case MouseUp(x=x, y=y, button="left"):
            return at("MOUSEUP", x, y)
        case Scroll(x=x, y=y, dx=0, dy=dy) if dy:
            return at("SCROLL_DOWN" if dy > 0 else "SCROLL_UP", x, y)
        case KeyChord(keys=(*held, key)) if set(held) <= set(_HELD.values()):
            names = {ours: theirs for theirs, ours in _HELD.items()}
            return {"action_type": "PRESS_KEY", "key": "".join(names[one] for one in held) + _named(key)}
        case Type(text=text, clear=False, submit=False) if len(text) <= _MOST_TYPED:
            return {"action_type": "TYPE_TEXT", "text": text}
        case Wait(ms=0):
            return {"action_type": "NONE"}
        case _:
            return None


def _named(key: str) -> str:
    if key == " ":
        return "<Space>"
    return key if len(key) == 1 else f"<{key}>"


def miniwob() -> Language:
    """The dialect of MiniWoB++'s actions by place."""
    return Language("miniwob", _SYSTEM, CoordinateSpace("frame"), _read, _write)
