"""The ladder of a comparison: success by the number of actions of a task, and when it came."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from eval.comparison import Sample, SeedRun, compared
from eval.horizons import WINDOW, rungs, until_half
from eval.report.comparison import (
    ComparisonSummary,
    print_comparison,
    write_comparison,
    write_comparison_json,
)
from eval.stats import Proportion
from eval.suites import SUITES

ACTIONS = {"short": 2, "other": 2, "long": 10, "never-played": 30}
PAYLOAD = "</style><script>pwned</script>"


def a_run(arm: str, seed: int, learns_at: int, solved: int) -> SeedRun:
    """A run of 100 episodes of 10 steps, "short" and "long" in turns; "long" succeeds from `learns_at` on."""
    samples = [
        Sample(
            10 * (k + 1), {"short": Proportion(1, 1)} if k % 2 else {"long": Proportion(k >= learns_at, 1)}
        )
        for k in range(100)
    ]
    held_out = {"short": Proportion(10, 10), "other": Proportion(5, 10)}
    return SeedRun(arm, seed, tuple(samples), held_out, 5, 1.0, unseen={"long": Proportion(solved, 10)})


def test_half_of_the_last_twenty_is_reached_with_the_tenth_success():
    run = a_run("a", 0, learns_at=40, solved=0)
    assert until_half(run, frozenset({"long"})) == 10 * (40 + 2 * (WINDOW // 2 - 1) + 1)
    assert until_half(run, frozenset({"short"})) == 10 * 2 * WINDOW  # not before 20 were played
    assert until_half(a_run("a", 0, learns_at=99, solved=0), frozenset({"long"})) is None
    assert until_half(run, frozenset({"never-played"})) is None


def test_a_failure_after_successes_takes_nothing_back():
    outcomes = [1] * 10 + [0] * 30
    run = SeedRun(
        "a", 0, tuple(Sample(k, {"t": Proportion(n, 1)}) for k, n in enumerate(outcomes, 1)), {}, 0, 0
    )
    assert until_half(run, frozenset({"t"})) == WINDOW


def test_rungs_are_by_length_then_arm_and_leave_out_what_was_not_measured():
    runs = [a_run("base", seed, 40, 2 + seed) for seed in range(3)]
    runs += [a_run("other", seed, 60, 8) for seed in range(3)]
    found = rungs(compared(runs, 1000), ACTIONS)
    assert [(one.actions, one.arm) for one in found] == [
        (2, "base"),
        (2, "other"),
        (10, "base"),
        (10, "other"),
    ]
    assert found[0].runs.value == pytest.approx(0.75) and found[0].episodes == Proportion(45, 60)
    assert found[2].runs.value == pytest.approx(0.3) and found[2].episodes == Proportion(9, 30)
    assert found[3].until_half == (790, 790, 790)
    assert rungs(compared(runs, 1000), {}) == []


def test_table_page_and_json_tell_the_ladder(tmp_path: Path):
    runs = [a_run("base", seed, 40 + 50 * seed, 2) for seed in range(2)]
    runs += [a_run(PAYLOAD, seed, 20, 9) for seed in range(2)]
    summary = ComparisonSummary("r", "c", 1000, {"base": {}, PAYLOAD: {}}, {}, {}, actions=ACTIONS)
    results = compared(runs, 1000)
    console = Console(file=io.StringIO(), width=300)
    print_comparison(summary, results, console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    row = next(line for line in lines if line.startswith("10") and "base" in line)
    assert "20%" in row and "590 steps (1 of 2 runs)" in row
    write_comparison(tmp_path / "compare.html", summary, results)
    page = (tmp_path / "compare.html").read_text("utf-8")
    assert "By length of the tasks" in page and "<script>" not in page
    write_comparison_json(tmp_path / "compare.json", summary, results)
    told = json.loads((tmp_path / "compare.json").read_text())["horizons"]
    assert [one["until_half"] for one in told if one["actions"] == 10] == [[590, None], [390, 390]]


@pytest.mark.parametrize("name", ["miniwob-rounds", "lab", "lab-perturbed"])
def test_suites_of_several_lengths_say_each_tasks_actions(name):
    suite = SUITES[name]
    assert {task: int(count) for task, count in suite.groups["actions"].items()}.keys() == set(suite.tasks)
