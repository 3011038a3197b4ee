"""Tasks across two of the sites of records: tracker, counters, shop and shared bills."""

import random

from rewards.tasksets.web.data import forms
from rewards.tasksets.web.goal import Goal, Row, State, id_of, rows_of
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.money import bills
from rewards.tasksets.web.shop import buying, desk
from rewards.tasksets.web.shop.rows import ME
from rewards.tasksets.web.template import Scenario
from rewards.tasksets.web.tracker import issues

# -- tracker and data -------------------------------------------------------------------------------------


def pass_on(rng: random.Random, state: State) -> Scenario:
    where, found = rng.choice(forms.groups(state, "counter", 2, 5, state="open"))
    place = state[f"counter/{where}"]["place"]
    first, *later = sorted(found, key=lambda key: (str(state[key]["reported"]), key))
    new: Row = {"title": f"{place}: {state[first]['fault']}", "priority": "urgent"}
    others = sorted({str(state[key]["fault"]) for key in later} - {str(state[first]["fault"])})
    return Scenario(
        f"Look up which of the open repairs of the counter at {place} was reported first, and file an urgent "
        f'issue in the tracker for it. Call it "{place}: " followed by the fault.',
        Goal(added=[("issue", new)]),
        issues.files(new),
        near_misses={
            f"reported {other}": Goal(added=[("issue", {**new, "title": f"{place}: {other}"})])
            for other in others
        },
    )


def report_twice(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "counter").items()))
    day = f"2026-03-{rng.randint(1, 9):02}"
    repair: Row = {"fault": "no signal", "reported": day, "counter": int(id_of(key))}
    issue: Row = {"title": f"No figures from {row['place']}", "priority": "bug"}

    async def moves(hands: Hands) -> None:
        await forms.sends("report_fault", repair)(hands)
        await issues.files(issue)(hands)

    return Scenario(
        f'The counter at {row["place"]} has sent nothing since {day}. Report "no signal" for it with that '
        f'date in the counters\' database, and file a bug "{issue["title"]}" in the tracker.',
        Goal(added=[("repair", repair), ("issue", issue)]),
        moves,
    )


def close_both(rng: random.Random, state: State) -> Scenario:
    repair, row = rng.choice(list(rows_of(state, "repair", state="open").items()))
    issue, told = issues.one_issue(rng, state, status="testing")

    async def moves(hands: Hands) -> None:
        await forms.sends("close_repair", {"repair": id_of(repair)})(hands)
        await issues.edits({issue: {"status": "resolved"}})(hands)

    return Scenario(
        f"Repair {id_of(repair)} at {forms.place(state, row)} is done, and with it the issue "
        f'"{told["title"]}". Close the repair and resolve the issue.',
        Goal({repair: {"state": "done"}, issue: {"status": "resolved"}}),
        moves,
    )


def busiest_title(rng: random.Random, state: State) -> Scenario:
    month = f"2025-{rng.randint(1, 12):02}"
    counters = sorted(
        rows_of(state, "counter"), key=lambda one: -int(state[f"month/{id_of(one)}:{month}"]["bicycles"] or 0)
    )
    first, second = (state[key]["place"] for key in counters[:2])
    key, row = issues.one_issue(rng, state)
    return Scenario(
        f"Issue {id_of(key)} was seen where most bicycles were counted in {month}. "
        f'Add " at " and the name of that place to the end of its title.',
        Goal({key: {"title": f"{row['title']} at {first}"}}),
        issues.edits({key: {"title": f"{row['title']} at {first}"}}),
        near_misses={"the second busiest": Goal({key: {"title": f"{row['title']} at {second}"}})},
    )


def ask_load(rng: random.Random, state: State) -> Scenario:
    name, crew = rng.choice(("emil", "farah", "goran", "hanna")), rng.choice(forms.CREWS)
    unresolved = [row for row in issues.issues(state, assigned=name).values() if row["status"] != "resolved"]
    return Scenario(
        f"How many issues that are not resolved does {name} have in the tracker, and how many repairs of "
        f"crew {crew} are open in the counters' database?",
        answer={
            "issues": len(unresolved),
            "repairs": len(rows_of(state, "repair", state="open", crew=crew)),
        },
    )


# -- shop and data ----------------------------------------------------------------------------------------


def equip(rng: random.Random, state: State) -> Scenario:
    districts = {str(row["district"]) for row in rows_of(state, "counter").values()}
    many = {one: len(rows_of(state, "counter", district=one)) for one in sorted(districts)}
    district = rng.choice([one for one, count in many.items() if count > 1])
    key, row = rng.choice(list(buying.products(state).items()))
    line: Row = {"product": row["title"], "quantity": many[district], "basket": "Open"}
    return Scenario(
        f"Every counter in the district {district} gets a {row['title']}. Look up in the counters' database "
        "how many we need and put that many into my basket in the shop.",
        Goal(added=[("basket", line)]),
        lambda hands: buying.put(hands, key, row, many[district]),
        near_misses={"one too few": Goal(added=[("basket", {**line, "quantity": many[district] - 1})])},
    )


def ask_cost(rng: random.Random, state: State) -> Scenario:
    crew = rng.choice(forms.CREWS)
    count = len(rows_of(state, "repair", state="open", crew=crew))
    row = rng.choice(list(rows_of(state, "product").values()))
    return Scenario(
        f"Crew {crew} wants a {row['title']} for each of its open repairs. What would they cost in the shop, "
        "in pounds all together?",
        answer={"pounds": round(count * float(row["price"] or 0), 2)},
    )


def stock_for_repairs(rng: random.Random, state: State) -> Scenario:
    repairs, row = rng.choice(list(rows_of(state, "repair", state="open", crew=None).items()))
    crew = rng.choice(forms.CREWS)
    key, product = rng.choice(list(buying.products(state).items()))
    line: Row = {"product": product["title"], "quantity": 1, "basket": "Open"}

    async def moves(hands: Hands) -> None:
        await forms.sends("assign_crew", {"crew": crew, "repair": id_of(repairs)})(hands)
        await buying.put(hands, key, product, 1)

    return Scenario(
        f"Crew {crew} takes over repair {id_of(repairs)} at {forms.place(state, row)}, and needs a "
        f"{product['title']} for it: assign the repair, and put one into my basket in the shop.",
        Goal({repairs: {"crew": crew}}, [("basket", line)]),
        moves,
    )


# -- shop and tracker -------------------------------------------------------------------------------------


def refer(rng: random.Random, state: State) -> Scenario:
    (key, issue), (other, _) = rng.sample(list(issues.issues(state).items()), 2)
    _, order = rng.choice(list(rows_of(state, "order").items()))
    note: Row = {"text": f"See issue {id_of(key)}", "number": order["number"], "author": ME}
    return Scenario(
        f'The customer of order {order["number"]} ran into "{issue["title"]}". Leave the note '
        '"See issue N" on that order in the shop\'s dashboard, with the number of the issue in the tracker.',
        Goal(added=[("remark", note)]),
        desk.notes(order["number"], str(note["text"])),
        near_misses={
            "another issue": Goal(added=[("remark", {**note, "text": f"See issue {id_of(other)}"})])
        },
    )


def largest_order(rng: random.Random, state: State) -> Scenario:
    statuses = ("Pending", "Being packed", "Shipped", "Complete", "Cancelled")
    wanted = rng.choice([one for one in statuses if rows_of(state, "order", status=one)])
    found = sorted(rows_of(state, "order", status=wanted).values(), key=lambda row: -float(row["total"] or 0))
    first, *others = (f"Check order {row['number']}" for row in found)
    new: Row = {"title": first, "priority": "urgent", "assigned": "farah"}
    return Scenario(
        f'farah is to check the most expensive of the shop\'s orders with the status "{wanted}". File an '
        'urgent issue "Check order NUMBER" for it in the tracker, and assign it to her.',
        Goal(added=[("issue", new)]),
        issues.files(new),
        near_misses={other: Goal(added=[("issue", {**new, "title": other})]) for other in others[:1]},
    )


def cancel(rng: random.Random, state: State) -> Scenario:
    pending = list(rows_of(state, "order", status="Pending").items())
    key, row = rng.choice(pending)
    issue, told = issues.one_issue(rng, state, status="in-progress")

    async def moves(hands: Hands) -> None:
        await desk.sets_status(row["number"], 1)(hands)
        await issues.edits({issue: {"priority": "critical"}})(hands)

    return Scenario(
        f'We lost order {row["number"]} to "{told["title"]}". Set the order to "Cancelled" in the shop\'s '
        "dashboard, and make that issue critical in the tracker.",
        Goal({key: {"status": "Cancelled"}, issue: {"priority": "critical"}}),
        moves,
    )


# -- shop and money ---------------------------------------------------------------------------------------


def share(rng: random.Random, state: State) -> Scenario:
    (_, order), (_, other) = rng.sample(list(rows_of(state, "order", customer=ME).items()), 2)
    bill: Row = {"what": f"Order {order['number']}", "amount": order["total"], "payer": "Dana"}
    everybody = ", ".join(sorted(bills.members(state)))
    goal: Row = {**bill, "owers": everybody, "kind": "EXPENSE"}
    return Scenario(
        f"My order {order['number']} in the shop was for the flat. Enter what it cost as a bill "
        f'"Order {order["number"]}" that Dana paid for everyone.',
        Goal(added=[("bill", goal)]),
        bills.adds(state, bill),
        near_misses={"another order": Goal(added=[("bill", {**goal, "amount": other["total"]})])},
    )
