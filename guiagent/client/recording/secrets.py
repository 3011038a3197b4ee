"""Which typed text a record may keep: a pure function on actions and the elements before and after."""

from collections.abc import Sequence
from typing import Literal

from guiagent.actions import (
    Action,
    Click,
    KeyChord,
    KeyDown,
    KeyUp,
    LongPress,
    Move,
    Type,
    Wait,
    types_text,
)
from guiagent.nodes import focused, hit, is_field
from guiagent.types import Node

HIDDEN = "\u2022" * 8
"""What a record has in the place of text that it does not keep, whatever its length."""
_Focus = Literal["open", "secret", "unknown"]


def without_secrets(
    actions: Sequence[Action],
    before: Sequence[Node] | None,
    after: Sequence[Node] | None,
    *,
    in_pages: bool,
) -> list[Action]:
    """Return the actions with `HIDDEN` in the place of text that goes, or may go, into a password field.

    Text is kept where the elements `before` say that another field has the keyboard. Where they do not say
    what has it, text is kept only if no password field is there and the device is no browser (`in_pages`),
    whose frames of other origins tell nothing. None: the device told no elements.
    """
    everything = [*(before or []), *(after or [])]
    passwords = any("password" in node.states for node in everything)
    untold = before is None or passwords or in_pages
    moved = focused(after or [])
    if moved is not None and "password" in moved.states:  # it may have got all of it
        return [_hidden(action) for action in actions]
    kept, focus = list[Action](), _focus_of(focused(before or []))
    for action in actions:
        hide = focus == "secret" or (focus == "unknown" and untold)
        kept.append(_hidden(action) if hide else action)
        focus = _after(action, before or [], focus)
    return kept


def is_hidden(action: Action) -> bool:
    """True if an action of a record lacks the text that it had."""
    match action:
        case Type(text=text):
            return text == HIDDEN
        case KeyChord(keys=keys):
            return HIDDEN in keys
        case KeyDown(key=key) | KeyUp(key=key):
            return key == HIDDEN
    return False


def _hidden(action: Action) -> Action:
    if not types_text(action):
        return action
    match action:
        case Type():
            return action.model_copy(update={"text": HIDDEN})
        case KeyChord(keys=keys):
            shown = tuple(HIDDEN if len(key) == 1 else key for key in keys)
            return action.model_copy(update={"keys": shown})
        case _:
            return action.model_copy(update={"key": HIDDEN})


def _focus_of(node: Node | None) -> _Focus:
    if node is not None and "password" in node.states:
        return "secret"
    return "open" if node is not None and is_field(node) else "unknown"


def _after(action: Action, before: Sequence[Node], focus: _Focus) -> _Focus:
    """What has the keyboard after an action."""
    match action:
        case Click(x=x, y=y) | LongPress(x=x, y=y):
            return _focus_of(hit(before, x, y))
        case Type(text=text, submit=submit):
            return "unknown" if submit or "\t" in text or "\n" in text else focus
        case KeyChord() if types_text(action):
            return focus
        case Wait() | Move():
            return focus
    return "unknown"
