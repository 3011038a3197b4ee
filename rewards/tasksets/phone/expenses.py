"""Tasks in Expenses; amounts are kept in cents."""

import random

from rewards.checks.android import Row
from rewards.checks.android_tables import EXPENSES
from rewards.tasksets.phone.facts import Added, Changed, Removed
from rewards.tasksets.phone.template import NOW_MS, Scenario, Template
from rewards.tasksets.phone.words import HOUR_MS, told_money

_APP = ("org.guiagent.expenses",)
ENTERED_NOW: Row = {"created_date": NOW_MS}
CATEGORIES = {
    "Food": 3,
    "Housing": 4,
    "Social": 5,
    "Entertainment": 6,
    "Transportation": 7,
    "Clothes": 8,
    "Education": 10,
}
_NAMES = (
    "Bike tyre",
    "Curtains",
    "Dictionary",
    "Ferry",
    "Picnic",
    "Raincoat",
    "Scooter hire",
    "Theatre",
    "Tram",
    "Umbrella",
)


def expense(name: str, cents: int, category: str, hours_ago: int = 0) -> Row:
    return {
        "name": name,
        "amount": cents,
        "category": CATEGORIES[category],
        "note": "",
        "created_date": NOW_MS - hours_ago * HOUR_MS,
    }


def _cents(rng: random.Random) -> int:
    return rng.randint(40, 1800) * 5


def _rows(rng: random.Random, count: int) -> list[Row]:
    """This month's expenses, all of different names."""
    names = rng.sample(_NAMES, count)
    return [
        expense(name, _cents(rng), rng.choice(sorted(CATEGORIES)), 5 * index + 3)
        for index, name in enumerate(names)
    ]


def add(rng: random.Random) -> Scenario:
    name, *_ = rng.sample(_NAMES, 2)
    cents, category = _cents(rng), rng.choice(sorted(CATEGORIES))
    wanted: Row = {"name": name, "amount": cents, "category": CATEGORIES[category]}
    return Scenario(
        f'Add an expense "{name}" of {told_money(cents)} in the category {category}.',
        steps=9,
        start=[(EXPENSES, [expense("Stamps", 900, "Social", 30)])],
        goal=[Added(EXPENSES, wanted, ENTERED_NOW)],
        near_misses={
            "ten times as much": [Added(EXPENSES, {**wanted, "amount": 10 * cents}, ENTERED_NOW)],
            "no category": [Added(EXPENSES, {**wanted, "category": 1}, ENTERED_NOW)],
        },
    )


def delete(rng: random.Random) -> Scenario:
    rows = _rows(rng, 5)
    return Scenario(
        f'Delete the expense "{rows[2]["name"]}".',
        steps=5,
        start=[(EXPENSES, rows)],
        goal=[Removed(EXPENSES, {"name": rows[2]["name"]})],
    )


def delete_duplicates(rng: random.Random) -> Scenario:
    rows = _rows(rng, 4)
    twice = [rows[0], rows[2]]
    return Scenario(
        "Some expenses were entered twice: same name, same amount, "
        "same category. Delete one of each such pair.",
        steps=10,
        start=[(EXPENSES, [*rows, *twice])],
        goal=[Removed(EXPENSES, row) for row in twice],
        near_misses={"both of a pair": [Removed(EXPENSES, row) for row in (*twice, twice[0])]},
    )


def recategorize(rng: random.Random) -> Scenario:
    rows = _rows(rng, 4)
    row = rows[1]
    category = rng.choice([name for name, number in sorted(CATEGORIES.items()) if number != row["category"]])
    where = {"name": row["name"]}
    return Scenario(
        f'Put the expense "{row["name"]}" into the category {category}.',
        steps=6,
        start=[(EXPENSES, rows)],
        goal=[Changed(EXPENSES, where, {"category": CATEGORIES[category]})],
        near_misses={"into Others": [Changed(EXPENSES, where, {"category": 1})]},
    )


def correct(rng: random.Random) -> Scenario:
    rows = _rows(rng, 4)
    row = rows[3]
    cents = int(row["amount"] or 0) // 100 * 100 + rng.randint(101, 199)
    where = {"name": row["name"]}
    return Scenario(
        f'The expense "{row["name"]}" was really {told_money(cents)}. Correct it.',
        steps=6,
        start=[(EXPENSES, rows)],
        goal=[Changed(EXPENSES, where, {"amount": cents})],
        near_misses={"whole dollars only": [Changed(EXPENSES, where, {"amount": cents // 100 * 100})]},
    )


def ask_total(rng: random.Random) -> Scenario:
    rows = _rows(rng, 6)
    category = rng.choice(sorted(CATEGORIES))
    rows = [{**row, "category": CATEGORIES[category]} if index < 3 else row for index, row in enumerate(rows)]
    own = [int(row["amount"] or 0) for row in rows if row["category"] == CATEGORIES[category]]
    return Scenario(
        f"How many expenses are there in the category {category}, and how many dollars are they together?",
        steps=5,
        start=[(EXPENSES, rng.sample(rows, len(rows)))],
        answer={"total": sum(own) / 100, "count": len(own)},
    )


TEMPLATES = (
    Template("expenses-add", _APP, add),
    Template("expenses-delete", _APP, delete),
    Template("expenses-delete-duplicates", _APP, delete_duplicates),
    Template("expenses-recategorize", _APP, recategorize),
    Template("expenses-correct", _APP, correct),
    Template("expenses-ask-total", _APP, ask_total),
)
