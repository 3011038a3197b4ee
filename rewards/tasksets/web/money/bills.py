"""Tasks on the bills that a flat shares, and on who is in it."""

import random
from collections.abc import Sequence

from rewards.tasksets.web.goal import Goal, Row, State, id_of, rows_of
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.money.rows import ORIGIN
from rewards.tasksets.web.template import Moves, Scenario

FLAT = f"{ORIGIN}/flat"
_THINGS = ("Curtain rail", "Smoke alarm", "Compost bin", "Fuse box repair")
_SEND = "form:has(> .actions) .actions [name=submit]"


def members(state: State) -> dict[str, str]:
    """The keys of the flat's members, by name."""
    return {str(row["name"]): key for key, row in rows_of(state, "member", project="flat").items()}


def bills(state: State, /, **wanted: object) -> dict[str, Row]:
    """The flat's bills with these values, by key."""
    return rows_of(state, "bill", project="flat", **wanted)


def a_bill(rng: random.Random, state: State) -> tuple[str, Row]:
    return rng.choice(list(bills(state).items()))


def listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def adds(state: State, bill: Row) -> Moves:
    """Enter a bill on the page for new ones."""

    async def moves(hands: Hands) -> None:
        await hands.open(f"{FLAT}/add")
        await _fill(hands, state, bill)

    return moves


def edits(state: State, key: str, bill: Row) -> Moves:
    async def moves(hands: Hands) -> None:
        await hands.open(f"{FLAT}/edit/{id_of(key)}")
        await _fill(hands, state, bill)

    return moves


async def _fill(hands: Hands, state: State, bill: Row) -> None:
    for name, value in bill.items():
        if name in ("what", "amount"):
            await hands.fill(f"main [name={name}]", str(value))
        elif name == "payer":
            await hands.choose("main [name=payer]", str(value))
        elif name == "owers":
            await hands.click("main #selectnone")
            for one in str(value).split(", "):
                await hands.click(f"main #payed_for-{id_of(members(state)[one])}")
        elif name == "kind":
            await hands.click("main details summary")
            await hands.choose("main [name=bill_type]", str(value).capitalize())
    await hands.click(_SEND)


def add(rng: random.Random, state: State) -> Scenario:
    what, payer = rng.choice(_THINGS), rng.choice(sorted(members(state)))
    amount = rng.randint(1000, 9000) / 100
    bill: Row = {"what": what, "amount": amount, "payer": payer}
    everybody = ", ".join(sorted(members(state)))
    return Scenario(
        f'{payer} paid {amount:.2f} for something we all share. Enter it as "{what}".',
        Goal(added=[("bill", {**bill, "owers": everybody, "kind": "EXPENSE"})]),
        adds(state, bill),
    )


def add_for_some(rng: random.Random, state: State) -> Scenario:
    people = sorted(members(state))
    payer, owers = rng.choice(people), sorted(rng.sample(people, rng.randint(2, 3)))
    what, amount = rng.choice(_THINGS), rng.randint(1000, 9000) / 100
    bill: Row = {"what": what, "amount": amount, "payer": payer, "owers": ", ".join(owers)}
    return Scenario(
        f'Enter that {payer} paid {amount:.2f}: "{what}". It is only for {listed(owers)}.',
        Goal(added=[("bill", bill)]),
        adds(state, bill),
        near_misses={"for everybody": Goal(added=[("bill", {**bill, "owers": ", ".join(people)})])},
    )


def pay_back(rng: random.Random, state: State) -> Scenario:
    payer, receiver = rng.sample(sorted(members(state)), 2)
    amount = float(rng.randint(10, 60))
    bill: Row = {"what": "Paid back", "amount": amount, "payer": payer, "owers": receiver}
    goal: Row = {**bill, "kind": "REIMBURSEMENT"}
    return Scenario(
        f"{payer} gave {receiver} {amount:.0f} in cash, to pay back. Enter that as a reimbursement, "
        'called "Paid back".',
        Goal(added=[("bill", goal)]),
        adds(state, goal),
        near_misses={
            "as an expense": Goal(added=[("bill", {**goal, "kind": "EXPENSE"})]),
            "the other way": Goal(added=[("bill", {**goal, "payer": receiver, "owers": payer})]),
        },
    )


def correct(rng: random.Random, state: State) -> Scenario:
    key, row = a_bill(rng, state)
    amount = round(float(row["amount"] or 0) + rng.randint(100, 900) / 100, 2)
    return Scenario(
        f'The bill for "{row["what"]}" was {amount:.2f}, not {row["amount"]:.2f}. Correct it.',
        Goal({key: {"amount": amount}}),
        edits(state, key, {"amount": amount}),
    )


def other_payer(rng: random.Random, state: State) -> Scenario:
    key, row = a_bill(rng, state)
    payer = rng.choice([one for one in sorted(members(state)) if one != row["payer"]])
    return Scenario(
        f'It was not {row["payer"]} who paid for "{row["what"]}" but {payer}. Put that right.',
        Goal({key: {"payer": payer}}),
        edits(state, key, {"payer": payer}),
    )


def without(rng: random.Random, state: State) -> Scenario:
    shared = [one for one in bills(state).items() if str(one[1]["owers"]).count(", ") > 1]
    key, row = rng.choice(shared)
    owers = str(row["owers"]).split(", ")
    out = rng.choice(owers)
    left = ", ".join(one for one in owers if one != out)

    async def moves(hands: Hands) -> None:
        await hands.open(f"{FLAT}/edit/{id_of(key)}")
        await hands.click(f"main #payed_for-{id_of(members(state)[out])}")
        await hands.click(_SEND)

    return Scenario(
        f'{out} had nothing to do with "{row["what"]}". Take {out} off that bill; the others share it.',
        Goal({key: {"owers": left}}),
        moves,
    )


def delete(rng: random.Random, state: State) -> Scenario:
    key, row = a_bill(rng, state)
    button = f"form.delete-bill[action$='/delete/{id_of(key)}'] button"

    async def moves(hands: Hands) -> None:
        await hands.open(f"{FLAT}/")
        await hands.click(button)
        await hands.click(button)  # it asks whether one is sure

    return Scenario(
        f'"{row["what"]}" from {row["date"]} was entered by mistake. Delete that bill.',
        Goal(removed=[key]),
        moves,
    )


# -- who is in it -----------------------------------------------------------------------------------------


def move_in(rng: random.Random, state: State) -> Scenario:
    name = rng.choice(("Pavel", "Ruth", "Simon"))

    async def moves(hands: Hands) -> None:
        await hands.open(f"{FLAT}/")
        await hands.fill("#add-member-form [name=name]", name)
        await hands.click("#add-member-form button[type=submit]")

    return Scenario(
        f"{name} moves in next week. Add {name} to those who share bills.",
        Goal(added=[("member", {"name": name, "project": "flat", "weight": 1, "activated": 1})]),
        moves,
    )


def weigh(rng: random.Random, state: State) -> Scenario:
    name = rng.choice([one for one in sorted(members(state)) if one != "The Bergs"])
    key = members(state)[name]
    weight = rng.choice((2.0, 3.0))

    async def moves(hands: Hands) -> None:
        await hands.open(f"{FLAT}/members/{id_of(key)}/edit")
        await hands.fill("[name=weight]", f"{weight:.0f}")
        await hands.click("form.form-horizontal button[type=submit]")

    told = {2.0: "two", 3.0: "three"}
    return Scenario(
        f"{name} is to count as {told[weight]} people from now on. Set that share.",
        Goal({key: {"weight": weight}}),
        moves,
    )


def move_out(rng: random.Random, state: State) -> Scenario:
    name = rng.choice([one for one in sorted(members(state)) if one != "Dana"])
    key = members(state)[name]
    button = f"#bal-member-{id_of(key)} form.delete button"

    async def moves(hands: Hands) -> None:
        await hands.open(f"{FLAT}/")
        await hands.click(button)
        await hands.click(button)  # it asks whether one is sure

    return Scenario(
        f"{name} has moved out. Deactivate them, so that no new bill is theirs.",
        Goal({key: {"activated": 0}}),
        moves,
    )


# -- questions, and what cannot be done -------------------------------------------------------------------


def ask_paid(rng: random.Random, state: State) -> Scenario:
    payer = rng.choice(sorted(members(state)))
    found = bills(state, payer=payer).values()
    return Scenario(
        f"How many bills did {payer} pay, and what did they come to together?",
        answer={"bills": len(found), "total": round(sum(float(row["amount"] or 0) for row in found), 2)},
    )


def ask_dearest(rng: random.Random, state: State) -> Scenario:
    month = rng.choice(("2026-01", "2026-02"))
    found = [row for row in bills(state).values() if str(row["date"]).startswith(month)]
    row = max(found, key=lambda one: float(one["amount"] or 0))
    return Scenario(
        f"What was our largest bill of {month}, and who paid it?",
        answer={"bill": str(row["what"]), "payer": str(row["payer"])},
    )


def no_such_member(rng: random.Random, state: State) -> Scenario:
    name = rng.choice(("Otto", "Lena"))
    return Scenario(f'Enter that {name} paid 18.00 for "{rng.choice(_THINGS)}".', infeasible=True)


def no_such_bill(rng: random.Random, state: State) -> Scenario:
    return Scenario(f'Delete the bill "{rng.choice(_THINGS)}", we got the money back.', infeasible=True)
