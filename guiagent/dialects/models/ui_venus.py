"""UI-Venus's action languages: thoughts, and then a call in tags, `<action>Click(point=(x, y))</action>`.

Format: inclusionAI/UI-Venus, `models/navigation/utils.py` (1.5, which says `box=` and `Scroll`),
`Venus_framework/Venus_framework_mobile/processor/ui_venus_2_processor.py` (2, which says `point=` and
`Swipe`) and `models/grounding` (a bare `[x,y]`, or `[-1,-1]` for what is not there). Each reads the other's
words. Coordinates are thousandths of the screen. UI-Venus 1.5 answers questions with `CallUser`; in 2 that is
a call for the user's help, which is to say that the task cannot be done.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

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
from guiagent.dialects.keys import read_key
from guiagent.dialects.language import (
    Call,
    Language,
    Place,
    calls,
    excerpt,
    number,
    one_of,
    quoted,
    tagged,
    text_of,
)
from guiagent.errors import DialectError

_NOWHERE = (-1, -1)  # the place of what is not on the screen
_POINTS = re.compile(r"\[\s*(-?\d{1,6}(?:\s*,\s*-?\d{1,6})+)\s*\]", re.ASCII)
_BUTTONS = {"PressBack": "back", "PressHome": "home", "PressEnter": "enter", "PressRecent": "recents"}
_BUTTON_NAMES = {ours: theirs for theirs, ours in _BUTTONS.items()}
_STEPS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
_STUCK = "The task cannot be done without the user."
_BREAKS = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})

_HOW = """\
You operate the phone whose screen each picture shows. Answer every picture with
<think> why the next step helps </think>
<action> one call </action>

x and y go from 0 to 999 over the width and the height of the screen. The calls:
"""
_CALLS_1_5 = """\
Click(box=(x, y))
LongPress(box=(x, y))
Drag(start=(x, y), end=(x, y))
Scroll(start=(x, y), end=(x, y))
Type(content='')
Launch(app='')
Wait()
PressBack()
PressHome()
PressEnter()
PressRecent()
CallUser(content='') answers a question, before the end
Finished(content='')
"""
_CALLS_2 = """\
Click(point=(x, y))
DoubleClick(point=(x, y))
LongPress(point=(x, y))
Drag(start=(x, y), end=(x, y))
Swipe(start=(x, y), end=(x, y))
Type(content='')
LaunchApp(app='')
Wait()
PressBack()
PressHome()
PressEnter()
PressRecent()
CallUser(content='') if the task cannot be done without the user
Answer(content='')
Finished(content='')
"""

Version = Literal["1.5", "2"]


def _read(version: Version, text: str, place: Place) -> list[Action]:
    sources = tagged(text) or [text.strip()]
    # Models break lines inside of texts, where Python does not.
    return [_action(version, call, place) for one in sources for call in calls(one.translate(_BREAKS))]


def _action(version: Version, call: Call, place: Place) -> Action:
    if call.arguments:
        raise DialectError(f"{call.name[:40]}() names its arguments")
    said: Mapping[str, Any] = call.named

    def point(*names: str) -> tuple[int, int]:
        given = next((said[name] for name in names if name in said), None)
        if not isinstance(given, list) or len(given) not in (2, 4):
            raise DialectError(f"{call.name[:40]}() needs {names[0]}=(x, y)")
        return place.middle([number(value, names[0]) for value in given])

    def content() -> str:
        return text_of(said.get("content"), "content")

    match call.name:
        case "Click" | "DoubleClick" | "LongPress" | "Hover" if list(_NOWHERE) in said.values():
            return Done(status="infeasible")
        case "Click" | "DoubleClick":
            x, y = point("point", "box")
            return Click(x=x, y=y, count=1 if call.name == "Click" else 2)
        case "LongPress":
            x, y = point("point", "box")
            return LongPress(x=x, y=y)
        case "Hover":
            x, y = point("point", "box")
            return Move(x=x, y=y)
        case "Drag":
            return Drag(path=(point("start"), point("end")))
        case "Scroll" if "start" not in said:
            return _scroll(one_of(_STEPS, said.get("direction"), "the direction"), place)
        case "Scroll" | "Swipe":
            (x1, y1), (x2, y2) = point("start"), point("end")
            return Swipe(x1=x1, y1=y1, x2=x2, y2=y2)
        case "Type":
            return Type(text=content())
        case "Launch" | "LaunchApp":
            return Open(target=text_of(said.get("app") or said.get("url"), "app"))
        case "Hotkey" if isinstance(keys := said.get("keys"), list):
            return KeyChord(keys=tuple(read_key(text_of(key, "a key")) for key in keys))
        case "Wait":
            return Wait()
        case "CallUser" if version == "2":
            return Done(status="infeasible")
        case "CallUser" | "Answer":
            return Answer(text=content())
        case "Finished":
            return Done()
        case "GetScreenshot":
            raise DialectError("GetScreenshot() is refused: no device puts a picture into its album")
        case name if name in _BUTTONS:
            return PressButton.model_validate({"button": _BUTTONS[name]})
        case _:
            raise DialectError(f"UI-Venus has no action {excerpt(call.name)}")


def _scroll(direction: str, place: Place) -> Scroll:
    """Half a screen of what lies in that direction."""
    (x, y), (dx, dy), (width, height) = place.centre, _STEPS[direction], place.size
    return Scroll(x=x, y=y, dx=dx * (width // 2), dy=dy * (height // 2))


def _write(version: Version, action: Action, place: Place) -> str | None:
    call = _say(version, action, place)
    return f"<action>{call}</action>" if call else None


def _say(version: Version, action: Action, place: Place) -> str | None:
    def at(x: int, y: int) -> str:
        return "({}, {})".format(*place.units(x, y))

    new = version == "2"
    where = "point" if new else "box"
    match action:
        case Click(x=x, y=y, button="left", count=1, modifiers=()):
            return f"Click({where}={at(x, y)})"
        case Click(x=x, y=y, button="left", count=2, modifiers=()):
            return f"DoubleClick({where}={at(x, y)})" if new else None
        case LongPress(x=x, y=y):
            return f"LongPress({where}={at(x, y)})"
        case Drag(path=(start, end), button="left"):
            return f"Drag(start={at(*start)}, end={at(*end)})"
        case Swipe(x1=x1, y1=y1, x2=x2, y2=y2):
            return f"{'Swipe' if new else 'Scroll'}(start={at(x1, y1)}, end={at(x2, y2)})"
        case Type(text=text, clear=False, submit=False):
            return f"Type(content={_quoted(text)})"
        case Open(target=target):
            return f"{'LaunchApp' if new else 'Launch'}(app={_quoted(target)})"
        case PressButton(button=button) if button in _BUTTON_NAMES:
            return f"{_BUTTON_NAMES[button]}()"
        case Wait():
            return "Wait()"
        case Answer(text=text):
            return f"{'Answer' if new else 'CallUser'}(content={_quoted(text)})"
        case Done(status="success", evidence=()):
            return "Finished(content='')"
        case Done(status="infeasible", evidence=()) if new:
            return f"CallUser(content={_quoted(_STUCK)})"
        case _:
            return None


def _quoted(text: str) -> str:
    """A string of Python, in which the tag that ends the call cannot stand."""
    return quoted(text).replace("<", "\\x3c")


def ui_venus(version: Version) -> Language:
    """The dialect of UI-Venus 1.5 or 2."""
    preamble = f"{_HOW}{_CALLS_2 if version == '2' else _CALLS_1_5}\nTask: "
    return Language(
        f"ui-venus-{version}",
        "",
        CoordinateSpace("norm1000"),
        lambda text, place: _read(version, text, place),
        lambda action, place: _write(version, action, place),
        preamble=preamble,
    )


_GROUNDING = """\
Say where the picture shows what the instruction below means: the middle of it as [x,y], which go from 0 to \
1000 over the width and the height of the picture, and nothing else. If it is not there, say [-1,-1].

Instruction: """


def _read_place(text: str, place: Place) -> list[Action]:
    found = [[int(number) for number in numbers.split(",")] for numbers in _POINTS.findall(text)]
    match found:
        case [[-1, -1, *_], *_]:
            return [Done(status="infeasible")]
        case [[_, _] | [_, _, _, _]]:
            x, y = place.middle(found[0])
            return [Click(x=x, y=y)]
        case [[x1, y1], [x2, y2]]:
            x, y = place.middle([x1, y1, x2, y2])
            return [Click(x=x, y=y)]
        case _:
            raise DialectError(f"no place [x,y] in {excerpt(text)}")


def _write_place(action: Action, place: Place) -> str | None:
    match action:
        case Click(x=x, y=y, button="left", count=1, modifiers=()):
            return "[{},{}]".format(*place.units(x, y))
        case Done(status="infeasible", evidence=()):
            return "[-1,-1]"
        case _:
            return None


def ui_venus_ground() -> Language:
    """The dialect of UI-Venus 1.5 and 2 as grounding models: a click, or that there is nothing to click."""
    space = CoordinateSpace("norm1000")
    return Language("ui-venus-ground", "", space, _read_place, _write_place, preamble=_GROUNDING)
