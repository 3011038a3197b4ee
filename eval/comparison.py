"""Compare arms of a training at equal environment steps: learning curves, final success, differing fields.

Outcomes are counted as they were rolled out, each before it was learned from. A rate is the mean over tasks
of each task's own rate: a curriculum plays the tasks that are not learned yet more often, and plays them for
one arm more than for another.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, isnan, nan, sqrt
from statistics import fmean

from eval.stats import Mean, Proportion, macro_mean, mean_of, pooled
from guiagent.intervals import Interval

BINS = 20
_TENTH = 10
_FIFTH = 5
_NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class Sample:
    """Outcomes of training episodes since the last sample, by task; `env_steps` since the run began."""

    env_steps: int
    tasks: Mapping[str, Proportion]


@dataclass(frozen=True, slots=True)
class SeedRun:
    """One training run of an arm. A figure is NaN where it is not known."""

    arm: str
    seed: int
    samples: tuple[Sample, ...]
    held_out: Mapping[str, Proportion]  # of its last policy on held-out seeds, by task; {} if not measured
    updates: int
    seconds: float
    trained: int = 0  # episodes learned from; a replayed one counts each time
    replay_share: float = 0.0  # share of earlier episodes among all that were handed to the trainer
    unseen: Mapping[str, Proportion] = field(default_factory=dict)  # likewise on tasks never trained on
    one_answer: float = nan  # of its last policy: see `eval.collapse.one_answer`
    entropy: float = nan  # of a sampled token, over the last fifth of the updates
    mixed: float = nan  # share of groups with successes and failures, likewise


@dataclass(frozen=True, slots=True)
class ArmResult:
    """Results of one arm over its seeds. Differences are to the first arm, paired by seed."""

    arm: str
    runs: tuple[SeedRun, ...]
    curve: tuple[Mean, ...]  # success in training, one for each of `BINS` equal shares of the budget
    learned: Mean  # as the function of this name says; the other figures likewise
    final: Mean
    area: Mean  # under the learning curve, as a share of what immediate success would give
    final_difference: Mean | None  # None for the first arm
    area_difference: Mean | None


def compared(runs: Sequence[SeedRun], budget: int) -> list[ArmResult]:
    """Summarize the arms, in the order of their runs, each up to `budget` environment steps."""
    by_arm: dict[str, list[SeedRun]] = {}
    for run in runs:
        by_arm.setdefault(run.arm, []).append(run)
    first = next(iter(by_arm.values()), [])

    def difference(own: Sequence[SeedRun], figure: Callable[[SeedRun, int], float]) -> Mean | None:
        return None if own is first else paired(first, own, lambda run: figure(run, budget))

    return [
        ArmResult(
            arm=arm,
            runs=tuple(own),
            curve=tuple(
                known_mean(rates) for rates in zip(*(learning_curve(run, budget) for run in own), strict=True)
            ),
            learned=learned(own, budget),
            final=known_mean(final_success(run, budget) for run in own),
            area=known_mean(area_under(run, budget) for run in own),
            final_difference=difference(own, final_success),
            area_difference=difference(own, area_under),
        )
        for arm, own in by_arm.items()
    ]


def learning_curve(run: SeedRun, budget: int, bins: int = BINS) -> list[float]:
    """Return the success rate in each of `bins` equal shares of the budget.

    A share in which no episode ended has the rate of the share before; NaN before the first episode.
    """
    parts: list[list[Sample]] = [[] for _ in range(bins)]
    for sample in run.samples:
        if 0 < sample.env_steps <= budget:
            parts[ceil(bins * sample.env_steps / budget) - 1].append(sample)
    curve, last = [], nan
    for part in parts:
        rate = _macro(part)
        last = last if isnan(rate) else rate
        curve.append(last)
    return curve


def learned(runs: Sequence[SeedRun], budget: int) -> Mean:
    """Return success in the budget's last fifth minus that in its first, as the mean over tasks.

    Episodes of all runs are pooled, and the 95% interval is over episodes, not over seeds.

    Source: Agresti and Caffo, The American Statistician 54 (2000), for each task.
    """
    early, late = (
        _by_task(
            sample
            for run in runs
            for sample in run.samples
            if 0 < sample.env_steps <= budget and ceil(_FIFTH * sample.env_steps / budget) == part
        )
        for part in (1, _FIFTH)
    )
    tasks = [task for task in early if task in late]
    if not tasks:
        return Mean(nan, None, 0)
    change = fmean(_rate(late[task]) - _rate(early[task]) for task in tasks)
    variance = sum(_variance(late[task]) + _variance(early[task]) for task in tasks) / len(tasks) ** 2
    margin = _NORMAL_95 * sqrt(variance)
    return Mean(change, Interval(change - margin, change + margin), len(tasks))


def final_success(run: SeedRun, budget: int) -> float:
    """Return success on held-out seeds if that was measured, else in training in the budget's last tenth."""
    if run.held_out:
        return macro_mean(run.held_out.values())
    return learning_curve(run, budget, _TENTH)[-1]


def area_under(run: SeedRun, budget: int) -> float:
    """Return the mean of the learning curve: it grows with how much is learned, and how early."""
    known = [rate for rate in learning_curve(run, budget) if not isnan(rate)]
    return fmean(known) if known else nan


def differences(fields: Mapping[str, Mapping[str, str]]) -> list[tuple[str, list[str]]]:
    """Return the fields that are not the same in all arms: (name, values in the arms' order).

    A field that an arm does not have is "–".
    """
    names = sorted({name for own in fields.values() for name in own})
    rows = [(name, [own.get(name, "–") for own in fields.values()]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def paired(first: Sequence[SeedRun], other: Sequence[SeedRun], figure: Callable[[SeedRun], float]) -> Mean:
    """Return the mean difference in `figure` over the seeds that both arms have."""
    was = {run.seed: figure(run) for run in first}
    changes = [figure(run) - was[run.seed] for run in other if run.seed in was]
    return known_mean(changes)


def known_mean(values: Iterable[float]) -> Mean:
    """Return the mean over the runs of which the figure is known, that is, not NaN."""
    return mean_of([value for value in values if not isnan(value)])


def _macro(samples: Sequence[Sample]) -> float:
    """Return the mean over tasks of their rates in the samples; NaN without an episode."""
    return macro_mean(_by_task(samples).values())


def _by_task(samples: Iterable[Sample]) -> dict[str, Proportion]:
    """Pool the outcomes of each task that has an episode."""
    tasks: dict[str, list[Proportion]] = {}
    for sample in samples:
        for task, outcomes in sample.tasks.items():
            tasks.setdefault(task, []).append(outcomes)
    return {task: whole for task, parts in tasks.items() if (whole := pooled(parts)).n}


def _rate(outcomes: Proportion) -> float:
    """Return the rate with one success and one failure added (Agresti and Caffo)."""
    return (outcomes.successes + 1) / (outcomes.n + 2)


def _variance(outcomes: Proportion) -> float:
    rate = _rate(outcomes)
    return rate * (1 - rate) / (outcomes.n + 2)
