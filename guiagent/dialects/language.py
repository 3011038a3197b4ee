"""A dialect made of two functions, one that reads a reply and one that writes an action, and what both need.

Text is bounded first. JSON is decoded into typed structs, calls are read from a syntax tree with literal
arguments; nothing is evaluated, and whatever does not fit is a `DialectError`.
"""

import ast
import json
import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from pydantic import ValidationError

from guiagent.actions import Action, Answer, Done, points
from guiagent.dialects.coordinates import CoordinateSpace, Size
from guiagent.errors import DialectError

MAX_CHARS = 16_384  # of one reply
MAX_ACTIONS = 16  # in one reply
NOTCH = 100  # pixels that a turn of the wheel by one notch scrolls
# Neither fences nor tags open behind a quote of their line, apostrophes left out: those are in a text to be
# typed, which a screen may have dictated.
_UNQUOTED = r"""(?:[^"'`\n]|(?<=[a-zA-Z])'(?=[a-zA-Z]))*"""
_FENCED = re.compile(
    rf"^{_UNQUOTED}```(?:[a-zA-Z_]*+[ \t]*+\n|(?:json|python)[ \t]++)?+(.*?)```", re.DOTALL | re.MULTILINE
)
_TAGGED = re.compile(r"<action>(.*?)</action>", re.DOTALL)
_OPENING = re.compile(r"\[\s*\{|\{")  # of an object, or of a list of objects
_DECODER = json.JSONDecoder()
_BARE = "Done."  # what a language without a word for success says instead of a call

Literal = str | int | float | bool | None | list[Any]


@dataclass(slots=True)
class Place:
    """The screen of one reply: conversion of coordinates, and where its actions have left the pointer."""

    space: CoordinateSpace
    size: Size
    pointer: tuple[int, int] | None = None

    def pixel(self, x: float | None, y: float | None) -> tuple[int, int]:
        """The pixel at a model's coordinates, clamped to the frame, or where the pointer is if both are None.

        Raises DialectError for half a place, for no number, and where nothing in the reply says where.
        """
        if x is None and y is None:
            if self.pointer is None:
                raise DialectError("the reply does not say where: move the pointer there, or give x and y")
            return self.pointer
        if x is None or y is None:
            raise DialectError("a place needs both x and y")
        if not all(math.isfinite(value) and abs(value) < 1e6 for value in (x, y)):
            raise DialectError(f"({x:.9g}, {y:.9g}) is no sensible place")
        return self.space.to_device((x, y), self.size)

    def middle(self, given: Sequence[float] | None) -> tuple[int, int]:
        """The pixel at `[x, y]`, or in the middle of a box `[x1, y1, x2, y2]`; where the pointer is if None.

        Raises DialectError as `pixel` does, and for any other number of numbers.
        """
        match given:
            case None:
                return self.pixel(None, None)
            case [x, y]:
                return self.pixel(x, y)
            case [x1, y1, x2, y2]:
                return self.pixel((x1 + x2) / 2, (y1 + y2) / 2)
            case _:
                raise DialectError("a place is [x, y], or a box [x1, y1, x2, y2]")

    @property
    def centre(self) -> tuple[int, int]:
        return self.size[0] // 2, self.size[1] // 2

    def units(self, x: int, y: int) -> tuple[int, int]:
        """The coordinates that a model would write for a pixel."""
        return self.space.from_device((x, y), self.size)


@dataclass  # not frozen: `space` may be set, as that of every dialect
class Language:
    """A dialect by its functions.

    Attributes:
        read: turns a reply into actions, one after the other, so that a later one knows where the pointer is.
        write: the words for one action; "" or None if the language has none.
        join: puts the words for several actions together.
        preamble: what the first user turn says before the instruction, in families without a system turn.
        speaks: whether a reply without a call is what the agent says at the end, as with the APIs' own tools.
    """

    name: str
    system: str
    space: CoordinateSpace
    read: Callable[[str, Place], Sequence[Action]]
    write: Callable[[Action, Place], str | None]
    join: Callable[[list[str]], str] = field(default="\n".join)
    speaks: bool = False
    preamble: str = ""

    def prompt(self, instruction: str) -> str:
        return self.preamble + instruction

    def parse(self, text: str, size: Size) -> list[Action]:
        """The actions of a reply, in pixels of a frame of `size`; a point outside is clamped to it.

        Raises:
            DialectError: the text has no valid action. Nothing else is raised.
        """
        if len(text) > MAX_CHARS:
            raise DialectError(f"the reply has {len(text)} characters, over the limit of {MAX_CHARS}")
        try:
            if self.speaks and text.strip() and "{" not in text:
                return _spoken(text.strip())
            actions = list(self.read(text, Place(self.space, size)))
        except ValidationError as error:
            raise DialectError(f"{error.errors()[0]['msg']} in {excerpt(text)}") from None
        if not actions:
            raise DialectError(f"no action in {excerpt(text)}")
        if len(actions) > MAX_ACTIONS:
            raise DialectError(f"the reply has {len(actions)} actions, over the limit of {MAX_ACTIONS}")
        return actions

    def render(self, actions: Sequence[Action], size: Size) -> str:
        """The reply that expresses `actions`. Coordinates are rounded to the model's units.

        Raises:
            DialectError: there is no action, or one that the language cannot express.
        """
        match actions:
            case [Done(status="success", evidence=())] if self.speaks:
                return _BARE
            case [Answer(text=said), Done(status="success", evidence=())] if self.speaks and _sayable(said):
                return said
        words = []
        place = Place(self.space, size)
        for action in actions:
            word = self.write(action, place)
            if not word:
                raise DialectError(f"{self.name} has no word for {action!r}")
            words.append(word)
            place.pointer = next(reversed(points(action)), place.pointer)
        if not words:
            raise DialectError(f"{self.name} has no word for doing nothing")
        return self.join(words)


def _spoken(said: str) -> list[Action]:
    return [Done()] if said == _BARE else [Answer(text=said), Done()]


def _sayable(text: str) -> bool:
    return bool(text) and text == text.strip() and "{" not in text and text != _BARE


class Call(NamedTuple):
    """A call of a program or of a call language: its dotted name and literal arguments."""

    name: str
    arguments: list[Literal]
    named: dict[str, Literal]

    def bind(self, *parameters: str) -> dict[str, Any]:
        """Arguments by name, as Python binds them. Raises DialectError for too many, or unknown ones."""
        if len(self.arguments) > len(parameters):
            raise DialectError(f"{self.name}() takes {len(parameters)} arguments at most")
        bound: dict[str, Any] = dict(zip(parameters, self.arguments, strict=False))
        for name, value in self.named.items():
            if name not in parameters or name in bound:
                raise DialectError(f"{self.name}() does not take {name[:60]} here")
            bound[name] = value
        return bound


def json_objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects of a reply: those in its fences, or else those of its text, with words around them.

    A list of objects counts as its members.

    Raises:
        DialectError: there is none, or what looks like one is no JSON.
    """
    found = [one for source in _FENCED.findall(text) or [text] for one in objects(source)]
    if not found:
        raise DialectError(f"no JSON object in {excerpt(text)}")
    return found


def objects(source: str) -> list[dict[str, Any]]:
    """The JSON objects in a text, and the members of lists of objects, with any words between them.

    Raises DialectError if what looks like one is no JSON, or if a list has something else in it.
    """
    found: list[Any] = []
    while opening := _OPENING.search(source):
        value, source = _first_value(source[opening.start() :])
        found += value if isinstance(value, list) else [value]
    if not all(isinstance(value, dict) for value in found):
        raise DialectError("something else than objects in a list of objects")
    return found


def json_value(source: str) -> Any:
    """The value of a text that is JSON. Raises DialectError if it is none, or has words after it."""
    value, rest = _first_value(source.strip())
    if rest:
        raise DialectError(f"not JSON: {excerpt(source)}")
    return value


def _first_value(source: str) -> tuple[Any, str]:
    """The JSON value that a text begins with, and the rest of the text."""
    try:
        value, end = _DECODER.raw_decode(source)
    except (ValueError, RecursionError):
        raise DialectError(f"not JSON: {excerpt(source)}") from None
    return value, source[end:]


def typed(value: Any, kind: Any) -> Any:
    """Convert decoded JSON into a struct. Raises DialectError if it does not fit."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise DialectError(f"no such action: {str(error)[:120]}") from None


def code_of(text: str) -> str:
    """The program in a reply: all of it if that is one, else what is in its fences or `<action>` tags."""
    if _parsed(text) is not None:
        return text
    words = text.partition("<action>")[0].rpartition("\n")[2]
    tags = tagged(text) if re.fullmatch(_UNQUOTED, words) else []
    return "\n".join(_FENCED.findall(text) or tags) or text


def _parsed(code: str) -> ast.Module | None:
    """The syntax tree of a program; None for what is no Python."""
    try:
        return ast.parse(code.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def tagged(text: str) -> list[str]:
    """What stands in a reply's `<action>` tags."""
    return [source.strip() for source in _TAGGED.findall(text)]


def calls(code: str, allowed_imports: Sequence[str] = ()) -> list[Call]:
    """The calls of a program that is nothing but calls with literal arguments, and harmless imports.

    Raises:
        DialectError: it is no Python, or there is anything else in it.
    """
    if (tree := _parsed(code)) is None:
        raise DialectError(f"not a program: {excerpt(code)}")
    found = []
    for statement in tree.body:
        match statement:
            case ast.Import(names=names) if all(n.name in allowed_imports and not n.asname for n in names):
                pass
            case ast.Expr(value=ast.Call(func=function, args=arguments, keywords=keywords)):
                named = {keyword.arg: _literal(keyword.value) for keyword in keywords if keyword.arg}
                if len(named) != len(keywords):
                    raise DialectError(f"arguments are given twice or unpacked in {excerpt(code)}")
                found.append(Call(_dotted(function), [_literal(one) for one in arguments], named))
            case _:
                raise DialectError(f"something else than a call in {excerpt(code)}")
    return found


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return f"{module}.{name}"
        case _:
            raise DialectError("a call has a plain name, or one of a module")


def _literal(node: ast.expr) -> Literal:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.List(elts=elements) | ast.Tuple(elts=elements) if all(
            isinstance(element, ast.Constant | ast.UnaryOp) for element in elements
        ):
            return [_literal(element) for element in elements]
        case _:
            raise DialectError("an argument is no literal")


def number(value: Any, what: str, most: float = 1e6) -> float:
    """A finite number of sensible size. Raises DialectError for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise DialectError(f"{what} is no number: {excerpt(repr(value))}")
    if not -most <= value <= most:  # also what is no number
        raise DialectError(f"{what} is no sensible number")
    return float(value)


def optional_number(value: Any, what: str) -> float | None:
    return None if value is None else number(value, what)


def text_of(value: Any, what: str) -> str:
    """A string. Raises DialectError for anything else."""
    if not isinstance(value, str):
        raise DialectError(f"{what} is no text: {excerpt(repr(value))}")
    return value


def one_of(allowed: Collection[str], value: Any, what: str) -> str:
    """A text that is among `allowed`. Raises DialectError for any other value."""
    if not isinstance(value, str) or value not in allowed:
        raise DialectError(f"{what} is none of {', '.join(allowed)}: {excerpt(repr(value))}")
    return value


def milliseconds(seconds: float) -> int:
    """Milliseconds of a wait, a minute at most. Raises DialectError for a negative one, or no number."""
    if not math.isfinite(seconds) or seconds < 0:
        raise DialectError(f"nobody can wait for {seconds:.9g} seconds")
    return round(1000 * min(seconds, 60.0))


def scroll_distance(value: float) -> int:
    """Pixels of a scroll, bounded. Raises DialectError for no number."""
    if not math.isfinite(value):
        raise DialectError(f"nobody can scroll by {value}")
    return round(min(max(value, -10_000), 10_000))


_QUOTING = str.maketrans(
    {
        **{chr(c): f"\\x{c:02x}" for c in range(32)},
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\\": "\\\\",
        "'": "\\'",
    }
)


def quoted(text: str) -> str:
    """A text as a string of Python in single quotes, on one line."""
    return f"'{text.translate(_QUOTING)}'"


def excerpt(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "...")
