"""Tasks on the pages of an office's wiki."""

import random

from rewards.tasksets.web.goal import Goal, Row, State, id_of, rows_of
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.template import Moves, Scenario
from rewards.tasksets.web.wiki.rows import ORIGIN

_LINES = (
    "The van is in the workshop until 12 March.",
    "On call at the weekend of 14 March.",
    "The store room moves to the yard.",
)
_MEETINGS = {"mar-10": "Meeting of 10 March", "mar-24": "Meeting of 24 March", "apr-07": "Meeting of 7 April"}
_DECISIONS = ("The summer party is on 3 July.", "The printer is replaced.", "Bicycles go into the cellar.")
_SPOILED = ("Key box", "Holidays", "Visitors")
_SAVE = "#id_save"


def page(state: State, title: str) -> tuple[str, Row]:
    """The page with this title."""
    (found,) = rows_of(state, "page", title=title).items()
    return found


def below(state: State, path: str) -> dict[str, Row]:
    """The pages below this one that are not deleted."""
    pages = rows_of(state, "page", deleted=0).items()
    return {key: row for key, row in pages if str(row["path"]).startswith(path) and row["path"] != path}


def crews(state: State) -> list[tuple[str, Row]]:
    return list(below(state, "crews/").items())


def fact(row: Row, name: str) -> str:
    """What a page says after this word and a colon."""
    (found,) = (line for line in str(row["text"]).splitlines() if line.startswith(f"{name}: "))
    return found.partition(": ")[2]


def table(row: Row) -> list[list[str]]:
    """The rows of the table on a page, without its head."""
    rows = [line.split(" | ") for line in str(row["text"]).splitlines() if " | " in line]
    return rows[2:]


def writes(row: Row, text: str) -> Moves:
    """Type this text over that of a page."""

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/{row['path']}_edit/")
        await hands.fill("[name=content]", text.replace("\n", "\n\n") if " | " not in text else text)
        await hands.click(_SAVE)

    return moves


def adds_line(row: Row, line: str) -> Moves:
    return writes(row, f"{row['text']}\n{line}")


def line(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(crews(state))
    told = rng.choice(_LINES)
    return Scenario(
        f'Add a last line "{told}" to the wiki page of crew {_name(row)}.',
        Goal({key: {"text": f"{row['text']}\n{told}"}}),
        adds_line(row, told),
        near_misses={"in place of all": Goal({key: {"text": told}})},
    )


def telephone(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(crews(state))
    old, new = fact(row, "Telephone"), str(rng.randint(4480, 4499))
    text = str(row["text"]).replace(f"Telephone: {old}", f"Telephone: {new}")
    return Scenario(
        f"Crew {_name(row)} has a new telephone number, {new}. Put it on their page in place of the old one.",
        Goal({key: {"text": text}}),
        writes(row, text),
        near_misses={"beside the old": Goal({key: {"text": f"{row['text']}\nTelephone: {new}"}})},
    )


def retitle(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(below(state, "meetings/").items()))
    title = f"{row['title']} (closed)"

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/{row['path']}_edit/")
        await hands.fill("[name=title]", title)
        await hands.click(_SAVE)

    return Scenario(
        f'Give the wiki page "{row["title"]}" the title "{title}". Its text and address stay.',
        Goal({key: {"title": title}}),
        moves,
    )


def minutes(rng: random.Random, state: State) -> Scenario:
    slug, title = rng.choice(list(_MEETINGS.items()))
    text = rng.choice(_DECISIONS)
    new: Row = {"title": title, "path": f"meetings/{slug}/", "text": text}

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/meetings/_create/")
        await hands.fill("[name=title]", title)
        await hands.fill("[name=slug]", slug)
        await hands.fill("[name=content]", text)
        await hands.click("[name=save_changes]")

    return Scenario(
        f'Add a wiki page "{title}" below "Meetings", with the slug "{slug}" and one line of text: "{text}"',
        Goal(added=[("page", new)]),
        moves,
        near_misses={"at the top": Goal(added=[("page", {**new, "path": f"{slug}/"})])},
    )


def delete(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(below(state, "meetings/").items()))

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/{row['path']}_delete/")
        await hands.click("[name=confirm]")
        await hands.click("[name=save_changes]")

    return Scenario(
        f'Delete the wiki page "{row["title"]}", but do not purge it: somebody may want it back.',
        Goal({key: {"deleted": 1}}),
        moves,
        near_misses={"purged": Goal(removed=[key])},
    )


def restore(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "page", deleted=1).items()))

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/{row['path']}")
        await hands.click("a[href='?restore=1']")

    return Scenario(
        f'The page "{row["title"]}" at {ORIGIN}/{row["path"]} was deleted too soon. Restore it.',
        Goal({key: {"deleted": 0}}),
        moves,
    )


def move(rng: random.Random, state: State) -> Scenario:
    title = rng.choice(("First aid", "Waste", "Visitors"))
    key, row = page(state, title)
    path = str(row["path"]).removeprefix("handbook/")

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/{row['path']}_move/")
        await hands.click("#dest_selector .dropdown-toggle")
        await hands.click("#dest_selector .dropdown-item > a")
        await hands.click("#id_move")

    return Scenario(
        f'Move the wiki page "{title}" out of the handbook to the top, so that its address is '
        f"{ORIGIN}/{path}. Leave no redirect behind.",
        Goal({key: {"path": path}}),
        moves,
        near_misses={"below the crews": Goal({key: {"path": f"crews/{path}"}})},
    )


def revert(rng: random.Random, state: State) -> Scenario:
    title = rng.choice(_SPOILED)
    key, row = page(state, title)
    versions = rows_of(state, "version", page=int(id_of(key)))
    before, good = sorted(versions.items(), key=lambda one: int(one[1]["number"] or 0))[-2]

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/{row['path']}_history/")
        await hands.click(f"[name=revision_id][value='{id_of(before)}']")
        await hands.click("button[name=save]")

    return Scenario(
        f'The last change to the wiki page "{title}" is nonsense. Set it back to the version before.',
        Goal({key: {"text": good["text"]}}),
        moves,
        near_misses={"emptied": Goal({key: {"text": ""}})},
    )


def lock(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice([one for one in below(state, "").items() if not one[1]["locked"]])
    return Scenario(
        f'Lock the wiki page "{row["title"]}", so that nobody edits it.',
        Goal({key: {"locked": 1}}),
        _settles(row, ("click", "[name=locked]", "")),
    )


def owner(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(below(state, "handbook/").items()))
    name = rng.choice([one for one in ("emil", "farah", "goran", "hanna") if one != row["owner"]])
    return Scenario(
        f'The wiki page "{row["title"]}" belongs to {name} from now on. Make {name} its owner.',
        Goal({key: {"owner": name}}),
        _settles(row, ("fill", "[name=owner_username]", name)),
    )


def _settles(row: Row, deed: tuple[str, str, str]) -> Moves:
    """Click on, or fill, one field of a page's settings."""
    how, field, text = deed

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/{row['path']}_settings/")
        if how == "fill":
            await hands.fill(field, text)
        else:
            await hands.click(field)
        await hands.click(".settings-form [name=save]")

    return moves


def _name(row: Row) -> str:
    return str(row["title"]).removeprefix("Crew ")


# -- questions, and what cannot be done -------------------------------------------------------------------


def ask_district(rng: random.Random, state: State) -> Scenario:
    _, row = rng.choice(crews(state))
    district = rng.choice(fact(row, "Districts").split(", "))
    return Scenario(
        f"Which crew works in the district {district}, and who leads it?",
        answer={"crew": _name(row), "leader": fact(row, "Leader")},
    )


def ask_history(rng: random.Random, state: State) -> Scenario:
    title = rng.choice(("Holidays", "Waste", "Visitors", "Key box"))
    key, _ = page(state, title)
    versions = sorted(
        rows_of(state, "version", page=int(id_of(key))).values(), key=lambda one: int(one["number"] or 0)
    )
    return Scenario(
        f'How many versions has the wiki page "{title}", and who wrote the first of them?',
        answer={"versions": len(versions), "author": str(versions[0]["author"])},
    )


def no_such_crew(rng: random.Random, state: State) -> Scenario:
    name = rng.choice(("Otter", "Kestrel"))
    return Scenario(
        f"Crew {name} has a new telephone number, {rng.randint(4480, 4499)}. Put it on their wiki page.",
        infeasible=True,
    )
