"""Signs of collapse: success on pages trained on and on unseen ones, answers a page, entropy, mixed groups.

A policy that collapses gives one fixed answer a page, whatever the page shows: it gains where that answer is
often right, and loses what it knew of pages that it was not trained on.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import nan
from operator import attrgetter
from statistics import fmean

from eval.comparison import ArmResult, SeedRun, known_mean, paired
from eval.stats import Mean, Proportion, macro_mean, pooled
from guiagent.types import Step, Trajectory

_CELLS = 8  # answers are told apart by the cell of a grid of 8 by 8 that they point at


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate of success of an arm: over its seeds as the mean of its runs, over its episodes pooled.

    The interval of the former is for another run of the arm, that of the latter for the same policies on
    other pages. `difference` is to the first arm, paired by seed; None for that one.
    """

    runs: Mean
    episodes: Proportion
    difference: Mean | None


@dataclass(frozen=True, slots=True)
class Before:
    """The policy that all arms begin with, measured as the arms' last policies are."""

    trained: Proportion
    unseen: Proportion
    one_answer: float


@dataclass(frozen=True, slots=True)
class Signs:
    """What became of an arm's policies."""

    arm: str
    trained: Rate  # held-out seeds of the tasks trained on
    unseen: Rate  # tasks never trained on
    one_answer: Mean
    entropy: Mean
    mixed: Mean


def signs(results: Sequence[ArmResult]) -> list[Signs]:
    """Return the signs of every arm; [] unless its runs were measured on held-out seeds."""
    if not any(run.held_out for result in results for run in result.runs):
        return []
    first = results[0].runs

    def rate(own: Sequence[SeedRun], of: Callable[[SeedRun], Mapping[str, Proportion]]) -> Rate:
        def success(run: SeedRun) -> float:
            return macro_mean(of(run).values())

        episodes = pooled(one for run in own for one in of(run).values())
        return Rate(
            known_mean(map(success, own)), episodes, paired(first, own, success) if own is not first else None
        )

    return [
        Signs(
            arm=result.arm,
            trained=rate(result.runs, attrgetter("held_out")),
            unseen=rate(result.runs, attrgetter("unseen")),
            one_answer=known_mean(run.one_answer for run in result.runs),
            entropy=known_mean(run.entropy for run in result.runs),
            mixed=known_mean(run.mixed for run in result.runs),
        )
        for result in results
    ]


def one_answer(episodes: Iterable[Trajectory]) -> float:
    """Return the share of episodes that begin with their task's commonest answer, as the mean over tasks.

    1 means one fixed answer a page. An answer is the first turn's action, with the points it names rounded to
    a cell of an 8 by 8 grid over the screen, or that it is no action. Pages whose right answer is always at
    the same place have a high share by right: compare it with that of the policy before training. NaN without
    an episode.
    """
    found = sorted(((t.task, _answer(t.steps[0])) for t in episodes if t.steps), key=str)
    shares = []
    for _, own in groupby(found, key=lambda pair: pair[0]):
        counts = Counter(own)
        shares.append(max(counts.values()) / counts.total())
    return fmean(shares) if shares else nan


def last_fifth(values: Sequence[float | None]) -> float:
    """Return the mean of the last fifth of the values, without those that are None; NaN if none is known."""
    known = [value for value in values[-max(1, len(values) // 5) :] if value is not None]
    return fmean(known) if known else nan


def _answer(step: Step) -> str:
    if not step.policy.actions:
        return "no action"
    return str([_rounded(action, step) for action in step.policy.actions[:1]])


def _rounded(action: Mapping[str, object], step: Step) -> list[tuple[str, object]]:
    """Return an action's fields, with coordinates as cells of the grid."""
    return sorted(
        (name, int(_CELLS * value / (step.height if name.startswith("y") else step.width)))
        if isinstance(value, int | float) and name[:1] in ("x", "y")
        else (name, str(value))
        for name, value in action.items()
    )
