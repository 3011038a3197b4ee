"""What a flow did beside its task, from the virtual phone's whole document before and after. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rewards.checks.android import Source
from rewards.checks.android_tables import TABLES

_REMEMBERED = (
    "settings",
    "databases",
    "files",
)  # not where one is on the phone, nor what the clipboard holds
_INCIDENTAL = {(one.file, one.table, column) for one in TABLES for column in one.incidental}


def side_effects(before: Mapping[str, Any], after: Mapping[str, Any], goal: Sequence[Source]) -> list[str]:
    """Places that changed, such as `settings/global/wifi_on`, sorted.

    The goal's tables, which are compared by their own rules, are left out, and columns that change by a look.
    """
    return sorted(
        "/".join(place)
        for place in changes(before, after)
        if place[0] in _REMEMBERED
        and not (place[0] == "databases" and (place[1], place[2], place[-1]) in _INCIDENTAL)
        and not any(source.covers(place) for source in goal)
    )


def changes(before: Any, after: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The places at which two documents differ, as the keys that lead there."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in before.keys() | after.keys():
            yield from changes(before.get(key), after.get(key), (*place, str(key)))
    elif before != after:
        yield place
