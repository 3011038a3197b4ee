"""Tasks in the shop on what a customer keeps there: reviews, wish lists, addresses and alerts."""

import random

from rewards.tasksets.web.goal import Goal, Row, State, id_of, rows_of
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.shop.buying import fill_address, page, products
from rewards.tasksets.web.shop.rows import ME, ORIGIN
from rewards.tasksets.web.template import Moves, Scenario

_OPINIONS = (
    ("Sturdy", "Survived a week of wind on the coast."),
    ("Smaller than I thought", "Nicely made, but look at the measures first."),
    ("My third one", "I keep giving them away because they are that good."),
)
_FORM = "form:has([name=line1])"
_STARS = ("one star", "two stars", "three stars", "four stars", "five stars")


def review(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "product").items()))
    (title, body), score = rng.choice(_OPINIONS), rng.randint(1, 5)
    written: Row = {"title": title, "product": row["title"], "score": score, "body": body, "customer": ME}

    async def moves(hands: Hands) -> None:
        await hands.open(f"{page(key, row)}reviews/add/")
        await hands.fill("#add_review_form [name=title]", title)
        await hands.click("#add_review_form .star-rating i", score - 1)
        await hands.fill("#add_review_form [name=body]", body)
        await hands.click("#add_review_form button[type=submit]")

    return Scenario(
        f'Review the {row["title"]} for me: {_STARS[score - 1]}, title "{title}", and the text "{body}"',
        Goal(added=[("review", written)]),
        moves,
    )


def vote(rng: random.Random, state: State) -> Scenario:
    helps = rng.random() < 0.5
    key, row = rng.choice(list(rows_of(state, "review").items()))
    ((product, shown),) = rows_of(state, "product", title=row["product"]).items()
    (author,) = rows_of(state, "customer", username=row["customer"]).values()
    kind = "btn-success" if helps else "btn-danger"

    async def moves(hands: Hands) -> None:
        await hands.open(f"{page(product, shown)}reviews/{id_of(key)}/")
        await hands.click(f"form[action$='/{id_of(key)}/vote/'] .{kind}")

    return Scenario(
        f"{author['first']} {author['last']} reviewed the {row['product']}. "
        f"Say that this review {'is helpful' if helps else 'is not helpful'}.",
        Goal({key: {"votes": 1, "balance": 1 if helps else -1}}),
        moves,
        near_misses={"the other way": Goal({key: {"votes": 1, "balance": -1 if helps else 1}})},
    )


# -- wish lists -------------------------------------------------------------------------------------------


def _lists(state: State) -> list[str]:
    return [str(row["name"]) for row in rows_of(state, "wishlist", customer=ME).values()]


def wish(rng: random.Random, state: State) -> Scenario:
    name = rng.choice(_lists(state))
    there = {row["product"] for row in rows_of(state, "wish").values()}
    found = [one for one in products(state).items() if one[1]["title"] not in there]
    key, row = rng.choice(found)
    other = next(one for one in _lists(state) if one != name)

    async def moves(hands: Hands) -> None:
        await hands.open(page(key, row))
        await hands.click(".btn-wishlist .dropdown-toggle")
        await hands.click(f".btn-wishlist a[href*='/wishlists/{_slot(state, name)}/']")

    new: Row = {"product": row["title"], "list": name}
    return Scenario(
        f'Put the {row["title"]} on my wish list "{name}".',
        Goal(added=[("wish", new)]),
        moves,
        near_misses={"on the other list": Goal(added=[("wish", {**new, "list": other})])},
    )


def unwish(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "wish").items()))
    slot = _slot(state, str(row["list"]))

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/accounts/wishlists/{slot}/lines/{id_of(key)}/delete/")
        await hands.click("button.btn-danger")

    return Scenario(
        f'I got the {row["product"]} for my birthday. Take it off the wish list "{row["list"]}".',
        Goal(removed=[key]),
        moves,
    )


def wish_more(rng: random.Random, state: State) -> Scenario:
    name = rng.choice(_lists(state))
    lines = list(rows_of(state, "wish", list=name).items())
    at = rng.randrange(len(lines))
    key, row = lines[at]
    wanted = rng.randint(2, 4)

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/accounts/wishlists/{_slot(state, name)}/")
        await hands.fill(f"[name=lines-{at}-quantity]", str(wanted))
        await hands.click("td button.btn-primary[type=submit]")

    return Scenario(
        f'On the wish list "{name}", change the quantity of {row["product"]} to {wanted}.',
        Goal({key: {"quantity": wanted}}),
        moves,
    )


def new_list(rng: random.Random, state: State) -> Scenario:
    name = rng.choice(("Winter hut", "Canoe week", "For the scouts"))
    there = {row["product"] for row in rows_of(state, "wish").values()}
    found = [one for one in products(state).items() if one[1]["title"] not in there]
    (key, row), (_, other) = rng.sample(found, 2)

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/accounts/wishlists/create/with-product/{id_of(key)}/")
        await hands.fill("[name=name]", name)
        await hands.click("form[data-behaviours=lock] button[type=submit]")

    wishlist = ("wishlist", {"name": name, "visibility": "Private"})
    return Scenario(
        f'Start a new wish list "{name}", private, with the {row["title"]} on it.',
        Goal(added=[wishlist, ("wish", {"product": row["title"], "list": name})]),
        moves,
        near_misses={
            "with another product": Goal(
                added=[wishlist, ("wish", {"product": other["title"], "list": name})]
            )
        },
    )


def _slot(state: State, name: str) -> str:
    """What names a wish list in addresses."""
    return str(next(iter(rows_of(state, "wishlist", name=name).values()))["key"])


# -- addresses and alerts ---------------------------------------------------------------------------------


def _saves(path: str, fields: Row) -> Moves:
    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/accounts/addresses/{path}/")
        await fill_address(hands, _FORM, fields)
        if path == "add":
            await hands.choose(f"{_FORM} [name=country]", "United Kingdom")
        await hands.click(f"{_FORM} button[type=submit]")

    return moves


def change_address(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "address", customer=ME).items()))
    moved = rng.choice(("9 Tanner's Yard", "28 Mill Bank", "61 Lantern Street"))
    code = f"N{rng.randint(2, 9)} {rng.randint(1, 9)}KD"
    new: Row = {"line": moved, "postcode": code}
    return Scenario(
        f"My place in {row['town']} is no longer at {row['line']} but at {moved}, postcode {code}, in the "
        "same town. Correct it in my address book.",
        Goal({key: new}),
        _saves(id_of(key), new),
        near_misses={
            "entered beside it": Goal(
                added=[("address", {**new, "town": row["town"], "first": row["first"], "last": row["last"]})]
            ),
            "only the street": Goal({key: {"line": moved}}),
        },
    )


def new_address(rng: random.Random, state: State) -> Scenario:
    new: Row = {
        "line": rng.choice(("The Old Forge", "4 Heron Court", "19 Station Approach")),
        "first": "Dana",
        "last": "Orsolic",
        "town": rng.choice(("Stonewick", "Marlbury")),
        "postcode": f"N{rng.randint(2, 9)} 2RB",
    }
    return Scenario(
        f"Add my work address to the address book: Dana Orsolic, {new['line']}, {new['town']}, "
        f"{new['postcode']}. My other addresses stay.",
        Goal(added=[("address", {**new, "customer": ME, "ships": 0})]),
        _saves("add", new),
    )


def default_address(rng: random.Random, state: State) -> Scenario:
    ((former, _),) = rows_of(state, "address", customer=ME, ships=1).items()
    key, row = rng.choice(list(rows_of(state, "address", customer=ME, ships=0).items()))

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/accounts/addresses/")
        link = f"a[href$='/addresses/{id_of(key)}/default_for_shipping/']"
        await hands.click(f".btn-group:has({link}) .dropdown-toggle")
        await hands.click(link)

    return Scenario(
        f"From now on send my orders to {row['line']} by default.",
        Goal({key: {"ships": 1}, former: {"ships": 0}}),
        moves,
    )


def alert(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "product", stock=0).items()))

    async def moves(hands: Hands) -> None:
        await hands.open(page(key, row))
        await hands.click("#alert_form button[type=submit]")

    return Scenario(
        f"The {row['title']} is sold out. Have the shop tell me when it is back.",
        Goal(added=[("alert", {"product": row["title"], "customer": ME, "status": "Active"})]),
        moves,
    )
