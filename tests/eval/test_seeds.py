"""Means over seeds of a run in stages: by group, paired by seed, on a terminal and as JSON."""

import io
from typing import Any

import pytest
from rich.console import Console

from eval.report.seeds import over_seeds_json, print_over_seeds
from eval.results import TRAINED, EpisodeResult, SuiteResult
from eval.seeds import over_seeds
from eval.suites.suite import Suite

SUITE = Suite(
    name="made-up",
    taskset="lab",
    train_tasks=("reach-2", "reach-4"),
    unseen_tasks=("reach-2@graphs",),
    groups={
        "split": {"reach-2": "seen", "reach-4": "seen", "reach-2@graphs": "unseen"},
        "device": dict.fromkeys(("reach-2", "reach-4", "reach-2@graphs"), "lab"),
    },
    episodes=10,
    device="lab",
    screen=(160, 224),
)


def measured(label: str, **won: int) -> SuiteResult:
    """A measurement of ten episodes a task, so many of which succeeded."""
    names = {"short": "reach-2", "long": "reach-4", "unseen": "reach-2@graphs"}
    return SuiteResult(
        SUITE,
        label,
        tuple(
            EpisodeResult(
                names[key], seed, "success" if seed < successes else "failure", "answered", 2, 1.0, 1, "", ""
            )
            for key, successes in won.items()
            for seed in range(10)
        ),
    )


RUNS = [
    [measured("before", short=2, long=0, unseen=0), measured("multi", short=8, long=4, unseen=1)],
    [measured("before", short=6, long=0, unseen=2), measured("multi", short=8, long=6, unseen=3)],
]


def test_a_group_is_pooled_in_each_run_and_its_change_paired_by_seed() -> None:
    found = over_seeds(RUNS)
    assert list(found) == ["tasks", "split"]  # all tasks are of one device: nothing to tell apart
    assert found["tasks"][TRAINED] == found["split"]["seen"]
    before, after = found["split"]["seen"]
    assert before.mean.value == pytest.approx((2 / 20 + 6 / 20) / 2) and before.change is None
    assert after.mean.value == pytest.approx((12 / 20 + 14 / 20) / 2)
    assert (after.episodes.successes, after.episodes.n) == (26, 40)
    change = after.change
    assert change is not None and change.value == pytest.approx((10 / 20 + 8 / 20) / 2)
    assert change.interval is not None and change.interval.low < change.value < change.interval.high
    unseen = found["split"]["unseen"][1].change  # one more of ten in both runs: nothing varies
    assert unseen is not None and unseen.interval is not None
    assert (unseen.interval.low, unseen.interval.high) == pytest.approx((0.1, 0.1))


def test_the_terminal_and_the_file_say_the_same() -> None:
    found = over_seeds(RUNS)
    written = io.StringIO()
    print_over_seeds(found, ["before", "multi"], Console(file=written, width=120))
    lines = [" ".join(line.split()) for line in written.getvalue().splitlines()]
    assert [line for line in lines if line][6:] == [
        "by split before multi",
        "seen 20% (0–100) 65% (1–100)",
        "unseen 10% (0–100) 20% (0–100)",
        "in points by multi",
        "seen +45 (−19 to +100)",
        "unseen +10 (+10 to +10)",
    ]
    told: dict[str, Any] = over_seeds_json(found, ["before", "multi"])
    multi = told["split"]["seen"]["multi"]
    assert multi["success"]["mean"] == pytest.approx(0.65) and multi["success"]["n"] == 2
    assert multi["change"]["mean"] == pytest.approx(0.45)
    assert multi["episodes"] == {"n": 40, "successes": 26}
    assert told["split"]["seen"]["before"]["change"] is None


def test_one_run_has_no_interval() -> None:
    (before, after) = over_seeds(RUNS[:1])["split"]["seen"]
    assert before.mean.interval is None and after.change is not None and after.change.interval is None
