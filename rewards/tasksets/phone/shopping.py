"""Tasks in the shopping list."""

import random

from rewards.checks.android import Row
from rewards.checks.android_tables import ITEMS, LISTS
from rewards.tasksets.phone.facts import Added, Changed, Removed
from rewards.tasksets.phone.template import Scenario, Template

_APP = ("org.guiagent.shopping",)
NAMES = ("Weekend", "Weekday", "Garden centre")
LIST_ROWS: list[Row] = [{"name": name} for name in NAMES]  # an emptied table numbers its rows from 1
_GOODS = (
    "Basil",
    "Carrots",
    "Flour",
    "Honey",
    "Lemons",
    "Mustard",
    "Noodles",
    "Oats",
    "Pears",
    "Sugar",
    "Tea",
    "Walnuts",
)


def item(name: str, number: int, quantity: int = 1, checked: int = 0) -> Row:
    return {"list_id": number, "name": name, "quantity": quantity, "checked": checked}


def _items(rng: random.Random) -> tuple[list[Row], list[str]]:
    """Six items on the first two lists, two of them on both, and names that are on none."""
    both, first, second, *rest = rng.sample(_GOODS, len(_GOODS))
    names = [(both, 1), (first, 1), (rest.pop(), 1), (both, 2), (second, 2), (rest.pop(), 2)]
    return [item(name, number, rng.randint(1, 4)) for name, number in names], rest


def add(rng: random.Random) -> Scenario:
    rows, new = _items(rng)
    return Scenario(
        f'Add {new[0]} and {new[1]} to the shopping list "{NAMES[0]}".',
        steps=8,
        start=[(LISTS, LIST_ROWS), (ITEMS, rows)],
        goal=[Added(ITEMS, item(name, 1)) for name in new[:2]],
        near_misses={"on another list": [Added(ITEMS, item(name, 2)) for name in new[:2]]},
    )


def check_off(rng: random.Random) -> Scenario:
    rows, _ = _items(rng)
    return Scenario(
        f"{rows[0]['name']} and {rows[1]['name']} are in the cart: check "
        f'them off on the shopping list "{NAMES[0]}".',
        steps=5,
        start=[(LISTS, LIST_ROWS), (ITEMS, rows)],
        goal=[Changed(ITEMS, row, {"checked": 1}) for row in rows[:2]],
        near_misses={
            "on another list": [
                Changed(ITEMS, rows[3], {"checked": 1}),
                Changed(ITEMS, rows[1], {"checked": 1}),
            ]
        },
    )


def quantity(rng: random.Random) -> Scenario:
    rows, _ = _items(rng)
    wanted = int(rows[0]["quantity"] or 0) + rng.randint(2, 4)
    return Scenario(
        f'Set the quantity of {rows[0]["name"]} on the shopping list "{NAMES[0]}" to {wanted}.',
        steps=6,
        start=[(LISTS, LIST_ROWS), (ITEMS, rows)],
        goal=[Changed(ITEMS, rows[0], {"quantity": wanted})],
        near_misses={"one too few": [Changed(ITEMS, rows[0], {"quantity": wanted - 1})]},
    )


def delete(rng: random.Random) -> Scenario:
    rows, _ = _items(rng)
    return Scenario(
        f'Take {rows[3]["name"]} off the shopping list "{NAMES[1]}".',
        steps=5,
        start=[(LISTS, LIST_ROWS), (ITEMS, rows)],
        goal=[Removed(ITEMS, rows[3])],
        near_misses={
            "from another list": [Removed(ITEMS, rows[0])],
            "only checked off": [Changed(ITEMS, rows[3], {"checked": 1})],
        },
    )


def new_list(rng: random.Random) -> Scenario:
    rows, [name, *_] = _items(rng)
    title = rng.choice(("Birthday", "Camping", "Office kitchen"))
    return Scenario(
        f'Make a new shopping list "{title}" with one item on it: {name}.',
        steps=9,
        start=[(LISTS, LIST_ROWS), (ITEMS, rows)],
        goal=[Added(LISTS, {"name": title}), Added(ITEMS, item(name, len(NAMES) + 1))],
        near_misses={"item on an old list": [Added(LISTS, {"name": title}), Added(ITEMS, item(name, 1))]},
    )


def ask_left(rng: random.Random) -> Scenario:
    rows, more = _items(rng)
    taken = [item(name, 1, checked=1) for name in more[: rng.randint(1, 3)]]
    return Scenario(
        f'Which items of the shopping list "{NAMES[0]}" are not checked off yet?',
        steps=3,
        start=[(LISTS, LIST_ROWS), (ITEMS, rng.sample([*rows, *taken], len(rows) + len(taken)))],
        answer={"items": [str(row["name"]) for row in rows[:3]]},
    )


TEMPLATES = (
    Template("shopping-add", _APP, add),
    Template("shopping-check-off", _APP, check_off),
    Template("shopping-quantity", _APP, quantity),
    Template("shopping-delete", _APP, delete),
    Template("shopping-new-list", _APP, new_list),
    Template("shopping-ask-left", _APP, ask_left),
)
