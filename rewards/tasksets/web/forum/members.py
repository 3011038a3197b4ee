"""Tasks on what members of a forum choose: likes, votes, reports, notices, themselves; and questions."""

import random

from rewards.tasksets.web.forum.rows import ME, ORIGIN
from rewards.tasksets.web.forum.topics import posts, topic, topics, visit
from rewards.tasksets.web.goal import Goal, Row, State, id_of, rows_of
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.template import Scenario

_POLLS = {
    "Where do we eat after the tour?": ("The Weir", "Mill Kitchen", "At the club"),
    "Colour of the new jerseys": ("Moss green", "Brick red", "Slate blue"),
}
_CLOSED = ("Day of the winter party", ("23 January", "30 January"))
_PLACES = ("Harbour", "Old Town", "Fernhollow")
_NEVER, _WEEKLY, _MENTIONS, _REPLIES = 1, 4, 8, 16  # bits of what a member is told by mail


def like(rng: random.Random, state: State) -> Scenario:
    key, row = _others_post(rng, state)
    (other, _), *_ = (one for one in posts(state, str(row["topic"])) if one[0] != key)
    wanted: Row = {"post": key, "who": ME}

    async def moves(hands: Hands) -> None:
        await visit(hands, row["topic"])
        await hands.click(f".js-comment[data-pk='{id_of(key)}'] .js-like")

    return Scenario(
        f'Like what {row["author"]} wrote in the topic "{_title(state, row)}": "{row["text"]}"',
        Goal(added=[("like", wanted)]),
        moves,
        near_misses={"another post": Goal(added=[("like", {**wanted, "post": other})])},
    )


def report(rng: random.Random, state: State) -> Scenario:
    key, row = _others_post(rng, state)
    reason, body = rng.choice((("Spam", "Advertising again."), ("Other", "This is not meant for here.")))
    wanted: Row = {"post": key, "reason": reason, "body": body, "who": ME}

    async def moves(hands: Hands) -> None:
        await visit(hands, row["topic"])
        await hands.click(f".js-comment[data-pk='{id_of(key)}'] a[href^='/comment/flag/']")
        await hands.choose("[name=reason]", reason)
        await hands.fill("[name=body]", body)
        await hands.click("form:has([name=reason]) [name=post]")

    return Scenario(
        f'Report the post "{row["text"]}" by {row["author"]} in "{_title(state, row)}", with the reason '
        f'"{reason}" and the words "{body}"',
        Goal(added=[("report", wanted)]),
        moves,
    )


def settle(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "report", settled=0).items()))
    post = state[str(row["post"])]

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/st/admin/comment/flag/")
        await hands.click(f"a[href='/st/admin/comment/flag/{id_of(key)}/']")
        await hands.click("[name=is_closed]")
        await hands.click("form:has([name=is_closed]) [name=post]")

    return Scenario(
        f"{str(row['who']).capitalize()} reported a post of {post['author']} in the forum. I spoke with "
        "both: close that report, the post stays.",
        Goal({key: {"settled": 1}}),
        moves,
        near_misses={"removed": Goal({key: {"settled": 1}, str(row["post"]): {"removed": 1}})},
    )


def vote(rng: random.Random, state: State) -> Scenario:
    title = rng.choice(list(_POLLS))
    choices = _POLLS[title]
    choice, other = rng.sample(choices, 2)
    key, _ = topic(state, title)
    (question,) = {row["poll"] for row in rows_of(state, "choice", description=choice).values()}
    own: Row = {"description": "None of these", "poll": question}
    voted: Row = {"choice": choice, "who": ME}

    async def moves(hands: Hands) -> None:
        await visit(hands, key)
        await hands.click(".comment__text__poll [type=radio]", choices.index(choice))
        await hands.click(".comment__text__poll [name=post]")

    return Scenario(
        f'Vote for "{choice}" in the forum\'s poll "{title}".',
        Goal(added=[("vote", voted)]),
        moves,
        near_misses={
            "another choice": Goal(added=[("vote", {**voted, "choice": other})]),
            "a choice of one's own beside it": Goal(added=[("choice", own), ("vote", voted)]),
        },
    )


def follow(rng: random.Random, state: State) -> Scenario:
    mine = {row["topic"] for row in rows_of(state, "post", author=ME).values()}
    watched = {row["topic"] for row in rows_of(state, "watch").values()}
    found = {key: row for key, row in topics(state).items() if key not in mine | watched}
    key, row = rng.choice(list(found.items()))

    async def moves(hands: Hands) -> None:
        await visit(hands, key)
        await hands.click(".comments__footer_menu__notify [type=submit]")

    return Scenario(
        f'I want to be notified of new posts in the topic "{row["title"]}", without writing in it.',
        Goal(added=[("watch", {"topic": key, "active": 1})]),
        moves,
    )


def unfollow(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "watch", active=1).items()))

    async def moves(hands: Hands) -> None:
        await visit(hands, row["topic"])
        await hands.click(".comments__footer_menu__notify [type=submit]")

    return Scenario(
        f'Stop the forum\'s notifications about "{_title(state, row)}".',
        Goal({key: {"active": 0}}),
        moves,
    )


def profile(rng: random.Random, state: State) -> Scenario:
    (key, _), *_ = rows_of(state, "person", username=ME).items()
    place = rng.choice(_PLACES)
    wanted: Row = {"first_name": "Dana", "last_name": "Orsolic", "location": place}

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/user/")
        for name, value in wanted.items():
            await hands.fill(f"[name={name}]", str(value))
        await hands.click("form[enctype] [name=post]")

    return Scenario(
        f'Put my whole name, Dana Orsolic, and the location "{place}" into my profile in the forum.',
        Goal({key: wanted}),
        moves,
    )


def notices(rng: random.Random, state: State) -> Scenario:
    (key, _), *_ = rows_of(state, "person", username=ME).items()
    off, kept = rng.choice((("mentions", _REPLIES), ("replies", _MENTIONS)))

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/user/")
        await hands.choose("[name=notify_when]", "Weekly")
        await hands.click(f"[name=notify_{off}]")
        await hands.click("form[enctype] [name=post]")

    return Scenario(
        f"Have the forum write me an email once a week, and not about {off}. The rest of my "
        "preferences stays.",
        Goal({key: {"notify": _WEEKLY | kept}}),
        moves,
        near_misses={
            "about both": Goal({key: {"notify": _WEEKLY | _MENTIONS | _REPLIES}}),
            "never": Goal({key: {"notify": _NEVER | kept}}),
        },
    )


def promote(rng: random.Random, state: State) -> Scenario:
    name = rng.choice(("emil", "goran", "hanna"))
    (key, _), *_ = rows_of(state, "person", username=name).items()

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/st/admin/user/edit/{id_of(key)}/")
        await hands.click("[name=is_moderator]")
        await hands.click("form:has([name=is_moderator]) [name=post]")

    return Scenario(
        f"Make {name} a moderator of the forum, but no administrator.",
        Goal({key: {"moderator": 1}}),
        moves,
        near_misses={"an administrator": Goal({key: {"moderator": 1, "administrator": 1}})},
    )


def _others_post(rng: random.Random, state: State) -> tuple[str, Row]:
    """A post of somebody else, not the first, that nobody reported, with no poll in it."""
    reported = {row["post"] for row in rows_of(state, "report").values()}
    found = [
        one
        for key in topics(state)
        for one in posts(state, key)[1:]
        if one[1]["author"] != ME and one[0] not in reported
    ]
    return rng.choice(found)


def _title(state: State, row: Row) -> str:
    """The title of a row's topic."""
    return str(state[str(row["topic"])]["title"])


# -- questions, and what cannot be done -------------------------------------------------------------------


def ask_answers(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(topics(state).items()))
    told = posts(state, key)
    return Scenario(
        f'How many posts are there in the forum\'s topic "{row["title"]}", its first one counted, and who '
        "wrote the last one?",
        answer={"posts": len(told), "author": str(told[-1][1]["author"])},
    )


def ask_poll(rng: random.Random, state: State) -> Scenario:
    title = rng.choice(list(_POLLS))
    counts = {choice: len(rows_of(state, "vote", choice=choice)) for choice in _POLLS[title]}
    first = max(counts, key=lambda choice: counts[choice])
    return Scenario(
        f'Which choice leads in the forum\'s poll "{title}", and with how many votes? Do not vote yourself.',
        answer={"choice": first, "votes": counts[first]},
    )


def ask_search(rng: random.Random, state: State) -> Scenario:
    word, begins = rng.choice(
        (("cassette", "Chain jumps"), ("organic", "Brakes squeal"), ("trailer", "Selling a"))
    )
    (row,) = (row for row in topics(state).values() if str(row["title"]).startswith(begins))
    return Scenario(
        f'Somewhere in the forum there was talk of the word "{word}". What is the title of that topic, and '
        "on which board is it?",
        answer={"title": str(row["title"]), "board": str(row["board"])},
    )


def no_such_topic(rng: random.Random, state: State) -> Scenario:
    title = rng.choice(("Autumn tour to the coast", "Lights at the ferry", "Helmets for children"))
    return Scenario(f'Close the forum\'s topic "{title}".', infeasible=True)


def closed_poll(rng: random.Random, state: State) -> Scenario:
    title, choices = _CLOSED
    return Scenario(
        f'Vote for "{rng.choice(choices)}" in the forum\'s poll "{title}", without changing anything else '
        "there.",
        infeasible=True,
    )
