"""Figures and README tables of several runs of the demo; pure functions.

A run's gain is the share of its pairs (task, seed) that turned from failure to success, less the share that
turned back; a pair with a fault on either side says nothing. Intervals are Student's over the runs: they tell
of other runs on the same held-out seeds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from eval.report.page import in_points
from eval.results import SuiteResult
from eval.stats import mean_of, pooled
from eval.suites.demo import ACTIONS
from tests.bench.layouts import Layout


class DemoRun(NamedTuple):
    """One finished run; all runs are on the same suite."""

    seed: int
    before: SuiteResult
    after: SuiteResult
    baselines: tuple[SuiteResult, ...]
    wall_seconds: float
    peak_memory_mb: float


def rate(result: SuiteResult, tasks: Iterable[str]) -> float:
    """Success on these tasks, every episode alike; one without a verdict is a failure."""
    return pooled(row.scheduled for row in result.tasks if row.task in set(tasks)).rate


def gain(run: DemoRun, tasks: Iterable[str]) -> float:
    """The run's paired gain on these tasks, in [-1, 1]; 0 without a pair."""
    names = set(tasks)
    was = {(e.task, e.seed): e.outcome for e in run.before.episodes}
    pairs = [(was.get((e.task, e.seed)), e.outcome) for e in run.after.episodes if e.task in names]
    known = [pair for pair in pairs if pair[0] in ("success", "failure") and pair[1] != "fault"]
    change = known.count(("failure", "success")) - known.count(("success", "failure"))
    return change / len(known) if known else 0.0


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation, extremes and the interval of the mean; what one run cannot tell is None."""
    mean = mean_of(values)
    return {
        "mean": fmean(values),
        "sd": stdev(values) if len(values) > 1 else None,
        "min": min(values),
        "max": max(values),
        "interval": [mean.interval.low, mean.interval.high] if mean.interval else None,
        "runs": list(values),
    }


def share(runs: Sequence[DemoRun], part: Sequence[str], whole: Sequence[str]) -> float | None:
    """How much of the runs' gain on `whole` lies in `part`, which is in it; None where there is no gain."""
    total = sum(gain(run, [task]) for run in runs for task in whole)
    return sum(gain(run, [task]) for run in runs for task in part) / total if total > 0 else None


def figures(runs: Sequence[DemoRun], layouts: Mapping[str, Layout]) -> dict[str, Any]:
    """All of it. `layouts` says of every page of the suite how far its elements move; apps have none."""
    suite = runs[0].after.suite
    lengths = suite.groups[ACTIONS]
    fixed = [task for task in suite.train_tasks if task in layouts and layouts[task].fixed]
    groups = {
        "held-out seeds of the tasks trained on": list(suite.train_tasks),
        **{
            f"of them of {length} actions": [task for task in suite.train_tasks if lengths[task] == length]
            for length in dict.fromkeys(lengths[task] for task in suite.train_tasks)
        },
        "of them on pages": [task for task in suite.train_tasks if task in layouts],
        "of them on pages of fixed layout": fixed,
        "of them on apps": [task for task in suite.train_tasks if task not in layouts],
        "tasks never trained on": list(suite.unseen_tasks),
        "of these on pages": [task for task in suite.unseen_tasks if task in layouts],
        "of these on apps": [task for task in suite.unseen_tasks if task not in layouts],
    }
    return {
        "suite": suite.name,
        "digest": suite.digest,
        "episodes_per_page": len(runs[0].after.episodes) // len(suite.tasks),
        "groups": {name: _group(runs, tasks) for name, tasks in groups.items() if tasks},
        "fixed_share_of_gain": {
            "all": share(runs, fixed, suite.train_tasks),
            "runs": [share([run], fixed, suite.train_tasks) for run in runs],
        },
        "pages": {
            task: {**_group(runs, [task]), **(layouts[task]._asdict() if task in layouts else {})}
            for task in suite.tasks
        },
        "runs": [
            {
                "seed": run.seed,
                **{name: [rate(side, groups[name]) for side in (run.before, run.after)] for name in groups},
                "faults": sum(e.outcome == "fault" for e in (*run.before.episodes, *run.after.episodes)),
                "wall_seconds": run.wall_seconds,
                "peak_memory_mb": run.peak_memory_mb,
            }
            for run in runs
        ],
    }


def _group(runs: Sequence[DemoRun], tasks: Sequence[str]) -> dict[str, Any]:
    first = runs[0]
    return {
        "tasks": tasks,
        "before": spread([rate(run.before, tasks) for run in runs]),
        "after": spread([rate(run.after, tasks) for run in runs]),
        "gain": spread([gain(run, tasks) for run in runs]),
        "baselines": {result.label: rate(result, tasks) for result in first.baselines},
    }


def markdown(found: Mapping[str, Any]) -> str:
    """The tables: by group of pages, by page, by run."""
    floor = "random element"
    groups = [
        [f"{name} ({len(group['tasks'])})", *_sides(group, _rates), _gain(group["gain"]), _floor(group)]
        for name, group in found["groups"].items()
    ]
    pages = [
        [f"`{task}`", _moves(page), *_sides(page, _range), in_points(page["gain"]["mean"]), _floor(page)]
        for task, page in found["pages"].items()
    ]
    trained, unseen = (name for name in found["groups"] if "trained on" in name)
    runs = [
        [
            str(run["seed"]),
            *(_percent(side) for name in (trained, unseen) for side in run[name]),
            str(run["faults"]),
            f"{run['wall_seconds']:.0f} s",
            f"{run['peak_memory_mb']:.0f} MB",
        ]
        for run in found["runs"]
    ]
    count = len(runs)
    runs_are = "1 run" if count == 1 else f"{count} runs"
    parts = [
        f"{runs_are} with different seeds, {found['episodes_per_page']} episodes a task; success as the mean "
        "over runs (least to most, standard deviation), gain paired by task and seed (95 % interval over "
        "runs)",
        _table(["tasks", "before", "after", "gain in points", floor], groups),
        _share(found),
        "By task; elements: how far one moves from seed to seed, at most.",
        _table(["task", "elements", "before", "after", "gain", floor], pages),
        _table(
            ["seed", "before", "after", "unseen before", "unseen after", "faults", "wall", "memory"], runs
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _share(found: Mapping[str, Any]) -> str:
    part = found["fixed_share_of_gain"]
    group = found["groups"].get("of them on pages of fixed layout")
    if part["all"] is None or group is None:
        return "There is no gain, or no page of fixed layout that could hold a part of it."
    names = ", ".join(f"`{task}`" for task in group["tasks"])
    known = [one for one in part["runs"] if one is not None]
    bounds = f" ({_percent(min(known))} to {_percent(max(known))} by run)" if known == part["runs"] else ""
    hold = f"{_percent(part['all'])} of the gain{bounds}"
    return f"Pages of fixed layout ({names}: no element moves with the seed) hold {hold}."


def _sides(group: Mapping[str, Any], shown: Callable[[Mapping[str, Any]], str]) -> list[str]:
    return [shown(group[side]) for side in ("before", "after")]


def _rates(one: Mapping[str, Any]) -> str:
    sd = "" if one["sd"] is None else f", sd {100 * one['sd']:.1f}"
    return f"{_percent(one['mean'])} ({100 * one['min']:.0f}–{100 * one['max']:.0f}{sd})"


def _range(one: Mapping[str, Any]) -> str:
    return f"{_percent(one['mean'])} ({100 * one['min']:.0f}–{100 * one['max']:.0f})"


def _gain(one: Mapping[str, Any]) -> str:
    low, high = one["interval"] or (None, None)
    bounds = "" if low is None else f" ({in_points(max(-1.0, low))} to {in_points(min(1.0, high))})"
    sd = "" if one["sd"] is None else f", sd {100 * one['sd']:.1f}"
    return in_points(one["mean"]) + bounds + sd


def _floor(group: Mapping[str, Any]) -> str:
    return _percent(group["baselines"]["random-element"])


def _moves(page: Mapping[str, Any]) -> str:
    if "elements" not in page:
        return "an app"
    return f"{page['elements']} px" if page["elements"] else "fixed"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
