"""Fara's action language: Qwen's `<tool_call>` of a tool `computer_use` with a browser's verbs.

Format: microsoft/fara, `src/fara/_prompts.py` and `fara_agent.py` (Fara-7B). Coordinates are pixels of the
`smart_resize` picture. `type` clicks first if it says where, and presses Enter unless told otherwise;
`scroll` goes by 400 px in the direction of its number's sign; a search, and an address with a space in it, go
to Bing. What a reply says before it ends with success is the answer.
"""

from typing import Annotated, Any
from urllib.parse import quote_plus

import msgspec

from guiagent.actions import (
    Action,
    Answer,
    Click,
    Done,
    KeyChord,
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
    Language,
    Place,
    milliseconds,
    one_of,
    scroll_distance,
    text_of,
    typed,
)
from guiagent.dialects.tool_calls import before_calls, read_calls, tool_prompt, write_call
from guiagent.errors import DialectError

_TOOL = "computer_use"
_SCROLL = 400  # pixels, whatever number the model gives
_WAIT_S = 3.0  # if it does not say how long
_SCHEMES = ("https://", "http://", "file://", "about:")
_VERBS = {
    "key": (("keys",), "press these keys together, in this order"),
    "type": (
        ("text", "coordinate", "press_enter", "delete_existing_text"),
        "click there, then type a text",
    ),
    "mouse_move": (("coordinate",), "move the pointer there"),
    "left_click": (("coordinate",), "click there"),
    "scroll": (("pixels",), "turn the wheel; a positive number goes up, a negative one down"),
    "visit_url": (("url",), "go to this address"),
    "web_search": (("query",), "search the web for this"),
    "history_back": ((), "go back to the page before"),
    "pause_and_memorize_fact": (("fact",), "remember this for later"),
    "wait": (("time",), "wait for so many seconds"),
    "refresh": ((), "load the page again"),
    "terminate": (
        ("status",),
        "end, and say how it went; the answer, if one was asked for, stands before the call",
    ),
}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "coordinate": {"type": "array", "description": "[x, y]"},
    "keys": {"type": "array", "items": {"type": "string"}},
    "text": {"type": "string"},
    "press_enter": {"type": "boolean", "description": "whether to press Enter after it"},
    "delete_existing_text": {"type": "boolean", "description": "whether to empty the field first"},
    "pixels": {"type": "number"},
    "url": {"type": "string"},
    "query": {"type": "string"},
    "fact": {"type": "string"},
    "time": {"type": "number"},
    "status": {"type": "string", "enum": ["success", "failure"]},
}


class _Arguments(msgspec.Struct):
    """Every argument of every action. Arguments that an action does not take are ignored."""

    action: str
    coordinate: list[float] | None = None
    keys: Annotated[list[str], msgspec.Meta(max_length=5)] | None = None
    text: str | None = None
    press_enter: bool = True
    delete_existing_text: bool = False
    pixels: float = 0.0
    url: str | None = None
    query: str | None = None
    fact: str | None = None
    time: float = _WAIT_S
    status: str | None = None


def _read(text: str, place: Place) -> list[Action]:
    said = before_calls(text)
    return [
        action
        for found in read_calls(text, _TOOL, "json")
        for action in _actions(typed(found, _Arguments), place, said)
    ]


def _actions(a: _Arguments, place: Place, said: str) -> list[Action]:
    match one_of(_VERBS, a.action, "the action"):
        case "key":
            return [KeyChord(keys=tuple(read_key(key) for key in a.keys or ()))]
        case "type":
            words = Type(text=text_of(a.text, "text"), clear=a.delete_existing_text, submit=a.press_enter)
            return [words] if a.coordinate is None else [_click(a, place), words]
        case "mouse_move":
            x, y = _point(a, place)
            return [Move(x=x, y=y)]
        case "left_click":
            return [_click(a, place)]
        case "scroll":
            (x, y), way = place.centre, scroll_distance(a.pixels)
            return [Scroll(x=x, y=y, dy=-_SCROLL if way > 0 else _SCROLL)] if way else [Wait(ms=0)]
        case "visit_url":
            return [Open(target=_address(text_of(a.url, "url")))]
        case "web_search":
            return [Open(target=_search(text_of(a.query, "query")))]
        case "history_back":
            return [PressButton(button="back")]
        case "pause_and_memorize_fact":  # it is remembered where it is said, in the reply
            return [Wait(ms=0)]
        case "wait":
            return [Wait(ms=milliseconds(a.time))]
        case "refresh":
            return [KeyChord(keys=("F5",))]
        case _:
            status = one_of(("success", "failure"), a.status, "the status")
            done = Done.model_validate({"status": status})
            return [Answer(text=said), done] if said and status == "success" else [done]


def _point(a: _Arguments, place: Place) -> tuple[int, int]:
    if a.coordinate is None:
        raise DialectError(f"{a.action} needs its place as [x, y]")
    return place.middle(a.coordinate)


def _click(a: _Arguments, place: Place) -> Click:
    x, y = _point(a, place)
    return Click(x=x, y=y)


def _address(url: str) -> str:
    if url.startswith(_SCHEMES):
        return url
    return _search(url) if " " in url else "https://" + url


def _search(query: str) -> str:
    return f"https://www.bing.com/search?q={quote_plus(query)}&FORM=QBLH"


def _write(action: Action, place: Place) -> str | None:
    match action:
        case Click(x=x, y=y, button="left", count=1, modifiers=()):
            return _call("left_click", coordinate=list(place.units(x, y)))
        case Move(x=x, y=y):
            return _call("mouse_move", coordinate=list(place.units(x, y)))
        case Type(text=text, clear=clear, submit=submit):
            return _call("type", text=text, press_enter=submit, delete_existing_text=clear)
        case KeyChord(keys=("F5",)):
            return _call("refresh")
        case KeyChord(keys=keys):
            return _call("key", keys=list(keys))
        case Scroll(dx=0, dy=dy) if dy:
            return _call("scroll", pixels=-dy)
        case Open(target=target) if target.startswith(_SCHEMES):
            return _call("visit_url", url=target)
        case PressButton(button="back"):
            return _call("history_back")
        case Wait(ms=ms):
            return _call("wait", time=ms / 1000)
        case Done(status="success" | "failure" as status, evidence=()):
            return _call("terminate", status=status)
        case Answer(text=text) if text and text == text.strip() and "<tool_call>" not in text:
            return text  # and the word for the end after it
        case _:
            return None


def _call(action: str, **arguments: Any) -> str:
    return write_call(_TOOL, {"action": action, **arguments}, "json")


def _join(words: list[str]) -> str:
    """The calls, after the answer that the last one ends with."""
    answers = [word for word in words if "<tool_call>" not in word]
    if answers and words[-2:] != [answers[0], _call("terminate", status="success")]:
        raise DialectError("Fara has no word for an answer without the end after it")
    return "\n".join([*answers, *(word for word in words if word not in answers)])


def fara() -> Language:
    """The dialect of Fara-7B."""
    what = "Use a web browser with a mouse and a keyboard. Coordinates are [x, y] from the top left."
    system = tool_prompt(_TOOL, what, _VERBS, _SCHEMAS)
    return Language("fara", system, CoordinateSpace.resized(28), _read, _write, join=_join)
