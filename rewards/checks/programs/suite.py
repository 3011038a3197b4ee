"""The suite's side: the task's test suite, which sees an object of its own for each of the program's.

Modules of the program and packages outside Python's library are imported on the program's side, and so are
`random` and `time`, which suites seed or replace. Objects of classes that the suite defines cannot go over,
and it cannot inherit from the program's classes.
"""

import builtins
import importlib.util
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from rewards.checks.programs.calls import Channel, Gone, Raised, Refused

FOLDER = "/work"
PACKAGES = ("pygame",)  # packages outside Python's library that the tasks' programs are known to import
NO_PROGRAM, TOO_HARD = "no-program", "too-hard"
_SHARED = ("random", "time")
_ARITHMETIC = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "lshift",
    "rshift",
    "matmul",
    "and",
    "or",
    "xor",
)
_BINARY = ("lt", "le", "eq", "ne", "gt", "ge", "getitem", *_ARITHMETIC)
_UNARY = ("neg", "pos", "abs", "invert", "index")
_OWN = (
    "len",
    "hash",
    "repr",
    "str",
    "bool",
    "int",
    "float",
    "round",
    "iter",
    "next",
)
_WORDS = {"and": "and_", "or": "or_"}  # as the module `operator` spells them
_PLAIN = {kind.__name__: kind for kind in (list, dict, set, frozenset, int, float, str, bool)}


def main(suite: str, function: str, *modules: str) -> None:
    """Print the suite's number, the package that is missing, `NO_PROGRAM` or `TOO_HARD`; nothing if it fails.

    `modules` are the program's. Standard input is the connection to it.
    """
    connection = socket.socket(fileno=os.dup(0))
    answer = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.write(answer, _verdict(connection, suite, function, modules).encode())
    os._exit(0)


def _verdict(connection: socket.socket, suite: str, function: str, modules: Sequence[str]) -> str:
    side = _Side(connection)
    try:
        side.ask("abs", 0)
    except Gone:
        return NO_PROGRAM
    spec = importlib.util.spec_from_file_location(Path(suite).stem, f"{FOLDER}/{suite}")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    imported = _importing(side, {*modules, *PACKAGES, *_SHARED})
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": imported}
    try:
        spec.loader.exec_module(module)
        return str(float(getattr(module, function)()))
    except ModuleNotFoundError as error:
        absent = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
        return next((name for name in absent if f"'{name}'" in str(error)), "")
    except BaseException:  # a suite may exit, too
        return TOO_HARD if side.refused else ""


class _Side:
    """The connection to the program.

    Attributes:
        refused: whether the suite tried to hand on what cannot go over, even if it went on after that.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.refused = False
        self._functions: list[Any] = []
        self._channel = Channel(connection, self._serve, self._wrap, self._unwrap)

    def ask(self, what: str, *parts: Any) -> Any:
        try:
            return self._channel.ask(what, *parts)
        except Raised as raised:
            raise _exception(raised) from None

    def _serve(self, what: str, parts: list[Any]) -> Any:
        """Call a function that the suite handed on, which is all that the program may ask for."""
        match what, parts:
            case "function", [int(number), tuple(given), tuple(named)] if 0 <= number < len(self._functions):
                return self._functions[number](*given, **{str(key): one for key, one in named})
        raise Refused(f"a program may not ask for {what!r:.40}")

    def _wrap(self, value: Any) -> dict[str, Any]:
        packed = self._channel.packed
        if type(value) is Stand:
            return {"object": object.__getattribute__(value, "_number")}
        if isinstance(value, _Module):
            return {"module": value.__name__}
        if type(value) is list:
            return {"list": [packed(part) for part in value]}
        if type(value) is slice:
            return {"slice": [packed(part) for part in (value.start, value.stop, value.step)]}
        if type(value) in (set, frozenset):
            return {"set": [packed(part) for part in value]}
        if type(value) is dict:
            return {"dict": [[packed(key), packed(one)] for key, one in value.items()]}
        if isinstance(value, type) and value in vars(builtins).values():
            return {"type": str(value.__name__)}
        if callable(value) and not isinstance(value, type):
            self._functions.append(value)
            return {"function": len(self._functions) - 1}
        self.refused = True
        raise Refused(f"a suite cannot hand a {type(value).__name__} to the program")

    def _unwrap(self, value: dict[str, Any]) -> Any:
        match value:
            case {"object": int(number), "plain": str(plain)}:
                return Stand(self, number, plain)
        raise Refused(f"{value!r:.80} is no value")


class Stand:
    """An object that stands for one of the program's: whatever is done with it is done there."""

    __slots__ = ("_number", "_plain", "_side")

    def __init__(self, side: _Side, number: int, plain: str) -> None:
        for name, value in (("_side", side), ("_number", number), ("_plain", plain)):
            object.__setattr__(self, name, value)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        plain = object.__getattribute__(self, "_plain")
        return _PLAIN[plain] if plain in _PLAIN else _asked(self, "get", self, "__class__")

    def __getattr__(self, name: str) -> Any:
        return _asked(self, "get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _asked(self, "set", self, name, value)

    def __delattr__(self, name: str) -> None:
        _asked(self, "delete", self, name)

    def __call__(self, *parts: Any, **named: Any) -> Any:
        return _asked(self, "call", self, parts, tuple(named.items()))

    def __instancecheck__(self, one: Any) -> bool:
        return bool(_asked(self, "instance", one, self))

    def __subclasscheck__(self, one: Any) -> bool:
        return bool(_asked(self, "subclass", one, self))

    def __contains__(self, one: Any) -> bool:
        return bool(_asked(self, "contains", self, one))

    def __setitem__(self, key: Any, value: Any) -> None:
        _asked(self, "setitem", self, key, value)

    def __delitem__(self, key: Any) -> None:
        _asked(self, "delitem", self, key)

    def __pow__(self, other: Any) -> Any:
        return _asked(self, "pow", self, other)

    def __enter__(self) -> Any:
        return _asked(self, "get", self, "__enter__")()

    def __exit__(self, *_: object) -> None:
        _asked(self, "get", self, "__exit__")(None, None, None)


def _asked(stand: Stand, what: str, *parts: Any) -> Any:
    side: _Side = object.__getattribute__(stand, "_side")
    return side.ask(what, *parts)


def _binary(what: str, reverse: bool) -> Any:
    def method(self: Stand, other: Any) -> Any:
        return _asked(self, what, *((other, self) if reverse else (self, other)))

    return method


def _unary(what: str) -> Any:
    def method(self: Stand) -> Any:
        return _asked(self, what, self)

    return method


for _name in _BINARY:
    setattr(Stand, f"__{_name}__", _binary(_WORDS.get(_name, _name), reverse=False))
for _name in _ARITHMETIC:
    setattr(Stand, f"__r{_name}__", _binary(_WORDS.get(_name, _name), reverse=True))
for _name in (*_UNARY, *_OWN):
    setattr(Stand, f"__{_name}__", _unary(_name))


class _Module(ModuleType):
    """A module of the program's side."""

    def __init__(self, name: str, side: _Side) -> None:
        super().__init__(name)
        self.__dict__["__side__"] = side

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return self.__side__.ask("public", self)
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__side__.ask("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__side__.ask("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        self.__side__.ask("delete", self, name)


def _importing(side: _Side, theirs: set[str]) -> Any:
    """An `__import__` that imports what is `theirs`, with all below it, on the program's side."""

    def imported(
        name: str,
        names: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
        wanted: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        root = name.partition(".")[0]
        if level or root not in theirs:
            return builtins.__import__(name, names, local, wanted, level)
        side.ask("import", name)
        return _Module(name if wanted else root, side)

    return imported


def _exception(raised: Raised) -> BaseException:
    """An exception of Python's own for what the program raised, so that `except IndexError` works."""
    for name in raised.names:
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            try:
                return kind(str(raised))
            except TypeError:  # it wants more than words
                continue
    return RuntimeError(str(raised))
