"""Means over seeds of a run in stages, by group of tasks: on a terminal, and as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from eval.report.means import mean_json, plain, plain_points
from eval.report.table import print_rows
from eval.seeds import Measured

OverSeeds = Mapping[str, Mapping[str, tuple[Measured, ...]]]  # by way to count, then by group


def print_over_seeds(found: OverSeeds, stages: Sequence[str], console: Console) -> None:
    """Print a table of means for each way to count, and one of what each stage changed."""
    for way, groups in found.items():
        console.out("", highlight=False)
        means = [[group, *(plain(one.mean) for one in course)] for group, course in groups.items()]
        print_rows([f"by {way}", *stages], means, console)
        console.out("", highlight=False)
        changes = [
            [group, *(plain_points(one.change) for one in course[1:])] for group, course in groups.items()
        ]
        print_rows(["in points", *(f"by {stage}" for stage in stages[1:])], changes, console)


def over_seeds_json(found: OverSeeds, stages: Sequence[str]) -> dict[str, Any]:
    """The figures for programs: by way to count, by group, by stage."""
    return {
        way: {
            group: {
                stage: {
                    "success": mean_json(one.mean),
                    "change": mean_json(one.change),
                    "episodes": {"n": one.episodes.n, "successes": one.episodes.successes},
                }
                for stage, one in zip(stages, course, strict=True)
            }
            for group, course in groups.items()
        }
        for way, groups in found.items()
    }
