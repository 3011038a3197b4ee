"""Templates of web tasks: instruction, goal and the oracle's moves, from a site's rows and a generator."""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from rewards.tasksets.phone.answers import Fields
from rewards.tasksets.web.goal import Goal, State
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.store import Store

Moves = Callable[[Hands], Awaitable[None]]
"""How an oracle does a task, through the interface."""


async def look(hands: Hands) -> None:
    """The moves of an oracle that has nothing to change."""


@dataclass(frozen=True)
class Scenario:
    """One instance of a template.

    Attributes:
        instruction: as a person writes it, without the sentence on the answer's form.
        goal: the rows to change and to add; nothing else may change.
        moves: how the oracle does it, through the interface.
        answer: the fields that have to be answered, or none.
        near_misses: near-misses of this scenario only, beside those that follow from the goal.
        infeasible: the task cannot be done; saying so, with nothing changed, is right.
    """

    instruction: str
    goal: Goal = field(default_factory=Goal)
    moves: Moves = look
    answer: Fields = field(default_factory=dict)
    near_misses: Mapping[str, Goal] = field(default_factory=dict)
    infeasible: bool = False


@dataclass(frozen=True)
class Template:
    """A kind of task on sites. `make` draws a scenario, the same from the same rows and generator.

    Attributes:
        stores: what its sites keep; it begins on the first one's page.
        steps: actions that an expert needs at most; an agent gets twice as many.
    """

    name: str
    stores: tuple[Store, ...]
    steps: int
    make: Callable[[random.Random, State], Scenario]

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(store.site for store in self.stores)
