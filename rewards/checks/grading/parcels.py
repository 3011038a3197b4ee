"""Write the arguments of a metric as JSON, with a number in the place of each path, and read them again.

A mapping or list of the agent's own can hold nothing that would be read as a path: every collection is
written with its kind.
"""

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

MAX_FILES = 200
MAX_SAID = 32 << 10  # bytes of a result


def packed(value: Any, number: Callable[[Path], int]) -> Any:
    """Write a value; `number` numbers the paths in it. Raises TypeError for a value of another kind."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Path():
            return ["path", number(value)]
        case bytes():
            return ["bytes", base64.b64encode(value).decode()]
        case list() | tuple():
            return [type(value).__name__, *(packed(part, number) for part in value)]
        case Mapping():
            pairs = [[packed(key, number), packed(part, number)] for key, part in value.items()]
            return ["dict", *pairs]
    raise TypeError(f"a metric is not given a {type(value).__name__}")


def unpacked(value: Any, path: Callable[[int], Path]) -> Any:
    """Read a value that `packed` wrote; `path` is the reverse of its `number`."""
    match value:
        case ["path", int(number)]:
            return path(number)
        case ["bytes", str(text)]:
            return base64.b64decode(text)
        case ["list", *parts]:
            return [unpacked(part, path) for part in parts]
        case ["tuple", *parts]:
            return tuple(unpacked(part, path) for part in parts)
        case ["dict", *pairs]:
            return {unpacked(key, path): unpacked(part, path) for key, part in pairs}
    return value
