"""Tasks across the wiki and another site: what a page says is done there, or written down from there."""

import random

from rewards.tasksets.web.data import forms
from rewards.tasksets.web.goal import Goal, Row, State, id_of, rows_of
from rewards.tasksets.web.money import bills
from rewards.tasksets.web.shop import buying
from rewards.tasksets.web.shop.rows import ME
from rewards.tasksets.web.template import Scenario
from rewards.tasksets.web.tracker import issues
from rewards.tasksets.web.wiki import pages


def look_after(rng: random.Random, state: State) -> Scenario:
    _, team = pages.page(state, "Team")
    whose = {part.strip().lower(): who for who, _, parts in pages.table(team) for part in parts.split(",")}
    found = [
        (key, row, who)
        for key, row in issues.issues(state).items()
        for part, who in whose.items()
        if str(row["title"]).lower().startswith(part) and row["assigned"] != who
    ]
    key, row, who = rng.choice(found)
    return Scenario(
        f'Assign the issue "{row["title"]}" in the tracker to whoever looks after that part. '
        'The wiki\'s page "Team" says who does.',
        Goal({key: {"assigned": who}}),
        issues.edits({key: {"assigned": who}}),
        near_misses={
            f"assigned to {other}": Goal({key: {"assigned": other}})
            for other in sorted({*whose.values()} - {who, str(row["assigned"])})
        },
    )


def supplies(rng: random.Random, state: State) -> Scenario:
    _, page = pages.page(state, "Supplies")
    counts = {thing: int(count) for thing, count in pages.table(page)}
    key, row = rng.choice([one for one in buying.products(state).items() if one[1]["title"] in counts])
    count = counts[str(row["title"])]
    line: Row = {"product": row["title"], "quantity": count, "basket": "Open"}
    return Scenario(
        f'The wiki\'s page "Supplies" says how many {row["title"]} we are to buy. Put as many into my basket '
        "in the shop.",
        Goal(added=[("basket", line)]),
        lambda hands: buying.put(hands, key, row, count),
        near_misses={"one too many": Goal(added=[("basket", {**line, "quantity": count + 1})])},
    )


def bought(rng: random.Random, state: State) -> Scenario:
    _, page = pages.page(state, "The flat")
    (what, payer, price), (_, _, other) = rng.sample(pages.table(page), 2)
    bill: Row = {"what": what, "amount": float(price), "payer": payer}
    goal: Row = {**bill, "owers": ", ".join(sorted(bills.members(state))), "kind": "EXPENSE"}
    return Scenario(
        f'The wiki\'s page "The flat" says who paid for the {what.lower()}, and how much. Enter it as a bill '
        f'"{what}" for everyone, with our shared bills.',
        Goal(added=[("bill", goal)]),
        bills.adds(state, bill),
        near_misses={"another price": Goal(added=[("bill", {**goal, "amount": float(other)})])},
    )


def district_crew(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "repair", state="open", crew=None).items()))
    district = state[f"counter/{row['counter']}"]["district"]
    (crew,) = (
        str(page["title"]).removeprefix("Crew ")
        for _, page in pages.crews(state)
        if district in pages.fact(page, "Districts").split(", ")
    )
    return Scenario(
        f"Repair {id_of(key)} has no crew yet. Assign it to the crew that works in the district of its "
        "counter; the pages of the crews in the wiki say who works where.",
        Goal({key: {"crew": crew}}),
        forms.sends("assign_crew", {"crew": crew, "repair": id_of(key)}),
        near_misses={other: Goal({key: {"crew": other}}) for other in forms.CREWS if other != crew},
    )


def open_repairs(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(pages.crews(state))
    crew = str(row["title"]).removeprefix("Crew ")
    count = len(rows_of(state, "repair", state="open", crew=crew))
    text = f"{row['text']}\nOpen repairs: "
    return Scenario(
        f"Look up how many open repairs crew {crew} has in the counters' database, and add a last line "
        f'"Open repairs: NUMBER" to the wiki\'s page "{row["title"]}".',
        Goal({key: {"text": f"{text}{count}"}}),
        pages.adds_line(row, f"Open repairs: {count}"),
        near_misses={"one too many": Goal({key: {"text": f"{text}{count + 1}"}})},
    )


def order_total(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(pages.below(state, "meetings/").items()))
    (_, order), (_, other) = rng.sample(list(rows_of(state, "order", customer=ME).items()), 2)
    line, wrong = (
        f"Order {order['number']}: {float(one['total'] or 0):.2f} pounds" for one in (order, other)
    )
    return Scenario(
        f"Look up what my order {order['number']} in the shop cost in all, and add a last line "
        f'"Order {order["number"]}: AMOUNT pounds" to the wiki\'s page "{row["title"]}", with two decimals.',
        Goal({key: {"text": f"{row['text']}\n{line}"}}),
        pages.adds_line(row, line),
        near_misses={"another order": Goal({key: {"text": f"{row['text']}\n{wrong}"}})},
    )


def largest_bill(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(pages.below(state, "meetings/").items()))
    month = rng.choice(("2026-01", "2026-02"))
    found = [one for one in bills.bills(state).values() if str(one["date"]).startswith(month)]
    first, second = sorted(found, key=lambda one: -float(one["amount"] or 0))[:2]
    line = f"{row['text']}\nLargest bill: "
    return Scenario(
        f"Look up our flat's largest bill of {month} among the shared bills, and add a last line "
        f'"Largest bill: WHAT" to the wiki\'s page "{row["title"]}", with what the bill was for.',
        Goal({key: {"text": f"{line}{first['what']}"}}),
        pages.adds_line(row, f"Largest bill: {first['what']}"),
        near_misses={"the second largest": Goal({key: {"text": f"{line}{second['what']}"}})},
    )


def ask_room(rng: random.Random, state: State) -> Scenario:
    _, team = pages.page(state, "Team")
    who, room, _ = rng.choice(pages.table(team))
    unresolved = [row for row in issues.issues(state, assigned=who).values() if row["status"] != "resolved"]
    return Scenario(
        f"Who sits in room {room}, by the wiki, and how many issues that are not resolved does the tracker "
        "have for that person?",
        answer={"person": who, "issues": len(unresolved)},
    )
