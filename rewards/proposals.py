"""Proposed tasks: what a proposer suggests for an environment, and what became of each suggestion."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from guiagent.types import Observation
from rewards.cases import Screen

Refusal = Literal[
    "not_executable",  # its environment could not be set up, or what it names is not on the screen
    "duplicate",  # of another proposal, by text or by embedding
    "not_judgeable",  # the judge abstains on it
    "always_solved",
    "never_solved",
    "malformed",  # the proposer's reply could not be read as a task
]


class Proposal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task without a person: an instruction in an environment, which is a task of a taskset and its seed.

    `check` is the hidden state check, where whoever proposed it knows one (a grammar knows which element it
    named). It is for audits and reports: neither the judge nor the trainer is given it.
    """

    id: str
    instruction: str
    environment: str
    seed: int
    proposer: str  # preset and digest
    feasible: bool = True
    check: dict[str, Any] | None = None
    parent: str = ""  # the proposal or trajectory it was made from


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What validation made of a proposal. `refusal` None: accepted. `success` is by trial rollouts."""

    proposal: str
    refusal: Refusal | None = None
    reason: str = ""
    success: float | None = None
    trials: int = 0


class Exam(msgspec.Struct, frozen=True):
    """How an earlier proposal went: its rate of success in trials, in [0, 1]."""

    instruction: str
    success: float


class Situation(msgspec.Struct, frozen=True):
    """What a proposer knows: a screen of the environment, its name and apps, and examples of its tasks.

    `demonstration` is what a user wrote down of something they do there. `exploration` is an episode without
    a task: its screens, and the actions (as JSON) that led from each to the next. `exams` are the outcomes of
    earlier proposals and `guidebook` what was learned of the environment by then.
    """

    environment: str
    seed: int
    observation: Observation
    examples: Sequence[str] = ()
    apps: Sequence[str] = ()
    demonstration: str = ""
    exploration: Sequence[tuple[Screen, Sequence[dict[str, Any]]]] = ()
    exams: Sequence[Exam] = ()
    guidebook: str = ""


class Proposer(Protocol):
    @property
    def name(self) -> str: ...

    async def propose(self, situation: Situation, n: int) -> Sequence[Proposal]:
        """At most `n` proposals. FaultError (origin "judge") where a model server stays away."""
        ...
