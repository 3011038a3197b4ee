"""The program's side: it imports the agent's modules and does with their objects what the suite asks.

Nothing here is protected from the program, which shares this process: it can lie about its own objects and
about nothing else.
"""

import builtins
import importlib
import operator
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from rewards.checks.programs.calls import Channel, Refused

FOLDER = "/work"
# Types that a suite may ask about with `isinstance`.
_PLAIN = (list, dict, set, frozenset, int, float, str, bool)


def main() -> None:
    """Serve the suite at the other end of standard input until it closes it; output is discarded."""
    channel = socket.socket(fileno=os.dup(0))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.path.insert(0, FOLDER)
    Program(channel).run()
    os._exit(0)  # the program's threads or exit handlers may never end


class Program:
    def __init__(self, connection: socket.socket) -> None:
        self._objects: list[Any] = []
        self._channel = Channel(connection, self._serve, self._wrap, self._unwrap)
        self._asked: dict[str, Callable[..., Any]] = {
            "import": importlib.import_module,
            "public": _public,
            "get": getattr,
            "set": setattr,
            "delete": delattr,
            "call": _call,
            "instance": isinstance,
            "subclass": issubclass,
        }

    def run(self) -> None:
        self._channel.serve_until_closed()

    def _serve(self, what: str, parts: list[Any]) -> Any:
        """Do what the suite asks: one of the words above, an operator, or a function of Python's own."""
        function = self._asked.get(what) or getattr(operator, what, None) or getattr(builtins, what)
        return function(*parts)

    def _wrap(self, value: Any) -> dict[str, Any]:
        self._objects.append(value)
        plain = next((kind.__name__ for kind in _PLAIN if isinstance(value, kind)), "")
        return {"object": len(self._objects) - 1, "plain": plain}

    def _unwrap(self, value: dict[str, Any]) -> Any:
        match value:
            case {"object": int(number)}:
                return self._objects[number]
            case {"module": str(name)}:
                return importlib.import_module(name)
            case {"type": str(name)}:
                return getattr(builtins, name)
            case {"function": int(number)}:
                return lambda *parts, **named: self._channel.ask(
                    "function", number, tuple(parts), tuple(named.items())
                )
            case {"list": list(parts)}:
                return [self._channel.unpacked(part) for part in parts]
            case {"slice": [start, stop, step]}:
                return slice(start, stop, step)
            case {"set": list(parts)}:
                return {self._channel.unpacked(part) for part in parts}
            case {"dict": list(pairs)}:
                unpacked = self._channel.unpacked
                return {unpacked(key): unpacked(one) for key, one in pairs}
        raise Refused(f"{value!r:.80} is no value")


def _call(function: Callable[..., Any], parts: tuple[Any, ...], named: tuple[tuple[str, Any], ...]) -> Any:
    return function(*parts, **dict(named))


def _public(module: Any) -> tuple[str, ...]:
    """The names that `from module import *` takes."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    return tuple(str(name) for name in names)
