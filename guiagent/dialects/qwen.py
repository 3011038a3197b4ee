"""Qwen-VL's action language: calls of the tool `computer_use` or `mobile_use`, in `<tool_call>` tags.

Format: QwenLM/Qwen3-VL, `cookbooks/utils/agent_function_call.py`. Qwen2.5-VL and GUI-Owl count in pixels of
the `smart_resize` picture; the prompt of Qwen3-VL and GUI-Owl 1.5 says that the screen has 999x999. A call is
JSON; from Qwen3.5 on it is `<function=NAME>` with a `<parameter=KEY>` for each argument, as in that model's
chat template. Text around the calls, such as a model's thoughts, is kept and not parsed.

Their tool drags from wherever the pointer is; here every reply is parsed alone, so a drag names both ends.
"""

import json
import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from pydantic import ValidationError

from guiagent.actions import (
    Action,
    Answer,
    Click,
    Done,
    Drag,
    KeyChord,
    LongPress,
    Move,
    Open,
    PressButton,
    Scroll,
    Swipe,
    Type,
    Wait,
)
from guiagent.dialects.coordinates import CoordinateSpace, Size
from guiagent.dialects.keys import read_key, write_key
from guiagent.errors import DialectError

Tool = Literal["computer_use", "mobile_use"]
Form = Literal["json", "xml"]

MAX_CHARS = 16_384  # of one reply
MAX_CALLS = 16  # in one reply
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION = re.compile(r"\s*<function=(\w{1,60})>(.*?)(?:</function>\s*)?", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=(\w{1,60})>\n?(.*?)\n?</parameter>\s*", re.DOTALL)
_TEXTS = frozenset({"action", "text", "button", "status"})  # arguments that are written as they are
_LONGEST_S = 60.0

_Coordinate = Annotated[list[float], msgspec.Meta(min_length=2, max_length=4)]

# What each tool can do, with the arguments each action takes and what they mean.
_ACTIONS: dict[Tool, dict[str, tuple[tuple[str, ...], str]]] = {
    "computer_use": {
        "key": (("keys",), "press these keys together, in this order"),
        "type": (("text",), "type a text"),
        "mouse_move": (("coordinate",), "move the pointer there"),
        "left_click": (("coordinate",), "click there"),
        "left_click_drag": (("start_coordinate", "coordinate"), "drag from the first place to the second"),
        "right_click": (("coordinate",), "click with the right button"),
        "middle_click": (("coordinate",), "click with the middle button"),
        "double_click": (("coordinate",), "click twice"),
        "triple_click": (("coordinate",), "click three times"),
        "scroll": (("pixels", "coordinate"), "turn the wheel; a positive number of pixels goes up"),
        "hscroll": (("pixels", "coordinate"), "scroll sideways; a positive number of pixels goes right"),
        "wait": (("time",), "wait for so many seconds"),
        "answer": (("text",), "give the answer that was asked for"),
        "terminate": (("status", "evidence"), "end, and say how it went"),
    },
    "mobile_use": {
        "click": (("coordinate",), "tap there"),
        "long_press": (("coordinate", "time"), "press there for so many seconds"),
        "swipe": (("coordinate", "coordinate2"), "swipe from the first place to the second"),
        "type": (("text",), "type a text into what has the focus"),
        "system_button": (("button",), "press Back, Home, Menu or Enter"),
        "open": (("text",), "open the app of this name"),
        "key": (("text",), "press a hardware key: power, volume_up, volume_down"),
        "wait": (("time",), "wait for so many seconds"),
        "answer": (("text",), "give the answer that was asked for"),
        "terminate": (("status", "evidence"), "end, and say how it went"),
    },
}
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "coordinate": {"type": "array", "description": "[x, y]"},
    "coordinate2": {"type": "array", "description": "[x, y]"},
    "start_coordinate": {"type": "array", "description": "[x, y]"},
    "keys": {"type": "array", "items": {"type": "string"}},
    "text": {"type": "string"},
    "pixels": {"type": "number"},
    "time": {"type": "number"},
    "button": {"type": "string", "enum": ["Back", "Home", "Menu", "Enter"]},
    "status": {"type": "string", "enum": ["success", "failure"]},
    "evidence": {
        "type": "array",
        "items": {"type": "integer"},
        "description": "the numbers of the pictures that prove it, counted from 1 for the first one: the "
        "fewest that do, three at most",
    },
}
_PRESSED = {"Back": "back", "Home": "home", "Menu": "menu", "Enter": "enter"}
_HARDWARE = ("power", "volume_up", "volume_down")
_CLICKS: dict[str, tuple[str, int]] = {
    "click": ("left", 1),
    "left_click": ("left", 1),
    "right_click": ("right", 1),
    "middle_click": ("middle", 1),
    "double_click": ("left", 2),
    "triple_click": ("left", 3),
}
_CLICK_NAMES = {("left", 1): "left_click", ("right", 1): "right_click", ("middle", 1): "middle_click"} | {
    ("left", 2): "double_click",
    ("left", 3): "triple_click",
}


class _Arguments(msgspec.Struct):
    """Every argument of every action. Arguments that an action does not take are ignored."""

    action: str
    coordinate: _Coordinate | None = None
    coordinate2: _Coordinate | None = None
    start_coordinate: _Coordinate | None = None
    keys: Annotated[list[str], msgspec.Meta(min_length=1, max_length=5)] | None = None
    text: str | None = None
    pixels: float | None = None
    time: float | None = None
    button: str | None = None
    status: str | None = None
    evidence: list[int] | None = None


class _Call(msgspec.Struct):
    name: str
    arguments: _Arguments


class QwenTools:
    """The dialect of one of the two tools, in the coordinates of one generation of models.

    With `evidence` the prompt asks for the pictures that prove the outcome. That argument is our addition; it
    is parsed even without `evidence`.
    """

    def __init__(
        self, tool: Tool, space: CoordinateSpace, form: Form = "json", *, evidence: bool = False
    ) -> None:
        self.name = tool
        self.space = space
        self._form = form
        self._unsaid = set() if evidence else {"evidence"}

    @property
    def system(self) -> str:
        """The tool's signature and how to call it."""
        actions = {
            name: ([argument for argument in arguments if argument not in self._unsaid], what)
            for name, (arguments, what) in _ACTIONS[self.name].items()
        }
        used = {argument for arguments, _ in actions.values() for argument in arguments}
        meanings = [f"{name}({', '.join(arguments)}): {what}" for name, (arguments, what) in actions.items()]
        screen = "The screen has 999x999 pixels. " if self.space.kind == "norm999" else ""
        what = "a computer with a mouse and a keyboard" if self.name == "computer_use" else "a phone by touch"
        signature = {
            "type": "function",
            "function": {
                "name": self.name,
                "description": f"Use {what}. {screen}Coordinates are [x, y] from the top left.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "action": {
                            "type": "string",
                            "enum": list(actions),
                            "description": "\n".join(meanings),
                        },
                        **{name: schema for name, schema in _ARGUMENTS.items() if name in used},
                    },
                    "required": ["action"],
                },
            },
        }
        form, example = (
            ("JSON", f'{{"name": "{self.name}", "arguments": {{"action": ...}}}}')
            if self._form == "json"
            else ("tags", _xml(self.name, {"action": "...", "coordinate": [0, 0]}))
        )
        return (
            "# Tools\n\nThis function is there to carry out the user's task:\n"
            f"<tools>\n{json.dumps(signature)}\n</tools>\n\n"
            f"Answer every picture of the screen with what you think and then the next call, as {form}:\n"
            f"{_OPEN}\n{example}\n{_CLOSE}"
        )

    def prompt(self, instruction: str) -> str:
        return instruction

    def parse(self, text: str, size: Size) -> list[Action]:
        """The actions of a reply's calls, in pixels of a frame of `size`; a point outside is clamped to it.

        Raises:
            DialectError: the text has no valid call. Nothing else is raised.
        """
        if len(text) > MAX_CHARS:
            raise DialectError(f"the reply has {len(text)} characters, over the limit of {MAX_CHARS}")
        # A reply that was stopped at its end token may lack the last closing tag.
        calls = [part.partition(_CLOSE)[0] for part in text.split(_OPEN)[1:]]
        if not calls:
            raise DialectError(f"no {_OPEN} in {_excerpt(text)}")
        if len(calls) > MAX_CALLS:
            raise DialectError(f"the reply has {len(calls)} calls, over the limit of {MAX_CALLS}")
        try:
            read = _read if self._form == "json" else _read_xml
            return [self._action(read(call, self.name), size) for call in calls]
        except ValidationError as error:
            raise DialectError(f"{error.errors()[0]['msg']} in {_excerpt(text)}") from None

    def render(self, actions: Sequence[Action], size: Size) -> str:
        """The reply that expresses `actions`, a call for each. Coordinates are rounded to the model's units.

        Raises:
            DialectError: there is no action, or one that the tool cannot do.
        """
        if not actions:
            raise DialectError(f"{self.name} has no word for doing nothing")
        return "\n".join(self._call(action, size) for action in actions)

    def _action(self, a: _Arguments, size: Size) -> Action:
        def point(given: list[float] | None) -> tuple[int, int]:
            match given:
                case [x, y]:
                    centre = x, y
                case [x1, y1, x2, y2]:  # a box
                    centre = (x1 + x2) / 2, (y1 + y2) / 2
                case _:
                    raise DialectError(f"{a.action} needs its place as [x, y]")
            if not all(math.isfinite(value) and abs(value) < 1e6 for value in centre):
                raise DialectError(f"{a.action} has no sensible place")
            return self.space.to_device(centre, size)

        def text() -> str:
            if a.text is None:
                raise DialectError(f"{a.action} needs a text")
            return a.text

        if a.action not in _ACTIONS[self.name]:
            raise DialectError(f"{self.name} has no action {_excerpt(a.action)}")
        match a.action:
            case "mouse_move":
                x, y = point(a.coordinate)
                return Move(x=x, y=y)
            case "left_click_drag":
                return Drag(path=(point(a.start_coordinate), point(a.coordinate)))
            case "long_press":
                x, y = point(a.coordinate)
                return LongPress(x=x, y=y) if a.time is None else LongPress(x=x, y=y, ms=_ms(a.time))
            case "swipe":
                (x1, y1), (x2, y2) = point(a.coordinate), point(a.coordinate2)
                return Swipe(x1=x1, y1=y1, x2=x2, y2=y2)
            case "scroll" | "hscroll":
                x, y = point(a.coordinate) if a.coordinate else (size[0] // 2, size[1] // 2)
                distance = _pixels(a)
                return (
                    Scroll(x=x, y=y, dy=-distance) if a.action == "scroll" else Scroll(x=x, y=y, dx=distance)
                )
            case "key" if self.name == "computer_use":
                return KeyChord(keys=tuple(read_key(key) for key in a.keys or ()))
            case "key":
                return PressButton.model_validate({"button": _one_of(_HARDWARE, text())})
            case "system_button":
                return PressButton.model_validate({"button": _PRESSED[_one_of(_PRESSED, a.button)]})
            case "type":
                return Type(text=text().removesuffix("\n"), submit=text().endswith("\n"))
            case "open":
                return Open(target=text())
            case "wait":
                return Wait() if a.time is None else Wait(ms=_ms(a.time))
            case "answer":
                return Answer(text=text())
            case "terminate":
                status, turns = _one_of(("success", "failure"), a.status), [n - 1 for n in a.evidence or ()]
                return Done.model_validate({"status": status, "evidence": turns})
            case _:
                x, y = point(a.coordinate)
                button, count = _CLICKS[a.action]
                return Click.model_validate({"x": x, "y": y, "button": button, "count": count})

    def _call(self, action: Action, size: Size) -> str:
        arguments = self._say(action, size)
        if arguments is None or arguments["action"] not in _ACTIONS[self.name]:
            raise DialectError(f"{self.name} has no word for {action!r}")
        if self._form == "xml":
            if any("</parameter>" in value for value in arguments.values() if isinstance(value, str)):
                raise DialectError(f"{self.name} cannot write its own tags in {action!r}"[:200])
            return f"{_OPEN}\n{_xml(self.name, arguments)}\n{_CLOSE}"
        said = json.dumps({"name": self.name, "arguments": arguments}, ensure_ascii=False)
        return f"{_OPEN}\n{said.replace('<', chr(92) + 'u003c')}\n{_CLOSE}"

    def _say(self, action: Action, size: Size) -> dict[str, Any] | None:
        def place(x: int, y: int) -> list[int]:
            return list(self.space.from_device((x, y), size))

        match action:
            case Click(x=x, y=y, button="left", count=1, modifiers=()) if self.name == "mobile_use":
                return {"action": "click", "coordinate": place(x, y)}
            case Click(x=x, y=y, modifiers=()) if (action.button, action.count) in _CLICK_NAMES:
                return {"action": _CLICK_NAMES[action.button, action.count], "coordinate": place(x, y)}
            case Move(x=x, y=y):
                return {"action": "mouse_move", "coordinate": place(x, y)}
            case Drag(path=(start, end), button="left"):
                return {
                    "action": "left_click_drag",
                    "start_coordinate": place(*start),
                    "coordinate": place(*end),
                }
            case LongPress(x=x, y=y, ms=ms):
                return {"action": "long_press", "coordinate": place(x, y), "time": ms / 1000}
            case Swipe(x1=x1, y1=y1, x2=x2, y2=y2):
                return {"action": "swipe", "coordinate": place(x1, y1), "coordinate2": place(x2, y2)}
            case Scroll(x=x, y=y, dx=0, dy=dy):
                return {"action": "scroll", "coordinate": place(x, y), "pixels": -dy}
            case Scroll(x=x, y=y, dx=dx, dy=0):
                return {"action": "hscroll", "coordinate": place(x, y), "pixels": dx}
            case KeyChord(keys=keys) if self.name == "computer_use":
                return {"action": "key", "keys": [write_key(key) for key in keys]}
            case PressButton(button=button) if button in _HARDWARE:
                return {"action": "key", "text": button} if self.name == "mobile_use" else None
            case PressButton(button=button) if button in _PRESSED.values():
                return {"action": "system_button", "button": button.capitalize()}
            case Type(text=text, clear=False, submit=submit) if submit or not text.endswith("\n"):
                return {"action": "type", "text": text + "\n" * submit}
            case Open(target=target):
                return {"action": "open", "text": target}
            case Wait(ms=ms):
                return {"action": "wait", "time": ms / 1000}
            case Answer(text=text):
                return {"action": "answer", "text": text}
            case Done(status="success" | "failure" as status, evidence=turns):
                cited = {"evidence": [turn + 1 for turn in turns]} if turns else {}
                return {"action": "terminate", "status": status, **cited}
            case _:
                return None


def _read(call: str, tool: Tool) -> _Arguments:
    try:
        read = msgspec.json.decode(call.strip().encode(), type=_Call)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise DialectError(f"not a call ({str(error)[:80]!r}): {_excerpt(call)}") from None
    if read.name != tool:
        raise DialectError(f"there is no tool {_excerpt(read.name)}, only {tool}")
    return read.arguments


def _read_xml(call: str, tool: Tool) -> _Arguments:
    function = _FUNCTION.fullmatch(call)
    if function is None:
        raise DialectError(f"not a call: {_excerpt(call)}")
    if function[1] != tool:
        raise DialectError(f"there is no tool {_excerpt(function[1])}, only {tool}")
    arguments: dict[str, Any] = {}
    at = 0
    while at < len(function[2].rstrip()):
        found = _PARAMETER.match(function[2], at)
        if found is None or found[1] in arguments:
            raise DialectError(f"not an argument, or one twice: {_excerpt(function[2][at:])}")
        arguments[found[1]] = found[2] if found[1] in _TEXTS else _json(found[2])
        at = found.end()
    try:
        return msgspec.convert(arguments, _Arguments)
    except msgspec.ValidationError as error:
        raise DialectError(f"not a call ({str(error)[:80]!r}): {_excerpt(call)}") from None


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise DialectError(f"not JSON: {_excerpt(text)}") from None


def _xml(tool: str, arguments: dict[str, Any]) -> str:
    said = "\n".join(
        f"<parameter={name}>\n{value if name in _TEXTS else json.dumps(value)}\n</parameter>"
        for name, value in arguments.items()
    )
    return f"<function={tool}>\n{said}\n</function>"


def _one_of(allowed: Sequence[str] | dict[str, str], given: str | None) -> str:
    if given is None or given not in allowed:
        raise DialectError(f"{_excerpt(str(given))} is none of {', '.join(allowed)}")
    return given


def _ms(seconds: float) -> int:
    if not math.isfinite(seconds) or seconds < 0:
        raise DialectError(f"nobody can wait for {seconds} seconds")
    return round(1000 * min(seconds, _LONGEST_S))


def _pixels(a: _Arguments) -> int:
    if a.pixels is None or not math.isfinite(a.pixels):
        raise DialectError(f"{a.action} needs a number of pixels")
    return round(min(max(a.pixels, -10_000), 10_000))


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "...")
