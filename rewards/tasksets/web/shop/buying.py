"""Tasks in the shop's basket and checkout."""

import random
from collections.abc import Mapping, Sequence

from rewards.tasksets.web.goal import Goal, Row, State, id_of, rows_of
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.shop.rows import ME, ORIGIN
from rewards.tasksets.web.template import Scenario

_COUNTS = {2: "two", 3: "three", 4: "four"}
_GUESTS = (
    {"first": "Mira", "last": "Brandt", "line": "12 Weir Street", "town": "Oldbeck", "postcode": "N7 4QA"},
    {"first": "Jonas", "last": "Feld", "line": "5 Chapel Rise", "town": "Stonewick", "postcode": "N4 8LT"},
    {"first": "Edda", "last": "Marlow", "line": "77 Orchard Way", "town": "Fernhollow", "postcode": "N1 9XD"},
)
_FIELDS = {"first": "first_name", "last": "last_name", "line": "line1", "town": "line4"}
ADD = "#add_to_basket_form button[type=submit]"


def page(key: str, product: Row) -> str:
    """The address of a product's page."""
    return f"{ORIGIN}/catalogue/{_slug(product['title'])}_{id_of(key)}/"


def _slug(title: object) -> str:
    return str(title).lower().replace(" ", "-")


def products(state: State) -> dict[str, Row]:
    """The products that can be bought and are in nobody's basket, by key."""
    taken = {row["product"] for row in rows_of(state, "basket").values()}
    return {
        key: row
        for key, row in rows_of(state, "product").items()
        if row["stock"] and row["title"] not in taken
    }


def mine(state: State, basket: str = "Open") -> dict[str, Row]:
    """The lines of our basket, in its order."""
    return rows_of(state, "basket", customer=ME, basket=basket)


def written(lines: Sequence[tuple[object, object]]) -> str:
    """Quantities and titles as the table of orders has them."""
    return "; ".join(f"{quantity} x {title}" for title, quantity in sorted(lines, key=str))


def place(address: Row) -> str:
    """An address as the table of orders has it."""
    told = [str(address[name]) for name in ("first", "last", "line", "town", "postcode")]
    return " ".join([*told, "United Kingdom"])


def _line(title: object, quantity: int) -> tuple[str, Row]:
    return "basket", {"product": str(title), "quantity": quantity, "basket": "Open"}


async def put(hands: Hands, key: str, product: Row, quantity: int) -> None:
    """Add a product to the basket on its page, and set its quantity there."""
    await hands.open(page(key, product))
    await hands.click(ADD)
    if quantity > 1:
        await set_quantity(hands, product["title"], quantity)


async def set_quantity(hands: Hands, title: object, quantity: int) -> None:
    await hands.open(f"{ORIGIN}/basket/")
    await hands.fill(f"{_row(title)} input[name$=-quantity]", str(quantity))
    await hands.click(f"{_row(title)} button[type=submit]")


def _row(title: object) -> str:
    """The line of a product on the page of the basket."""
    return f"#basket_formset .basket-items:has(a[href*='/catalogue/{_slug(title)}_'])"


async def fill_address(hands: Hands, form: str, address: Mapping[str, object]) -> None:
    for name, value in address.items():
        await hands.fill(f"{form} [name={_FIELDS.get(name, name)}]", str(value))


async def _order(hands: Hands, address: Row | None) -> None:
    """Check out, to the default address or to a new one."""
    await hands.open(f"{ORIGIN}/checkout/shipping-address/")
    if address is None:
        await hands.click("button.ship-address.btn-success")
    else:
        await fill_address(hands, "#new_shipping_address", address)
        await hands.click("#new_shipping_address button[type=submit]")
    await hands.click("#view_preview")
    await hands.click("#place-order")


def add(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(products(state).items()))
    quantity = rng.choice(list(_COUNTS))
    return Scenario(
        f"Put {_COUNTS[quantity]} {row['title']} into my basket. Don't order yet.",
        Goal(added=[_line(row["title"], quantity)]),
        lambda hands: put(hands, key, row, quantity),
    )


def add_cheapest(rng: random.Random, state: State) -> Scenario:
    category = rng.choice(("Tents", "Stoves", "Lamps", "Packs"))
    found = {key: row for key, row in rows_of(state, "product", category=category).items() if row["stock"]}
    cheapest, *others = sorted(found, key=lambda key: float(found[key]["price"] or 0))
    lines = mine(state)
    there = {row["product"]: key for key, row in lines.items()}
    title = found[cheapest]["title"]
    goal = (
        Goal({there[title]: {"quantity": int(lines[there[title]]["quantity"] or 0) + 1}})
        if title in there
        else Goal(added=[_line(title, 1)])
    )
    return Scenario(
        f"I need one more of our {category.lower()}, the cheapest that is in stock. Add one to my basket.",
        goal,
        lambda hands: put(hands, cheapest, found[cheapest], 1),
        near_misses={"the next cheapest": Goal(added=[_line(found[others[0]]["title"], 1)])},
    )


def quantity(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(mine(state).items()))
    wanted = rng.choice(list(_COUNTS))
    return Scenario(
        f"Make it {_COUNTS[wanted]} {row['product']} in my basket.",
        Goal({key: {"quantity": wanted}}),
        lambda hands: set_quantity(hands, row["product"], wanted),
    )


def take_out(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(mine(state).items()))

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/basket/")
        await hands.click(f"{_row(row['product'])} [data-behaviours=remove]")

    return Scenario(
        f"I don't want the {row['product']} after all, take it out of the basket.",
        Goal(removed=[key]),
        moves,
        near_misses={"saved for later": Goal({key: {"basket": "Saved"}})},
    )


def save(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(mine(state).items()))

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/basket/")
        await hands.click(f"{_row(row['product'])} [data-behaviours=save]")

    return Scenario(
        f"The {row['product']} can wait. Save it for later, but keep the rest of the basket as it is.",
        Goal({key: {"basket": "Saved"}}),
        moves,
        near_misses={"taken out": Goal(removed=[key])},
    )


def check_out(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(products(state).items()))
    lines = mine(state)
    bought = [(line["product"], line["quantity"]) for line in lines.values()] + [(row["title"], 1)]
    home = next(iter(rows_of(state, "address", customer=ME, ships=1).values()))
    order: Row = {"items": written(bought), "address": place(home), "customer": ME}

    async def moves(hands: Hands) -> None:
        await put(hands, key, row, 1)
        await _order(hands, None)

    return Scenario(
        f"Add a {row['title']} to what is in my basket and order all of it, to my default address.",
        Goal(added=[("order", order)], removed=list(lines)),
        moves,
        near_misses={
            "put into the basket only": Goal(added=[_line(row["title"], 1)]),
            "ordered without it": Goal(
                added=[("order", {**order, "items": written(bought[:-1])})], removed=list(lines)
            ),
        },
    )


def send(rng: random.Random, state: State) -> Scenario:
    lines = mine(state)
    guest: Row = rng.choice(_GUESTS)
    bought = [(line["product"], line["quantity"]) for line in lines.values()]
    order: Row = {"items": written(bought), "address": place(guest), "customer": ME}
    home = next(iter(rows_of(state, "address", customer=ME, ships=1).values()))
    gone = list(lines)
    return Scenario(
        f"Order what is in my basket as a present: it goes to {guest['first']} {guest['last']}, "
        f"{guest['line']}, {guest['town']}, {guest['postcode']}.",
        Goal(added=[("order", order), ("address", {**guest, "customer": ME})], removed=gone),
        lambda hands: _order(hands, guest),
        near_misses={"sent home": Goal(added=[("order", {**order, "address": place(home)})], removed=gone)},
    )
