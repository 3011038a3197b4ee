"""Actions in the words of a dialect; where it has only one of scrolling and swiping, in that one."""

from collections.abc import Sequence

from guiagent.actions import Action, Scroll, Swipe
from guiagent.dialects import Dialect
from guiagent.errors import DialectError

_MOST = 10_000  # pixels of a scroll


def in_words(actions: Sequence[Action], dialect: Dialect, size: tuple[int, int]) -> str:
    """Return the reply that says `actions` on a screen of `size`.

    Raises:
        DialectError: the dialect has no words for one of them.
    """
    try:
        return dialect.render(actions, size)
    except DialectError:
        if not any(isinstance(action, Scroll | Swipe) for action in actions):
            raise
    return dialect.render([turned(action, size) for action in actions], size)


def turned(action: Action, size: tuple[int, int]) -> Action:
    """Return a scroll as the swipe that does it on a touch screen, against it and around its place; a swipe
    as the scroll; any other action as it is. A swipe ends at the screen's edges."""
    match action:
        case Scroll(x=x, y=y, dx=dx, dy=dy):
            x1, x2 = (_within(x + half, size[0]) for half in (dx // 2, -dx // 2))
            y1, y2 = (_within(y + half, size[1]) for half in (dy // 2, -dy // 2))
            return Swipe(x1=x1, y1=y1, x2=x2, y2=y2)
        case Swipe(x1=x1, y1=y1, x2=x2, y2=y2):
            dx, dy = (max(-_MOST, min(_MOST, way)) for way in (x1 - x2, y1 - y2))
            return Scroll(x=(x1 + x2) // 2, y=(y1 + y2) // 2, dx=dx, dy=dy)
    return action


def _within(place: int, end: int) -> int:
    return min(max(place, 0), end - 1)
