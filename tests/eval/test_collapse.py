"""Signs of collapse: what is measured of the arms' policies, and the table, section and JSON of it."""

import io
import json
from dataclasses import replace
from math import isnan, nan
from pathlib import Path

import pytest
from rich.console import Console

from eval.collapse import Before, last_fifth, one_answer, signs
from eval.comparison import SeedRun, compared
from eval.report.comparison import (
    ComparisonSummary,
    print_comparison,
    write_comparison,
    write_comparison_json,
)
from eval.stats import Proportion
from guiagent.types import PolicyOutput, Score, Step, Trajectory

PAYLOAD = "</style><script>pwned</script>"
BEFORE = Before(Proportion(40, 100), Proportion(45, 100), 0.3)


def episode(task: str, *actions: dict[str, object], text: str = "x") -> Trajectory:
    steps = [Step("", 160, 160, PolicyOutput(text, actions=[action])) for action in actions]
    return Trajectory(
        "id", task, 0, "", steps or [Step("", 160, 160, PolicyOutput(text))], "task_done", Score(0.0)
    )


def click(x: int, y: int) -> dict[str, object]:
    return {"type": "click", "x": x, "y": y}


def test_one_answer_is_the_share_of_a_pages_commonest_first_action():
    same = [
        episode("fixed", click(20, 90), click(i, i)) for i in range(4)
    ]  # what comes later is not looked at
    near = [episode("near", click(21 + i, 39 - i)) for i in range(4)]  # all in the cell of 20 to 40
    apart = [episode("apart", click(40 * i, 10)) for i in range(4)]
    assert one_answer(same) == one_answer(near) == 1.0
    assert one_answer(apart) == 0.25
    assert one_answer([*apart, *same]) == pytest.approx((1 + 0.25) / 2)


def test_other_answers_are_told_apart_by_all_they_say():
    words = [episode("a", {"type": "type", "text": text}) for text in ("yes", "yes", "no")]
    garbled = [episode("b", text=text) for text in ("?", "!")]  # no action at all is one answer
    kinds = [episode("c", click(1, 1)), episode("c", {"type": "move", "x": 1, "y": 1})]
    assert one_answer(words) == pytest.approx(2 / 3)
    assert one_answer(garbled) == 1.0
    assert one_answer(kinds) == 0.5
    assert isnan(one_answer([]))


def test_the_last_fifth_of_what_is_known():
    assert last_fifth([9.0] * 8 + [1.0, None]) == 1.0
    assert last_fifth([3.0]) == 3.0
    assert isnan(last_fifth([])) and isnan(last_fifth([None]))


def a_run(arm: str, seed: int, trained: int, unseen: int, **figures: float) -> SeedRun:
    """A run that solved so many of twice 10 held-out episodes of pages trained on, and of 10 unseen ones."""
    held_out = {"a": Proportion(trained, 10), "b": Proportion(trained, 10)}
    run = SeedRun(arm, seed, (), held_out, updates=5, seconds=1.0, unseen={"c": Proportion(unseen, 10)})
    return replace(run, **figures)


def the_arms() -> list[SeedRun]:
    base = [a_run("base", seed, 6, 4 - seed, one_answer=0.8, entropy=0.1, mixed=0.2) for seed in range(3)]
    held = [a_run(PAYLOAD, seed, 7, 5 - seed, one_answer=0.4, entropy=0.3, mixed=0.5) for seed in range(3)]
    return [*base, *held]


def test_arms_differ_by_seed_and_their_episodes_are_pooled():
    base, held = signs(compared(the_arms(), 100))
    assert base.trained.runs.value == pytest.approx(0.6) and base.trained.difference is None
    assert base.trained.episodes == Proportion(36, 60)
    assert (base.unseen.runs.value, base.unseen.episodes) == (pytest.approx(0.3), Proportion(9, 30))
    assert held.unseen.difference is not None
    assert held.unseen.difference.value == pytest.approx(
        0.1
    )  # on every seed, though the seeds differ by more
    interval = held.unseen.difference.interval
    assert interval is not None and interval.high - interval.low < 1e-9
    assert (held.one_answer.value, held.entropy.value, held.mixed.value) == pytest.approx((0.4, 0.3, 0.5))


def test_without_held_out_episodes_there_are_no_signs():
    assert signs(compared([SeedRun("a", 0, (), {}, 0, 0.0), SeedRun("b", 0, (), {}, 0, 0.0)], 100)) == []


def test_a_figure_that_is_not_known_in_one_run_is_the_mean_of_the_others():
    runs = [a_run("a", 0, 5, 5, entropy=nan), a_run("a", 1, 5, 5, entropy=0.2), a_run("b", 0, 5, 5)]
    first, second = signs(compared(runs, 100))
    assert (first.entropy.value, first.entropy.n) == (0.2, 1)
    assert isnan(second.entropy.value)


def written(tmp_path: Path, before: Before | None) -> tuple[str, dict[str, object], list[str]]:
    results = compared(the_arms(), 100)
    summary = ComparisonSummary(
        recipe="r",
        commit="c",
        budget=100,
        fields={"base": {}, PAYLOAD: {}},
        config={},
        notes={},
        before=before,
    )
    write_comparison(tmp_path / "compare.html", summary, results)
    write_comparison_json(tmp_path / "compare.json", summary, results)
    console = Console(file=io.StringIO(), width=300)
    print_comparison(summary, results, console)
    return (
        (tmp_path / "compare.html").read_text("utf-8"),
        json.loads((tmp_path / "compare.json").read_text()),
        console.file.getvalue().splitlines(),  # type: ignore[attr-defined]
    )


def test_page_table_and_json_say_what_became_of_the_policies(tmp_path: Path):
    page, told, lines = written(tmp_path, BEFORE)
    assert "What became of the policies" in page and "<script>" not in page and "nan" not in page.lower()
    assert page.count("before training") == 1
    assert told["before"]["unseen"]["successes"] == 45
    held = told["held_out"][PAYLOAD]
    assert held["unseen"]["difference"]["mean"] == pytest.approx(0.1)
    assert held["unseen"]["episodes"]["n"] == 30 and held["one_answer"]["mean"] == pytest.approx(0.4)
    table = lines[lines.index("") + 1 :]
    assert table[0].split("  ")[0] == "arm" and "one answer" in table[0]
    assert table[1].startswith("before training") and "45%" in table[1] and "30%" in table[1]
    assert table[2].startswith("base") and "0.10" in table[2] and "of 60" in table[2]
    assert "+10" in table[3] and "0.30" in table[3]


def test_a_comparison_need_not_know_the_policy_before(tmp_path: Path):
    page, told, lines = written(tmp_path, None)
    assert "before training" not in page and "before" not in told
    assert lines[lines.index("") + 2].startswith("base")
