"""BrowserGym's actions by place: `mouse_click(1, 2)`, `keyboard_type("text")`, `goto("https://...")`.

Format: ServiceNow/BrowserGym, `core/action/functions.py`; read from a syntax tree, calls with literal
arguments only. Coordinates are pixels of the screenshot. Calls that name an element by its `bid` are refused,
since the numbers are those of a list that only its own agents show.
"""

from collections.abc import Sequence
from typing import Any

from guiagent.actions import (
    Action,
    Answer,
    Click,
    Done,
    Drag,
    KeyChord,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Open,
    PressButton,
    Scroll,
    Type,
    Wait,
)
from guiagent.dialects.coordinates import CoordinateSpace
from guiagent.dialects.keys import read_key
from guiagent.dialects.language import (
    Call,
    Language,
    Place,
    calls,
    code_of,
    milliseconds,
    number,
    scroll_distance,
    text_of,
)
from guiagent.errors import DialectError

_SYSTEM = """\
You operate the web browser whose page each picture shows. Answer every picture with one call in a code \
fence, or several with a line each, in pixels of the picture:
mouse_click(x, y, button="left|middle|right")
mouse_dblclick(x, y, button="left")
mouse_move(x, y)
mouse_down(x, y, button="left") and mouse_up(x, y, button="left")
mouse_drag_and_drop(from_x, from_y, to_x, to_y)
scroll(delta_x, delta_y)
keyboard_press("Control+a")
keyboard_down("Shift") and keyboard_up("Shift")
keyboard_type("text")
goto("https://...")
go_back() and go_forward()
noop(wait_ms=1000)
send_msg_to_user("the answer, when the task is done")
report_infeasible("why the task cannot be done")"""
_BY_ELEMENT = {"click", "dblclick", "hover", "fill", "select_option", "press", "focus", "clear", "check"} | {
    "uncheck",
    "drag_and_drop",
    "upload_file",
}


def _read(text: str, place: Place) -> list[Action]:
    return [action for call in calls(code_of(text)) for action in _actions(call, place)]


def _actions(call: Call, place: Place) -> Sequence[Action]:
    def point(said: dict[str, Any], x: str = "x", y: str = "y") -> tuple[int, int]:
        place.pointer = place.pixel(number(said.get(x), x), number(said.get(y), y))
        return place.pointer

    match call.name:
        case "mouse_click" | "mouse_dblclick":
            said = call.bind("x", "y", "button")
            x, y = point(said)
            count, button = 1 if call.name == "mouse_click" else 2, said.get("button", "left")
            return [Click.model_validate({"x": x, "y": y, "count": count, "button": button})]
        case "mouse_move":
            x, y = point(call.bind("x", "y"))
            return [Move(x=x, y=y)]
        case "mouse_down" | "mouse_up":
            said = call.bind("x", "y", "button")
            x, y = point(said)
            kind = MouseDown if call.name == "mouse_down" else MouseUp
            return [kind.model_validate({"x": x, "y": y, "button": said.get("button", "left")})]
        case "mouse_drag_and_drop":
            said = call.bind("from_x", "from_y", "to_x", "to_y")
            return [Drag(path=(point(said, "from_x", "from_y"), point(said, "to_x", "to_y")))]
        case "scroll":
            said = call.bind("delta_x", "delta_y")
            x, y = place.pointer or place.centre
            dx, dy = (scroll_distance(number(said.get(name), name)) for name in ("delta_x", "delta_y"))
            return [Scroll(x=x, y=y, dx=dx, dy=dy)]
        case "keyboard_press":
            keys = text_of(call.bind("key").get("key"), "key")
            return [
                KeyChord(keys=tuple(read_key(key) for key in (keys.split("+") if len(keys) > 1 else [keys])))
            ]
        case "keyboard_down":
            return [KeyDown(key=read_key(text_of(call.bind("key").get("key"), "key")))]
        case "keyboard_up":
            return [KeyUp(key=read_key(text_of(call.bind("key").get("key"), "key")))]
        case "keyboard_type" | "keyboard_insert_text":
            text = text_of(call.bind("text").get("text"), "text")
            return [Type(text=text.removesuffix("\n"), submit=text.endswith("\n"))]
        case "goto" | "new_tab":
            return [Open(target=text_of(call.bind("url").get("url"), "url"))]
        case "go_back" | "go_forward":
            call.bind()
            return [PressButton(button="back" if call.name == "go_back" else "forward")]
        case "noop":
            waited = number(call.bind("wait_ms").get("wait_ms", 1000), "wait_ms")
            return [Wait(ms=milliseconds(waited / 1000))]
        case "send_msg_to_user":
            return [Answer(text=text_of(call.bind("text").get("text"), "text"))]
        case "report_infeasible":
            text_of(call.bind("reason").get("reason"), "reason")
            return [Done(status="infeasible")]
        case name if name in _BY_ELEMENT:
            raise DialectError(f"{name}() names an element by a number that says nothing here")
        case _:
            raise DialectError(f"BrowserGym has no action {call.name[:60]}()")


def _write(action: Action, place: Place) -> str | None:
    def at(x: int, y: int) -> str:
        x, y = place.units(x, y)
        return f"{x}, {y}"

    match action:
        case Click(
            x=x, y=y, count=1 | 2 as count, button="left" | "middle" | "right" as button, modifiers=()
        ):
            return f"mouse_{'click' if count == 1 else 'dblclick'}({at(x, y)}, button={button!r})"
        case Move(x=x, y=y):
            return f"mouse_move({at(x, y)})"
        case MouseDown(x=x, y=y, button=button):
            return f"mouse_down({at(x, y)}, button={button!r})"
        case MouseUp(x=x, y=y, button=button):
            return f"mouse_up({at(x, y)}, button={button!r})"
        case Drag(path=(start, end), button="left"):
            return f"mouse_drag_and_drop({at(*start)}, {at(*end)})"
        case Scroll(x=x, y=y, dx=dx, dy=dy) if (x, y) == (place.pointer or place.centre):
            return f"scroll({dx}, {dy})"
        case KeyChord(keys=keys) if "+" not in keys or keys == ("+",):
            return f"keyboard_press({'+'.join(keys)!r})" if all(map(_known, keys)) else None
        case KeyDown(key=key):
            return f"keyboard_down({key!r})" if _known(key) else None
        case KeyUp(key=key):
            return f"keyboard_up({key!r})" if _known(key) else None
        case Type(text=text, clear=False, submit=submit) if submit or not text.endswith("\n"):
            return f"keyboard_type({text + chr(10) * submit!r})"
        case Open(target=target):
            return f"goto({target!r})"
        case PressButton(button="back" | "forward" as button):
            return f"go_{button}()"
        case Wait(ms=ms):
            return f"noop({ms})"
        case Answer(text=text):
            return f"send_msg_to_user({text!r})"
        case Done(status="infeasible", evidence=()):
            return "report_infeasible('')"
        case _:
            return None


def _known(key: str) -> bool:
    try:
        return read_key(key) == key
    except DialectError:
        return False


def browsergym() -> Language:
    """The dialect of BrowserGym's calls by place."""
    return Language("browsergym", _SYSTEM, CoordinateSpace("frame"), _read, _write)
