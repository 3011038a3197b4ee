"""The command lines by which E2B's desktop client (`e2b-desktop`) drives a screen, as actions.

Its mouse, keyboard and screenshots are the programs xdotool, scrot, xrandr and xdg-open. Read here they need
not be installed, and pass the farm's guardrails, records and idempotency like any other client's actions.
Whatever is not such a line runs on the device as it is.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from guiagent.actions import (
    MAX_TEXT,
    Action,
    Button,
    Click,
    KeyChord,
    MouseDown,
    MouseUp,
    Move,
    Open,
    Scroll,
    Type,
)
from guiagent.dialects.keys import read_key
from guiagent.errors import DialectError, UsageError, first_error

_QUOTED = re.compile(r"'[^']*'|\"'\"")  # as `shlex.quote` writes them
_OF_SHELLS = frozenset('|&;<>()$`\\"*{}~\n\r')  # with one of them outside of quotes a line is a shell's
_SESSION = re.compile(r"pgrep -x xfce4-session\b")
_SCREEN = re.compile(r"(\d{1,5})x(\d{1,5})(?:x\d+)?")
_URL = re.compile(r"https?://|about:|data:")
_BUTTONS: dict[str, Button] = {"1": "left", "2": "middle", "3": "right"}
_WHEEL = {"4": (0, -1), "5": (0, 1), "6": (-1, 0), "7": (1, 0)}
_NOTCH = 53  # pixels that desktops scroll for a notch of the wheel
_NOTCHES_AT_ONCE = 10_000 // _NOTCH
_MOST_REPEATS = 1_000
_CLICKS_AT_ONCE = 3
_KEYS = {  # W3C names by X keysym, in small letters and without its side
    "prior": "PageUp",
    "next": "PageDown",
    "caps_lock": "CapsLock",
    "num_lock": "NumLock",
    "scroll_lock": "ScrollLock",
    "pause": "Pause",
    "print": "PrintScreen",
    "menu": "ContextMenu",
    "plus": "+",
    "minus": "-",
    "equal": "=",
    "comma": ",",
    "period": ".",
    "slash": "/",
    "semicolon": ";",
}


class WrongScreenError(UsageError):
    """The client starts a screen of another size than the device has: whatever it did would go astray."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a command line of the desktop client comes to.

    Attributes:
        actions: to be carried out, in order.
        output: what the program would print.
        pointer: where the pointer is afterwards, in pixels.
        screenshot: a PNG of the screen is written to this path of the device.
    """

    pointer: tuple[int, int]
    actions: tuple[Action, ...] = ()
    output: str = ""
    screenshot: str | None = None


def read(line: str, pointer: tuple[int, int], size: tuple[int, int]) -> Line | None:
    """What a line comes to on a screen of `size` pixels with the `pointer` there; None: it is not ours.

    Raises UsageError for a line of ours that no screen of this size can follow.
    """
    width, height = size
    if _SESSION.match(line):  # of XFCE: the session of a leased desktop is its own, and it runs
        return Line(pointer)
    match _words(line):
        case ["xdotool", *words]:
            try:
                return _xdotool(words, pointer)
            except ValidationError as error:
                raise UsageError(f"xdotool: {first_error(error.errors())}") from None
            except DialectError as error:
                raise UsageError(f"xdotool: {error}") from None
        case ["scrot", *options, path] if set(options) <= {"--pointer", "-p", "--overwrite", "-o"}:
            return Line(pointer, screenshot=path)
        case ["xrandr"]:
            return Line(pointer, output=f"screen connected primary\n   {width}x{height}     60.00*+\n")
        case ["xdpyinfo", "-display", _]:
            return Line(pointer, output=f"dimensions: {width}x{height} pixels\n")
        case ["Xvfb", *words]:
            wanted = next(filter(None, map(_SCREEN.fullmatch, words)), None)
            if wanted is not None and (int(wanted[1]), int(wanted[2])) != size:
                raise WrongScreenError(
                    f"this desktop has {width} x {height} pixels and cannot be another: create it with "
                    f"resolution=({width}, {height}), or start desktops @{wanted[1]}x{wanted[2]}"
                )
            return Line(pointer)
        case ["startxfce4"]:
            return Line(pointer)
        case ["xdg-open", target] if _URL.match(target):
            return Line(pointer, (_open(target),))
        case ["gtk-launch", application] if "/" not in application:
            return Line(pointer, (_open(application),))
    return None


def _words(line: str) -> list[str]:
    """The words of a line that has none of a shell's signs but quotes; else none."""
    if _OF_SHELLS & set(_QUOTED.sub("", line)):
        return []
    try:
        return shlex.split(line)
    except ValueError:
        return []


def _open(target: str) -> Open:
    try:
        return Open(target=target)
    except ValidationError as error:
        raise UsageError(first_error(error.errors())) from None


def _xdotool(words: Sequence[str], pointer: tuple[int, int]) -> Line | None:
    x, y = pointer
    match words:
        case ["getmouselocation"]:
            return Line(pointer, output=f"x:{x} y:{y} screen:0 window:0\n")
        case ["mousemove", "--sync", across, down] | ["mousemove", across, down]:
            to = _pixel(across), _pixel(down)
            return Line(to, (Move(x=to[0], y=to[1]),))
        case ["click", "--repeat", times, button]:
            return Line(pointer, _clicks(pointer, button, _repeats(times)))
        case ["click", button]:
            return Line(pointer, _clicks(pointer, button, 1))
        case ["mousedown", button] if button in _BUTTONS:
            return Line(pointer, (MouseDown(x=x, y=y, button=_BUTTONS[button]),))
        case ["mouseup", button] if button in _BUTTONS:
            return Line(pointer, (MouseUp(x=x, y=y, button=_BUTTONS[button]),))
        case ["type", "--delay", _, "--", text] | ["type", "--", text]:
            parts = (text[start : start + MAX_TEXT] for start in range(0, len(text), MAX_TEXT))
            return Line(pointer, tuple(Type(text=part) for part in parts))
        case ["key", chord]:
            return Line(pointer, (KeyChord(keys=_chord(chord)),))
    return None


def _clicks(pointer: tuple[int, int], button: str, times: int) -> tuple[Action, ...]:
    """Clicks, or notches of the wheel, at the pointer."""
    x, y = pointer
    if button in _WHEEL:
        across, down = _WHEEL[button]
        return tuple(
            Scroll(x=x, y=y, dx=across * notches * _NOTCH, dy=down * notches * _NOTCH)
            for notches in _portions(times, _NOTCHES_AT_ONCE)
        )
    if button not in _BUTTONS:
        raise UsageError(f"xdotool: a mouse has the buttons 1 to 7, not {button[:20]!r}")
    return tuple(
        Click(x=x, y=y, button=_BUTTONS[button], count=count) for count in _portions(times, _CLICKS_AT_ONCE)
    )


def _portions(whole: int, most: int) -> list[int]:
    return [min(most, whole - done) for done in range(0, whole, most)]


def _pixel(text: str) -> int:
    if not re.fullmatch(r"\d{1,6}", text, re.ASCII):
        raise UsageError(f"xdotool: {text[:20]!r} is no pixel of the screen")
    return int(text)


def _repeats(text: str) -> int:
    if not re.fullmatch(r"\d{1,6}", text, re.ASCII) or not 1 <= int(text) <= _MOST_REPEATS:
        raise UsageError(f"xdotool: --repeat is a number from 1 to {_MOST_REPEATS}, not {text[:20]!r}")
    return int(text)


def _chord(text: str) -> tuple[str, ...]:
    """The keys of "Control_L+c", by their X keysyms."""
    return tuple(_key(name) for name in (text.split("+") if len(text) > 1 else [text]))


def _key(keysym: str) -> str:
    name = keysym.lower()
    if name in _KEYS:
        return _KEYS[name]
    return read_key(keysym if len(keysym) == 1 else name.removesuffix("_l").removesuffix("_r"))
