"""Aim a recorded action anew on a screen that differs: at the element that it hit, wherever that lies now."""

from collections.abc import Sequence

from guiagent.actions import Action, Drag, Pinch, Swipe, points, types_text
from guiagent.nodes import described, focused, visible
from guiagent.types import Box, Node


class Lost(Exception):
    """An action cannot be aimed anew. Its text says why, for people."""


def healed(action: Action, element: Node | None, tree: Sequence[Node], size: tuple[int, int]) -> Action:
    """Return the action, aimed at the one element of `tree` with the role and name of `element`.

    A point keeps its place within the element. Typed text stays as it is, if that element has the keyboard;
    so does what is aimed at nothing. `size`: width and height of the screen.

    Raises:
        Lost: the record has no element, the tree none or several like it, it is beside the screen, it has not
            the keyboard, or it has moved and the action is a movement.
    """
    if not points(action) and not types_text(action):
        return action
    if element is None:
        raise Lost("the record does not say at which element it was aimed")
    if not points(action):
        holder = focused(tree)
        if holder is None or not _alike(holder, element):
            raise Lost(f"{described(element)} has not the keyboard now")
        return action
    now = _box(element, tree)
    if now == element.box:
        return action
    if isinstance(action, Drag | Swipe | Pinch):
        raise Lost(f"{described(element)} has moved, and a movement from it cannot be aimed anew")
    ((x, y),) = points(action)
    x, y = _within(x, element.box, now, 0), _within(y, element.box, now, 1)
    shows = visible(now, *size)
    if shows is None:
        raise Lost(f"{described(element)} is beside the screen now")
    x = min(max(x, shows[0]), shows[0] + shows[2] - 1)
    y = min(max(y, shows[1]), shows[1] + shows[3] - 1)
    return action.model_copy(update={"x": x, "y": y})


def _box(element: Node, tree: Sequence[Node]) -> Box:
    """Where the element lies now. Raises Lost."""
    found = [node.box for node in tree if _alike(node, element)]
    if element.box in found:
        return element.box
    if not found:
        raise Lost(f"there is no {described(element)} now")
    if len(found) > 1:
        raise Lost(f"there are {len(found)} of {described(element)} now, at other places")
    return found[0]


def _alike(one: Node, other: Node) -> bool:
    return (one.role, one.name) == (other.role, other.name)


def _within(place: int, was: Box, now: Box, axis: int) -> int:
    """The place in a box along an axis (0 across, 1 down) that `place` has in another one."""
    share = (place - was[axis]) / max(1, was[axis + 2])
    return now[axis] + round(share * now[axis + 2])
