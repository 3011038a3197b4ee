"""MAI-UI's action language: thoughts, and then a `<tool_call>` of the tool `mobile_use`.

Format: Tongyi-MAI/MAI-UI, `src/prompt.py`, `src/mai_naivigation_agent.py` and, for what a swipe is,
`web_ui/adb_utils.py`. Coordinates are of a screen of 999x999. `swipe` goes by 500 px from a place, or from
the middle of the screen, the way the finger moves. To ask the user is to say that the task cannot be done.
"""

from typing import Any

import msgspec

from guiagent.actions import (
    Action,
    Answer,
    Click,
    Done,
    Drag,
    LongPress,
    Open,
    PressButton,
    Swipe,
    Type,
    Wait,
)
from guiagent.dialects.coordinates import CoordinateSpace
from guiagent.dialects.language import Language, Place, one_of, text_of, typed
from guiagent.dialects.tool_calls import read_calls, write_call
from guiagent.errors import DialectError

_TOOL = "mobile_use"
_SWIPE = 500  # pixels
_STEPS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
_BUTTONS = ("back", "home", "menu", "enter")
_STATUS = {"success": "success", "fail": "failure"}
_STATUS_NAMES = {ours: theirs for theirs, ours in _STATUS.items()}
_STUCK = "The task cannot be done without the user."
_SYSTEM = """\
You operate the phone whose screen each picture shows, for the user's task. Answer every picture with
<thinking>
why the next step helps
</thinking>
<tool_call>
{"name": "mobile_use", "arguments": {"action": ...}}
</tool_call>

The arguments are one of these; x and y go from 0 to 999 over the width and the height of the screen:
{"action": "click", "coordinate": [x, y]}
{"action": "double_click", "coordinate": [x, y]}
{"action": "long_press", "coordinate": [x, y]}
{"action": "type", "text": ""}
{"action": "swipe", "direction": "up|down|left|right", "coordinate": [x, y]} or without a place
{"action": "drag", "start_coordinate": [x, y], "end_coordinate": [x, y]}
{"action": "open", "text": "the app's name"}
{"action": "system_button", "button": "back|home|menu|enter"}
{"action": "wait"}
{"action": "answer", "text": ""}
{"action": "ask_user", "text": ""} if the task cannot be done without the user
{"action": "terminate", "status": "success|fail"}"""


class _Arguments(msgspec.Struct):
    """Every argument of every action. Arguments that an action does not take are ignored."""

    action: str
    coordinate: list[float] | None = None
    start_coordinate: list[float] | None = None
    end_coordinate: list[float] | None = None
    direction: str | None = None
    text: str | None = None
    button: str | None = None
    status: str | None = None


def _read(text: str, place: Place) -> list[Action]:
    return [_action(typed(found, _Arguments), place) for found in read_calls(text, _TOOL, "json")]


def _action(a: _Arguments, place: Place) -> Action:
    def point(given: list[float] | None) -> tuple[int, int]:
        if given is None:
            raise DialectError(f"{a.action} needs its place as [x, y]")
        return place.middle(given)

    match a.action:
        case "click" | "double_click":
            x, y = point(a.coordinate)
            return Click(x=x, y=y, count=1 if a.action == "click" else 2)
        case "long_press":
            x, y = point(a.coordinate)
            return LongPress(x=x, y=y)
        case "type":
            text = text_of(a.text, "text")
            return Type(text=text.removesuffix("\n"), submit=text.endswith("\n"))
        case "swipe":
            start = point(a.coordinate) if a.coordinate else place.centre
            return _swipe(start, one_of(_STEPS, a.direction, "the direction"), place)
        case "drag":
            return Drag(path=(point(a.start_coordinate), point(a.end_coordinate)))
        case "open" | "AWAKE":
            return Open(target=text_of(a.text, "text"))
        case "system_button":
            button = one_of(_BUTTONS, text_of(a.button, "button").lower(), "the button")
            return PressButton.model_validate({"button": button})
        case "wait":
            return Wait()
        case "answer":
            return Answer(text=text_of(a.text, "text"))
        case "INFO" | "ask_user":
            return Done(status="infeasible")
        case "terminate":
            return Done.model_validate({"status": _STATUS[one_of(_STATUS, a.status, "the status")]})
        case _:
            raise DialectError(f"MAI-UI has no action {a.action[:60]!r}")


def _swipe(start: tuple[int, int], direction: str, place: Place) -> Swipe:
    (x, y), (dx, dy), (width, height) = start, _STEPS[direction], place.size
    x2, y2 = min(max(x + dx * _SWIPE, 0), width - 1), min(max(y + dy * _SWIPE, 0), height - 1)
    return Swipe(x1=x, y1=y, x2=x2, y2=y2)


def _write(action: Action, place: Place) -> str | None:
    said = _say(action, place)
    return write_call(_TOOL, said, "json") if said else None


def _say(action: Action, place: Place) -> dict[str, Any] | None:
    def at(x: int, y: int) -> list[int]:
        return list(place.units(x, y))

    match action:
        case Click(x=x, y=y, button="left", count=1 | 2 as count, modifiers=()):
            return {"action": "click" if count == 1 else "double_click", "coordinate": at(x, y)}
        case LongPress(x=x, y=y):
            return {"action": "long_press", "coordinate": at(x, y)}
        case Type(text=text, clear=False, submit=submit) if submit or not text.endswith("\n"):
            return {"action": "type", "text": text + "\n" * submit}
        case Swipe(x1=x, y1=y, x2=x2, y2=y2):
            way = max(_STEPS, key=lambda name: (x2 - x) * _STEPS[name][0] + (y2 - y) * _STEPS[name][1])
            return {"action": "swipe", "direction": way, "coordinate": at(x, y)}
        case Drag(path=(start, end), button="left"):
            return {"action": "drag", "start_coordinate": at(*start), "end_coordinate": at(*end)}
        case Open(target=target):
            return {"action": "open", "text": target}
        case PressButton(button=button) if button in _BUTTONS:
            return {"action": "system_button", "button": button}
        case Wait():
            return {"action": "wait"}
        case Answer(text=text):
            return {"action": "answer", "text": text}
        case Done(status="infeasible", evidence=()):
            return {"action": "ask_user", "text": _STUCK}
        case Done(status=status, evidence=()):
            return {"action": "terminate", "status": _STATUS_NAMES[status]}
        case _:
            return None


def mai_ui() -> Language:
    """The dialect of MAI-UI."""
    return Language("mai-ui", _SYSTEM, CoordinateSpace("norm999"), _read, _write)
