"""UI-TARS-1.5's action language: `Thought: ...` and then `Action: click(start_box='(x,y)')`.

Format: the README and `action_parser.py` of bytedance/UI-TARS; coordinates are pixels of the `smart_resize`
picture. Text is parsed to a syntax tree, and only calls of known names with literal keyword arguments are
accepted; nothing is ever evaluated.
"""

import ast
import re
from collections.abc import Sequence

from pydantic import ValidationError

from guiagent.actions import (
    Action,
    Answer,
    Click,
    Done,
    Drag,
    KeyChord,
    LongPress,
    Open,
    PressButton,
    Scroll,
    Type,
    Wait,
)
from guiagent.dialects.coordinates import CoordinateSpace, Size
from guiagent.dialects.keys import read_key, write_key
from guiagent.dialects.language import excerpt, quoted
from guiagent.errors import DialectError

MAX_CHARS = 8192  # of one reply; also bounds how deep its syntax tree can nest
MAX_ACTIONS = 16  # in one reply
WAIT_MS = 5000  # the meaning of wait() to these models

_FINISHED = "finished(content='') # the task is done; content is the answer, if one was asked for\n"
_PROVED = """\
finished(content='', evidence=[1,2]) # the task is done; content is the answer, if one was asked for; \
evidence are the numbers of the pictures that prove it, counted from 1 for the first one: the fewest that \
do, three at most
"""
_IN_PIXELS = "(x,y) is a place in the picture, in its pixels."
_IN_THOUSANDTHS = "(x,y) is a place in the picture, in thousandths of its width and height."
_PREAMBLE = f"""\
You operate the device whose screen each picture shows, to carry out the task below. Answer every picture with
Thought: why the next step helps, in a sentence
Action: one call from the list, or several with a blank line between them

{_IN_PIXELS} The calls:
click(start_box='(x,y)')
left_double(start_box='(x,y)')
right_single(start_box='(x,y)')
drag(start_box='(x,y)', end_box='(x,y)')
scroll(start_box='(x,y)', direction='up|down|left|right')
hotkey(key='ctrl c') # up to five keys, a space between them
type(content='') # a final \\n presses Enter; write \\' for a quote
wait() # five seconds
long_press(start_box='(x,y)')
open_app(app_name='')
press_home()
press_back()
{_FINISHED}call_user() # the task cannot be done

Task: """

_PARAMETERS = {  # of each call, by canonical name
    "click": {"start"},
    "left_double": {"start"},
    "right_single": {"start"},
    "long_press": {"start"},
    "drag": {"start", "end"},
    "scroll": {"start", "direction"},
    "hotkey": {"key"},
    "type": {"content"},
    "open_app": {"app_name"},
    "finished": {"content", "evidence"},
    "wait": set(),
    "call_user": set(),
    "press_home": set(),
    "press_back": set(),
}
_ALIASES = {
    "start_box": "start",
    "start_point": "start",
    "point": "start",
    "end_box": "end",
    "end_point": "end",
}

_ACTION_LINE = re.compile(r"^[ \t]*Action:", re.MULTILINE)
_NEXT_CALL = re.compile(rf"(?<=\))[ \t\r]*\n\s*(?=(?:{'|'.join(_PARAMETERS)})\()")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_POINT_TAGS = re.compile(r"<\|box_start\|>|<\|box_end\|>|</?point>|</?bbox>")
_NUMBER = r"-?\d{1,6}(?:\.\d{0,9})?"
_NUMBERS = re.compile(rf"[(\[]?\s*({_NUMBER}(?:(?:\s*,\s*|\s+){_NUMBER}){{1,3}})\s*[)\]]?", re.ASCII)

_Value = str | float | list[float]


class UiTars:
    """The dialect of UI-TARS-1.5 and of the small policy, which differ in the size of a patch, and of UI-TARS
    1.0, whose `space` is thousandths of the picture.

    `factor` is the side of a visual token in pixels (28 for UI-TARS-1.5, which is a Qwen2.5-VL). With
    `evidence` the prompt asks for the pictures that prove the outcome. That argument is our addition; it is
    parsed even without `evidence`.
    """

    name = "ui-tars"
    system = ""
    preamble: str = _PREAMBLE

    def __init__(
        self, factor: int = 28, space: CoordinateSpace | None = None, *, evidence: bool = False
    ) -> None:
        self.space = space or CoordinateSpace.resized(factor)
        if self.space.kind == "norm1000":
            self.preamble = self.preamble.replace(_IN_PIXELS, _IN_THOUSANDTHS)
        if evidence:
            self.preamble = self.preamble.replace(_FINISHED, _PROVED)

    def prompt(self, instruction: str) -> str:
        """`preamble`, the same for every task, and then the instruction as the last characters."""
        return self.preamble + instruction

    def parse(self, text: str, size: Size) -> list[Action]:
        """The actions of a reply, in pixels of a frame of `size`; a point outside is clamped to it.

        `scroll` moves by half a frame; `finished(content=...)` becomes an `Answer` and a `Done`.

        Raises:
            DialectError: the text is no such reply. Nothing else is raised.
        """
        if len(text) > MAX_CHARS:
            raise DialectError(f"the reply has {len(text)} characters, over the limit of {MAX_CHARS}")
        marker = _ACTION_LINE.search(text)
        if marker is None:
            raise DialectError(f"no line starts with 'Action:' in {excerpt(text)}")
        calls = _NEXT_CALL.split(text[marker.end() :].strip())
        if len(calls) > MAX_ACTIONS:
            raise DialectError(f"the reply has {len(calls)} actions, over the limit of {MAX_ACTIONS}")
        actions: list[Action] = []
        for call in calls:
            name, arguments = _read_call(call)
            try:
                actions += self._actions(name, arguments, size)
            except ValidationError as error:
                raise DialectError(f"{error.errors()[0]['msg']} in {excerpt(call)}") from None
        return actions

    def render(self, actions: Sequence[Action], size: Size) -> str:
        """The reply that expresses `actions`.

        How far to scroll, and how long to wait or press, is lost: the language cannot express it.

        Raises:
            DialectError: there is no action, or one that this language cannot express.
        """
        if not actions:
            raise DialectError("UI-TARS has no word for doing nothing")
        calls: list[str] = []
        for before, action in zip([None, *actions], actions, strict=False):
            match before, action:
                case Answer(text=text), Done(status="success", evidence=evidence):
                    calls[-1] = _finished(text, evidence)  # expresses both
                case _:
                    calls.append(self._call(action, size))
        return "Action: " + "\n\n".join(calls)

    def _actions(self, name: str, arguments: dict[str, _Value], size: Size) -> list[Action]:
        def point(argument: str) -> tuple[int, int]:
            return self.space.to_device(_centre(name, arguments.get(argument)), size)

        def string(argument: str) -> str:
            value = arguments.get(argument)
            if not isinstance(value, str):
                raise DialectError(f"{name}() needs {argument}='...'")
            return value

        match name:
            case "click" | "left_double" | "right_single":
                x, y = point("start")
                count, button = (
                    2 if name == "left_double" else 1,
                    "right" if name == "right_single" else "left",
                )
                return [Click.model_validate({"x": x, "y": y, "count": count, "button": button})]
            case "long_press":
                x, y = point("start")
                return [LongPress(x=x, y=y)]
            case "drag":
                return [Drag(path=(point("start"), point("end")))]
            case "scroll":
                x, y = point("start") if "start" in arguments else (size[0] // 2, size[1] // 2)
                dx, dy = _scroll_step(string("direction"), size)
                return [Scroll(x=x, y=y, dx=dx, dy=dy)]
            case "hotkey":
                return [KeyChord(keys=tuple(read_key(key) for key in _split_keys(string("key"))))]
            case "type":
                text = string("content")
                return [Type(text=text.removesuffix("\n"), submit=text.endswith("\n"))]
            case "open_app":
                return [Open(target=string("app_name"))]
            case "press_home":
                return [PressButton(button="home")]
            case "press_back":
                return [PressButton(button="back")]
            case "finished":
                answer = string("content") if "content" in arguments else ""
                done = Done(evidence=_turns(arguments.get("evidence", [])))
                return [Answer(text=answer), done] if answer else [done]
            case "call_user":
                return [Done(status="infeasible")]
            case _:
                return [Wait(ms=WAIT_MS)]

    def _call(self, action: Action, size: Size) -> str:
        def box(x: int, y: int) -> str:
            x, y = self.space.from_device((x, y), size)
            return f"'({x},{y})'"

        match action:
            case Click(button="left", count=1, modifiers=()):
                return f"click(start_box={box(action.x, action.y)})"
            case Click(button="left", count=2, modifiers=()):
                return f"left_double(start_box={box(action.x, action.y)})"
            case Click(button="right", count=1, modifiers=()):
                return f"right_single(start_box={box(action.x, action.y)})"
            case LongPress(x=x, y=y):
                return f"long_press(start_box={box(x, y)})"
            case Drag(path=(start, end), button="left"):
                return f"drag(start_box={box(*start)}, end_box={box(*end)})"
            case Scroll(x=x, y=y, dx=dx, dy=dy) if (dx == 0) != (dy == 0):
                direction = ("down" if dy > 0 else "up") if dy else ("right" if dx > 0 else "left")
                return f"scroll(start_box={box(x, y)}, direction='{direction}')"
            case KeyChord(keys=keys):
                return f"hotkey(key={quoted(' '.join(write_key(key) for key in keys))})"
            case Type(text=text, clear=False, submit=submit) if submit or not text.endswith("\n"):
                return f"type(content={quoted(text + chr(10) * submit)})"
            case Open(target=target):
                return f"open_app(app_name={quoted(target)})"
            case PressButton(button="home" | "back" as button):
                return f"press_{button}()"
            case Wait():
                return "wait()"
            case Answer(text=text):
                return _finished(text, ())
            case Done(status="success", evidence=evidence):
                return _finished("", evidence)
            case Done(status="infeasible", evidence=()):
                return "call_user()"
            case _:
                raise DialectError(f"UI-TARS has no word for {action!r}")


def _finished(answer: str, evidence: Sequence[int]) -> str:
    said = [f"content={quoted(answer)}"] if answer else []
    said += [f"evidence=[{','.join(str(turn + 1) for turn in evidence)}]"] if evidence else []
    return f"finished({', '.join(said)})"


def _turns(pictures: _Value) -> tuple[int, ...]:
    """The turns, from 0, of pictures that are numbered from 1."""
    numbers = pictures if isinstance(pictures, list) else [pictures]
    if not all(isinstance(number, int) and number > 0 for number in numbers):
        raise DialectError("finished() takes evidence as a list of picture numbers, from 1")
    return tuple(int(number) - 1 for number in numbers if not isinstance(number, str))


def _read_call(source: str) -> tuple[str, dict[str, _Value]]:
    """The name and the literal arguments of one call, by its syntax tree."""
    # Models write line breaks and backslashes inside strings unescaped.
    line = _ESCAPE.sub(lambda m: m[0] if m[1] in "\\'\"nrtxuU" else "\\\\" + m[1], source)
    line = line.strip().replace("\r", "\\r").replace("\n", "\\n")
    try:
        tree = ast.parse(line, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise DialectError(f"not a call: {excerpt(source)}") from None
    match tree:
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords) if name in _PARAMETERS:
            pass
        case _:
            raise DialectError(f"not a call of the action space with named arguments: {excerpt(source)}")
    arguments: dict[str, _Value] = {}
    for keyword in keywords:
        argument = _ALIASES.get(keyword.arg or "", keyword.arg or "**")
        if argument not in _PARAMETERS[name] or argument in arguments:
            raise DialectError(f"{name}() does not take {keyword.arg or '**'} here: {excerpt(source)}")
        arguments[argument] = _literal(keyword.value)
    return name, arguments


def _literal(node: ast.expr) -> _Value:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return [_number(element) for element in elements]
        case _:
            return _number(node)


def _number(node: ast.expr) -> float:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as operand):
            return -_number(operand)
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool) and abs(value) < 1e6:
            return value
        case _:
            raise DialectError("an argument is neither a string nor a sensible number nor a list of those")


def _centre(name: str, value: _Value | None) -> tuple[float, float]:
    """(x, y) of a point, or of the middle of a box of four numbers."""
    if isinstance(value, str):
        found = _NUMBERS.fullmatch(_POINT_TAGS.sub("", value).strip())
        value = [float(number) for number in re.split(r"[\s,]+", found[1])] if found else None
    match value:
        case [x, y]:
            return x, y
        case [x1, y1, x2, y2]:
            return (x1 + x2) / 2, (y1 + y2) / 2
        case _:
            raise DialectError(f"{name}() needs its place as '(x,y)'")


def _scroll_step(direction: str, size: Size) -> tuple[int, int]:
    """(dx, dy) of half a frame."""
    steps = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
    if direction not in steps:
        raise DialectError(f"scroll() goes up, down, left or right, not {excerpt(direction)}")
    dx, dy = steps[direction]
    return dx * (size[0] // 2), dy * (size[1] // 2)


def _split_keys(keys: str) -> list[str]:
    parts = keys.split()
    return parts[0].split("+") if len(parts) == 1 and len(parts[0]) > 1 else parts
