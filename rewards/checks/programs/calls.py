"""What a test suite and the program under test say to each other: lines of JSON over a socket.

Each side asks the other and answers it while it waits, since functions may be handed over and called back.
Numbers, texts, bytes and tuples go over by value. Other objects stay where they are, and a number stands for
them. A list, dict or set goes over by value from the suite, and stays where it is if it is the program's.
"""

import base64
import json
import socket
from collections.abc import Callable
from typing import Any

MAX_LINE = 16 << 20


class Refused(Exception):
    """A value that cannot go over."""


class Gone(Exception):
    """The other side has ended."""


class Raised(Exception):
    """The other side raised an exception: its type's names, from the type itself upwards, and its words."""

    def __init__(self, names: list[str], words: str) -> None:
        super().__init__(words)
        self.names = names


class Channel:
    """One end of the connection.

    `wrap` and `unwrap` are how this side writes and reads what has no value of its own; `serve` answers a
    question.
    """

    def __init__(
        self,
        connection: socket.socket,
        serve: Callable[[str, list[Any]], Any],
        wrap: Callable[[Any], dict[str, Any]],
        unwrap: Callable[[dict[str, Any]], Any],
    ) -> None:
        self._file = connection.makefile("rwb")
        self._serve = serve
        self._wrap = wrap
        self._unwrap = unwrap

    def ask(self, what: str, *parts: Any) -> Any:
        """Ask the other side and return its answer. Raises Raised, Refused or Gone."""
        self._say({"ask": what, "parts": [self.packed(part) for part in parts]})
        while True:
            said = self._heard()
            if "ask" in said:
                self._answer(said)
            elif "raised" in said:
                names, words = said["raised"]
                raise Raised([str(name) for name in names], str(words))
            else:
                return self.unpacked(said["value"])

    def serve_until_closed(self) -> None:
        while True:
            try:
                said = self._heard()
            except Gone:
                return
            self._answer(said)

    def packed(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if type(value) is bytes:
            return {"bytes": base64.b64encode(value).decode()}
        if type(value) is tuple:
            return {"tuple": [self.packed(part) for part in value]}
        return self._wrap(value)

    def unpacked(self, value: Any) -> Any:
        match value:
            case None | bool() | int() | float() | str():
                return value
            case {"bytes": str(text)}:
                return base64.b64decode(text)
            case {"tuple": list(parts)}:
                return tuple(self.unpacked(part) for part in parts)
            case dict():
                return self._unwrap(value)
        raise Refused(f"{value!r:.80} is no value")

    def _answer(self, said: dict[str, Any]) -> None:
        try:
            answer = self._serve(said["ask"], [self.unpacked(part) for part in said["parts"]])
            packed = self.packed(answer)
        except Gone:
            raise
        except BaseException as error:  # whatever a program raises, even SystemExit, the suite hears of
            names = [kind.__name__ for kind in type(error).__mro__]
            self._say({"raised": [names, f"{error!s:.500}"]})
        else:
            self._say({"value": packed})

    def _say(self, said: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(said).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise Gone(str(error)) from error

    def _heard(self) -> dict[str, Any]:
        try:
            line = self._file.readline(MAX_LINE)
        except OSError as error:
            raise Gone(str(error)) from error
        if not line.endswith(b"\n"):
            raise Gone("it has closed the connection")
        said: dict[str, Any] = json.loads(line)
        return said
