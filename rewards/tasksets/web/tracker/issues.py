"""Tasks on issues of the tracker: their status, priority, keywords and who looks after them."""

import random
from collections.abc import Mapping

from rewards.tasksets.web.goal import Goal, Row, State, rows_of
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.template import Moves, Scenario
from rewards.tasksets.web.tracker.rows import ME, ORIGIN

_SELECTORS = {
    "title": "[name=title]",
    "priority": "select[name=priority]",
    "status": "select[name=status]",
    "assigned": "select[name=assignedto]",
    "keywords": "[name=keyword]",
    "superseder": "[name=superseder]",
    "note": "[name='@note']",
}
_LISTS = ("priority", "status", "assigned")
SEND = "input[name=submit_button]"


async def _fill(hands: Hands, row: Row) -> None:
    for name, value in row.items():
        if name in _LISTS:
            await hands.choose(_SELECTORS[name], str(value))
        else:
            await hands.fill(_SELECTORS[name], str(value or "").replace(", ", ","))
    await hands.click(SEND)


def edits(changes: Mapping[str, Row]) -> Moves:
    """Open each issue, change its fields (or "note") and submit."""

    async def moves(hands: Hands) -> None:
        for key, row in changes.items():
            await hands.open(f"{ORIGIN}/{key.replace('/', '')}")
            await _fill(hands, row)

    return moves


def files(*rows: Row) -> Moves:
    async def moves(hands: Hands) -> None:
        for row in rows:
            await hands.open(f"{ORIGIN}/issue?@template=item")
            await _fill(hands, row)

    return moves


def changing(
    instruction: str, changes: Mapping[str, Row], near: Mapping[str, Goal] | None = None
) -> Scenario:
    return Scenario(instruction, Goal(changes), edits(changes), near_misses=near or {})


def issues(state: State, /, **wanted: object) -> dict[str, Row]:
    """The issues with these values, by key."""
    return rows_of(state, "issue", **wanted)


def one_issue(rng: random.Random, state: State, **wanted: object) -> tuple[str, Row]:
    return rng.choice(list(issues(state, **wanted).items()))


def noted(rng: random.Random, state: State) -> tuple[str, Row]:
    """An issue whose status a note leaves as it is."""
    return rng.choice(
        [one for one in issues(state).items() if one[1]["status"] in ("in-progress", "testing")]
    )


def named(
    rng: random.Random, state: State, fewest: int, most: int, *columns: str, **but: object
) -> dict[str, Row]:
    """Issues that agree in some columns, as many as asked for, and none of which has the values `but`."""
    groups: dict[tuple[object, ...], dict[str, Row]] = {}
    for key, row in issues(state).items():
        if all(row[name] != value for name, value in but.items()) and all(row[name] for name in columns):
            groups.setdefault(tuple(row[name] for name in columns), {})[key] = row
    fitting = [rows for _, rows in sorted(groups.items(), key=str) if fewest <= len(rows) <= most]
    return rng.choice(fitting)


# -- one issue --------------------------------------------------------------------------------------------


def resolve(rng: random.Random, state: State) -> Scenario:
    key, row = one_issue(rng, state, status="in-progress")
    return changing(f'"{row["title"]}" is fixed. Set the issue to resolved.', {key: {"status": "resolved"}})


def reopen(rng: random.Random, state: State) -> Scenario:
    key, row = one_issue(rng, state, status="resolved")
    return changing(
        f'The issue "{row["title"]}" was closed too early: put it back to in-progress.',
        {key: {"status": "in-progress"}},
    )


def raise_priority(rng: random.Random, state: State) -> Scenario:
    key, row = one_issue(rng, state, priority=rng.choice(("bug", "feature", "wish")))
    return changing(f'Make the issue "{row["title"]}" critical.', {key: {"priority": "critical"}})


def assign(rng: random.Random, state: State) -> Scenario:
    key, row = one_issue(rng, state, assigned=None)
    name = rng.choice(("emil", "farah", "goran"))
    return changing(
        f'Nobody looks after "{row["title"]}" yet. Assign that issue to {name}.', {key: {"assigned": name}}
    )


def take_over(rng: random.Random, state: State) -> Scenario:
    key, row = one_issue(rng, state, assigned=rng.choice(("emil", "farah", "goran", "hanna")))
    return changing(
        f"{str(row['assigned']).title()} is on leave. Take over issue {key[6:]}: "
        f"assign it to yourself ({ME}).",
        {key: {"assigned": ME}},
    )


def rename(rng: random.Random, state: State) -> Scenario:
    key, row = one_issue(rng, state)
    title = f"{row['title']} on small screens"
    return changing(
        f'Issue {key[6:]} only happens on small screens. Add " on small screens" to the end of its title.',
        {key: {"title": title}},
    )


def tag(rng: random.Random, state: State) -> Scenario:
    key, row = one_issue(rng, state, keywords=None)
    return changing(
        f'Tag "{row["title"]}" with the keywords import and printing.',
        {key: {"keywords": "import, printing"}},
    )


def untag(rng: random.Random, state: State) -> Scenario:
    keyword = rng.choice(("release-2.1", "release-2.2", "import", "printing", "accessibility"))
    rows = {key: row for key, row in issues(state).items() if keyword in str(row["keywords"]).split(", ")}
    key, row = rng.choice(list(rows.items()))
    left = [one for one in str(row["keywords"]).split(", ") if one != keyword]
    return changing(
        f'Take the keyword {keyword} off the issue "{row["title"]}"; leave its other keywords, if any.',
        {key: {"keywords": ", ".join(left) or None}},
    )


def triage(rng: random.Random, state: State) -> Scenario:
    key, row = one_issue(rng, state, status="unread")
    wanted = {
        "priority": rng.choice([one for one in ("urgent", "bug", "feature") if one != row["priority"]]),
        "status": "in-progress",
        "assigned": rng.choice([one for one in ("emil", "goran", "hanna") if one != row["assigned"]]),
    }
    return changing(
        f'Triage "{row["title"]}": its priority is {wanted["priority"]}, its status in-progress, and '
        f"{wanted['assigned']} will do it.",
        {key: wanted},
        {"without the assignment": Goal({key: {"priority": wanted["priority"], "status": "in-progress"}})},
    )


def supersede(rng: random.Random, state: State) -> Scenario:
    (key, row), (other, kept) = rng.sample(list(issues(state).items()), 2)
    return changing(
        f'"{row["title"]}" turned out to be the same as "{kept["title"]}". Enter the latter '
        "as the superseder of "
        "the former.",
        {key: {"superseder": other[6:]}},
        {"the other way round": Goal({other: {"superseder": key[6:]}})},
    )


# -- several issues ---------------------------------------------------------------------------------------


def hand_over(rng: random.Random, state: State) -> Scenario:
    rows = named(rng, state, 2, 4, "assigned", "status")
    first = next(iter(rows.values()))
    name = next(one for one in ("emil", "hanna") if one != first["assigned"])
    return changing(
        f"Everything that is assigned to {first['assigned']} and has the status {first['status']} "
        f"goes to {name} "
        "from now on. Reassign those issues.",
        {key: {"assigned": name} for key in rows},
    )


def close_reported(rng: random.Random, state: State) -> Scenario:
    rows = named(rng, state, 2, 4, "reporter", "status", status="resolved")
    first = next(iter(rows.values()))
    return changing(
        f"Set every issue that {first['reporter']} created and whose status is {first['status']} "
        "to resolved.",
        {key: {"status": "resolved"} for key in rows},
    )


def close_release(rng: random.Random, state: State) -> Scenario:
    for keyword in rng.sample(("release-2.1", "release-2.2", "printing", "import", "accessibility"), 5):
        for status in ("testing", "in-progress", "chatting"):
            rows = [key for key, row in issues(state, status=status).items()
                    if keyword in str(row["keywords"]).split(", ")]  # fmt: skip
            if 2 <= len(rows) <= 4:
                return changing(
                    f"Mark all {status} issues with the keyword {keyword} as resolved.",
                    {key: {"status": "resolved"} for key in rows},
                )
    raise ValueError("the tracker has no release to close")
