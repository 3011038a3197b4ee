"""Checks of a dialect: what it can say, strings whose meaning is known, and where its clicks land."""

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from guiagent.actions import (
    ACTIONS,
    Action,
    Answer,
    Click,
    Done,
    Drag,
    KeyChord,
    KeyDown,
    KeyUp,
    LongPress,
    MouseDown,
    MouseUp,
    Move,
    Open,
    Pinch,
    PressButton,
    Scroll,
    Swipe,
    Type,
    Wait,
    Zoom,
)
from guiagent.dialects import Dialect
from guiagent.dialects.coordinates import Size
from guiagent.errors import DialectError

Verdict = Literal["exact", "lossy", "no word"]

SIDES = (160, 4096)  # of the screens that clicks are tried on, in pixels
SCREENS, CLICKS = 60, 6  # screens that are drawn, and clicks on each
_SIZE = (1000, 700)  # of the round trips
_X, _Y = 500, 350  # the middle, which every space of coordinates has
_CORNER = (125, 175)
_PLACES = {"x", "y", "x1", "y1", "x2", "y2", "path", "region"}  # fields that hold pixels

PROBES: dict[str, list[Action]] = {
    "click": [Click(x=_X, y=_Y)],
    "click right": [Click(x=_X, y=_Y, button="right")],
    "click middle": [Click(x=_X, y=_Y, button="middle")],
    "click back": [Click(x=_X, y=_Y, button="back")],
    "click twice": [Click(x=_X, y=_Y, count=2)],
    "click three times": [Click(x=_X, y=_Y, count=3)],
    "click with Control": [Click(x=_X, y=_Y, modifiers=("Control",))],
    "move": [Move(x=_X, y=_Y)],
    "press and release": [Move(x=_X, y=_Y), MouseDown(x=_X, y=_Y), MouseUp(x=_X, y=_Y)],
    "drag": [Move(x=_X, y=_Y), Drag(path=((_X, _Y), _CORNER))],
    "drag by a third place": [Drag(path=((_X, _Y), _CORNER, (_X, 0)))],
    "scroll": [Scroll(x=_X, y=_Y, dy=300)],
    "scroll sideways": [Scroll(x=_X, y=_Y, dx=-300)],
    "scroll half a screen": [Scroll(x=_X, y=_Y, dy=_SIZE[1] // 2)],
    "type": [Type(text='it\'s "7"\n<b> \u00e4')],
    "type and submit": [Type(text="a", submit=True)],
    "clear, type and submit": [Type(text="a", clear=True, submit=True)],
    "key": [KeyChord(keys=("Enter",))],
    "chord": [KeyChord(keys=("Control", "Shift", "t"))],
    "hold and release a key": [KeyDown(key="Shift"), KeyUp(key="Shift")],
    "long press": [LongPress(x=_X, y=_Y)],
    "swipe": [Swipe(x1=_X, y1=_Y, x2=125, y2=175)],
    "pinch": [Pinch(x=_X, y=_Y, scale=2.0)],
    "back": [PressButton(button="back")],
    "home": [PressButton(button="home")],
    "enter": [PressButton(button="enter")],
    "recents": [PressButton(button="recents")],
    "volume": [PressButton(button="volume_up")],
    "open": [Open(target="https://example.org/")],
    "wait a second": [Wait(ms=1000)],
    "look again": [Wait(ms=0)],
    "zoom": [Zoom(region=(0, 0, _X, _Y))],
    "answer": [Answer(text="it's 7")],
    "answer, done": [Answer(text="it's 7"), Done()],
    "done": [Done()],
    "failed": [Done(status="failure")],
    "infeasible": [Done(status="infeasible")],
    "done with evidence": [Done(evidence=(0, 2))],
}


@dataclass(frozen=True)
class RoundTrip:
    """What becomes of actions that are said and read again; `said` is a reply, or why there is none."""

    what: str
    verdict: Verdict
    said: str
    read: tuple[Action, ...] = ()


@dataclass(frozen=True)
class Golden:
    """A reply whose meaning on a frame of `size` is known; `actions` is None if it has to be refused."""

    reply: str
    size: Size
    actions: list[Action] | None


@dataclass(frozen=True)
class Landing:
    """The click that landed farthest, in parts of what its screen allows; over 1 is a defect."""

    worst: float
    pixels: int  # that it was off
    size: Size
    pixel: tuple[int, int]


def round_trips(dialect: Dialect) -> list[RoundTrip]:
    """Every probe said in the dialect and read again."""
    return [_round_trip(dialect, what, actions) for what, actions in PROBES.items()]


def _round_trip(dialect: Dialect, what: str, actions: list[Action]) -> RoundTrip:
    try:
        said = dialect.render(actions, _SIZE)
    except DialectError as error:
        return RoundTrip(what, "no word", str(error))
    read = dialect.parse(said, _SIZE)
    wanted, got = (ACTIONS.dump_python(one, mode="json") for one in (actions, read))
    near = alike(wanted, got, max(dialect.space.drift(_SIZE)))
    return RoundTrip(what, "exact" if near else "lossy", said, tuple(read))


def alike(said: Any, read: Any, most: float, key: str = "") -> bool:
    """Whether two values are the same, but for pixels that the units of coordinates cannot tell apart."""
    match said, read:
        case dict(), dict():
            return said.keys() == read.keys() and all(alike(said[k], read[k], most, k) for k in said)
        case list(), list():
            pairs = zip(said, read, strict=False)
            return len(said) == len(read) and all(alike(one, other, most, key) for one, other in pairs)
        case _ if key in _PLACES:
            return bool(abs(said - read) <= most)
        case _:
            return bool(said == read)


def expected() -> dict[str, Any]:
    """What is known of every dialect: its golden replies, and what it says exactly or with a loss."""
    known: dict[str, Any] = json.loads((files("guiagent.dialects") / "golden.json").read_text("utf-8"))
    return known


def golden(lines: Iterable[str]) -> Iterator[Golden]:
    """Replies of a file: a line is one, or JSON with `reply` and, if they are known, `size` and `actions`.

    `actions` null says that the reply has to be refused. Raises DialectError for another object with `reply`.
    """
    for line in lines:
        try:
            given = json.loads(line)
        except (ValueError, RecursionError):
            given = None
        yield read_golden(given if isinstance(given, dict) and "reply" in given else {"reply": line})


def read_golden(given: dict[str, Any]) -> Golden:
    match given.get("reply"), given.get("size", [1920, 1080]):
        case str(reply), [int(width), int(height)]:
            pass
        case _:
            raise DialectError("a known reply is a text, and its size two numbers of pixels")
    actions = given.get("actions", [])
    try:
        known = None if actions is None else ACTIONS.validate_python(actions)
    except ValueError as error:
        raise DialectError(f"the actions of a known reply are none: {str(error).splitlines()[0]}") from None
    return Golden(reply, (width, height), known)


def misread(dialect: Dialect, known: Golden) -> str | None:
    """Why a reply does not mean what it should; None if it does. No known actions: it has to be readable."""
    try:
        read = dialect.parse(known.reply, known.size)
    except DialectError as error:
        return None if known.actions is None else f"refused: {error}"
    if known.actions is None:
        return f"read as {_in_words(read)}, and should be refused"
    if known.actions and read != known.actions:
        return f"read as {_in_words(read)}, not as {_in_words(known.actions)}"
    return None


def _in_words(actions: Iterable[Action]) -> str:
    return json.dumps([action.model_dump(mode="json", exclude_defaults=True) for action in actions])[:200]


def farthest_click(dialect: Dialect, seed: int = 0) -> Landing:
    """Clicks at seeded places of seeded screens, said and read again; the one farthest off.

    A click may move by what the space's units cannot tell apart (`CoordinateSpace.drift`), and never by less
    than one pixel.
    """
    rng = random.Random(seed)
    worst = Landing(0.0, 0, _SIZE, (0, 0))
    for _ in range(SCREENS):
        size = (rng.randint(*SIDES), rng.randint(*SIDES))
        corners = [(0, 0), (size[0] - 1, size[1] - 1)]
        for x, y in [*corners, *((rng.randrange(size[0]), rng.randrange(size[1])) for _ in range(CLICKS))]:
            (landed,) = dialect.parse(dialect.render([Click(x=x, y=y)], size), size)
            off = (abs(landed.x - x), abs(landed.y - y)) if isinstance(landed, Click) else size
            allowed = dialect.space.drift(size)
            share = max(moved / max(1.0, most) for moved, most in zip(off, allowed, strict=True))
            if share > worst.worst:
                worst = Landing(share, max(off), size, (x, y))
    return worst


def defects(name: str, dialect: Dialect) -> list[str]:
    """What is wrong with a dialect, a line each; empty if it keeps to what is known of it."""
    known, found = expected().get(name), list[str]()
    if known is None:
        return [f"nothing is known of {name}: golden.json has no entry"]
    trips = round_trips(dialect)
    for trip in trips:
        wanted = next((v for v in ("exact", "lossy") if trip.what in known[v]), "no word")
        if trip.verdict != wanted:
            found.append(f"{trip.what}: {trip.verdict}, and should be {wanted}")
    for number, given in enumerate(known["replies"], 1):
        if wrong := misread(dialect, read_golden(given)):
            found.append(f"golden reply {number}: {wrong}")
    landing = farthest_click(dialect)
    if landing.worst > 1:
        found.append(f"a click at {landing.pixel} of a {landing.size} screen lands {landing.pixels} px off")
    return found
