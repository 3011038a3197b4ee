"""Arms compared: the statistics over seeds, and the page, table and JSON made of them."""

import io
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from eval.comparison import (
    Sample,
    SeedRun,
    area_under,
    compared,
    differences,
    final_success,
    learned,
    learning_curve,
)
from eval.report.comparison import (
    ComparisonSummary,
    print_comparison,
    write_comparison,
    write_comparison_json,
)
from eval.stats import Proportion, mean_of, student_quantile

PAYLOAD = "</style><script>pwned</script>\N{RIGHT-TO-LEFT OVERRIDE}"


def a_run(arm: str, seed: int, rates: list[float], budget: int = 1000, held_out=None) -> SeedRun:
    """A run whose success in equal parts of the budget has these rates, of two tasks of unlike frequency."""
    samples, size = [], budget // len(rates)
    for part, rate in enumerate(rates):
        for place in (0.3, 0.8):
            often, seldom = Proportion(round(rate * 100), 100), Proportion(round(rate * 10), 10)
            samples.append(Sample(round((part + place) * size), {"often": often, "seldom": seldom}))
    return SeedRun(
        arm, seed, tuple(samples), held_out or {}, updates=7, seconds=65.0, trained=4, replay_share=0.25
    )


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (5, 2.5706), (9, 2.2622), (30, 2.0423)],
)
def test_students_quantiles_are_those_of_the_tables(freedom, quantile):
    assert student_quantile(freedom, 0.95) == pytest.approx(quantile, abs=5e-5)


def test_the_mean_of_a_few():
    mean = mean_of([0.2, 0.4, 0.6])
    assert mean.value == pytest.approx(0.4)
    assert mean.interval is not None
    assert mean.interval.high - mean.value == pytest.approx(4.3027 * 0.2 / math.sqrt(3), abs=1e-4)
    assert mean_of([0.3]).interval is None
    assert math.isnan(mean_of([]).value)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.floats(-1, 1))
def test_a_shift_moves_the_interval_and_nothing_else(values, shift):
    first, moved = mean_of(values), mean_of([value + shift for value in values])
    assert moved.interval is not None and first.interval is not None
    assert moved.interval.low == pytest.approx(first.interval.low + shift, abs=1e-9)


def test_what_was_learned_is_of_the_episodes_of_all_seeds():
    runs = [a_run("arpo", seed, [0.2, 0.4, 0.4, 0.4, 0.8]) for seed in (0, 1)]
    gained = learned(runs, 1000)
    assert gained.interval is not None
    # Agresti and Caffo, by hand: of 400 episodes a fifth of "often" and of 40 of "seldom", one of each added.
    often, seldom = (321 - 81) / 402, (33 - 9) / 42
    assert gained.value == pytest.approx((often + seldom) / 2)
    variance = 2 * (321 / 402 * 81 / 402) / 402 + 2 * (33 / 42 * 9 / 42) / 42
    assert gained.interval.high - gained.value == pytest.approx(1.96 * math.sqrt(variance) / 2)
    flat = learned([a_run("arpo", 0, [0.5] * 5)], 1000)
    assert flat.interval is not None and flat.interval.low < flat.value == 0 < flat.interval.high
    assert learned([SeedRun("arpo", 0, (), {}, 0, 0.0)], 1000).interval is None


def test_a_learning_curve_follows_the_tasks_and_not_their_frequency():
    run = a_run("arpo", 0, [0.1, 0.5, 0.9, 1.0])
    assert learning_curve(run, 1000, bins=4) == pytest.approx([0.1, 0.5, 0.9, 1.0])
    assert area_under(run, 1000) == pytest.approx((0.1 + 0.5 + 0.9 + 1.0) / 4, abs=0.03)
    assert final_success(run, 1000) == 1.0
    frequent = Sample(10, {"easy": Proportion(99, 99), "hard": Proportion(0, 1)})
    assert learning_curve(SeedRun("arpo", 0, (frequent,), {}, 1, 1.0), 10, bins=1) == [0.5]


def test_what_comes_after_the_budget_does_not_count():
    run = a_run("arpo", 0, [0.2, 0.2, 1.0, 1.0])
    assert learning_curve(run, 500, bins=2) == pytest.approx([0.2, 0.2])
    assert final_success(run, 500) == pytest.approx(0.2)


def test_a_share_without_an_episode_is_as_before_and_unknown_at_first():
    samples = (Sample(30, {"a": Proportion(1, 2)}), Sample(40, {"a": Proportion(0, 0)}))
    curve = learning_curve(SeedRun("arpo", 0, samples, {}, 1, 1.0), 100, bins=4)
    assert math.isnan(curve[0]) and curve[1:] == [0.5, 0.5, 0.5]
    assert area_under(SeedRun("arpo", 0, (), {}, 0, 0.0), 100) != area_under(
        SeedRun("arpo", 0, (), {}, 0, 0.0), 100
    )  # NaN


def test_held_out_outcomes_are_the_final_ones_where_there_are_any():
    held_out = {"often": Proportion(3, 4), "seldom": Proportion(1, 4)}
    assert final_success(a_run("arpo", 0, [1.0], held_out=held_out), 1000) == 0.5


def test_differences_are_paired_by_seed():
    # The second arm is 0.2 better on every seed, though seeds differ by more than that.
    rates = [0.1, 0.4, 0.7]
    runs = [a_run("arpo", seed, [rate] * 4) for seed, rate in enumerate(rates)]
    runs += [a_run("gigpo", seed, [rate + 0.2] * 4) for seed, rate in enumerate(rates)]
    runs += [a_run("gigpo", 9, [1.0] * 4)]  # no partner
    first, second = compared(runs, 1000)
    assert (first.arm, second.arm) == ("arpo", "gigpo")
    assert first.final_difference is None and second.final_difference is not None
    assert second.final_difference.value == pytest.approx(0.2)
    assert second.final_difference.n == 3
    interval = second.final_difference.interval
    assert interval is not None and interval.low > 0.19 and interval.high < 0.21
    assert first.final.value == pytest.approx(0.4) and second.final.n == 4
    assert [mean.n for mean in first.curve[:2]] == [0, 3]  # 20 shares, and 8 samples a run


def test_only_what_differs_is_listed():
    fields = {
        "arpo": {"paper": "1", "low": "0.2", "kl": "–"},
        "zerogui": {"paper": "2", "low": "0.2", "kl": "Kl", "kl.coef": "0.1"},
    }
    assert differences(fields) == [
        ("kl", ["–", "Kl"]),
        ("kl.coef", ["–", "0.1"]),
        ("paper", ["1", "2"]),
    ]
    assert differences({"a": {"x": "1"}, "b": {"x": "1"}}) == []


def the_comparison():
    runs = [a_run("arpo", seed, [0.1, 0.3 + seed / 10, 0.5 + seed / 10]) for seed in range(3)]
    runs += [a_run(PAYLOAD, seed, [0.1, 0.6, 0.9 + seed / 100]) for seed in range(3)]
    fields = {"arpo": {"clip": "0.2", PAYLOAD: "1"}, PAYLOAD: {"clip": PAYLOAD, PAYLOAD: "2"}}
    summary = ComparisonSummary(
        recipe=PAYLOAD,
        commit="abc",
        budget=1000,
        fields=fields,
        config={"policy": PAYLOAD},
        notes={"arpo": [], PAYLOAD: ["It never replayed.", PAYLOAD]},
    )
    return summary, compared(runs, 1000)


def test_the_page_shows_all_and_executes_nothing(tmp_path: Path):
    summary, results = the_comparison()
    write_comparison(tmp_path / "compare.html", summary, results)
    page = (tmp_path / "compare.html").read_text("utf-8")
    assert "<script>" not in page and "\N{RIGHT-TO-LEFT OVERRIDE}" not in page
    assert "default-src 'none'" in page
    assert page.count('class="series-0"') == page.count('class="series-1"') == 2  # for wide and narrow
    assert "1,000" in page and "95% intervals over seeds" in page
    assert 'class="up"' in page  # the difference leaves out zero
    assert page.count("What to know of these runs") == page.count("It never replayed.") == 1
    assert "12 <small>25% replayed</small>" in page
    assert "nan" not in page.lower()


def test_a_single_seed_has_no_interval_and_no_band(tmp_path: Path):
    summary, _ = the_comparison()
    results = compared([a_run("arpo", 0, [0.2, 0.4]), a_run("gigpo", 0, [0.2, 0.8])], 1000)
    write_comparison(tmp_path / "compare.html", summary, results)
    page = (tmp_path / "compare.html").read_text("utf-8")
    assert '<polygon class="band" points=""/>' in page
    assert page.count('class="up"') == 1  # what gigpo learned, of its episodes; of seeds nothing can be told
    console = Console(file=io.StringIO(), width=200)
    print_comparison(summary, results, console)
    lines = console.file.getvalue().splitlines()
    assert lines[1].split()[-4:] == ["40%", "29%", "–", "–"]  # 10 shares known of 0.2, 8 of 0.4
    assert lines[2].split()[-4:] == ["80%", "47%", "+40", "+18"]
    assert [line.split()[:3] for line in lines[1:]] == [["arpo", "1", "+18"], ["gigpo", "1", "+54"]]


def test_the_json_holds_every_run(tmp_path: Path):
    summary, results = the_comparison()
    write_comparison_json(tmp_path / "compare.json", summary, results)
    told = json.loads((tmp_path / "compare.json").read_text())
    assert told["env_steps"] == 1000
    assert [arm["arm"] for arm in told["arms"]] == ["arpo", PAYLOAD]
    arpo = told["arms"][0]
    assert [run["seed"] for run in arpo["runs"]] == [0, 1, 2]
    assert arpo["final_difference"] is None
    assert arpo["runs"][0]["curve"][0] is None  # before the first episode ended
    assert arpo["final"]["mean"] == pytest.approx(sum(r["final"] for r in arpo["runs"]) / 3)
    assert {row["field"] for row in told["differences"]} == {"clip", PAYLOAD}
