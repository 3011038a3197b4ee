"""Conversion of actions to commands of Android's shell. Pure: it builds the commands and runs none."""

import base64
import shlex
from collections.abc import Mapping, Sequence

from devices.drivers import UnsupportedAction
from guiagent.actions import (
    Action,
    Click,
    Drag,
    KeyChord,
    LongPress,
    PressButton,
    Scroll,
    Swipe,
    Type,
)

Command = tuple[str, ...]

_BUTTONS = {
    "back": "BACK",
    "home": "HOME",
    "recents": "APP_SWITCH",
    "menu": "MENU",
    "enter": "ENTER",
    "power": "POWER",
    "volume_up": "VOLUME_UP",
    "volume_down": "VOLUME_DOWN",
}
_SIGNS = "COMMA PERIOD MINUS EQUALS LEFT_BRACKET RIGHT_BRACKET BACKSLASH SEMICOLON APOSTROPHE SLASH AT PLUS"
_KEYS = {
    "Enter": "ENTER",
    "Tab": "TAB",
    "Backspace": "DEL",
    "Delete": "FORWARD_DEL",
    "Escape": "ESCAPE",
    "ArrowLeft": "DPAD_LEFT",
    "ArrowUp": "DPAD_UP",
    "ArrowRight": "DPAD_RIGHT",
    "ArrowDown": "DPAD_DOWN",
    "Home": "MOVE_HOME",
    "End": "MOVE_END",
    "PageUp": "PAGE_UP",
    "PageDown": "PAGE_DOWN",
    "Insert": "INSERT",
    "Alt": "ALT_LEFT",
    "Control": "CTRL_LEFT",
    "Meta": "META_LEFT",
    "Shift": "SHIFT_LEFT",
    " ": "SPACE",
    **{character: character.upper() for character in "abcdefghijklmnopqrstuvwxyz0123456789"},
    **{f"F{number}": f"F{number}" for number in range(1, 13)},
    **dict(zip(",.-=[]\\;'/@+", _SIGNS.split(), strict=True)),
}
_MODIFIERS = frozenset(("Alt", "Control", "Meta", "Shift"))
SCROLL_MS = 300
SLOW_SCROLL_MS = 3000  # on the virtual phone, where it costs no time: the list stops where the finger does
_SCROLL_SHARE = 0.7  # of the screen, the longest one finger goes
_MAX_SWIPES = 20
_TEXT_PIECE = 512
ADB_KEYBOARD = "com.android.adbkeyboard/.AdbIME"  # https://github.com/senzhk/ADBKeyBoard

APP_SCHEMES = frozenset(("http", "https", "tel", "sms", "smsto", "mailto", "geo"))
_PACKAGES = {
    "calculator": ("com.google.android.calculator", "com.android.calculator2"),
    "calendar": ("com.google.android.calendar", "com.android.calendar"),
    "camera": ("com.google.android.GoogleCamera", "com.android.camera2"),
    "chrome": ("com.android.chrome",),
    "clock": ("com.google.android.deskclock", "com.android.deskclock"),
    "contacts": ("com.google.android.contacts", "com.android.contacts"),
    "files": ("com.google.android.documentsui", "com.android.documentsui"),
    "gmail": ("com.google.android.gm",),
    "maps": ("com.google.android.apps.maps",),
    "messages": ("com.google.android.apps.messaging", "com.android.messaging"),
    "phone": ("com.google.android.dialer", "com.android.dialer"),
    "photos": ("com.google.android.apps.photos",),
    "play store": ("com.android.vending",),
    "settings": ("com.android.settings",),
    "youtube": ("com.google.android.youtube",),
}


def commands(
    action: Action, width: int, height: int, *, unicode: bool, scroll_ms: int = SCROLL_MS
) -> list[Command]:
    """The shell commands of one action, in order. `unicode`: `input text` types any character here.

    Raises UnsupportedAction.
    """
    match action:
        case Click(button="left", modifiers=()):
            return [_input("tap", action.x, action.y)] * action.count
        case LongPress():
            return [_input("swipe", action.x, action.y, action.x, action.y, action.ms)]
        case Swipe():
            return [_input("swipe", action.x1, action.y1, action.x2, action.y2, action.ms)]
        case Drag(path=((x1, y1), (x2, y2)), button="left"):
            return [_input("draganddrop", x1, y1, x2, y2, 500)]
        case Scroll():
            return _scroll(action, width, height, scroll_ms)
        case Type():
            return _type(action, unicode=unicode)
        case KeyChord():
            return [_chord(action.keys)]
        case PressButton() if action.button in _BUTTONS:
            return [_key(_BUTTONS[action.button])]
        case Click():
            raise UnsupportedAction("a touch screen has no other button than a finger, and no modifier keys")
        case Drag():
            raise UnsupportedAction("a drag on a phone goes from one point to another, with one finger")
    raise UnsupportedAction(f"a phone has no {action.type!r} action")


def script(parts: Sequence[Command]) -> str:
    """Join commands to one shell line that stops at the first failure and writes nothing to stdout."""
    return " && ".join(f"{shlex.join(part)} >/dev/null" for part in parts)


def open_url(url: str) -> Command:
    """The command that opens a URL. Raises UnsupportedAction for a scheme that is not in `APP_SCHEMES`."""
    scheme = url.partition(":")[0].lower()
    if scheme not in APP_SCHEMES:
        raise UnsupportedAction(f"refused to open {url[:80]!r}: only {', '.join(sorted(APP_SCHEMES))}")
    return ("am", "start", "-a", "android.intent.action.VIEW", "-d", url)


def open_app(package: str) -> Command:
    return ("monkey", "-p", package, "-c", "android.intent.category.LAUNCHER", "1")


def package_of(name: str, installed: Sequence[str], labels: Mapping[str, str]) -> str | None:
    """The package for a package name, a label, or a well-known app's name; None if none is installed.

    `labels` maps packages to labels; it is empty if the device does not report them (adb alone does not).
    """
    if name in installed:
        return name
    wanted = name.strip().casefold()
    for package, label in labels.items():
        if label.casefold() == wanted:
            return package
    for package in _PACKAGES.get(wanted, ()):
        if package in installed:
            return package
    last = wanted.replace(" ", "")
    matching = sorted(package for package in installed if package.rpartition(".")[2].casefold() == last)
    return matching[0] if last and len(matching) == 1 else None


def keyboard_text(text: str) -> Command:
    """The command that types through ADBKeyboard, which takes every character."""
    encoded = base64.b64encode(text.encode("utf-8", "replace")).decode()
    return ("am", "broadcast", "-a", "ADB_INPUT_B64", "--es", "msg", encoded)


def clearing() -> list[Command]:
    """Commands that select the whole field and delete it (Android 11 and later)."""
    return [_input("keycombination", "KEYCODE_CTRL_LEFT", "KEYCODE_A"), _key("DEL")]


def text_commands(text: str) -> list[Command]:
    """`input text` commands for each line. Android reads `%s` as a space, so a literal `%s` is split."""
    found: list[Command] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n")):
        if number:
            found.append(_key("ENTER"))
        pieces = line.replace("%s", "%\0s").split("\0")
        for piece in pieces:
            for first in range(0, len(piece), _TEXT_PIECE):
                found.append(_input("text", piece[first : first + _TEXT_PIECE].replace(" ", "%s")))
    return found


def _type(action: Type, *, unicode: bool) -> list[Command]:
    if not unicode and not action.text.isascii():
        raise UnsupportedAction(
            f"this phone types ASCII only; install ADBKeyboard on it ({ADB_KEYBOARD}) for other characters"
        )
    before = clearing() if action.clear else []
    return [*before, *text_commands(action.text), *([_key("ENTER")] if action.submit else [])]


def _chord(keys: tuple[str, ...]) -> Command:
    unknown = [key for key in keys if _KEYS.get(key, _KEYS.get(key.lower())) is None]
    if unknown:
        raise UnsupportedAction(f"no key named {unknown[0]!r} on a phone")
    names = [_KEYS.get(key) or _KEYS[key.lower()] for key in keys]
    if len(keys) == 1 and len(keys[0]) == 1 and keys[0].isupper():
        names = ["SHIFT_LEFT", *names]
    if len(names) == 1:
        return _key(names[0])
    if any(key not in _MODIFIERS for key in keys[:-1]):
        raise UnsupportedAction("a chord on a phone is modifiers and then one key")
    return _input("keycombination", *(f"KEYCODE_{name}" for name in names))


def _scroll(action: Scroll, width: int, height: int, ms: int) -> list[Command]:
    """Swipes for a scroll, in the opposite direction to a wheel; a long distance takes several."""
    longest_x, longest_y = int(width * _SCROLL_SHARE), int(height * _SCROLL_SHARE)
    count = max(-(-abs(action.dx) // longest_x), -(-abs(action.dy) // longest_y))
    if count == 0:
        return []
    count = min(count, _MAX_SWIPES)
    dx = max(-longest_x, min(longest_x, round(action.dx / count)))
    dy = max(-longest_y, min(longest_y, round(action.dy / count)))
    x1, x2 = _around(action.x, dx, width)
    y1, y2 = _around(action.y, dy, height)
    return [_input("swipe", x1, y1, x2, y2, ms)] * count


def _around(middle: int, way: int, size: int) -> tuple[int, int]:
    """Start and end of a swipe by `-way` pixels around `middle`, moved away from the screen's edges."""
    margin = size // 10
    half = abs(way) // 2
    middle = min(max(middle, margin + half), size - 1 - margin - half)
    return (middle + half, middle - half) if way > 0 else (middle - half, middle + half)


def _key(name: str) -> Command:
    return _input("keyevent", f"KEYCODE_{name}")


def _input(*words: str | int) -> Command:
    return ("input", *map(str, words))
