"""Draws tasks on made-to-order apps: of a kind, and of exactly so many actions."""

import random
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, get_args

from msgspec.structs import replace

from guiagent.errors import UsageError
from guiagent.lab.goals import Goal, Put, Save, Visit, Want
from guiagent.lab.growth import grow
from guiagent.lab.plan import plan
from guiagent.lab.state import AppState
from guiagent.lab.words import TYPED
from guiagent.lab.world import AppSpec, Element

Kind = Literal["reach", "set", "form", "find", "both"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_GRAPHS = 64  # that are tried for a task of the length asked for
_PAIRS = 100


class Draw(NamedTuple):
    """A goal on an app, with the app."""

    app: AppSpec
    goal: Goal


def draw(kind: Kind, length: int, app: AppSpec, rng: random.Random) -> Draw:
    """Draw a goal of `kind` that takes exactly `length` inputs, not counting an answer.

    If no goal of this app does, the app with the next graph is tried, and so on.

    Raises:
        UsageError: none of 64 apps has such a goal.
    """
    for graph in range(app.graph, app.graph + _GRAPHS):
        drawn = replace(app, graph=graph)
        goals = _CANDIDATES[kind](drawn, rng)
        rng.shuffle(goals)
        for goal in goals:
            if _length(drawn, goal) == length:
                return Draw(drawn, goal)
    raise UsageError(
        f"apps of {app.screens} screens, {app.depth} links deep, have no {kind!r} task of {length} actions: "
        "give them more screens and more depth, or ask for another length"
    )


def _length(app: AppSpec, goal: Goal) -> int:
    still = replace(app, theme="paper", popups=0.0, moves=0.0, lag=0.0)  # what perturbs it would lengthen it
    return len(plan(AppState(app=still), goal))


def _rows(app: AppSpec, kind: str) -> Iterator[Element]:
    return (one for screen in grow(app).screens for one in screen.rows if one.kind == kind)


def _reach(app: AppSpec, rng: random.Random) -> list[Goal]:
    return [Goal((Visit(screen),)) for screen in range(1, app.screens)]


def _set(app: AppSpec, rng: random.Random) -> list[Goal]:
    return [Goal((Put(one.key, value=True),)) for one in _rows(app, "toggle")]


def _find(app: AppSpec, rng: random.Random) -> list[Goal]:
    return [Goal(fact=one.key) for one in _rows(app, "fact")]


def _form(app: AppSpec, rng: random.Random) -> list[Goal]:
    """Forms with some or all of their fields to be filled, from the top."""
    goals = []
    for button in _rows(app, "save"):
        screen, _ = grow(app).row(button.key)
        fields = [one.key for one in grow(app).screens[screen].rows if one.kind == "field"]
        for count in range(1, len(fields) + 1):
            chosen = sorted(rng.sample(range(len(fields)), count))
            texts = rng.sample(TYPED, count)
            values = {fields[index]: text for index, text in zip(chosen, texts, strict=True)}
            goals.append(Goal((Save(button.key, values),)))
    return goals


def _both(app: AppSpec, rng: random.Random) -> list[Goal]:
    """Two wants in order: switches, forms, and a screen to end on."""
    first: list[Put | Save] = [
        want
        for goal in (*_set(app, rng), *_form(app, rng))
        for want in goal.wants
        if not isinstance(want, Visit)
    ]
    then: list[Want] = [*first, *(goal.wants[0] for goal in _reach(app, rng))]
    if not first:
        return []
    pairs = ((rng.choice(first), rng.choice(then)) for _ in range(_PAIRS))
    return [Goal((one, other)) for one, other in pairs if not _overlap(app, one, other)]


def _overlap(app: AppSpec, first: Put | Save, then: Want) -> bool:
    """Whether the second want is met, or undone, by meeting the first."""
    if isinstance(then, Visit):
        return grow(app).row(first.key)[0] == then.screen
    return first.key == then.key


_CANDIDATES: dict[Kind, Callable[[AppSpec, random.Random], list[Goal]]] = {
    "reach": _reach,
    "set": _set,
    "form": _form,
    "find": _find,
    "both": _both,
}
