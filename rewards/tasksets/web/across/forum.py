"""Tasks across the forum and another site: what it says is done there, or it is answered from there."""

import random

from rewards.tasksets.web.data import forms
from rewards.tasksets.web.forum import topics
from rewards.tasksets.web.goal import Goal, Row, State, id_of, rows_of
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.money import bills
from rewards.tasksets.web.shop import buying
from rewards.tasksets.web.template import Scenario
from rewards.tasksets.web.tracker import issues
from rewards.tasksets.web.wiki import pages


def broken(rng: random.Random, state: State) -> Scenario:
    key, row = topics.topic(state, "Counters that are broken")
    told = {str(post["author"]): _fault(state, post) for _, post in topics.posts(state, key)}
    who = rng.choice(list(told))
    repair = told[who]
    return Scenario(
        f'{who.capitalize()} says in the forum\'s topic "{row["title"]}" which counter is broken, how, and '
        "since when. Report it by the form of the counters' database.",
        Goal(added=[("repair", repair)]),
        forms.sends("report_fault", repair),
        near_misses={
            f"what {other} says": Goal(added=[("repair", wrong)])
            for other, wrong in told.items()
            if other != who
        },
    )


def _fault(state: State, post: Row) -> Row:
    """The repair that a post tells of, "PLACE: FAULT, since DAY."."""
    place, _, rest = str(post["text"]).partition(": ")
    fault, _, day = rest.rstrip(".").partition(", since ")
    (counter,) = rows_of(state, "counter", place=place)
    return {"fault": fault, "reported": day, "counter": int(id_of(counter))}


def trouble(rng: random.Random, state: State) -> Scenario:
    key, row = topics.topic(state, "The timetable app again")
    told = {str(post["author"]): str(post["text"]).rstrip(".") for _, post in topics.posts(state, key)}
    who, other = rng.sample(list(told), 2)
    issue: Row = {"title": told[who], "priority": "bug", "assigned": rng.choice(("emil", "farah", "hanna"))}
    return Scenario(
        f'File what {who} writes in the forum\'s topic "{row["title"]}" as a bug in the tracker, in the same '
        f"words and without the full stop, and assign it to {issue['assigned']}.",
        Goal(added=[("issue", issue)]),
        issues.files(issue),
        near_misses={f"what {other} writes": Goal(added=[("issue", {**issue, "title": told[other]})])},
    )


def shed(rng: random.Random, state: State) -> Scenario:
    key, row = topics.topic(state, "Bike shed of Quarry Lane 45")
    paid = [str(post["text"]).rstrip(".").split(" ", 4) for _, post in topics.posts(state, key)[1:]]
    (payer, _, price, _, thing), (_, _, other, _, _) = rng.sample(paid, 2)
    what = thing.removeprefix("a ").capitalize()
    bill: Row = {"what": what, "amount": float(price), "payer": payer}
    goal: Row = {**bill, "owers": ", ".join(sorted(bills.members(state))), "kind": "EXPENSE"}
    return Scenario(
        f'The forum\'s topic "{row["title"]}" says what {payer} paid for the shed. Enter it as a bill '
        f'"{what}" for everyone, with our shared bills.',
        Goal(added=[("bill", goal)]),
        bills.adds(state, bill),
        near_misses={"another price": Goal(added=[("bill", {**goal, "amount": float(other)})])},
    )


def lamp(rng: random.Random, state: State) -> Scenario:
    key, row = topics.topic(state, "Which lamp for the dark season?")
    (_, first), (_, second) = rng.sample(list(rows_of(state, "product", category="Lamps").items()), 2)
    text, wrong = (
        f"The {first['title']} costs {float(one['price'] or 0):.2f} pounds" for one in (first, second)
    )
    return Scenario(
        f"Look up what the {first['title']} costs in the shop, and answer in the forum's topic "
        f'"{row["title"]}": "The {first["title"]} costs PRICE pounds", with two decimals.',
        Goal(added=[topics.replied(key, text)]),
        topics.replies(key, text),
        near_misses={"another price": Goal(added=[topics.replied(key, wrong)])},
    )


def whom_to_call(rng: random.Random, state: State) -> Scenario:
    key, row = topics.topic(state, "Who repairs the counters where?")
    district = rng.choice(("North", "Harbour", "Centre", "Old Town"))
    told = {
        district in pages.fact(page, "Districts").split(", "): f"Crew {name}, {pages.fact(page, 'Telephone')}"
        for _, page in pages.crews(state)
        for name in [str(page["title"]).removeprefix("Crew ")]
    }
    return Scenario(
        f"Look up in the wiki which crew works in the district {district}, and its telephone number, and "
        f'answer in the forum\'s topic "{row["title"]}": "Crew NAME, NUMBER".',
        Goal(added=[topics.replied(key, told[True])]),
        topics.replies(key, told[True]),
        near_misses={"another crew": Goal(added=[topics.replied(key, told[False])])},
    )


def order_aloud(rng: random.Random, state: State) -> Scenario:
    key, row = topics.topic(state, "Which lamp for the dark season?")
    lamps = [one for one in buying.products(state).items() if one[1]["category"] == "Lamps"]
    product, lamp = rng.choice(lamps)
    count = rng.randint(2, 4)
    line: Row = {"product": lamp["title"], "quantity": count, "basket": "Open"}
    post = topics.replied(key, f"I order {count} x {lamp['title']}")

    async def moves(hands: Hands) -> None:
        await buying.put(hands, product, lamp, count)
        await topics.replies(key, str(post[1]["text"]))(hands)

    return Scenario(
        f"Put {count} {lamp['title']} into my basket in the shop, and then write in the forum's topic "
        f'"{row["title"]}": "{post[1]["text"]}"',
        Goal(added=[("basket", line), post]),
        moves,
        near_misses={"one too many": Goal(added=[("basket", {**line, "quantity": count + 1}), post])},
    )
