"""The same measurements of runs that differ by their seed: means over the seeds, by group of tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eval.breakdown import by_group
from eval.results import TRAINED, UNSEEN, SuiteResult
from eval.stats import Mean, Proportion, mean_of, pooled


@dataclass(frozen=True, slots=True)
class Measured:
    """What a group of tasks came to at one measurement.

    `change` is that since the measurement before, paired by seed; None for the first. Its interval and that
    of `mean` are over the seeds, so that they hold the chance of the episodes, too.
    """

    mean: Mean
    change: Mean | None
    episodes: Proportion  # of all seeds together


def over_seeds(runs: Sequence[Sequence[SuiteResult]]) -> Mapping[str, Mapping[str, tuple[Measured, ...]]]:
    """Return, by way to count and by group, what each measurement came to over the runs.

    `runs` has the measurements of each run, the same in all of them and in the same order.
    """
    counted = [[_counted(result) for result in run] for run in runs]
    return {
        way: {group: _course([[found[way][group] for found in run] for run in counted]) for group in groups}
        for way, groups in counted[0][0].items()
    }


def _counted(result: SuiteResult) -> Mapping[str, Mapping[str, Proportion]]:
    """The successes by whether tasks were trained on, and by each way to count that tells tasks apart."""
    trained = {
        name: pool.scheduled
        for name, pool in ((TRAINED, result.pooled(True)), (UNSEEN, result.pooled(False)))
        if pool.scheduled.n
    }
    ways = {way: {row.task: row.scheduled for row in rows} for way, rows in by_group(result).items()}
    return {"tasks": trained, **{way: rows for way, rows in ways.items() if len(rows) > 1}}


def _course(runs: Sequence[Sequence[Proportion]]) -> tuple[Measured, ...]:
    """The measurements of one group: `runs` has its successes by run and measurement."""
    course = []
    for at, found in enumerate(zip(*runs, strict=True)):
        change = mean_of([run[at].rate - run[at - 1].rate for run in runs]) if at else None
        course.append(Measured(mean_of([one.rate for one in found]), change, pooled(found)))
    return tuple(course)
