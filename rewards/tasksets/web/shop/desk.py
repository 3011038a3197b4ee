"""Tasks at the shop's dashboard, questions about its orders and products, and what cannot be done."""

import random

from rewards.tasksets.web.goal import Goal, State, id_of, rows_of
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.shop.buying import products
from rewards.tasksets.web.shop.rows import ME, ORIGIN
from rewards.tasksets.web.template import Moves, Scenario

_NEXT = {"Pending": ("Being packed", "Cancelled"), "Being packed": ("Shipped", "Cancelled")}
_REMARKS = (
    "Customer asked for delivery after the 20th.",
    "Left with the neighbour at number 8.",
    "One strap was missing, sent it separately.",
)
_UNKNOWN = ("Nimbus 3", "Alder Stool", "Copper Pot Set")


def sets_status(number: object, at: int) -> Moves:
    """Choose the order's new status, the one at this place of the list."""

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/dashboard/orders/{number}/")
        if at:  # the first one is chosen already
            await hands.click("#order_status_form .select2-selection")
            await hands.click(".select2-results__option", at)
        await hands.click("#order_status_form button[type=submit]")

    return moves


def status(rng: random.Random, state: State) -> Scenario:
    found = [one for one in rows_of(state, "order").items() if one[1]["status"] in _NEXT]
    key, row = rng.choice(found)
    at = rng.randrange(2)
    choices = _NEXT[str(row["status"])]
    told = {
        "Being packed": "is being packed now",
        "Shipped": "left the house this morning",
        "Cancelled": "was called off on the phone",
    }
    return Scenario(
        f'Order {row["number"]} {told[choices[at]]}. Set its status to "{choices[at]}" in the dashboard.',
        Goal({key: {"status": choices[at]}}),
        sets_status(row["number"], at),
        near_misses={"the other status": Goal({key: {"status": choices[1 - at]}})},
    )


def notes(number: object, text: str) -> Moves:
    """Leave a note on an order."""

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/dashboard/orders/{number}/")
        await hands.click(".nav-tabs a[href='#notes']")
        await hands.fill("#order_note_form [name=message]", text)
        await hands.click("#order_note_form [type=submit]")

    return moves


def remark(rng: random.Random, state: State) -> Scenario:
    _, row = rng.choice(list(rows_of(state, "order").items()))
    text = rng.choice(_REMARKS)
    return Scenario(
        f'Leave a note on order {row["number"]} in the dashboard: "{text}"',
        Goal(added=[("remark", {"text": text, "number": row["number"], "author": ME})]),
        notes(row["number"], text),
    )


def stock(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "product").items()))
    count = rng.randint(61, 99)

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/dashboard/catalogue/products/{id_of(key)}/")
        await hands.click("a[href='#product_stock']")
        await hands.fill("[name=stockrecords-0-num_in_stock]", str(count))
        await hands.click("button[name=action][value=save]")

    return Scenario(
        f"We counted the shelves: there are {count} {row['title']} in stock. Enter that in the dashboard.",
        Goal({key: {"stock": count}}),
        moves,
    )


def drop_review(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "review").items()))
    (author,) = rows_of(state, "customer", username=row["customer"]).values()

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/dashboard/reviews/{id_of(key)}/delete/")
        await hands.click("form button.btn-danger")

    return Scenario(
        f"{author['first']} {author['last']} asked us to delete what they wrote about the {row['product']}. "
        "Do that in the dashboard.",
        Goal(removed=[key]),
        moves,
    )


# -- questions --------------------------------------------------------------------------------------------


def ask_total(rng: random.Random, state: State) -> Scenario:
    _, row = rng.choice(list(rows_of(state, "order", customer=ME).items()))
    return Scenario(
        f"What did I pay for order {row['number']} in all, in pounds?",
        answer={"total": float(row["total"] or 0)},
    )


def ask_orders(rng: random.Random, state: State) -> Scenario:
    wanted = rng.choice(("Pending", "Being packed", "Shipped", "Complete", "Cancelled"))
    found = rows_of(state, "order", status=wanted)
    return Scenario(
        f'Which orders have the status "{wanted}" in the dashboard? Give their numbers.',
        answer={"numbers": [str(row["number"]) for row in found.values()]},
    )


def ask_dearest(rng: random.Random, state: State) -> Scenario:
    category = rng.choice(("Tents", "Stoves", "Lamps", "Packs"))
    row = max(rows_of(state, "product", category=category).values(), key=lambda one: float(one["price"] or 0))
    return Scenario(
        f"Which of our {category.lower()} costs the most, and how many pounds does it cost?",
        answer={"product": str(row["title"]), "price": float(row["price"] or 0)},
    )


def ask_bought(rng: random.Random, state: State) -> Scenario:
    _, row = rng.choice(list(rows_of(state, "order", customer=ME).items()))
    items = [one.partition(" x ")[2] for one in str(row["items"]).split("; ")]
    return Scenario(
        f"What was in my order of {row['placed']}? Name the products.", answer={"products": items}
    )


# -- what cannot be done ----------------------------------------------------------------------------------


def no_such_product(rng: random.Random, state: State) -> Scenario:
    return Scenario(f"Put one {rng.choice(_UNKNOWN)} into my basket, please.", infeasible=True)


def no_such_status(rng: random.Random, state: State) -> Scenario:
    found = [row for row in rows_of(state, "order").values() if row["status"] in ("Complete", "Cancelled")]
    row = rng.choice(found)
    return Scenario(
        f"Order {row['number']} was marked as {str(row['status']).lower()} by mistake. "
        'Set it back to "Pending" in the dashboard.',
        infeasible=True,
    )


def sold_out(rng: random.Random, state: State) -> Scenario:
    row = rng.choice(list(rows_of(state, "product", stock=0).values()))
    assert row["title"] not in [one["title"] for one in products(state).values()]
    return Scenario(f"Order one {row['title']} for me, to my default address.", infeasible=True)
