"""Episodes on their way out: which of some stores' episodes leave, under which name and in which words."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import ValidationError

from guiagent.actions import ACTIONS
from guiagent.dialects import Dialect
from guiagent.errors import DialectError
from guiagent.formats.words import in_words
from guiagent.seeds import EVALUATION
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Step, Trajectory


class Leaving(NamedTuple):
    """An episode that leaves: its id, unique in the export, and what each of its replies says there."""

    id: str
    trajectory: Trajectory
    words: list[str]
    frame: Callable[[str], bytes]


class Wish(NamedTuple):
    """What is wanted: replies in a dialect (as they were sampled if None), also episodes without a verdict,
    successes alone, pictures in the file itself instead of beside it, no episodes whose screen changes its
    size."""

    dialect: Dialect | None = None
    faulted: bool = False
    successes: bool = False
    embed: bool = False
    steady: bool = False


@dataclass
class Counts:
    """Episodes that left or entered, and those that were left out, by reason."""

    episodes: int = 0
    turns: int = 0
    faulted: int = 0  # a fault, or an unknown score
    failed: int = 0  # of those with a verdict, where successes alone are wanted
    blind: int = 0  # a turn has no picture
    resized: int = 0  # the screen changes its size, where a format has one
    inexpressible: int = 0  # the dialect has no words for an action
    evaluation: int = 0  # of `episodes`, those on seeds that nothing may be trained on
    unreadable: int = 0  # of `turns`, replies without a valid action


def leaving(stores: Mapping[str, TrajectoryStore], wish: Wish, counts: Counts) -> Iterator[Leaving]:
    """Yield the wanted episodes of stores by name, in the order of their commits, and count all.

    An id is the episode's own; of several stores, after the name of its store.
    """
    for name, store in stores.items():
        for one in store:
            if not one.valid and not wish.faulted:
                counts.faulted += 1
            elif wish.successes and not one.success:
                counts.failed += 1
            elif not one.steps or not all(step.frame for step in one.steps):
                counts.blind += 1
            elif wish.steady and len({(step.width, step.height) for step in one.steps}) > 1:
                counts.resized += 1
            elif (words := _words(one, wish.dialect)) is None:
                counts.inexpressible += 1
            else:
                counts.episodes += 1
                counts.turns += len(words)
                counts.evaluation += one.seed in EVALUATION
                counts.unreadable += sum(step.policy.error is not None for step in one.steps)
                yield Leaving(f"{name}/{one.id}" if len(stores) > 1 else one.id, one, words, store.frame)


def _words(trajectory: Trajectory, dialect: Dialect | None) -> list[str] | None:
    """What the replies say in a dialect; None if it has no words for one."""
    if dialect is None:
        return [step.policy.text for step in trajectory.steps]
    try:
        return [_said(step, dialect) for step in trajectory.steps]
    except (DialectError, ValidationError):
        return None


def _said(step: Step, dialect: Dialect) -> str:
    """The reply as it was sampled, with its thoughts, if it says the same in this dialect; else anew."""
    if step.policy.error is not None:
        return step.policy.text
    size = (step.width, step.height)
    actions = ACTIONS.validate_python(step.policy.actions)
    try:
        if dialect.parse(step.policy.text, size) == actions:
            return step.policy.text
    except DialectError:
        pass
    return in_words(actions, dialect, size)
