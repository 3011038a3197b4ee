"""Goals on an app: what has to be opened, set or saved, in order, and what has to be found out."""

from collections.abc import Sequence

import msgspec

from guiagent.lab.state import AppState, Happened


class Visit(msgspec.Struct, frozen=True, tag=True):
    """Be on a screen."""

    screen: int


class Put(msgspec.Struct, frozen=True, tag=True):
    """Set a toggle or a field."""

    key: str
    value: str | bool


class Save(msgspec.Struct, frozen=True, tag=True):
    """Save a form, by its button `key`, while its fields have these values."""

    key: str
    values: dict[str, str]


Want = Visit | Put | Save


class Goal(msgspec.Struct, frozen=True, omit_defaults=True):
    """Wants to be met one after the other; with `fact`, what that row says is the answer."""

    wants: tuple[Want, ...] = ()
    fact: str = ""


def done(goal: Goal, log: Sequence[Happened]) -> int:
    """The number of wants, from the first, that happened in order."""
    count = 0
    for happened in log:
        if count < len(goal.wants) and _is(happened, goal.wants[count]):
            count += 1
    return count


def missing(goal: Goal, state: AppState) -> list[Want]:
    """The wants that are still to be met, in order; [] if the goal is met, apart from an answer.

    A want that was met and undone again is missing; screens only have to have been opened, but the last.
    """
    count = done(goal, state.log)
    undone = [
        want
        for index, want in enumerate(goal.wants[:count])
        if not _holds(want, state) and (not isinstance(want, Visit) or index == len(goal.wants) - 1)
    ]
    return [*undone, *goal.wants[count:]]


def asked(goal: Goal) -> set[str]:
    """The controls that the goal wants to be changed."""
    keys: set[str] = set()
    for want in goal.wants:
        match want:
            case Put(key=key):
                keys.add(key)
            case Save(values=values):
                keys.update(values)
    return keys


def _is(happened: Happened, want: Want) -> bool:
    match want:
        case Visit(screen=screen):
            return happened.what == "opened" and happened.key == str(screen)
        case Put(key=key, value=value):
            return happened.what == "set" and happened.key == key and happened.values[key] == value
        case Save(key=key, values=values):
            return happened.what == "saved" and happened.key == key and _has(happened.values, values)


def _holds(want: Want, state: AppState) -> bool:
    match want:
        case Visit(screen=screen):
            return state.screen == screen
        case Put(key=key, value=value):
            return state.values.get(key, type(value)()) == value
        case Save(key=key):
            saved = [one for one in state.log if one.what == "saved" and one.key == key]
            return bool(saved) and _is(saved[-1], want)


def _has(values: dict[str, str | bool], wanted: dict[str, str]) -> bool:
    return all(values.get(key) == value for key, value in wanted.items())
