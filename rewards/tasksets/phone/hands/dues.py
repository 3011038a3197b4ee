"""What is still to be done: the rows that differ from those a goal wants, whoever made them differ. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from rewards.checks.android import Row, Rows, Source, same
from rewards.tasksets.phone.facts import Added, Changed, Fact, State, fits, targets


@dataclass(frozen=True)
class Due:
    """A row that has to change.

    Attributes:
        key: of the row as it is; "" for one that has to be added.
        now: the row as it is; None for one that has to be added.
        then: the values that it has to get; None for one that has to go.
    """

    source: Source
    key: str
    now: Row | None
    then: Row | None


def outstanding(source: Source, facts: Sequence[Fact], before: Rows, now: Rows) -> list[Due]:
    """What leads from `now` to the rows `before` with the facts of this source applied, in the facts' order.

    A row too many that has some of the values of one that is missing is changed rather than deleted: what an
    app saves in several steps, such as an alarm and then its label, is half done after the first.
    """
    keys = targets(facts, {source.name: before})
    wanted: dict[str, Row] = dict(before)
    order: list[str] = []
    for number, (fact, key) in enumerate(zip(facts, keys, strict=True)):
        match fact:
            case Added(row=row):
                key = f"added {number}"
                wanted[key] = row
            case Changed(values=values):
                wanted[key] = {**wanted[key], **values}
            case _:
                del wanted[key]
        order.append(key)

    left = dict(now)
    for key in [one for one in wanted if one in left and fits(source, wanted[one], left[one])]:
        del wanted[key], left[key]
    for key in list(wanted):
        found = next((one for one, row in left.items() if fits(source, wanted[key], row)), None)
        if found is not None:
            del wanted[key], left[found]

    dues: dict[str, Due] = {}
    for key in sorted(wanted, key=lambda one: one not in left):  # a row that is still there keeps its place
        row = wanted[key]
        there = key if key in left else _likest(source, row, left)
        if there is None:
            dues[key] = Due(source, "", None, row)
        else:
            had = left.pop(there)
            changed = {
                name: row[name] for name in row if not same(source.columns[name], row[name], had[name])
            }
            dues[key] = Due(source, there, had, changed)
    dues |= {key: Due(source, key, row, None) for key, row in left.items()}
    return [
        dues[key] for key in sorted(dues, key=lambda one: order.index(one) if one in order else len(order))
    ]


def _likest(source: Source, row: Row, left: Rows) -> str | None:
    """The key of the row that shares the most values with `row`; None if none shares one."""

    def shared(key: str) -> int:
        return sum(same(source.columns[name], value, left[key].get(name)) for name, value in row.items())

    found = max(left, key=shared, default=None)
    return found if found is not None and shared(found) else None


def all_outstanding(facts: Sequence[Fact], sources: Sequence[Source], before: State, now: State) -> list[Due]:
    """The same over several tables, in the order of `sources`."""
    return [
        due
        for source in sources
        for due in outstanding(
            source,
            [one for one in facts if one.source.name == source.name],
            before[source.name],
            now[source.name],
        )
    ]
