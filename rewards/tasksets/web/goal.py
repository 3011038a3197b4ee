"""Goals on a site's database: what has to change, whether it did and nothing else, and near-misses. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

Value = str | int | float | None
Row = Mapping[str, Value]
State = Mapping[str, Row]
"""The rows of a site by table and key, "issue/12", as a person would tell them apart."""


@dataclass(frozen=True)
class Goal:
    """The rows to change and to add; everything else stays as it is.

    Attributes:
        changed: by key, the columns that get other values.
        added: table and columns of each new row; columns that are not named may hold anything.
    """

    changed: Mapping[str, Row] = field(default_factory=dict)
    added: Sequence[tuple[str, Row]] = ()

    @property
    def parts(self) -> int:
        return len(self.changed) + len(self.added)


def differences(before: State, after: State, goal: Goal) -> tuple[list[str], list[str]]:
    """Compare `after` with `before` and the goal applied to it: what is unmet, what changed beside it."""
    unmet: list[str] = []
    beside: list[str] = []
    for key, row in before.items():
        found, wanted = after.get(key), goal.changed.get(key, {})
        if found is None:
            (unmet if wanted else beside).append(key)
            continue
        unmet += [f"{key}/{name}" for name, value in wanted.items() if found.get(name) != value]
        beside += [
            f"{key}/{name}" for name, value in row.items() if name not in wanted and found.get(name) != value
        ]
    new = {key: row for key, row in after.items() if key not in before}
    for table, wanted in sorted(goal.added, key=lambda one: -len(one[1])):  # what fits fewest rows first
        fitting = [key for key, row in new.items() if _table(key) == table and _fits(wanted, row)]
        if fitting:
            del new[fitting[0]]
        else:
            unmet.append(f"{table}: no new row {_told(wanted)}")
    return unmet, beside + list(new)


def near_misses(before: State, goal: Goal) -> dict[str, Goal]:
    """By name, goals that a careless agent would have met in place of this one; none of them meets it."""
    if not goal.parts:
        return {}
    found = {"nothing done": Goal()}
    if goal.parts > 1:
        found["half done"] = (
            replace(goal, added=goal.added[:-1])
            if goal.added
            else replace(goal, changed=dict(list(goal.changed.items())[:-1]))
        )
    if goal.changed:
        key, wanted = next(iter(goal.changed.items()))
        name = next(iter(wanted))
        if (other := _another(before, _table(key), name, wanted[name])) is not None:
            found["other value"] = replace(goal, changed={**goal.changed, key: {**wanted, name: other}})
        if (elsewhere := _other_row(before, goal, _table(key), wanted)) is not None:
            rest = {one: row for one, row in goal.changed.items() if one != key}
            found["other row"] = replace(goal, changed={**rest, elsewhere: wanted})
            found["one too many"] = replace(goal, changed={**goal.changed, elsewhere: wanted})
    if goal.added:
        table, row = goal.added[0]
        first = next(iter(row))  # what names the row, which another one may not share
        found["added one too many"] = replace(
            goal, added=[*goal.added, (table, {**row, first: f"{row[first]}s"})]
        )
        for name, value in row.items():
            other = f"{value}s" if name == first else _another(before, table, name, value)
            if other is not None:
                wrong = (table, {**row, name: other})
                found[f"added with another {name}"] = replace(goal, added=[wrong, *goal.added[1:]])
    return found


def _table(key: str) -> str:
    return key.partition("/")[0]


def _fits(wanted: Row, row: Row) -> bool:
    return all(row.get(name) == value for name, value in wanted.items())


def _another(before: State, table: str, name: str, value: Value) -> Value:
    """A value that the column has elsewhere, or for a text of one kind only, a longer one."""
    values = (row[name] for key, row in before.items() if _table(key) == table and name in row)
    other = next((one for one in values if one not in (value, None)), None)
    return f"{value}s" if other is None and isinstance(value, str) else other


def _other_row(before: State, goal: Goal, table: str, wanted: Row) -> str | None:
    """A row that the goal leaves alone and that `wanted` would change."""
    rows = (key for key in before if _table(key) == table and key not in goal.changed)
    return next((key for key in rows if not _fits(wanted, before[key])), None)


def _told(row: Row) -> str:
    return ", ".join(f"{name}={str(value)[:60]}" for name, value in row.items())
