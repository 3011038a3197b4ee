"""Tasks on a forum's topics: to write, answer and edit them, and what its moderators do with them."""

import random

from rewards.tasksets.web.forum.rows import ME, ORIGIN
from rewards.tasksets.web.goal import Goal, Row, State, id_of, rows_of
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.template import Moves, Scenario

_PUBLISH = ".comment__reply__actions__publish"
_OFFERS = (
    ("Market", "Selling a child seat", "Little used, 25 pounds, to be fetched in the North."),
    ("Market", "Wanted: floor pump", "With a gauge, and for both kinds of valve."),
    ("Routes", "Detour at the tannery", "Until 20 March one goes round by the old market."),
    (
        "Workshop",
        "How often do you oil the chain?",
        "I do it every second week and wonder if that is enough.",
    ),
)
_ANSWERS = ("I come too.", "Thank you, that helped.", "Please ring me about it.", "I shall ask on Thursday.")


def topics(state: State, /, **wanted: object) -> dict[str, Row]:
    """The public topics that are open and not removed, with these values, by key."""
    found = rows_of(state, "topic", closed=0, removed=0, **wanted)
    return {key: row for key, row in found.items() if row["board"] != "Private"}


def topic(state: State, title: str) -> tuple[str, Row]:
    """The topic with this title."""
    (found,) = rows_of(state, "topic", title=title).items()
    return found


def posts(state: State, key: str) -> list[tuple[str, Row]]:
    """What was written in a topic, the first post first."""
    return list(rows_of(state, "post", topic=key).items())


def post_of(state: State, begins: str) -> tuple[str, Row]:
    """The post that begins with these words."""
    (found,) = (
        (key, row) for key, row in rows_of(state, "post").items() if str(row["text"]).startswith(begins)
    )
    return found


async def visit(hands: Hands, key: object) -> None:
    await hands.open(f"{ORIGIN}/topic/{id_of(str(key))}/")


def replies(key: str, text: str) -> Moves:
    """Write below a topic's last post."""

    async def moves(hands: Hands) -> None:
        await visit(hands, key)
        await hands.fill("#reply [name=comment]", text)
        await hands.click(f"#reply {_PUBLISH}")

    return moves


def replied(key: str, text: str) -> tuple[str, Row]:
    """The row of an answer of ours."""
    return "post", {"text": text, "topic": key, "author": ME}


def moderates(key: str, deed: str) -> Moves:
    """Take a deed ("lock", "delete", "pin") of a topic's menu "Moderate"."""

    async def moves(hands: Hands) -> None:
        await visit(hands, key)
        await hands.click("[data-related='.js-mod-content']")
        await hands.click(f".js-mod-content a[href^='/topic/moderate/{deed}/']")

    return moves


# -- writing ----------------------------------------------------------------------------------------------


def reply(rng: random.Random, state: State) -> Scenario:
    (key, row), (other, _) = rng.sample(list(topics(state).items()), 2)
    text = rng.choice(_ANSWERS)
    return Scenario(
        f'Answer "{text}" in the forum\'s topic "{row["title"]}".',
        Goal(added=[replied(key, text)]),
        replies(key, text),
        near_misses={"in another topic": Goal(added=[replied(other, text)])},
    )


def start(rng: random.Random, state: State) -> Scenario:
    board, title, text = rng.choice(_OFFERS)
    goal: list[tuple[str, Row]] = [
        ("topic", {"title": title, "board": board, "author": ME}),
        ("post", {"text": text, "topic": title, "author": ME}),
    ]

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/topic/publish/")
        await hands.fill("[name=title]", title)
        await hands.choose("[name=category]", board)
        await hands.fill("[name=comment]", text)
        await hands.click(_PUBLISH)

    return Scenario(
        f'Start a topic "{title}" on the forum\'s board "{board}", and write in it: "{text}"',
        Goal(added=goal),
        moves,
    )


def edit(rng: random.Random, state: State) -> Scenario:
    begins, old, new = rng.choice(
        (
            ("I bring the pump", "two spare tubes", "three spare tubes"),
            ("Tannery Street, I", "11 per cent", "12 per cent"),
            ("I have one of eight", "eight litres", "nine litres"),
            ("I carry a plug", "not needed it yet", "needed it twice"),
        )
    )
    key, row = post_of(state, begins)
    text = str(row["text"]).replace(old, new)
    return Scenario(
        f'In the topic "{state[str(row["topic"])]["title"]}" I wrote "{old}". It has to be "{new}": '
        "edit my post, and do not write another one.",
        Goal({key: {"text": text}}),
        _edits(key, row, text),
        near_misses={
            "written again": Goal(added=[replied(str(row["topic"]), text)]),
            "nothing else left": Goal({key: {"text": new}}),
        },
    )


def _edits(key: str, row: Row, text: str) -> Moves:
    async def moves(hands: Hands) -> None:
        await visit(hands, row["topic"])
        await hands.click(f".js-comment[data-pk='{id_of(key)}'] a[href$='/update/']")
        await hands.fill("[name=comment]", text)
        await hands.click(_PUBLISH)

    return moves


def retitle(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(topics(state, board="Market").items()))
    title = f"{row['title']} (done)"

    async def moves(hands: Hands) -> None:
        await visit(hands, key)
        await hands.click(".topic_edit_link")
        await hands.fill("[name=title]", title)
        await hands.click("form:has([name=title]) [name=post]")

    return Scenario(
        f'"{row["title"]}" on the board "Market" is settled. Add " (done)" to the topic\'s title.',
        Goal({key: {"title": title}}),
        moves,
    )


def private(rng: random.Random, state: State) -> Scenario:
    first, second = rng.sample(("emil", "farah", "goran", "hanna", "tilda"), 2)
    title, text = rng.choice(
        (("Surprise for the club", "I have an idea."), ("Cash box", "We have to count it."))
    )
    goal: list[tuple[str, Row]] = [
        ("topic", {"title": title, "board": "Private", "author": ME}),
        ("post", {"text": text, "topic": title, "author": ME}),
        *(("inside", {"who": who, "topic": title}) for who in (ME, first, second)),
    ]

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/topic/private/publish/")
        await hands.fill("[name=title]", title)
        await hands.fill("[name=users]", f"{first}, {second}")
        await hands.fill("[name=comment]", text)
        await hands.click(_PUBLISH)

    return Scenario(
        f'Write to {first} and {second} in a private topic "{title}" of the forum: "{text}" '
        "Nobody else may read it.",
        Goal(added=goal),
        moves,
        near_misses={"on a board": Goal(added=[("topic", {**goal[0][1], "board": "Routes"}), *goal[1:]])},
    )


def invite(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "topic", board="Private").items()))
    there = {one["who"] for one in rows_of(state, "inside", topic=key).values()}
    who = rng.choice([one for one in ("emil", "goran", "hanna", "tilda") if one not in there])

    async def moves(hands: Hands) -> None:
        await hands.open(f"{ORIGIN}/topic/private/{id_of(key)}/")
        await hands.fill(".invite_user [name=user]", who)
        await hands.click(".invite_user [type=submit]")

    return Scenario(
        f'Let {who} into my private topic "{row["title"]}" of the forum.',
        Goal(added=[("inside", {"who": who, "topic": key})]),
        moves,
    )


# -- moderating -------------------------------------------------------------------------------------------


def close(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(topics(state).items()))
    return Scenario(
        f'Close the forum\'s topic "{row["title"]}", so that nobody answers any more.',
        Goal({key: {"closed": 1}}),
        moderates(key, "lock"),
        near_misses={"deleted": Goal({key: {"removed": 1}})},
    )


def reopen(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(rows_of(state, "topic", closed=1).items()))
    text = "Open again, by request."
    after = replied(key, text)

    async def moves(hands: Hands) -> None:
        await moderates(key, "unlock")(hands)
        await replies(key, text)(hands)

    return Scenario(
        f'Open the forum\'s closed topic "{row["title"]}" again and write in it: "{text}"',
        Goal({key: {"closed": 0}}, [after]),
        moves,
    )


def pin(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(topics(state, pinned=0, on_top=0).items()))
    return Scenario(
        f'Pin the topic "{row["title"]}" on its board, not globally.',
        Goal({key: {"pinned": 1}}),
        moderates(key, "pin"),
        near_misses={"globally": Goal({key: {"on_top": 1}})},
    )


def change_pin(rng: random.Random, state: State) -> Scenario:
    (old, was), *_ = rows_of(state, "topic", on_top=1).items()
    key, row = rng.choice(list(topics(state, board="Club evenings").items()))

    async def moves(hands: Hands) -> None:
        await moderates(old, "global-unpin")(hands)
        await moderates(key, "global-pin")(hands)

    return Scenario(
        f'"{row["title"]}" is to be pinned globally in the forum, in place of "{was["title"]}".',
        Goal({old: {"on_top": 0}, key: {"on_top": 1}}),
        moves,
        near_misses={"on its board": Goal({old: {"on_top": 0}, key: {"pinned": 1}})},
    )


def move(rng: random.Random, state: State) -> Scenario:
    key, row = rng.choice(list(topics(state).items()))
    board = rng.choice(
        [one for one in ("Routes", "Workshop", "Market", "Club evenings") if one != row["board"]]
    )

    async def moves(hands: Hands) -> None:
        await visit(hands, key)
        await hands.click(".topic_edit_link")
        await hands.choose("[name=category]", board)
        await hands.click("form:has([name=title]) [name=post]")

    return Scenario(
        f'The topic "{row["title"]}" is on the wrong board. Move it to "{board}".',
        Goal({key: {"board": board}}),
        moves,
    )


def split(rng: random.Random, state: State) -> Scenario:
    (key, row), (other, to) = rng.sample(
        [one for one in topics(state).items() if len(posts(state, one[0])) > 2], 2
    )
    post, told = posts(state, key)[-1]

    async def moves(hands: Hands) -> None:
        await visit(hands, key)
        await hands.click("[data-related='.js-mod-content']")
        await hands.click(".js-show-move-comments")
        await hands.click(f".js-comment[data-pk='{id_of(post)}'] .js-move-comment-checkbox")
        await hands.fill("#id_move_comments_topic", id_of(other))
        await hands.click(".js-move-comments-button")

    return Scenario(
        f'The last post of the topic "{row["title"]}", by {told["author"]}, belongs into "{to["title"]}". '
        "Move it there.",
        Goal({post: {"topic": other}}),
        moves,
        near_misses={"written again": Goal(added=[replied(other, str(told["text"]))])},
    )


def spam(rng: random.Random, state: State) -> Scenario:
    key, row = post_of(state, rng.choice(("BUY CHEAP", "GET RICH")))

    async def moves(hands: Hands) -> None:
        await visit(hands, row["topic"])
        await hands.click(f".js-comment[data-pk='{id_of(key)}'] a[href$='/delete/'].js-post")

    return Scenario(
        f'Somebody\'s advertising stands among the answers to "{state[str(row["topic"])]["title"]}". '
        "Delete that post, and leave the topic.",
        Goal({key: {"removed": 1}}),
        moves,
        near_misses={"the whole topic": Goal({str(row["topic"]): {"removed": 1}})},
    )
