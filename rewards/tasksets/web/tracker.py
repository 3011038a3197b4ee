"""Tasks on the site `tracker`, a Roundup in which dana is logged in: issues, their keywords and notes."""

import random
from collections.abc import Awaitable, Callable, Mapping

from rewards.tasksets.web.goal import Goal, Row, State
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.store import Store, Table
from rewards.tasksets.web.template import Scenario, Template

ME = "dana"
# Awaited: the next navigation would cancel a form that is still being sent. Without a form (the site does not
# answer yet) nobody is logged in, which set-up finds and reports as a fault to try again after.
_ENTER = f"""
const form = document.querySelector('[name=__login_name]')?.form;
if (!form) return;
form.elements.__login_name.value = '{ME}';
form.elements.__login_password.value = 'timetable';
return fetch(form.action, {{method: 'POST', body: new FormData(form)}}).then(() => {{}});
"""


def _linked(column: str, table: str, name: str) -> list[str]:
    return [
        f"UPDATE _issue SET {column} = (SELECT id FROM {table} WHERE {name} = :value AND __retired__ = 0) "
        "WHERE id = :id"
    ]


def _plain(table: str, *names: str) -> dict[str, list[str]]:
    return {name: [f"UPDATE {table} SET _{name} = :value WHERE id = :id"] for name in names}


def _added(table: str) -> dict[str, str]:
    return {
        "insert": f"INSERT INTO {table} (id, __retired__) "
        f"SELECT max(coalesce(max(id), 0), 500) + 1, 0 FROM {table}",
        "newest": f"SELECT max(id) FROM {table}",
    }


TRACKER = Store(
    "tracker",
    "tracker/db/db",
    {
        "issue": Table(
            "SELECT i.id AS id, i._title AS title, p._name AS priority, s._name AS status, "
            "u._username AS assigned, (SELECT group_concat(name, ', ') FROM (SELECT k._name AS name FROM "
            "issue_keyword x JOIN _keyword k ON k.id = x.linkid WHERE x.nodeid = i.id ORDER BY 1)) "
            "AS keywords, "
            "(SELECT group_concat(linkid) FROM issue_superseder x WHERE x.nodeid = i.id) AS superseder, "
            "c._username AS reporter, i.__retired__ AS retired "
            "FROM _issue i LEFT JOIN _priority p ON p.id = i._priority "
            "LEFT JOIN _status s ON s.id = i._status "
            "LEFT JOIN _user u ON u.id = i._assignedto LEFT JOIN _user c ON c.id = i._creator ORDER BY i.id",
            {
                **_plain("_issue", "title"),
                "priority": _linked("_priority", "_priority", "_name"),
                "status": _linked("_status", "_status", "_name"),
                "assigned": _linked("_assignedto", "_user", "_username"),
                "keywords": [
                    "DELETE FROM issue_keyword WHERE nodeid = :id",
                    "INSERT INTO issue_keyword (linkid, nodeid) SELECT id, :id FROM _keyword "
                    "WHERE instr(', ' || :value || ', ', ', ' || _name || ', ')",
                ],
                "superseder": [
                    "DELETE FROM issue_superseder WHERE nodeid = :id",
                    "INSERT INTO issue_superseder (linkid, nodeid) VALUES (:value, :id)",
                ],
            },
            **_added("_issue"),
        ),
        "note": Table(
            "SELECT m.id AS id, "
            "(SELECT 'issue/' || nodeid FROM issue_messages WHERE linkid = m.id) AS issue, "
            "u._username AS author, m._summary AS text, m.__retired__ AS retired "
            "FROM _msg m LEFT JOIN _user u ON u.id = m._author ORDER BY m.id",
            {
                "issue": ["INSERT INTO issue_messages (linkid, nodeid) VALUES (:id, substr(:value, 7))"],
                "author": [
                    "UPDATE _msg SET _author = (SELECT id FROM _user WHERE _username = :value) WHERE id = :id"
                ],
                "text": ["UPDATE _msg SET _summary = :value WHERE id = :id"],
            },
            **_added("_msg"),
        ),
        "keyword": Table(
            "SELECT id, _name AS name, __retired__ AS retired FROM _keyword ORDER BY id",
            _plain("_keyword", "name"),
            **_added("_keyword"),
        ),
        "user": Table(
            "SELECT id, _username AS username, _realname AS realname, _address AS address, _phone AS phone, "
            "_organisation AS organisation, _roles AS roles, __retired__ AS retired FROM _user ORDER BY id",
            _plain("_user", "username", "realname", "address", "phone", "organisation"),
            **_added("_user"),
        ),
    },
    enter=_ENTER,
    entered="document.querySelector('a[href*=logout]') !== null",
)

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
_SEND = "input[name=submit_button]"
Moves = Callable[[Hands], Awaitable[None]]


async def _fill(hands: Hands, row: Row) -> None:
    for name, value in row.items():
        if name in _LISTS:
            await hands.choose(_SELECTORS[name], str(value))
        else:
            await hands.fill(_SELECTORS[name], str(value or "").replace(", ", ","))
    await hands.click(_SEND)


def edits(changes: Mapping[str, Row]) -> Moves:
    """Open each issue, change its fields (or "note") and submit."""

    async def moves(hands: Hands) -> None:
        for key, row in changes.items():
            await hands.open(f"{TRACKER.origin}/{key.replace('/', '')}")
            await _fill(hands, row)

    return moves


def _files(*rows: Row) -> Moves:
    async def moves(hands: Hands) -> None:
        for row in rows:
            await hands.open(f"{TRACKER.origin}/issue?@template=item")
            await _fill(hands, row)

    return moves


def _changing(
    instruction: str, changes: Mapping[str, Row], near: Mapping[str, Goal] | None = None
) -> Scenario:
    return Scenario(instruction, Goal(changes), edits(changes), near_misses=near or {})


def issues(state: State, **wanted: object) -> dict[str, Row]:
    """The issues with these values, by key."""
    return {
        key: row
        for key, row in state.items()
        if key.startswith("issue/") and all(row[name] == value for name, value in wanted.items())
    }


def _one(rng: random.Random, state: State, **wanted: object) -> tuple[str, Row]:
    return rng.choice(list(issues(state, **wanted).items()))


def _noted(rng: random.Random, state: State) -> tuple[str, Row]:
    """An issue whose status a note leaves as it is."""
    return rng.choice(
        [one for one in issues(state).items() if one[1]["status"] in ("in-progress", "testing")]
    )


def _named(
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
    key, row = _one(rng, state, status="in-progress")
    return _changing(f'"{row["title"]}" is fixed. Set the issue to resolved.', {key: {"status": "resolved"}})


def reopen(rng: random.Random, state: State) -> Scenario:
    key, row = _one(rng, state, status="resolved")
    return _changing(
        f'The issue "{row["title"]}" was closed too early: put it back to in-progress.',
        {key: {"status": "in-progress"}},
    )


def raise_priority(rng: random.Random, state: State) -> Scenario:
    key, row = _one(rng, state, priority=rng.choice(("bug", "feature", "wish")))
    return _changing(f'Make the issue "{row["title"]}" critical.', {key: {"priority": "critical"}})


def assign(rng: random.Random, state: State) -> Scenario:
    key, row = _one(rng, state, assigned=None)
    name = rng.choice(("emil", "farah", "goran"))
    return _changing(
        f'Nobody looks after "{row["title"]}" yet. Assign that issue to {name}.', {key: {"assigned": name}}
    )


def take_over(rng: random.Random, state: State) -> Scenario:
    key, row = _one(rng, state, assigned=rng.choice(("emil", "farah", "goran", "hanna")))
    return _changing(
        f"{str(row['assigned']).title()} is on leave. Take over issue {key[6:]}: "
        f"assign it to yourself ({ME}).",
        {key: {"assigned": ME}},
    )


def rename(rng: random.Random, state: State) -> Scenario:
    key, row = _one(rng, state)
    title = f"{row['title']} on small screens"
    return _changing(
        f'Issue {key[6:]} only happens on small screens. Add " on small screens" to the end of its title.',
        {key: {"title": title}},
    )


def tag(rng: random.Random, state: State) -> Scenario:
    key, row = _one(rng, state, keywords=None)
    return _changing(
        f'Tag "{row["title"]}" with the keywords import and printing.',
        {key: {"keywords": "import, printing"}},
    )


def untag(rng: random.Random, state: State) -> Scenario:
    keyword = rng.choice(("release-2.1", "release-2.2", "import", "printing", "accessibility"))
    rows = {key: row for key, row in issues(state).items() if keyword in str(row["keywords"]).split(", ")}
    key, row = rng.choice(list(rows.items()))
    left = [one for one in str(row["keywords"]).split(", ") if one != keyword]
    return _changing(
        f'Take the keyword {keyword} off the issue "{row["title"]}"; leave its other keywords, if any.',
        {key: {"keywords": ", ".join(left) or None}},
    )


def triage(rng: random.Random, state: State) -> Scenario:
    key, row = _one(rng, state, status="unread")
    wanted = {
        "priority": rng.choice([one for one in ("urgent", "bug", "feature") if one != row["priority"]]),
        "status": "in-progress",
        "assigned": rng.choice([one for one in ("emil", "goran", "hanna") if one != row["assigned"]]),
    }
    return _changing(
        f'Triage "{row["title"]}": its priority is {wanted["priority"]}, its status in-progress, and '
        f"{wanted['assigned']} will do it.",
        {key: wanted},
        {"without the assignment": Goal({key: {"priority": wanted["priority"], "status": "in-progress"}})},
    )


def supersede(rng: random.Random, state: State) -> Scenario:
    (key, row), (other, kept) = rng.sample(list(issues(state).items()), 2)
    return _changing(
        f'"{row["title"]}" turned out to be the same as "{kept["title"]}". Enter the latter '
        "as the superseder of "
        "the former.",
        {key: {"superseder": other[6:]}},
        {"the other way round": Goal({other: {"superseder": key[6:]}})},
    )


# -- several issues ---------------------------------------------------------------------------------------


def hand_over(rng: random.Random, state: State) -> Scenario:
    rows = _named(rng, state, 2, 4, "assigned", "status")
    first = next(iter(rows.values()))
    name = next(one for one in ("emil", "hanna") if one != first["assigned"])
    return _changing(
        f"Everything that is assigned to {first['assigned']} and has the status {first['status']} "
        f"goes to {name} "
        "from now on. Reassign those issues.",
        {key: {"assigned": name} for key in rows},
    )


def close_reported(rng: random.Random, state: State) -> Scenario:
    rows = _named(rng, state, 2, 4, "reporter", "status", status="resolved")
    first = next(iter(rows.values()))
    return _changing(
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
                return _changing(
                    f"Mark all {status} issues with the keyword {keyword} as resolved.",
                    {key: {"status": "resolved"} for key in rows},
                )
    raise ValueError("the tracker has no release to close")


# -- new rows ---------------------------------------------------------------------------------------------

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
        _files(row),
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
        _files(row),
    )


def report_two(rng: random.Random, state: State) -> Scenario:
    rows = [{"title": title, "priority": "feature"} for title in rng.sample(_NEW, 2)]
    return Scenario(
        f'Enter two new issues with the priority feature: "{rows[0]["title"]}" and "{rows[1]["title"]}".',
        Goal(added=[("issue", row) for row in rows]),
        _files(*rows),
    )


_NOTES = ("Seen on two more machines today.", "A fix is under review.", "Cannot reproduce this any more.")


def comment(rng: random.Random, state: State) -> Scenario:
    (key, row), text = _noted(rng, state), rng.choice(_NOTES)
    return Scenario(
        f'Leave the note "{text}" on the issue "{row["title"]}".',
        Goal(added=[("note", {"text": text, "issue": key, "author": ME})]),
        edits({key: {"note": text}}),
    )


def resolve_with_note(rng: random.Random, state: State) -> Scenario:
    (key, row), text = _noted(rng, state), "Released with the last build."
    return Scenario(
        f'Resolve "{row["title"]}" with the note "{text}"',
        Goal({key: {"status": "resolved"}}, [("note", {"text": text, "issue": key, "author": ME})]),
        edits({key: {"status": "resolved", "note": text}}),
    )


def my_details(rng: random.Random, state: State) -> Scenario:
    key = next(key for key, row in state.items() if row.get("username") == ME)
    phone = f"+47 555 {rng.randint(1000, 9999)}"

    async def moves(hands: Hands) -> None:
        await hands.open(f"{TRACKER.origin}/{key.replace('/', '')}")
        await hands.fill("[name=phone]", phone)
        await hands.click(_SEND)

    return Scenario(
        f"My phone number is now {phone}. Put it into my details.", Goal({key: {"phone": phone}}), moves
    )


def new_keyword(rng: random.Random, state: State) -> Scenario:
    name = rng.choice(("release-2.3", "mobile", "translations"))

    async def moves(hands: Hands) -> None:
        await hands.open(f"{TRACKER.origin}/keyword?@template=item")
        await hands.fill("[name=name]", name)
        await hands.click(_SEND)

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
    _, row = _one(rng, state)
    return Scenario(f'Who created the issue "{row["title"]}"?', answer={"user": str(row["reporter"])})


def ask_titles(rng: random.Random, state: State) -> Scenario:
    rows = _named(rng, state, 2, 5, "priority", "status")
    first = next(iter(rows.values()))
    return Scenario(
        f"Which issues have the priority {first['priority']} and the status {first['status']}?",
        answer={"titles": [str(row["title"]) for row in rows.values()]},
    )


def no_such_issue(rng: random.Random, state: State) -> Scenario:
    return Scenario(f'Resolve the issue "{rng.choice(_NEW)}".', infeasible=True)


def no_such_person(rng: random.Random, state: State) -> Scenario:
    _, row = _one(rng, state)
    return Scenario(f'Assign "{row["title"]}" to {rng.choice(("ingrid", "jonas"))}.', infeasible=True)


TEMPLATES = tuple(
    Template(f"tracker-{name}", TRACKER, steps, make)
    for name, steps, make in (
        ("resolve", 8, resolve),
        ("reopen", 8, reopen),
        ("raise-priority", 8, raise_priority),
        ("assign", 8, assign),
        ("take-over", 7, take_over),
        ("rename", 7, rename),
        ("tag", 7, tag),
        ("untag", 7, untag),
        ("triage", 12, triage),
        ("supersede", 12, supersede),
        ("hand-over", 24, hand_over),
        ("close-reported", 24, close_reported),
        ("close-keyword", 24, close_release),
        ("report", 8, report),
        ("report-assigned", 11, report_assigned),
        ("report-two", 14, report_two),
        ("comment", 7, comment),
        ("resolve-with-note", 9, resolve_with_note),
        ("my-details", 5, my_details),
        ("new-keyword", 5, new_keyword),
        ("ask-count", 8, ask_count),
        ("ask-reporter", 5, ask_reporter),
        ("ask-titles", 8, ask_titles),
        ("infeasible-issue", 5, no_such_issue),
        ("infeasible-person", 7, no_such_person),
    )
)
