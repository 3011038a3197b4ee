"""A suite's result counted in other ways: by group of tasks, by how episodes ended, by what went wrong."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval.results import SuiteResult, TaskResult, pooled_of, rate_json
from eval.stats import Proportion
from guiagent.types import StopReason


@dataclass(frozen=True, slots=True)
class Ended:
    """Episodes that ended for one reason, and the successes among them."""

    stop: StopReason
    successes: Proportion


def by_group(result: SuiteResult) -> Mapping[str, tuple[TaskResult, ...]]:
    """For each of the suite's ways to count, a row for each group, in the order of their first tasks.

    A group without a scheduled episode is left out.
    """
    found = {}
    for way, group_of in result.suite.groups.items():
        names = dict.fromkeys(group_of[task] for task in result.suite.tasks if task in group_of)
        rows = [
            pooled_of(name, [e for e in result.episodes if group_of.get(e.task) == name]) for name in names
        ]
        found[way] = tuple(row for row in rows if row.scheduled.n)
    return found


def by_part(result: SuiteResult) -> Mapping[str, Proportion]:
    """For each part of the score, the episodes in which it is whole, among those that have it."""
    names = dict.fromkeys(name for e in result.episodes for name in e.parts)
    values = {name: [e.parts[name] for e in result.episodes if name in e.parts] for name in names}
    return {name: Proportion(sum(v >= 1 for v in found), len(found)) for name, found in values.items()}


def by_stop(result: SuiteResult) -> tuple[Ended, ...]:
    """A row for each reason that episodes ended for, the most frequent first."""
    ended = Counter(e.stop for e in result.episodes)
    won = Counter(e.stop for e in result.episodes if e.outcome == "success")
    return tuple(Ended(stop, Proportion(won[stop], count)) for stop, count in ended.most_common())


def fault_reasons(result: SuiteResult) -> Counter[tuple[str, str]]:
    """How many episodes each pair of a task and a fault's line left without a verdict."""
    return Counter((e.task, e.detail or "no score") for e in result.episodes if e.outcome == "fault")


def breakdown_json(result: SuiteResult) -> dict[str, Any]:
    """The figures for programs."""
    return {
        "groups": {
            way: {row.task: {**rate_json(row), "mean_steps": row.mean_steps} for row in rows}
            for way, rows in by_group(result).items()
        },
        "parts": {
            name: {
                "n": found.n,
                "whole": found.successes,
                "rate": found.rate,
                "low": found.interval.low,
                "high": found.interval.high,
            }
            for name, found in by_part(result).items()
        },
        "stops": {
            row.stop: {"n": row.successes.n, "successes": row.successes.successes} for row in by_stop(result)
        },
        "faults": [
            {"task": task, "reason": reason, "episodes": count}
            for (task, reason), count in fault_reasons(result).most_common()
        ],
    }
