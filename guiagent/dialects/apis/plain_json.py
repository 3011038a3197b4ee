"""Plain JSON: our own actions as they are, `{"type": "click", "x": 1, "y": 2}`, alone or in a list.

The whole vocabulary of `guiagent.actions`, so everything can be said; coordinates are pixels of the frame.
"""

from typing import Any

import msgspec

from guiagent.actions import ACTION, Action
from guiagent.dialects.coordinates import CoordinateSpace
from guiagent.dialects.language import Language, Place, json_objects, number
from guiagent.errors import DialectError

_SYSTEM = """\
You operate the device whose screen each picture shows. Answer every picture with one JSON object, or a \
list of them, in pixels of the picture, for instance:
{"type": "click", "x": 0, "y": 0, "button": "left", "count": 1}
{"type": "type", "text": "", "clear": false, "submit": false}
{"type": "key", "keys": ["Control", "a"]}
{"type": "scroll", "x": 0, "y": 0, "dx": 0, "dy": 300}
{"type": "drag", "path": [[0, 0], [9, 9]]}
{"type": "swipe", "x1": 0, "y1": 9, "x2": 0, "y2": 0}
{"type": "long_press", "x": 0, "y": 0}
{"type": "press_button", "button": "back|home|recents|enter"}
{"type": "open", "target": "an app or a URL"}
{"type": "wait", "ms": 1000}
{"type": "answer", "text": ""}
{"type": "done", "status": "success|failure|infeasible"}"""


def _read(text: str, place: Place) -> list[Action]:
    return [ACTION.validate_python(_within(found, place)) for found in json_objects(text)]


def _within(found: dict[str, Any], place: Place) -> dict[str, Any]:
    """The object with its points clamped to the frame, as in every dialect."""
    said = dict(found)
    for x, y in (("x", "y"), ("x1", "y1"), ("x2", "y2")):
        if x in said and y in said:
            said[x], said[y] = _clamped((said[x], said[y]), place)
    if isinstance(path := said.get("path"), list):
        said["path"] = [_clamped(corner, place) for corner in path]
    match said.get("region"):
        case [x1, y1, x2, y2]:
            said["region"] = (*_clamped((x1, y1), place), *_clamped((x2, y2), place))
    return said


def _clamped(point: object, place: Place) -> tuple[int, int]:
    match point:
        case [x, y]:
            return place.pixel(number(x, "x"), number(y, "y"))
        case _:
            raise DialectError("a place is [x, y]")


def _write(action: Action, place: Place) -> str:
    return msgspec.json.encode(ACTION.dump_python(action, mode="json")).decode()


def plain_json() -> Language:
    """The dialect of plain JSON."""
    return Language("json", _SYSTEM, CoordinateSpace("frame"), _read, _write)
