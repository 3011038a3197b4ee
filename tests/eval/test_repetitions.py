"""Repetitions of an evaluation: their spread, pass@k and pass^k, and what a success took."""

from itertools import product
from math import comb

import pytest

from eval.repetitions import Repetitions, repetitions_json
from eval.results import EpisodeResult, Outcome, SuiteResult
from eval.stats import Proportion, clustered, pass_at, pass_every
from eval.suites.suite import Suite

SUITE = Suite("two", "squares", ("easy",), ("hard",), episodes=2, device="browser")
FIRST, SECOND = SUITE.seeds()


def episode(task: str, seed: int, outcome: Outcome, steps: int = 2, tokens: int = 0) -> EpisodeResult:
    stop = "fault" if outcome == "fault" else "task_done" if outcome == "success" else "max_steps"
    return EpisodeResult(task, seed, outcome, stop, steps, 0.5, 1, "", f"{task}/{seed}", tokens)


def run(*outcomes: Outcome) -> SuiteResult:
    """Outcomes of easy and then of hard, two seeds each."""
    jobs = [(task, seed) for task in SUITE.tasks for seed in (FIRST, SECOND)]
    episodes = (episode(task, seed, what) for (task, seed), what in zip(jobs, outcomes, strict=True))
    return SuiteResult(SUITE, "some", tuple(episodes))


RUNS = Repetitions(
    (
        run("success", "success", "failure", "failure"),
        run("success", "failure", "failure", "fault"),
        run("success", "failure", "success", "failure"),
    )
)


@pytest.mark.parametrize(("n", "successes"), [(n, c) for n in range(1, 6) for c in range(n + 1)])
def test_pass_at_k_and_pass_every_k_are_what_drawing_attempts_gives(n: int, successes: int) -> None:
    """Against the definition: all ways to draw k of the n attempts."""
    attempts = [True] * successes + [False] * (n - successes)
    for k in range(1, n + 1):
        draws = [
            [won for won, taken in zip(attempts, which, strict=True) if taken]
            for which in product((True, False), repeat=n)
            if sum(which) == k
        ]
        assert len(draws) == comb(n, k)
        assert pass_at(k, successes, n) == pytest.approx(sum(map(any, draws)) / len(draws))
        assert pass_every(k, successes, n) == pytest.approx(sum(map(all, draws)) / len(draws))


def test_the_interval_by_tasks_is_wider_than_by_episodes_and_always_the_same() -> None:
    parts = [Proportion(20, 20)] * 3 + [Proportion(0, 20)] * 3
    found = clustered(parts)
    by_episode = Proportion(60, 120).interval
    assert found.high - found.low > 2 * (by_episode.high - by_episode.low)
    assert found == clustered(parts)
    assert (found.low, found.high) == (pytest.approx(1 / 6), pytest.approx(5 / 6))  # binomial, 6 draws
    alike = clustered([Proportion(10, 20)] * 6)
    assert (alike.low, alike.high) == (0.5, 0.5)
    assert clustered([Proportion(3, 4)]).low == 0.0  # nothing is known of other tasks


def test_the_spread_of_runs() -> None:
    easy, hard = RUNS.half(trained=True), RUNS.half(trained=False)
    assert easy is not None and hard is not None
    assert easy.rates == (1.0, 0.5, 0.5)
    assert (easy.mean, easy.half_range) == (pytest.approx(2 / 3), 0.25)
    assert easy.at_least_one[0] == pytest.approx(easy.mean)
    assert easy.every_one[0] == pytest.approx(easy.mean)
    assert (easy.at_least_one[2], easy.every_one[2]) == (1.0, 0.5)  # one seed always, the other once
    assert (hard.at_least_one[2], hard.every_one[2]) == (0.5, 0.0)  # a fault is no success
    assert RUNS.half(trained=False) == hard


def test_how_episodes_ended_and_what_a_success_took() -> None:
    assert RUNS.stops == {"task_done": 5, "max_steps": 6, "fault": 1}
    effort = RUNS.effort
    assert (effort.steps, effort.seconds, effort.tokens) == (12 * 2 / 5, 12 * 0.5 / 5, None)
    paid = SuiteResult(SUITE, "x", tuple(episode("easy", seed, "success", 3, 40) for seed in (FIRST, SECOND)))
    assert Repetitions((paid,)).effort.tokens == 40
    nothing = Repetitions((run("failure", "failure", "failure", "fault"),))
    assert nothing.effort.steps is None
    found = repetitions_json(RUNS)
    assert found["runs"] == 3 and found["train"]["half_range"] == 0.25


def test_runs_of_other_tasks_or_seeds_are_no_repetitions() -> None:
    fewer = SuiteResult(SUITE, "some", RUNS.runs[0].episodes[:3])
    with pytest.raises(ValueError, match="same suite, tasks and seeds"):
        Repetitions((RUNS.runs[0], fewer))
