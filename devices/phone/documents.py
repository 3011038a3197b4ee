"""The whole state of a phone as one JSON document: comparing two, laying one over another. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from guiagent.errors import UsageError


class Change(NamedTuple):
    """One value that differs. `path` leads to it, such as `databases/FILE/TABLE/ROW/COLUMN`; what was not
    there before, or is not there after, is None."""

    path: str
    before: Any
    after: Any


def diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """What changed between two documents, sorted by path: side effects beside those a task asked for."""
    return sorted(_changes("", before, after), key=lambda change: change.path)


def overlay(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """`document` with `patch` laid over it as RFC 7396 (JSON merge patch) says: null removes."""
    result = dict(document)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            under = result.get(key)
            result[key] = overlay(under if isinstance(under, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def part(document: Mapping[str, Any], key: str, kind: type) -> Any:
    """`document[key]`, which must be there and of `kind`; raises UsageError."""
    value = document.get(key)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UsageError(f"the phone's document has no {kind.__name__} {key!r}")
    return value


def _changes(path: str, before: Any, after: Any) -> Iterator[Change]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in before.keys() | after.keys():
            name = f"{path}/{key}" if path else str(key)
            yield from _changes(name, before.get(key), after.get(key))
    elif before != after or type(before) is not type(after):
        yield Change(path, before, after)
