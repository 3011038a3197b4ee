"""Goals on a site's database: what has to change, whether it did and nothing else, and near-misses. Pure."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

Value = str | int | float | None
Row = Mapping[str, Value]
State = Mapping[str, Row]
"""The rows of one or more sites by table and key, "issue/12". No two sites have a table of the same name."""


@dataclass(frozen=True)
class Goal:
    """The rows to change, to add and to remove; everything else stays as it is.

    Attributes:
        changed: by key, the columns that get other values.
        added: table and columns of each new row; columns that are not named may hold anything.
        removed: keys of the rows that go.
    """

    changed: Mapping[str, Row] = field(default_factory=dict)
    added: Sequence[tuple[str, Row]] = ()
    removed: Sequence[str] = ()

    @property
    def parts(self) -> int:
        return len(self.changed) + len(self.added) + len(self.removed)

    def within(self, tables: Container[str]) -> "Goal":
        """The part of it that is in these tables."""
        return Goal(
            {key: row for key, row in self.changed.items() if table_of(key) in tables},
            [one for one in self.added if one[0] in tables],
            [key for key in self.removed if table_of(key) in tables],
        )


def rows_of(state: State, table: str, /, **wanted: object) -> dict[str, Row]:
    """The rows of a table that have these values, by key."""
    return {
        key: row
        for key, row in state.items()
        if table_of(key) == table and all(row[name] == value for name, value in wanted.items())
    }


def id_of(key: str) -> str:
    """What tells a row from others of its table: "12" of "issue/12"."""
    return key.partition("/")[2]


def differences(before: State, after: State, goal: Goal) -> tuple[list[str], list[str]]:
    """Compare `after` with `before` and the goal applied to it: what is unmet, what changed beside it."""
    unmet: list[str] = []
    beside: list[str] = []
    for key, row in before.items():
        found, wanted = after.get(key), goal.changed.get(key, {})
        if key in goal.removed:
            unmet += [f"{key} is still there"] if found is not None else []
        elif found is None:
            (unmet if wanted else beside).append(key)
        else:
            unmet += [f"{key}/{name}" for name, value in wanted.items() if found.get(name) != value]
            beside += [
                f"{key}/{name}"
                for name, value in row.items()
                if name not in wanted and found.get(name) != value
            ]
    new = {key: row for key, row in after.items() if key not in before}
    for table, wanted in sorted(goal.added, key=lambda one: -len(one[1])):  # what fits fewest rows first
        fitting = [key for key, row in new.items() if table_of(key) == table and _fits(wanted, row)]
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
        found["half done"] = _half(goal)
    if goal.changed:
        key, wanted = next(iter(goal.changed.items()))
        name = next(iter(wanted))
        if (other := _another(before, table_of(key), name, wanted[name])) is not None:
            found["other value"] = replace(goal, changed={**goal.changed, key: {**wanted, name: other}})
        if (elsewhere := _other_row(before, goal, table_of(key), wanted)) is not None:
            rest = {one: row for one, row in goal.changed.items() if one != key}
            found["other row"] = replace(goal, changed={**rest, elsewhere: wanted})
            found["one too many"] = replace(goal, changed={**goal.changed, elsewhere: wanted})
    if goal.removed:
        key = goal.removed[0]
        table = table_of(key)
        others = (one for one in before if table_of(one) == table and one not in goal.removed)
        if (elsewhere := next((one for one in others if one not in goal.changed), None)) is not None:
            found["removed another"] = replace(goal, removed=[elsewhere, *goal.removed[1:]])
            found["removed one too many"] = replace(goal, removed=[*goal.removed, elsewhere])
    if goal.added:
        table, row = goal.added[0]
        first = next(iter(row))  # what names the row, which another one may not share
        other_first = _altered(row[first])
        found["added one too many"] = replace(goal, added=[*goal.added, (table, {**row, first: other_first})])
        for name, value in row.items():
            other = other_first if name == first else _another(before, table, name, value)
            if other is not None:
                wrong = (table, {**row, name: other})
                found[f"added with another {name}"] = replace(goal, added=[wrong, *goal.added[1:]])
    return found


def table_of(key: str) -> str:
    return key.partition("/")[0]


def _half(goal: Goal) -> Goal:
    """The goal without one of its parts."""
    if goal.added:
        return replace(goal, added=goal.added[:-1])
    if goal.removed:
        return replace(goal, removed=goal.removed[:-1])
    return replace(goal, changed=dict(list(goal.changed.items())[:-1]))


def _fits(wanted: Row, row: Row) -> bool:
    return all(row.get(name) == value for name, value in wanted.items())


def _altered(value: Value) -> Value:
    """Another value of the same kind."""
    return value + 1 if isinstance(value, int | float) else f"{value}s"


def _another(before: State, table: str, name: str, value: Value) -> Value:
    """A value that the column has elsewhere, or for one value only, an altered one."""
    values = (row[name] for key, row in before.items() if table_of(key) == table and name in row)
    other = next((one for one in values if one not in (value, None)), None)
    return _altered(value) if other is None and value is not None else other


def _other_row(before: State, goal: Goal, table: str, wanted: Row) -> str | None:
    """A row that the goal leaves alone and that `wanted` would change."""
    rows = (key for key in before if table_of(key) == table and key not in goal.changed)
    return next((key for key in rows if not _fits(wanted, before[key])), None)


def _told(row: Row) -> str:
    return ", ".join(f"{name}={str(value)[:60]}" for name, value in row.items())
