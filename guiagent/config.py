"""Configuration: defaults, then a TOML file, then `--set a.b=c`, checked by one pydantic model per process.

Models that are loaded here set `extra="forbid"`, so that an unknown key is an error and not ignored.
"""

import difflib
import json
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, time
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from guiagent.errors import InfrastructureError, UsageError

Model = TypeVar("Model", bound=BaseModel)

_LONGEST_SHOWN = 80  # characters of a value in a line about it
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def load(
    model: type[Model],
    toml: Path | None = None,
    overrides: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    ignoring: Collection[str] = (),
) -> Model:
    """Load a model from its defaults, replaced by the file's values, then by `flags`, then by `overrides`.

    An override is `a.b=c`, where c is a TOML value, or else taken as a string. Dotted keys in `ignoring`, and
    the tables below them, are left out of the file; `a.b` is a key of every table of an array `a`, too.

    Raises:
        UsageError: a value is invalid; one line names the file or flag, the key, and the nearest known key.
    """
    values = (_without(_read(toml), ignoring) if toml is not None else {}) | dict(flags or {})
    assigned: set[tuple[str, ...]] = set()
    for override in overrides:
        assigned.add(_assign(values, override))
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    location = tuple(str(part) for part in first["loc"])
    key = ".".join(location)
    is_flag = any(location[: len(path)] == path or path[: len(location)] == location for path in assigned)
    source = "--set" if is_flag else str(toml or "configuration")
    if first["type"] == "extra_forbidden":
        raise UsageError(f"{source}: there is no key '{key}'{_nearest(key, model)}")
    given = "" if first["type"] == "missing" else f", not {first['input']!r:.80}"
    if is_flag and isinstance(first["input"], str) and first["input"].startswith(("[", "{")):
        given += """; words in a list or table have quotes: --set 'key=["a", "b"]'"""
    raise UsageError(": ".join(filter(None, (source, key, f"{first['msg']}{given}"))))


def save(model: BaseModel, path: Path) -> None:
    """Write a file that `load` reads back as the same model. TOML has no null: None fields are left out.

    Raises:
        InfrastructureError: the file cannot be written.
    """
    lines = _table(model.model_dump(mode="json", exclude_none=True), ())
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text("\n".join(lines).lstrip() + "\n", encoding="utf-8")
        partial.replace(path)  # a reader sees the old file or the new one
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InfrastructureError(f"cannot write {path}: {error.strerror}") from error


class Difference(NamedTuple):
    """A key that two configurations have in common, by its dotted name, and its two values."""

    key: str
    one: Any
    other: Any

    def __str__(self) -> str:
        return f"{self.key} was {_shown(self.one)}, now {_shown(self.other)}"


def differences(one: BaseModel, other: BaseModel, ignoring: Collection[str] = ()) -> list[Difference]:
    """Return the keys in which two models differ, but those in `ignoring` and the tables below them."""
    return list(
        _differences(
            _without(one.model_dump(mode="json"), ignoring), _without(other.model_dump(mode="json"), ignoring)
        )
    )


def _differences(one: Mapping[str, Any], other: Mapping[str, Any], prefix: str = "") -> Iterator[Difference]:
    for name in {**one, **other}:
        mine, theirs, key = one.get(name), other.get(name), prefix + name
        if isinstance(mine, dict) and isinstance(theirs, dict):
            yield from _differences(mine, theirs, f"{key}.")
        elif _are_tables(mine) and _are_tables(theirs) and len(mine) == len(theirs):
            for place, (one_table, other_table) in enumerate(zip(mine, theirs, strict=True)):
                yield from _differences(one_table, other_table, f"{key}.{place}.")
        elif mine != theirs:
            yield Difference(key, mine, theirs)


def _are_tables(value: Any) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _without(values: Mapping[str, Any], keys: Collection[str], prefix: str = "") -> dict[str, Any]:
    def left(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [left(name, item) for item in value]
        return _without(value, keys, f"{prefix}{name}.") if isinstance(value, dict) else value

    return {name: left(name, value) for name, value in values.items() if prefix + name not in keys}


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        value = {name: one for name, one in value.items() if one is not None}
    text = "not set" if value is None else _inline(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _read(toml: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(toml.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {toml}: {error.strerror}") from None
    except ValueError as error:  # bad TOML or bad UTF-8
        raise UsageError(f"{toml} is not TOML: {error}") from None


def _assign(values: dict[str, Any], override: str) -> tuple[str, ...]:
    """Put one `a.b=c` into `values`; return the path of its key."""
    key, equals, text = override.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise UsageError(f"--set {override}: write it as key=value or table.key=value")
    for depth, part in enumerate(path[:-1], 1):
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise UsageError(f"--set {override}: '{'.'.join(path[:depth])}' is a value, not a table")
    values[path[-1]] = _value(text.strip())
    return path


def _value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    is_date = isinstance(parsed["value"], date | time)
    return text if is_date or len(parsed) > 1 else parsed["value"]


def _nearest(key: str, model: type[BaseModel]) -> str:
    """A hint at the valid key with the same last part, or else at the one most like `key`."""
    known = list(keys(model))
    leaf = key.rpartition(".")[2]
    close = [k for k in known if k.rpartition(".")[2] == leaf] or difflib.get_close_matches(key, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else f"; there are {', '.join(model.model_fields)}"


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the dotted name of every key of a model, and of its tables."""
    """Yield the dotted name of every key of a model, and of its tables."""
    for name, field in model.model_fields.items():
        yield prefix + name
        for annotation in (field.annotation, *get_args(field.annotation)):
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                yield from keys(annotation, f"{prefix}{name}.")


def _table(values: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """The lines of a table: its values first, since keys after a sub-table's header belong to the latter."""
    if path:
        yield f"\n[{'.'.join(map(_key, path))}]"
    for key, value in values.items():
        if not isinstance(value, dict):
            yield f"{_key(key)} = {_inline(value)}"
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _table(value, (*path, key))


def _inline(value: Any) -> str:
    match value:
        case dict():
            return f"{{{', '.join(f'{_key(key)} = {_inline(item)}' for key, item in value.items())}}}"
        case list():
            return f"[{', '.join(map(_inline, value))}]"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case bool():
            return str(value).lower()
        case _:
            return repr(value)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _inline(key)
