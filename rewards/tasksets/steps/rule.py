"""When an action is the one that a person took: by its type, by its point, by the rest of it. Pure.

The type is one of AndroidControl's (Li et al. 2024, arXiv:2406.03679). A point is right in the box of what
was aimed at; where no box is known, within 14 % of the screen, the distance that Android in the Wild (Rawles
et al. 2023, arXiv:2307.10088) allows between two taps. A scroll has to go the same way, a text to be the same
but for case and outer spaces.
"""

import math

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
    Shell,
    Swipe,
    Type,
    points,
)
from guiagent.formats.androidcontrol import Box

NEAR = 0.14  # of the screen: each axis counts as a share of its side
Size = tuple[int, int]


def kind_of(action: Action) -> str:
    """The type of an action, as the benchmarks count: a swipe scrolls."""
    return "scroll" if isinstance(action, Swipe | Scroll) else action.type


def aimed(action: Action) -> tuple[int, int] | None:
    """The point that is scored; None for an action that goes by its direction or has no place."""
    return points(action)[0] if points(action) and kind_of(action) != "scroll" else None


def hit(point: tuple[int, int] | None, wanted: tuple[int, int], box: Box | None, size: Size) -> bool:
    """Whether a point is in the box, edges included, or without one near enough to the point wanted."""
    if point is None:
        return False
    if box is not None:
        left, top, right, bottom = box
        return left <= point[0] <= right and top <= point[1] <= bottom
    (x, y), (width, height) = point, size
    return math.hypot((x - wanted[0]) / width, (y - wanted[1]) / height) <= NEAR


def parts(did: Action | None, wanted: Action, box: Box | None, size: Size) -> dict[str, float]:
    """Whether the "type" is right, the point ("grounding", of actions that have one), the whole "step"."""
    kind = did is not None and kind_of(did) == kind_of(wanted)
    found = {"type": float(kind)}
    place = aimed(wanted)
    if place is None:
        right = kind and did is not None and _rest(did) == _rest(wanted)
    else:
        right = kind and did is not None and hit(aimed(did), place, box, size)
        right = right and (not isinstance(wanted, Drag) or _ends_near(did, wanted, size))
        found["grounding"] = float(right)
    return found | {"step": float(right)}


def _ends_near(did: Action | None, wanted: Drag, size: Size) -> bool:
    return did is not None and hit(points(did)[-1], wanted.path[-1], None, size)


def _rest(action: Action) -> object:
    """What has to be equal beside the type."""
    match action:
        case Scroll(dx=dx, dy=dy):
            return _way(dx, dy)
        case Swipe():  # the finger moves what is shown along with it
            return _way(action.x1 - action.x2, action.y1 - action.y2)
        case Type(text=text) | Answer(text=text) | Open(target=text) | Shell(command=text):
            return text.strip().casefold()
        case PressButton(button=name) | Done(status=name):
            return name
        case KeyChord(keys=keys):
            return tuple(key.casefold() for key in keys)
        case Click() | LongPress():
            return aimed(action)
        case _:
            return None


def _way(dx: int, dy: int) -> str:
    """Where the content that comes into view lies."""
    if abs(dx) > abs(dy):
        return "right" if dx > 0 else "left"
    return "down" if dy > 0 else "up"
