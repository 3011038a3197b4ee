"""Tasks on the site `data` that save something by its forms, or cannot be done."""

import random
from collections.abc import Mapping

from rewards.tasksets.web.data.rows import ORIGIN
from rewards.tasksets.web.goal import Goal, Row, State, id_of, rows_of
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.template import Moves, Scenario

CREWS = ("Heron", "Badger", "Swift")
_SEND = "form.sql input[type=submit]"


def sends(form: str, *filled: Mapping[str, object]) -> Moves:
    """Open a form, fill it and send it, once for each set of fields."""

    async def moves(hands: Hands) -> None:
        for fields in filled:
            await hands.open(f"{ORIGIN}/counters/{form}")
            for name, value in fields.items():
                await hands.fill(f"form.sql input[name={name}]", str(value))
            await hands.click(_SEND)

    return moves


def place(state: State, row: Row) -> str:
    """The place of a repair's counter."""
    return str(state[f"counter/{row['counter']}"]["place"])


def close(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(_distinct(state, "open").items()))
    return Scenario(
        f"The counter at {place(state, row)} works again: close its repair for "
        f'"{row["fault"]}" that was reported on {row["reported"]}.',
        Goal({key: {"state": "done"}}),
        sends("close_repair", {"repair": id_of(key)}),
    )


def close_all(rng: random.Random, state: State) -> Scenario:
    where, found = rng.choice(groups(state, "counter", 2, 4, state="open"))
    return Scenario(
        f"All open repairs of the counter at {state[f'counter/{where}']['place']} have been done today. "
        "Close them.",
        Goal({key: {"state": "done"} for key in found}),
        sends("close_repair", *({"repair": id_of(key)} for key in found)),
    )


def reopen(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(_distinct(state, "done").items()))
    return Scenario(
        f'"{row["fault"]}" at {place(state, row)} (reported {row["reported"]}) is back. '
        "Reopen that repair, please; don't report it again.",
        Goal({key: {"state": "open"}}),
        sends("reopen_repair", {"repair": id_of(key)}),
        near_misses={"reported again": Goal(added=[("repair", {
            "fault": row["fault"], "counter": row["counter"], "reported": row["reported"]})])},
    )  # fmt: skip


def assign(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "repair", state="open", crew=None).items()))
    crew = rng.choice(CREWS)
    return Scenario(
        f'Repair {id_of(key)} ("{row["fault"]}" at {place(state, row)}) has no crew yet. '
        f"Crew {crew} does it.",
        Goal({key: {"crew": crew}}),
        sends("assign_crew", {"crew": crew, "repair": id_of(key)}),
    )


def hand_over(rng: random.Random, state: State) -> Scenario:
    crew, found = rng.choice(groups(state, "crew", 2, 6, state="open"))
    other = rng.choice([one for one in CREWS if one != crew])
    return Scenario(
        f"Crew {crew} is away next week. Give all of its repairs that are still open to crew {other}.",
        Goal({key: {"crew": other} for key in found}),
        sends("assign_crew", *({"crew": other, "repair": id_of(key)} for key in found)),
    )


def report(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "counter").items()))
    fault, day = rng.choice(("battery low", "loop broken", "no signal")), f"2026-03-{rng.randint(1, 9):02}"
    new: Row = {"reported": day, "fault": fault, "counter": int(id_of(key))}
    return Scenario(
        f'The counter at {row["place"]} has the fault "{fault}" since {day}. Report it with that date.',
        Goal(added=[("repair", new)]),
        sends("report_fault", new),
    )


def report_district(rng: random.Random, state: State) -> Scenario:
    district = rng.choice(("Harbour", "Old Town", "North", "Centre"))
    new: list[Row] = [
        {"reported": "2026-03-02", "fault": "no signal", "counter": int(id_of(key))}
        for key in rows_of(state, "counter", district=district)
    ]
    return Scenario(
        f'Every counter in the district {district} lost its signal. Report "no signal" for each of them, '
        "dated 2026-03-02.",
        Goal(added=[("repair", row) for row in new]),
        sends("report_fault", *new),
    )


def discard(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(_distinct(state, "open").items()))
    return Scenario(
        f'Somebody reported "{row["fault"]}" at {place(state, row)} on {row["reported"]} by mistake. '
        "Discard that repair; closing it is not enough.",
        Goal(removed=[key]),
        sends("discard_repair", {"repair": id_of(key)}),
        near_misses={"closed instead": Goal({key: {"state": "done"}})},
    )


def correct(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "counter").items()))
    month, count = f"2025-{rng.randint(1, 12):02}", rng.randint(5_000, 8_999)
    return Scenario(
        f"The count at {row['place']} for {month} is wrong, it was {count:,} bicycles. Correct it.",
        Goal({f"month/{id_of(key)}:{month}": {"bicycles": count}}),
        sends("correct_count", {"bicycles": count, "counter": id_of(key), "month": month}),
    )


def add_counter(rng: random.Random, state: State) -> Scenario:
    where, district = rng.choice(
        (("Weir Gate", "Harbour"), ("Cooper's Hill", "North"), ("Bell Yard", "Centre"))
    )
    new = {"place": where, "district": district, "lanes": rng.choice((1, 2, 4)), "installed": "2026-03-01"}
    lanes = "one lane" if new["lanes"] == 1 else f"{new['lanes']} lanes"
    return Scenario(
        f"There is a new counter at {where} in the district {district}: {lanes}, installed on 2026-03-01. "
        "Add it.",
        Goal(added=[("counter", new)]),
        sends("add_counter", new),
    )


def rename(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "counter").items()))
    name = f"{row['place']} East"
    return Scenario(
        f'A second counter is planned near {row["place"]}, so rename the one there to "{name}".',
        Goal({key: {"place": name}}),
        sends("rename_counter", {"place": name, "counter": id_of(key)}),
    )


def no_such_counter(rng: random.Random, state: State) -> Scenario:
    where = rng.choice(("Opera Bridge", "Granary Wharf"))
    return Scenario(f'Report "loop broken" for the counter at {where}, dated 2026-03-04.', infeasible=True)


def no_such_form(rng: random.Random, state: State) -> Scenario:
    _, row = rng.choice(list(rows_of(state, "counter").items()))
    return Scenario(f"Delete the counter at {row['place']} together with its months.", infeasible=True)


def _distinct(state: State, status: str) -> dict[str, Row]:
    """The repairs in this state that counter, fault and day tell from every other one."""
    told = [(row["counter"], row["fault"], row["reported"]) for row in rows_of(state, "repair").values()]
    return {
        key: row
        for key, row in rows_of(state, "repair", state=status).items()
        if told.count((row["counter"], row["fault"], row["reported"])) == 1
    }


def groups(
    state: State, column: str, fewest: int, most: int, /, **wanted: object
) -> list[tuple[object, list[str]]]:
    """The values of a column that so many of the repairs with these values share, with their keys."""
    groups: dict[object, list[str]] = {}
    for key, row in rows_of(state, "repair", **wanted).items():
        if row[column] is not None:
            groups.setdefault(row[column], []).append(key)
    return [(value, keys) for value, keys in sorted(groups.items(), key=str) if fewest <= len(keys) <= most]
