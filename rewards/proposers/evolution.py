"""Curricula from the outcomes of proposals: SEAgent's phases and WebRL's evolution from failures.

Each is a state that is plain JSON, with pure functions that give the next state and the proposer's next
context.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from statistics import fmean

import msgspec
from msgspec.structs import replace

from rewards.curriculum import within_band
from rewards.proposers.types import Exam, Outcome, Proposal, ProposalContext

PASS = 0.7  # mean success over an exam's tasks that passes the phase
LEAST_TASKS = 3  # an exam of fewer tasks does not count
PATIENCE = 3  # failed exams after which a phase ends all the same
_TASKS_KEPT = 50  # of the newest exams
_SEEDS_KEPT = 200


class Phases(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of SEAgent's curriculum over one application (arXiv 2508.04700).

    `phase` begins at -1, when nothing was tried and tasks find out what the application does. `exams` are the
    newest results, `failed` is the number of exams of this phase that were not passed.
    """

    phase: int = -1
    exams: tuple[Exam, ...] = ()
    guidebook: str = ""
    failed: int = 0


def advance(phases: Phases, exam: Sequence[Exam], guidebook: str = "") -> Phases:
    """Return the state after an exam: the next phase if it was passed or failed too often, else the same one.

    An exam of fewer than three tasks changes nothing but the guidebook. The first phase ends with its first
    exam, whatever the result: it only explores.

    The paper moves on after every round of training. That a phase must be passed, and ends after three exams
    all the same, is our choice: harder tasks teach nothing to an agent that fails the easy ones.
    """
    phases = replace(phases, guidebook=guidebook or phases.guidebook)
    if len(exam) < LEAST_TASKS:
        return phases
    exams = (*phases.exams, *exam)[-_TASKS_KEPT:]
    passed = fmean(task.success for task in exam) >= PASS
    if passed or phases.phase < 0 or phases.failed + 1 >= PATIENCE:
        return replace(phases, phase=phases.phase + 1, exams=exams, failed=0)
    return replace(phases, exams=exams, failed=phases.failed + 1)


def phases_of(tried: Iterable[tuple[Proposal, Outcome]], guidebook: str = "") -> Phases:
    """Compute the state from all tried proposals: those for one environment and seed are one exam.

    New trials of a proposal, as in training, change the result of its exam.
    """
    exams: defaultdict[tuple[str, int], list[Exam]] = defaultdict(list)
    for proposal, outcome in tried:
        if outcome.success is not None:
            exams[proposal.environment, proposal.seed].append(Exam(proposal.instruction, outcome.success))
    return reduce(advance, exams.values(), Phases(guidebook=guidebook))


def examine(phases: Phases, situation: ProposalContext) -> ProposalContext:
    """Add the curriculum's state to the situation, for the preset `seagent`."""
    return replace(situation, exams=phases.exams, phase=phases.phase, guidebook=phases.guidebook)


class Seed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A failed proposal from which others are made; `used` is how often it was an example."""

    id: str
    instruction: str
    used: int = 0


class Evolution(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of WebRL's evolution (arXiv 2411.02337): the failed proposals, newest last."""

    seeds: tuple[Seed, ...] = ()


def take_in(evolution: Evolution, tried: Iterable[tuple[Proposal, Outcome]]) -> Evolution:
    """Return the state after trials: every feasible proposal that always failed becomes a seed.

    A seed that was solved since is removed. A proposal without trials changes nothing.
    """
    seeds = {seed.id: seed for seed in evolution.seeds}
    for proposal, outcome in tried:
        if outcome.success is None:
            continue
        if outcome.success > 0:
            seeds.pop(proposal.id, None)
        elif proposal.feasible:
            seeds.setdefault(proposal.id, Seed(proposal.id, proposal.instruction))
    return Evolution(tuple(seeds.values())[-_SEEDS_KEPT:])


def evolve(evolution: Evolution, situation: ProposalContext, n: int = 8) -> tuple[Evolution, ProposalContext]:
    """Choose at most `n` seeds as examples for the preset `webrl`: the least used, and of those the newest.

    Returns the evolution with their use counted, and the situation with the examples.
    """
    order = sorted(range(len(evolution.seeds)), key=lambda k: (evolution.seeds[k].used, -k))[:n]
    chosen = {evolution.seeds[k].id for k in order}
    counted = [replace(s, used=s.used + 1) if s.id in chosen else s for s in evolution.seeds]
    told = replace(situation, examples=[evolution.seeds[k].instruction for k in order])
    return Evolution(tuple(counted)), told


def is_kept(estimate: float | None) -> bool:
    """Whether a generated task is kept, by its estimated success: within [0.05, 0.75], as WebRL's are.

    The caller estimates, by a critic as WebRL does or by a progress estimator. A task without an estimate is
    kept: its trials decide.
    """
    return estimate is None or within_band(estimate)
