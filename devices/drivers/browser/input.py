"""Actions to the CDP commands that carry them out. Pure: what to send, never sending it."""

from typing import Any

from devices.drivers.browser.keys import BUTTON_BITS, MODIFIER_BITS, key_event, known
from guiagent.actions import (
    Action,
    Button,
    Click,
    Drag,
    KeyChord,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    PressButton,
    Scroll,
    Type,
)

Command = tuple[str, dict[str, Any]]


class UnsupportedAction(Exception):
    """This device has no such action; the message says so in one line."""


def commands(action: Action) -> list[Command]:
    """The input events of one action, in order. Raises UnsupportedAction."""
    match action:
        case Click():
            return _click(action)
        case Move():
            return [_mouse("mouseMoved", action.x, action.y)]
        case MouseDown():
            return [_mouse("mousePressed", action.x, action.y, action.button, count=1)]
        case MouseUp():
            return [_mouse("mouseReleased", action.x, action.y, action.button, count=1)]
        case Drag():
            return _drag(action)
        case Scroll():
            method, wheel = _mouse("mouseWheel", action.x, action.y)
            return [(method, wheel | {"deltaX": action.dx, "deltaY": action.dy})]
        case Type():
            return _type(action)
        case KeyChord():
            return _chord(action.keys)
        case KeyDown():
            return [_key("keyDown", action.key)]
        case KeyUp():
            return [_key("keyUp", action.key)]
        case PressButton(button="enter"):
            return _chord(("Enter",))
        case _:
            raise UnsupportedAction(f"a browser has no {action.type!r} action")


def _mouse(kind: str, x: int, y: int, button: Button | None = None, count: int = 0, bits: int = 0) -> Command:
    event: dict[str, Any] = {"type": kind, "x": x, "y": y, "modifiers": bits}
    if button is not None:
        held = BUTTON_BITS[button] if kind != "mouseReleased" else 0
        event |= {"button": button, "buttons": held, "clickCount": count}
    return "Input.dispatchMouseEvent", event


def _click(action: Click) -> list[Command]:
    bits = sum(MODIFIER_BITS[modifier] for modifier in set(action.modifiers))
    x, y, button = action.x, action.y, action.button
    events = [_mouse("mouseMoved", x, y, bits=bits)]
    for count in range(1, action.count + 1):
        events.append(_mouse("mousePressed", x, y, button, count, bits))
        events.append(_mouse("mouseReleased", x, y, button, count, bits))
    return events


def _drag(action: Drag) -> list[Command]:
    (x, y), *rest = action.path
    events = [_mouse("mouseMoved", x, y), _mouse("mousePressed", x, y, action.button, 1)]
    events += [_mouse("mouseMoved", px, py, action.button) for px, py in rest]
    return [*events, _mouse("mouseReleased", *rest[-1], action.button, 1)]


def _key(kind: str, key: str, bits: int = 0) -> Command:
    if not known(key):
        raise UnsupportedAction(
            f"no key named {key!r}; W3C names such as 'Enter', 'ArrowLeft' or 'a' are known"
        )
    return "Input.dispatchKeyEvent", key_event(kind, key, bits)


def _chord(keys: tuple[str, ...]) -> list[Command]:
    bits, events, held = 0, [], []
    for key in keys:
        bits |= MODIFIER_BITS.get(key, 0)
        events.append(_key("keyDown", key, bits))
        held.append((key, bits))
    return events + [_key("keyUp", key, bits) for key, bits in reversed(held)]


def _type(action: Type) -> list[Command]:
    events = [*_chord(("Control", "a")), *_chord(("Backspace",))] if action.clear else []
    for character in action.text:
        if character == "\n":
            events += _chord(("Enter",))
        elif character.isascii() and character.isprintable():
            events += [_key("keyDown", character), _key("keyUp", character)]
        else:
            events.append(("Input.insertText", {"text": character}))
    return events + (_chord(("Enter",)) if action.submit else [])
