"""EvoCUA's action language: Qwen's tool `computer_use`, with held keys and a drag from the pointer.

Format: meituan/EvoCUA, `mm_agents/evocua/prompts.py` (style S2) and `evocua_agent.py`. Coordinates are of a
screen of 999x999, although the prompt says 1000x1000. `pixels` are handed to pyautogui, whose unit is a notch
of the wheel, and the wheel turns where the pointer is.
"""

from collections.abc import Sequence
from typing import Any, Final

from guiagent.actions import Action, Click, Done, Drag, KeyDown, KeyUp, Scroll, points
from guiagent.dialects.coordinates import CoordinateSpace
from guiagent.dialects.keys import read_key, write_key
from guiagent.dialects.language import NOTCH, Language, Place, one_of, scroll_distance, typed
from guiagent.dialects.qwen import ACTIONS, ARGUMENTS, CLICKS, Arguments, meant, said
from guiagent.dialects.tool_calls import read_calls, tool_prompt, write_call
from guiagent.errors import DialectError

_TOOL: Final = "computer_use"
_VERBS: dict[str, tuple[tuple[str, ...], str]] = {
    **ACTIONS[_TOOL],
    "left_click_drag": (("coordinate",), "drag from where the pointer is to this place"),
    "scroll": (("pixels",), "turn the wheel by so many notches; a positive number goes up"),
    "key_down": (("keys",), "press these keys and hold them"),
    "key_up": (("keys",), "release these keys"),
    "terminate": (("status",), "end, and say how it went"),
}
del _VERBS["hscroll"]
_DESCRIPTION = (
    "Use a computer with a mouse and a keyboard. The screen has 1000x1000 pixels. Coordinates are [x, y] "
    "from the top left."
)


def _read(text: str, place: Place) -> list[Action]:
    actions: list[Action] = []
    for found in read_calls(text, _TOOL, "json"):
        for action in _actions(typed(found, Arguments), place):
            actions.append(action)
            place.pointer = next(reversed(points(action)), place.pointer)
    return actions


def _actions(a: Arguments, place: Place) -> Sequence[Action]:
    match one_of(_VERBS, a.action, "the action"):
        case "key_down":
            return [KeyDown(key=read_key(key)) for key in _keys(a)]
        case "key_up":
            return [KeyUp(key=read_key(key)) for key in reversed(_keys(a))]
        case "left_click_drag":
            return [Drag(path=(place.middle(None), place.middle(a.coordinate)))]
        case "scroll" if a.pixels is not None:
            x, y = place.pointer or place.centre
            return [Scroll(x=x, y=y, dy=-scroll_distance(a.pixels * NOTCH))]
        case _ if a.action in CLICKS:
            x, y = place.middle(a.coordinate)  # where the pointer is, if the call does not say where
            button, count = CLICKS[a.action]
            return [Click.model_validate({"x": x, "y": y, "button": button, "count": count})]
        case "terminate" if a.status is None:
            return [Done()]
        case _:
            return [meant(_TOOL, a, place)]


def _keys(a: Arguments) -> list[str]:
    if not a.keys:
        raise DialectError(f"{a.action} needs keys")
    return a.keys


def _write(action: Action, place: Place) -> str | None:
    match action:
        case KeyDown(key=key) | KeyUp(key=key):
            verb = "key_down" if isinstance(action, KeyDown) else "key_up"
            arguments: dict[str, Any] | None = {"action": verb, "keys": [write_key(key)]}
        case Drag(path=(start, end), button="left"):
            arguments = {"action": "left_click_drag", "coordinate": list(place.units(*end))}
            arguments = arguments if start == place.pointer else None
        case Scroll(x=x, y=y, dx=0, dy=dy):
            turns = (x, y) == (place.pointer or place.centre) and dy % NOTCH == 0
            arguments = {"action": "scroll", "pixels": -dy // NOTCH} if turns else None
        case Done(evidence=evidence) if evidence:
            arguments = None
        case _:
            arguments = said(_TOOL, action, place)
    if arguments is None or arguments["action"] not in _VERBS:
        return None
    return write_call(_TOOL, arguments, "json")


def evocua() -> Language:
    """The dialect of EvoCUA."""
    prompt = tool_prompt(_TOOL, _DESCRIPTION, _VERBS, ARGUMENTS)
    return Language("evocua", prompt, CoordinateSpace("norm999"), _read, _write)
