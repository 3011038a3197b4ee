"""GELab-Zero's action language: thoughts, and then fields with tabs between them, `action:...` one of them.

Format: stepfun-ai/gelab-zero, `copilot_tools/parser_0920_summary.py`. Coordinates are thousandths of the
screen. `explain` says what the step is for, `summary` what has been done so far: words for the model itself.
To ask the user (INFO), and to give up (ABORT), are both to say that the task cannot be done. There is no word
for a button of the phone, and none for a line's end: in texts, line ends and tabs cannot be written.
"""

import re

from guiagent.actions import Action, Answer, Click, Done, LongPress, Open, Swipe, Type, Wait
from guiagent.dialects.coordinates import CoordinateSpace
from guiagent.dialects.language import Language, Place, excerpt, milliseconds
from guiagent.errors import DialectError

_THOUGHT = re.compile(r"</\s*THINK\s*>", re.IGNORECASE)
_POINT = re.compile(r"(\d{1,6})\s*[,\s]\s*(\d{1,6})", re.ASCII)
_SECONDS = re.compile(r"\d{1,6}(?:\.\d{0,6})?", re.ASCII)
_GIVEN_UP = "The task cannot be done."
_PREAMBLE = """\
You operate the phone whose screen each picture shows, for the task below. Answer every picture with
<THINK> what you think </THINK>
explain:what the step is for\taction:...\tsummary:what has been done so far
with a tab before every field after the first. x and y go from 0 to 1000 over the width and the height of \
the screen. The actions, with their fields:
action:CLICK\tpoint:x,y
action:LONGPRESS\tpoint:x,y
action:TYPE\tvalue:text\tpoint:x,y of the field
action:SLIDE\tpoint1:x,y\tpoint2:x,y
action:AWAKE\tvalue:name of an app to open
action:WAIT\tvalue:seconds
action:INFO\tvalue:question to the user
action:ABORT\tvalue:why the task cannot be done
action:COMPLETE\treturn:answer or report

Task: """


def _read(text: str, place: Place) -> list[Action]:
    fields = {}
    for field in _THOUGHT.split(text)[-1].split("\t"):
        name, colon, value = field.strip().partition(":")
        if colon:
            fields[name.strip()] = value.strip()

    def given(name: str) -> str:
        if name not in fields:
            raise DialectError(f"{fields['action'][:20]} needs the field {name}")
        return fields[name]

    def point(name: str) -> tuple[int, int]:
        found = _POINT.fullmatch(given(name))
        if found is None:
            raise DialectError(f"{name} is x,y and not {excerpt(fields[name])}")
        return place.pixel(int(found[1]), int(found[2]))

    match fields.get("action"):
        case "CLICK":
            x, y = point("point")
            return [Click(x=x, y=y)]
        case "LONGPRESS":
            x, y = point("point")
            return [LongPress(x=x, y=y)]
        case "TYPE":
            words = Type(text=given("value"))
            if "point" not in fields:
                return [words]
            x, y = point("point")
            return [Click(x=x, y=y), words]
        case "SLIDE":
            (x1, y1), (x2, y2) = point("point1"), point("point2")
            return [Swipe(x1=x1, y1=y1, x2=x2, y2=y2)]
        case "AWAKE":
            return [Open(target=given("value"))]
        case "WAIT":
            if not _SECONDS.fullmatch(given("value")):
                raise DialectError(f"WAIT needs a number of seconds and not {excerpt(fields['value'])}")
            return [Wait(ms=milliseconds(float(fields["value"])))]
        case "INFO" | "ABORT":
            return [Done(status="infeasible")]
        case "COMPLETE":
            said = fields.get("return", "")
            return [Answer(text=said), Done()] if said else [Done()]
        case None:
            raise DialectError(f"no field action: in {excerpt(text)}")
        case unknown:
            raise DialectError(f"GELab-Zero has no action {excerpt(unknown)}")


def _write(action: Action, place: Place) -> str | None:
    def at(x: int, y: int) -> str:
        return "{},{}".format(*place.units(x, y))

    match action:
        case Click(x=x, y=y, button="left", count=1, modifiers=()):
            return _line("CLICK", point=at(x, y))
        case LongPress(x=x, y=y):
            return _line("LONGPRESS", point=at(x, y))
        case Type(text=text, clear=False, submit=False) if _sayable(text):
            return _line("TYPE", value=text)
        case Swipe(x1=x1, y1=y1, x2=x2, y2=y2):
            return _line("SLIDE", point1=at(x1, y1), point2=at(x2, y2))
        case Open(target=target) if _sayable(target):
            return _line("AWAKE", value=target)
        case Wait(ms=ms):
            return _line("WAIT", value=f"{ms / 1000:g}")
        case Done(status="infeasible", evidence=()):
            return _line("ABORT", value=_GIVEN_UP)
        case Done(status="success", evidence=()):
            return _line("COMPLETE", **{"return": ""})
        case Answer(text=text) if _sayable(text):
            return _line("COMPLETE", **{"return": text})
        case _:
            return None


def _sayable(text: str) -> bool:
    return bool(text) and text == text.strip() and not set(text) & set("\t\n\r") and not _THOUGHT.search(text)


def _line(action: str, **fields: str) -> str:
    said = "\t".join(f"{name}:{value}" for name, value in fields.items())
    return f"explain:\taction:{action}\t{said}\tsummary:"


def _join(words: list[str]) -> str:
    """The one action that a reply can have; an answer and the end after it are one."""
    match words:
        case [word]:
            return word
        case [answer, end] if "\taction:COMPLETE\treturn:" in answer and end == _line(
            "COMPLETE", **{"return": ""}
        ):
            return answer
        case _:
            raise DialectError("GELab-Zero has one action in a reply")


def gelab_zero() -> Language:
    """The dialect of GELab-Zero."""
    return Language(
        "gelab-zero", "", CoordinateSpace("norm1000"), _read, _write, join=_join, preamble=_PREAMBLE
    )
