"""Qwen-VL's action language: calls of the tool `computer_use` or `mobile_use`, in `<tool_call>` tags.

Format: QwenLM/Qwen3-VL, `cookbooks/utils/agent_function_call.py`. Qwen2.5-VL and GUI-Owl count in pixels of
the `smart_resize` picture; the prompt of Qwen3-VL and GUI-Owl 1.5 says that the screen has 999x999. A call is
JSON; from Qwen3.5 on it is tags, as in that model's chat template, and a click's `text` names the keys that
are held (`mm_agents/qwen35vl_agent.py` of OSWorld's agents).

Their tool drags from wherever the pointer is; here every reply is parsed alone, so a drag names both ends.
"""

from typing import Annotated, Any, Literal

import msgspec

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
from guiagent.dialects.coordinates import CoordinateSpace
from guiagent.dialects.keys import read_key, write_key
from guiagent.dialects.language import (
    Language,
    Place,
    excerpt,
    milliseconds,
    one_of,
    scroll_distance,
    text_of,
    typed,
)
from guiagent.dialects.tool_calls import Form, read_calls, tool_prompt, write_call
from guiagent.errors import DialectError

Tool = Literal["computer_use", "mobile_use"]

TEXTS = frozenset({"action", "text", "button", "status"})  # arguments that are written as they are
Coordinate = Annotated[list[float], msgspec.Meta(min_length=2, max_length=4)]

# What each tool can do, with the arguments each action takes and what they mean.
ACTIONS: dict[Tool, dict[str, tuple[tuple[str, ...], str]]] = {
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
ARGUMENTS: dict[str, dict[str, Any]] = {
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
CLICKS: dict[str, tuple[str, int]] = {
    "click": ("left", 1),
    "left_click": ("left", 1),
    "right_click": ("right", 1),
    "middle_click": ("middle", 1),
    "double_click": ("left", 2),
    "triple_click": ("left", 3),
}
CLICK_NAMES = {("left", 1): "left_click", ("right", 1): "right_click", ("middle", 1): "middle_click"} | {
    ("left", 2): "double_click",
    ("left", 3): "triple_click",
}


class Arguments(msgspec.Struct):
    """Every argument of every action. Arguments that an action does not take are ignored."""

    action: str
    coordinate: Coordinate | None = None
    coordinate2: Coordinate | None = None
    start_coordinate: Coordinate | None = None
    keys: Annotated[list[str], msgspec.Meta(min_length=1, max_length=5)] | None = None
    text: str | None = None
    pixels: float | None = None
    time: float | None = None
    button: str | None = None
    status: str | None = None
    evidence: list[int] | None = None


def qwen_tool(tool: Tool, space: CoordinateSpace, form: Form = "json", *, evidence: bool = False) -> Language:
    """The dialect of one of the two tools, in the coordinates of one generation of models.

    With `evidence` the prompt asks for the pictures that prove the outcome. That argument is our addition; it
    is parsed even without `evidence`.
    """
    unsaid = set() if evidence else {"evidence"}
    actions = {
        name: ([argument for argument in arguments if argument not in unsaid], what)
        for name, (arguments, what) in ACTIONS[tool].items()
    }
    if form == "xml" and tool == "computer_use":
        for name in CLICK_NAMES.values():
            arguments, what = actions[name]
            actions[name] = [*arguments, "text"], f"{what}; text may name keys that are held: ctrl+shift"
    return Language(
        tool,
        tool_prompt(tool, description(tool, space), actions, ARGUMENTS, form),
        space,
        lambda text, place: _read(tool, form, text, place),
        lambda action, place: _write(tool, form, action, place),
    )


def description(tool: Tool, space: CoordinateSpace) -> str:
    """What the tool's signature says of it."""
    what = "a computer with a mouse and a keyboard" if tool == "computer_use" else "a phone by touch"
    screen = "The screen has 999x999 pixels. " if space.kind == "norm999" else ""
    return f"Use {what}. {screen}Coordinates are [x, y] from the top left."


def _read(tool: Tool, form: Form, text: str, place: Place) -> list[Action]:
    actions = []
    for found in read_calls(text, tool, form, TEXTS):
        arguments: Arguments = typed(found, Arguments)
        if arguments.action not in ACTIONS[tool]:
            raise DialectError(f"{tool} has no action {excerpt(arguments.action)}")
        action = meant(tool, arguments, place)
        actions.append(_with_keys(action, arguments.text) if form == "xml" and arguments.text else action)
    return actions


def _with_keys(action: Action, held: str) -> Action:
    """A click while the keys of `ctrl+shift` are held; other actions as they are."""
    if not isinstance(action, Click):
        return action
    return Click.model_validate(
        {**action.model_dump(), "modifiers": [read_key(key) for key in held.split("+")]}
    )


def meant(tool: Tool, a: Arguments, place: Place) -> Action:
    """The action that a call means. Raises DialectError where an argument is missing, or is none."""

    def point(given: list[float] | None) -> tuple[int, int]:
        if given is None:
            raise DialectError(f"{a.action} needs its place as [x, y]")
        return place.middle(given)

    match a.action:
        case "mouse_move":
            x, y = point(a.coordinate)
            return Move(x=x, y=y)
        case "left_click_drag":
            return Drag(path=(point(a.start_coordinate), point(a.coordinate)))
        case "long_press":
            x, y = point(a.coordinate)
            return LongPress(x=x, y=y) if a.time is None else LongPress(x=x, y=y, ms=milliseconds(a.time))
        case "swipe":
            (x1, y1), (x2, y2) = point(a.coordinate), point(a.coordinate2)
            return Swipe(x1=x1, y1=y1, x2=x2, y2=y2)
        case "scroll" | "hscroll":
            x, y = point(a.coordinate) if a.coordinate else place.centre
            if a.pixels is None:
                raise DialectError(f"{a.action} needs a number of pixels")
            distance = scroll_distance(a.pixels)
            return Scroll(x=x, y=y, dy=-distance) if a.action == "scroll" else Scroll(x=x, y=y, dx=distance)
        case "key" if tool == "computer_use":
            return KeyChord(keys=tuple(read_key(key) for key in a.keys or ()))
        case "key":
            return PressButton.model_validate({"button": one_of(_HARDWARE, a.text, "the key")})
        case "system_button":
            return PressButton.model_validate({"button": _PRESSED[one_of(_PRESSED, a.button, "the button")]})
        case "type":
            text = text_of(a.text, "text")
            return Type(text=text.removesuffix("\n"), submit=text.endswith("\n"))
        case "open":
            return Open(target=text_of(a.text, "text"))
        case "wait":
            return Wait() if a.time is None else Wait(ms=milliseconds(a.time))
        case "answer":
            return Answer(text=text_of(a.text, "text"))
        case "terminate":
            status = one_of(("success", "failure"), a.status, "the status")
            return Done.model_validate({"status": status, "evidence": [n - 1 for n in a.evidence or ()]})
        case _:
            x, y = point(a.coordinate)
            button, count = CLICKS[a.action]
            return Click.model_validate({"x": x, "y": y, "button": button, "count": count})


def _write(tool: Tool, form: Form, action: Action, place: Place) -> str | None:
    held: dict[str, str] = {}
    if form == "xml" and tool == "computer_use" and isinstance(action, Click) and action.modifiers:
        held = {"text": "+".join(write_key(key) for key in action.modifiers)}
        action = action.model_copy(update={"modifiers": ()})
    arguments = said(tool, action, place)
    if arguments is None or arguments["action"] not in ACTIONS[tool]:
        return None
    return write_call(tool, {**arguments, **held}, form, TEXTS)


def said(tool: Tool, action: Action, place: Place) -> dict[str, Any] | None:
    """The arguments of the call that an action is; None if the tool has no word for it."""

    def at(x: int, y: int) -> list[int]:
        return list(place.units(x, y))

    match action:
        case Click(x=x, y=y, button="left", count=1, modifiers=()) if tool == "mobile_use":
            return {"action": "click", "coordinate": at(x, y)}
        case Click(x=x, y=y, modifiers=()) if (action.button, action.count) in CLICK_NAMES:
            return {"action": CLICK_NAMES[action.button, action.count], "coordinate": at(x, y)}
        case Move(x=x, y=y):
            return {"action": "mouse_move", "coordinate": at(x, y)}
        case Drag(path=(start, end), button="left"):
            return {
                "action": "left_click_drag",
                "start_coordinate": at(*start),
                "coordinate": at(*end),
            }
        case LongPress(x=x, y=y, ms=ms):
            return {"action": "long_press", "coordinate": at(x, y), "time": ms / 1000}
        case Swipe(x1=x1, y1=y1, x2=x2, y2=y2):
            return {"action": "swipe", "coordinate": at(x1, y1), "coordinate2": at(x2, y2)}
        case Scroll(x=x, y=y, dx=0, dy=dy):
            return {"action": "scroll", "coordinate": at(x, y), "pixels": -dy}
        case Scroll(x=x, y=y, dx=dx, dy=0):
            return {"action": "hscroll", "coordinate": at(x, y), "pixels": dx}
        case KeyChord(keys=keys) if tool == "computer_use":
            return {"action": "key", "keys": [write_key(key) for key in keys]}
        case PressButton(button=button) if button in _HARDWARE:
            return {"action": "key", "text": button} if tool == "mobile_use" else None
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
