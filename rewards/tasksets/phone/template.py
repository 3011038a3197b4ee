"""A template: a seeded way to make a task's words, its start, what it asks for, and near-misses of that."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rewards.checks.android import Row, Source
from rewards.tasksets.phone.answers import Fields
from rewards.tasksets.phone.facts import Fact

NOW_MS = 1_697_384_040_000
"""Sunday, 15 October 2023, 15:34 UTC: what the virtual phone's clock says, and an AndroidWorld emulator's at
first. Instructions name dates in full, so that no other clock makes them wrong."""


@dataclass(frozen=True)
class Scenario:
    """One instance of a template.

    Attributes:
        instruction: what the agent is told, without the sentence on the answer's form.
        steps: actions of somebody who knows the phone; an agent gets twice as many.
        start: tables and the rows they hold at the start, and no others.
        goal: what has to be done; nothing else may change in the tables it names.
        kept: tables beside those of the goal in which nothing may change.
        answer: the fields that have to be answered, or none.
        near_misses: what is done in near-misses of this scenario's own, in place of the goal.
        infeasible: what is asked for cannot be done, and saying so without touching `start` is right.
    """

    instruction: str
    steps: int
    start: Sequence[tuple[Source, Sequence[Row]]] = ()
    goal: Sequence[Fact] = ()
    kept: Sequence[Source] = ()
    answer: Fields = field(default_factory=dict)
    near_misses: Mapping[str, Sequence[Fact]] = field(default_factory=dict)
    infeasible: bool = False


@dataclass(frozen=True)
class Template:
    """`make` turns a generator of random numbers into a scenario; the same generator makes the same one."""

    name: str
    packages: tuple[str, ...]  # of the apps it needs, the one it is mainly about first
    make: Callable[[random.Random], Scenario]
