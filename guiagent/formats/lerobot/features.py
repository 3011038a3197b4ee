"""What a row of a data set holds, by LeRobot's names, and actions as vectors of numbers. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from guiagent.actions import ACTION, Action, Scroll, points

FPS = 1
SCREEN, STATE, VECTOR = "observation.images.screen", "observation.state", "action"
TEXT, ACTIONS_TOLD, ERROR = "reply.text", "reply.actions", "reply.error"
REWARD, DONE, SUCCESS = "next.reward", "next.done", "next.success"
EPISODE, FRAME, TASK = "episode_index", "frame_index", "task_index"
ABOUT = "guiagent/about"  # a column of the episodes: `About` as JSON

KINDS = sorted(ACTION.json_schema()["discriminator"]["mapping"])
ACTION_NAMES = [*(f"is_{kind}" for kind in KINDS), "x", "y", "x2", "y2", "dx", "dy"]
STATE_NAMES = ["x", "y", "touched"]
Size = tuple[int, int]


def features(size: Size) -> dict[str, dict[str, Any]]:
    """The features of `meta/info.json` for screens of a width and a height."""
    width, height = size
    told: dict[str, dict[str, Any]] = {
        SCREEN: _feature("image", [height, width, 3], ["height", "width", "channels"]),
        STATE: _feature("float32", [len(STATE_NAMES)], STATE_NAMES),
        VECTOR: _feature("float32", [len(ACTION_NAMES)], ACTION_NAMES),
    }
    told |= {name: _feature("string", [1], None) for name in (TEXT, ACTIONS_TOLD, ERROR)}
    told |= {name: _feature("float32", [1], None) for name in (REWARD, "timestamp")}
    told |= {name: _feature("bool", [1], None) for name in (DONE, SUCCESS)}
    return told | {name: _feature("int64", [1], None) for name in (FRAME, EPISODE, "index", TASK)}


def _feature(dtype: str, shape: list[int], names: list[str] | None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "names": names}


def vector(action: Action | None, size: Size) -> list[float]:
    """Return an action as the numbers of `ACTION_NAMES`; all 0 for none.

    1 for its kind and 0 for the others, since a policy's numbers are close and its kinds are not. Places are
    shares of the screen, as at the other doors: pixel x is `x / width`. Of several places, as a swipe has,
    `x2` and `y2` are the last. A scroll's way is in shares of the screen too.
    """
    found = dict.fromkeys(ACTION_NAMES, 0.0)
    if action is None:
        return list(found.values())
    found[f"is_{action.type}"] = 1.0
    places = points(action)
    if places:
        found["x"], found["y"] = _share(places[0], size)
    if len(places) > 1:
        found["x2"], found["y2"] = _share(places[-1], size)
    if isinstance(action, Scroll):
        found["dx"], found["dy"] = action.dx / size[0], action.dy / size[1]
    return list(found.values())


def states(replies: Iterable[Sequence[Action]], size: Size) -> list[list[float]]:
    """Return for each reply where the actions before it touched the screen last, and 1; the middle and 0 as
    long as none has."""
    state, found = [0.5, 0.5, 0.0], []
    for actions in replies:
        found.append(state)
        touched = [place for action in actions for place in points(action)]
        state = [*_share(touched[-1], size), 1.0] if touched else state
    return found


def _share(place: tuple[int, int], size: Size) -> tuple[float, float]:
    return place[0] / size[0], place[1] / size[1]
