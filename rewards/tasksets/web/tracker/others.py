"""Tasks on the tracker that add something, ask something, or cannot be done."""

import random

from rewards.tasksets.web.goal import Goal, State
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.template import Scenario
from rewards.tasksets.web.tracker.issues import SEND, edits, files, issues, named, noted, one_issue
from rewards.tasksets.web.tracker.rows import ME, ORIGIN

_NEW = (
    "The timetable of holidays is missing",
    "Stops without a name cannot be saved",
    "The export leaves out night buses",
    "Searching for umlauts finds nothing",
)


def report(rng: random.Random, state: State) -> Scenario:
    title, priority = rng.choice(_NEW), rng.choice(("urgent", "bug", "wish"))
    row = {"title": title, "priority": priority}
    return Scenario(
        f'Report a new issue with the priority {priority}: "{title}".',
        Goal(added=[("issue", row)]),
        files(row),
    )


def report_assigned(rng: random.Random, state: State) -> Scenario:
    title, name = rng.choice(_NEW), rng.choice(("emil", "farah", "hanna"))
    row = {
        "title": title,
        "priority": "bug",
        "assigned": name,
        "keywords": rng.choice(("import", "printing")),
    }
    return Scenario(
        f'File a bug "{title}" with the keyword {row["keywords"]}, and assign it to {name}.',
        Goal(added=[("issue", row)]),
        files(row),
    )


def report_two(rng: random.Random, state: State) -> Scenario:
    rows = [{"title": title, "priority": "feature"} for title in rng.sample(_NEW, 2)]
    return Scenario(
        f'Enter two new issues with the priority feature: "{rows[0]["title"]}" and "{rows[1]["title"]}".',
        Goal(added=[("issue", row) for row in rows]),
        files(*rows),
    )


_NOTES = ("Seen on two more machines today.", "A fix is under review.", "Cannot reproduce this any more.")


def comment(rng: random.Random, state: State) -> Scenario:
    (key, row), text = noted(rng, state), rng.choice(_NOTES)
    return Scenario(
        f'Leave the note "{text}" on the issue "{row["title"]}".',
        Goal(added=[("note", {"text": text, "issue": key, "author": ME})]),
        edits({key: {"note": text}}),
    )


def resolve_with_note(rng: random.Random, state: State) -> Scenario:
    (key, row), text = noted(rng, state), "Released with the last build."
    return Scenario(
        f'Resolve "{row["title"]}" with the note "{text}"',
        Goal({key: {"status": "resolved"}}, [("note", {"text": text, "issue": key, "author": ME})]),
        edits({key: {"status": "resolved", "note": text}}),
    )


def my_details(rng: random.Random, state: State) -> Scenario:
    key = next(key for key, row in state.items() if row.get("username") == ME)
    phone = f"+47 555 {rng.randint(1000, 9999)}"

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/{key.replace('/', '')}")
        await hands.fill("[name=phone]", phone)
        await hands.click(SEND)

    return Scenario(
        f"My phone number is now {phone}. Put it into my details.", Goal({key: {"phone": phone}}), moves
    )


def new_keyword(rng: random.Random, state: State) -> Scenario:
    name = rng.choice(("release-2.3", "mobile", "translations"))

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/keyword?@template=item")
        await hands.fill("[name=name]", name)
        await hands.click(SEND)

    return Scenario(
        f'We need a keyword "{name}". Create it.', Goal(added=[("keyword", {"name": name})]), moves
    )


# -- questions, and what cannot be done -------------------------------------------------------------------


def ask_count(rng: random.Random, state: State) -> Scenario:
    name = rng.choice(("emil", "farah", "goran", "hanna"))
    open_ones = [row for row in issues(state, assigned=name).values() if row["status"] != "resolved"]
    return Scenario(
        f"How many issues that are not resolved are assigned to {name}?", answer={"issues": len(open_ones)}
    )


def ask_reporter(rng: random.Random, state: State) -> Scenario:
    _, row = one_issue(rng, state)
    return Scenario(f'Who created the issue "{row["title"]}"?', answer={"user": str(row["reporter"])})


def ask_titles(rng: random.Random, state: State) -> Scenario:
    rows = named(rng, state, 2, 5, "priority", "status")
    first = next(iter(rows.values()))
    return Scenario(
        f"Which issues have the priority {first['priority']} and the status {first['status']}?",
        answer={"titles": [str(row["title"]) for row in rows.values()]},
    )


def no_such_issue(rng: random.Random, state: State) -> Scenario:
    return Scenario(f'Resolve the issue "{rng.choice(_NEW)}".', infeasible=True)


def no_such_person(rng: random.Random, state: State) -> Scenario:
    _, row = one_issue(rng, state)
    return Scenario(f'Assign "{row["title"]}" to {rng.choice(("ingrid", "jonas"))}.', infeasible=True)
