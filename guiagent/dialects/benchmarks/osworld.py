"""OSWorld's two action spaces: `computer_13`, which is JSON, and programs of pyautogui calls.

Format: xlang-ai/OSWorld, `desktop_env/actions.py` and `mm_agents/prompts.py`. OSWorld runs such programs as
they are; here they are read from a syntax tree, calls with literal arguments only, and everything else is
refused. Coordinates are pixels of the screenshot. WAIT, DONE and FAIL are words of both. What happens at the
pointer happens where the same reply has moved it, and a wheel at the middle of the screen otherwise.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from guiagent.actions import (
    Action,
    Click,
    Done,
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
)
from guiagent.dialects.coordinates import CoordinateSpace
from guiagent.dialects.keys import read_key, write_key
from guiagent.dialects.language import (
    NOTCH,
    Call,
    Language,
    Place,
    calls,
    code_of,
    json_objects,
    milliseconds,
    number,
    optional_number,
    text_of,
)
from guiagent.errors import DialectError

_WORDS: dict[str, Action] = {"WAIT": Wait(ms=2000), "DONE": Done(), "FAIL": Done(status="infeasible")}
_MOST_NOTCHES = 100
_COMPUTER_13 = """\
You operate the computer whose screen each picture shows. Answer every picture with one JSON object in a \
code fence, in pixels of the picture:
{"action_type": "MOVE_TO", "x": 0, "y": 0}
{"action_type": "CLICK", "button": "left|right|middle", "x": 0, "y": 0, "num_clicks": 1}
{"action_type": "RIGHT_CLICK", "x": 0, "y": 0}
{"action_type": "DOUBLE_CLICK", "x": 0, "y": 0}
{"action_type": "MOUSE_DOWN", "button": "left"} and {"action_type": "MOUSE_UP", "button": "left"}
{"action_type": "DRAG_TO", "x": 0, "y": 0} from where the pointer was moved to
{"action_type": "SCROLL", "dx": 0, "dy": -3} in notches of the wheel; a positive dy goes up
{"action_type": "TYPING", "text": ""}
{"action_type": "PRESS", "key": "enter"}
{"action_type": "KEY_DOWN", "key": "shift"} and {"action_type": "KEY_UP", "key": "shift"}
{"action_type": "HOTKEY", "keys": ["ctrl", "c"]}
Or with one of the words WAIT, DONE (the task is done) and FAIL (it cannot be done)."""
_PYAUTOGUI = """\
You operate the computer whose screen each picture shows. Answer every picture with Python code in a code \
fence: calls of pyautogui and of time.sleep, nothing else, with numbers and strings written out, in pixels \
of the picture. Or with one of the words WAIT, DONE (the task is done) and FAIL (it cannot be done)."""


class _Reply:
    """Actions of one reply, collected in order; the pointer is where they have left it."""

    def __init__(self, place: Place) -> None:
        self.actions: list[Action] = []
        self._place = place

    def point(self, x: Any = None, y: Any = None) -> tuple[int, int]:
        """Move the pointer to a place, or leave it, and return it."""
        pixel = self._place.pixel(optional_number(x, "x"), optional_number(y, "y"))
        self._place.pointer = pixel
        return pixel

    def move(self, x: Any, y: Any) -> None:
        px, py = self.point(number(x, "x"), number(y, "y"))
        self.actions.append(Move(x=px, y=py))

    def click(self, x: Any, y: Any, count: Any = 1, button: Any = "left") -> None:
        px, py = self.point(x, y)
        self.actions.append(Click.model_validate({"x": px, "y": py, "count": count, "button": button}))

    def drag_to(self, x: Any, y: Any, button: Any = "left") -> None:
        path = (self.point(), self.point(number(x, "x"), number(y, "y")))
        self.actions.append(Drag.model_validate({"path": path, "button": button}))

    def button(self, kind: type[MouseDown] | type[MouseUp], x: Any, y: Any, button: Any = "left") -> None:
        px, py = self.point(x, y)
        self.actions.append(kind.model_validate({"x": px, "y": py, "button": button}))

    def scroll(self, dx: Any, dy: Any, x: Any = None, y: Any = None) -> None:
        """`dx` goes right and `dy` up, in notches."""
        right, up = number(dx, "dx", _MOST_NOTCHES), number(dy, "dy", _MOST_NOTCHES)
        lost = x is None and y is None and self._place.pointer is None
        px, py = self._place.centre if lost else self.point(x, y)
        self.actions.append(Scroll(x=px, y=py, dx=round(right * NOTCH), dy=-round(up * NOTCH)))

    def type(self, text: Any) -> None:
        said = text_of(text, "text")
        self.actions.append(Type(text=said.removesuffix("\n"), submit=said.endswith("\n")))

    def chord(self, keys: Sequence[Any]) -> None:
        self.actions.append(KeyChord(keys=tuple(read_key(text_of(key, "a key")) for key in keys)))

    def press(self, keys: Any, presses: Any = 1) -> None:
        times = number(presses, "presses", 16)
        for _ in range(math.ceil(times)):
            for key in keys if isinstance(keys, list) else [keys]:
                self.chord([key])

    def key_down(self, key: Any) -> None:
        self.actions.append(KeyDown(key=read_key(text_of(key, "a key"))))

    def key_up(self, key: Any) -> None:
        self.actions.append(KeyUp(key=read_key(text_of(key, "a key"))))

    def sleep(self, seconds: Any) -> None:
        self.actions.append(Wait(ms=milliseconds(number(seconds, "seconds"))))


# -- computer_13 ---------------------------------------------------------------------------------------------

_TYPES: Mapping[str, Callable[[_Reply, Mapping[str, Any]], None]] = {
    "MOVE_TO": lambda reply, said: reply.move(said.get("x"), said.get("y")),
    "CLICK": lambda reply, said: reply.click(
        said.get("x"), said.get("y"), said.get("num_clicks", 1), said.get("button", "left")
    ),
    "RIGHT_CLICK": lambda reply, said: reply.click(said.get("x"), said.get("y"), 1, "right"),
    "DOUBLE_CLICK": lambda reply, said: reply.click(said.get("x"), said.get("y"), 2),
    "MOUSE_DOWN": lambda reply, said: reply.button(MouseDown, None, None, said.get("button", "left")),
    "MOUSE_UP": lambda reply, said: reply.button(MouseUp, None, None, said.get("button", "left")),
    "DRAG_TO": lambda reply, said: reply.drag_to(said.get("x"), said.get("y")),
    "SCROLL": lambda reply, said: reply.scroll(said.get("dx", 0), said.get("dy", 0)),
    "TYPING": lambda reply, said: reply.type(said.get("text")),
    "PRESS": lambda reply, said: reply.press(said.get("key")),
    "KEY_DOWN": lambda reply, said: reply.key_down(said.get("key")),
    "KEY_UP": lambda reply, said: reply.key_up(said.get("key")),
    "HOTKEY": lambda reply, said: reply.chord(_list(said.get("keys"))),
}


_FIELDS = {"action_type", "parameters", "x", "y", "num_clicks", "button", "dx", "dy", "text", "key", "keys"}


def _read_13(text: str, place: Place) -> list[Action]:
    if word := _word(text):
        return [word]
    reply = _Reply(place)
    for found in json_objects(text):
        kind, inner = found.get("action_type"), found.get("parameters")
        said = {**found, **(inner if isinstance(inner, dict) else {})}
        for name, value in said.items():
            if value is not None and name not in _FIELDS:
                raise DialectError(f"computer_13 takes no {name[:60]!r}")
        if isinstance(kind, str) and kind in _WORDS:
            reply.actions.append(_WORDS[kind])
        elif isinstance(kind, str) and kind in _TYPES:
            _TYPES[kind](reply, said)
        else:
            raise DialectError(f"computer_13 has no action {str(kind)[:60]!r}")
    return reply.actions


def _write_13(action: Action, place: Place) -> str | None:
    if word := _said(action):
        return word
    said = _say_13(action, place)
    return json.dumps(said, ensure_ascii=False) if said else None


def _say_13(action: Action, place: Place) -> dict[str, Any] | None:
    def at(x: int, y: int) -> dict[str, int]:
        x, y = place.units(x, y)
        return {"x": x, "y": y}

    match action:
        case Click(x=x, y=y, button="left" | "right" | "middle" as button, count=count, modifiers=()):
            return {"action_type": "CLICK", "button": button, **at(x, y), "num_clicks": count}
        case Move(x=x, y=y):
            return {"action_type": "MOVE_TO", **at(x, y)}
        case MouseDown(x=x, y=y, button=button) if place.pointer == (x, y):
            return {"action_type": "MOUSE_DOWN", "button": button}
        case MouseUp(x=x, y=y, button=button) if place.pointer == (x, y):
            return {"action_type": "MOUSE_UP", "button": button}
        case Drag(path=(start, end), button="left") if place.pointer == start:
            return {"action_type": "DRAG_TO", **at(*end)}
        case Scroll(x=x, y=y, dx=dx, dy=dy) if _turnable(action, place):
            return {"action_type": "SCROLL", "dx": dx // NOTCH, "dy": -dy // NOTCH}
        case Type(text=text, clear=False, submit=submit) if submit or not text.endswith("\n"):
            return {"action_type": "TYPING", "text": text + "\n" * submit}
        case KeyChord(keys=(key,)):
            return {"action_type": "PRESS", "key": write_key(key)}
        case KeyChord(keys=keys):
            return {"action_type": "HOTKEY", "keys": [write_key(key) for key in keys]}
        case KeyDown(key=key):
            return {"action_type": "KEY_DOWN", "key": write_key(key)}
        case KeyUp(key=key):
            return {"action_type": "KEY_UP", "key": write_key(key)}
        case _:
            return None


def computer_13() -> Language:
    """The dialect of OSWorld's JSON actions."""
    return Language("computer-13", _COMPUTER_13, CoordinateSpace("frame"), _read_13, _write_13)


# -- programs of pyautogui calls -----------------------------------------------------------------------------


def _read_code(text: str, place: Place) -> list[Action]:
    if word := _word(text):
        return [word]
    reply = _Reply(place)
    for call in calls(code_of(text), ("pyautogui", "time")):
        _perform(call, reply)
    return reply.actions


def _perform(call: Call, reply: _Reply) -> None:
    match call.name.removeprefix("pyautogui.") if call.name.startswith("pyautogui.") else call.name:
        case "time.sleep" | "sleep":
            reply.sleep(call.bind("secs").get("secs"))
        case "moveTo":
            said = call.bind("x", "y", "duration")
            reply.move(said.get("x"), said.get("y"))
        case "click":
            said = call.bind("x", "y", "clicks", "interval", "button", "duration")
            reply.click(said.get("x"), said.get("y"), said.get("clicks", 1), said.get("button", "left"))
        case "rightClick" | "middleClick" | "doubleClick" | "tripleClick" as name:
            said = call.bind("x", "y", "interval", "button", "duration")
            button = {"rightClick": "right", "middleClick": "middle"}.get(name, said.get("button", "left"))
            count = {"doubleClick": 2, "tripleClick": 3}.get(name, 1)
            reply.click(said.get("x"), said.get("y"), count, button)
        case "dragTo":
            said = call.bind("x", "y", "duration", "button")
            reply.drag_to(said.get("x"), said.get("y"), said.get("button", "left"))
        case "mouseDown" | "mouseUp" as name:
            said = call.bind("x", "y", "button")
            kind = MouseDown if name == "mouseDown" else MouseUp
            reply.button(kind, said.get("x"), said.get("y"), said.get("button", "left"))
        case "scroll" | "vscroll":
            said = call.bind("clicks", "x", "y")
            reply.scroll(0, said.get("clicks"), said.get("x"), said.get("y"))
        case "hscroll":
            said = call.bind("clicks", "x", "y")
            reply.scroll(said.get("clicks"), 0, said.get("x"), said.get("y"))
        case "typewrite" | "write":
            reply.type(call.bind("message", "interval").get("message"))
        case "press":
            said = call.bind("keys", "presses", "interval")
            reply.press(said.get("keys"), said.get("presses", 1))
        case "keyDown":
            reply.key_down(call.bind("key").get("key"))
        case "keyUp":
            reply.key_up(call.bind("key").get("key"))
        case "hotkey" if not set(call.named) - {"interval"}:
            reply.chord(call.arguments)
        case _:
            raise DialectError(f"{call.name[:60]}() is none of the calls that are allowed")


def _write_code(action: Action, place: Place) -> str | None:
    if word := _said(action):
        return word
    match action:
        case Click(x=x, y=y, button="left" | "right" | "middle" as button, count=count, modifiers=()):
            px, py = place.units(x, y)
            return f"pyautogui.click({px}, {py}, clicks={count}, button={button!r})"
        case Move(x=x, y=y):
            px, py = place.units(x, y)
            return f"pyautogui.moveTo({px}, {py})"
        case MouseDown(x=x, y=y, button=button) | MouseUp(x=x, y=y, button=button):
            px, py = place.units(x, y)
            name = "mouseDown" if isinstance(action, MouseDown) else "mouseUp"
            return f"pyautogui.{name}({px}, {py}, {button!r})"
        case Drag(path=(start, end), button=button) if place.pointer == start:
            px, py = place.units(*end)
            return f"pyautogui.dragTo({px}, {py}, button={button!r})"
        case Scroll(x=x, y=y, dx=0, dy=dy) if dy and dy % NOTCH == 0:
            px, py = place.units(x, y)
            return f"pyautogui.scroll({-dy // NOTCH}, {px}, {py})"
        case Scroll(x=x, y=y, dx=dx, dy=0) if dx and dx % NOTCH == 0:
            px, py = place.units(x, y)
            return f"pyautogui.hscroll({dx // NOTCH}, {px}, {py})"
        case Type(text=text, clear=False, submit=submit) if submit or not text.endswith("\n"):
            return f"pyautogui.write({text + chr(10) * submit!r})"
        case KeyChord(keys=(key,)):
            return f"pyautogui.press({write_key(key)!r})"
        case KeyChord(keys=keys):
            return f"pyautogui.hotkey({', '.join(repr(write_key(key)) for key in keys)})"
        case KeyDown(key=key):
            return f"pyautogui.keyDown({write_key(key)!r})"
        case KeyUp(key=key):
            return f"pyautogui.keyUp({write_key(key)!r})"
        case Wait(ms=ms):
            return f"time.sleep({ms / 1000:g})"
        case _:
            return None


def pyautogui_code() -> Language:
    """The dialect of programs that call pyautogui."""
    return Language("pyautogui", _PYAUTOGUI, CoordinateSpace("frame"), _read_code, _write_code)


def _word(text: str) -> Action | None:
    return _WORDS.get(text.replace("```", "").strip())


def _said(action: Action) -> str | None:
    return next((word for word, meant in _WORDS.items() if meant == action), None)


def _turnable(action: Scroll, place: Place) -> bool:
    """Whether the wheel can say it: whole notches, where it turns without being told where."""
    here = place.pointer or place.centre
    return (action.x, action.y) == here and action.dx % NOTCH == action.dy % NOTCH == 0


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise DialectError("keys is a list")
    return value
