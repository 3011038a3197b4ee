"""The curriculum: which task comes next, and why."""

import json
import random
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.curriculum import (
    CURRICULA,
    Curriculum,
    TaskStatistics,
    learnability,
    rollouts,
    signal,
    step_cap,
)
from training.config import CurriculumName, TrainConfig

TASKS = ["never", "sometimes", "always"]


def settled() -> Curriculum:
    curriculum = Curriculum(TASKS, weigh=learnability, floor=0.05, rate=0.1)
    for i in range(200):
        curriculum.update("never", 0.0)
        curriculum.update("sometimes", float(i % 2))
        curriculum.update("always", 1.0)
    return curriculum


def test_the_average_moves_by_its_rate():
    curriculum = Curriculum(["a"], rate=0.1)
    curriculum.update("a", 1.0)
    assert curriculum.statistics["a"].success == pytest.approx(0.55)
    curriculum.update("a", 0.0)
    known = curriculum.statistics["a"]
    assert known.success == pytest.approx(0.495)
    assert (known.episodes, known.successes) == (2, 1)
    curriculum.closed("a", [1.0, 0.0, 0.0, 1.0])
    known = curriculum.statistics["a"]
    assert known.variance == pytest.approx(0.8 * 0.25 + 0.2 / 3)
    assert known.variation == pytest.approx(0.8 + 0.2 * (1 / 3) ** 0.5 / 0.5)


def test_a_task_that_only_differs_between_seeds_teaches_nothing():
    """Half of its seeds always succeed, half never: p (1 - p) is at its largest, every group is flat."""
    curriculum = Curriculum(["between", "within"], floor=0.05)
    for i in range(100):
        for task, outcomes in (("between", [float(i % 2)] * 4), ("within", [1.0, 0.0, 1.0, 0.0])):
            for outcome in outcomes:
                curriculum.update(task, outcome)
            curriculum.closed(task, outcomes)
    between, within = curriculum.statistics.values()
    assert learnability(between) > 0.2 and learnability(within) > 0.2
    assert curriculum.weights == {"between": pytest.approx(0.05), "within": pytest.approx(0.05 + 1 / 3)}
    drawn = [curriculum.next(random.Random(i)) for i in range(400)]
    assert drawn.count("between") < 100


def test_the_default_is_the_signal_within_groups():
    assert CURRICULA[TrainConfig().curriculum] is signal
    assert set(CURRICULA) == set(get_args(CurriculumName))


def test_a_group_of_which_too_little_is_known_changes_nothing():
    curriculum = Curriculum(["a"])
    for outcomes in ([], [1.0]):
        curriculum.closed("a", outcomes)
    assert curriculum.statistics["a"] == TaskStatistics()


def test_weights_are_the_floor_and_the_variance():
    curriculum = settled()
    assert curriculum.weights["never"] == pytest.approx(0.05, abs=1e-6)
    assert curriculum.weights["always"] == pytest.approx(0.05, abs=1e-6)
    assert curriculum.weights["sometimes"] == pytest.approx(0.3, abs=0.01)


def test_tasks_come_in_proportion_to_their_weights():
    curriculum, rng, n = settled(), random.Random(0), 6000
    drawn = [curriculum.next(rng) for _ in range(n)]
    total = sum(curriculum.weights.values())
    for task, weight in curriculum.weights.items():
        assert drawn.count(task) / n == pytest.approx(weight / total, abs=0.025)


def test_the_same_seed_gives_the_same_tasks():
    first, second = random.Random(7), random.Random(7)
    curriculum = settled()
    assert [curriculum.next(first) for _ in range(50)] == [curriculum.next(second) for _ in range(50)]


@settings(deadline=None)
@given(
    st.sampled_from(sorted(CURRICULA)),
    st.lists(st.tuples(st.sampled_from(TASKS), st.lists(st.floats(0, 1), min_size=1, max_size=8))),
)
def test_every_task_stays_in_sight_and_the_state_survives_json(name, groups):
    curriculum = Curriculum(TASKS, weigh=CURRICULA[name])
    for task, outcomes in groups:
        for outcome in outcomes:
            curriculum.update(task, outcome)
        curriculum.closed(task, outcomes)
    assert all(0.05 <= weight <= 3 for weight in curriculum.weights.values())
    restored = Curriculum(TASKS, weigh=CURRICULA[name])
    restored.restore(json.loads(json.dumps(curriculum.state())))
    assert restored.state() == curriculum.state() and restored.weights == curriculum.weights


def test_the_state_of_an_older_checkpoint_has_rates_of_success_alone():
    curriculum = Curriculum(TASKS)
    curriculum.restore({"success": {"never": 0.0, "sometimes": 0.4, "gone": 1.0}, "lengths": {"never": []}})
    known = curriculum.statistics
    assert (known["never"].variance, known["sometimes"].variance) == (0.0, pytest.approx(0.24))
    assert known["always"] == TaskStatistics()


def test_tasks_may_come_and_go_between_runs():
    curriculum = Curriculum(["always", "new"])
    curriculum.restore(settled().state())
    assert list(curriculum.statistics) == ["always", "new"]
    assert curriculum.statistics["new"] == TaskStatistics()
    assert curriculum.statistics["always"].success == pytest.approx(1.0, abs=1e-6)


def test_an_unknown_task_is_refused():
    with pytest.raises(KeyError):
        Curriculum(TASKS).update("other", 1.0)


@pytest.mark.parametrize(
    ("success", "number"), [(0.0, 8), (0.59, 8), (0.6, 8), (0.7, 5), (0.75, 5), (0.8, 4), (0.9, 3), (1.0, 2)]
)
def test_the_number_of_rollouts_is_darts(success, number):
    assert rollouts(success) == number


@given(st.floats(0, 1), st.floats(0, 1), st.integers(2, 64))
def test_the_surer_a_task_the_fewer_its_rollouts(one, other, full):
    assert 2 <= rollouts(max(one, other), full) <= rollouts(min(one, other), full) <= full


@pytest.mark.parametrize(("lengths", "cap"), [([], 30), ([3], 10), ([3, 19, 4], 19), ([99], 30)])
def test_an_episode_may_take_as_long_as_the_longest_success_and_ten_steps(lengths, cap):
    assert step_cap(lengths, 30) == cap


@pytest.mark.parametrize("lengths", [[], [3], [99]])
def test_the_floor_of_ten_steps_is_no_more_than_a_task_allows(lengths):
    assert step_cap(lengths, 6) == 6


def test_lengths_are_of_successes_and_survive():
    curriculum = Curriculum(["a"])
    curriculum.update("a", 0.0, 25)
    assert curriculum.step_cap("a", 30) == 30
    curriculum.update("a", 1.0, 17)
    restored = Curriculum(["a", "b"])
    restored.restore(json.loads(json.dumps(curriculum.state())))
    assert (restored.step_cap("a", 30), restored.step_cap("b", 30)) == (17, 30)


@pytest.mark.parametrize(
    ("name", "known", "weights"),
    [
        ("signal", [{"variance": v} for v in (0, 0.1, 0.25)], [0, 0.1, 0.25]),
        ("learnability", [{"success": p} for p in (0, 0.5, 1)], [0, 0.25, 0]),
        ("dart", [{"success": p} for p in (0.0, 0.59, 0.7, 0.8, 1.0)], [1, 1, 5 / 8, 4 / 8, 2 / 8]),
        ("paprika", [{"variation": v} for v in (0, 2.5)], [0, 2.5]),
        (
            "arpo",
            [{"episodes": n, "successes": s} for n, s in ((0, 0), (15, 0), (16, 0), (16, 1), (900, 1))],
            [1, 1, 0, 1, 1],
        ),
        ("band", [{"success": p} for p in (0, 0.05, 0.5, 0.75, 0.8)], [0, 1, 1, 1, 0]),
        ("cooling", [{"success": p} for p in (0, 0.05, 0.1, 0.5, 1)], [0, 0.5, 1, 1, 1]),
        ("uniform", [{}], [1]),
    ],
)
def test_what_a_weight_makes_of_what_is_known(name, known, weights):
    assert [CURRICULA[name](TaskStatistics(**values)) for values in known] == pytest.approx(weights)


@pytest.mark.parametrize(("wins", "potential"), [(0, 0.0), (1, 8**0.5), (4, (8 / 7) ** 0.5), (8, 0.0)])
def test_the_learning_potential_of_a_group_is_its_deviation_over_its_mean(wins, potential):
    """For p of 8, with the sample variance n p (1 - p) / (n - 1): sqrt((1 - p) / p * 8 / 7)."""
    curriculum = Curriculum(["a"], group_rate=1.0)
    curriculum.closed("a", [1.0] * wins + [0.0] * (8 - wins))
    assert curriculum.statistics["a"].variation == pytest.approx(potential)


def test_a_task_that_keeps_failing_cools_down_and_one_success_brings_it_back():
    curriculum = Curriculum(["a", "b"], weigh=CURRICULA["cooling"], floor=0.0)
    weights = []
    for _ in range(40):
        curriculum.update("a", 0.0)
        weights.append(curriculum.weights["a"])
    assert weights[:5] == [1.0] * 5
    assert weights[-1] == pytest.approx(0.9 * weights[-2]) == pytest.approx(5 * 0.9**40)
    curriculum.update("a", 1.0)
    assert curriculum.weights == {"a": 1.0, "b": 1.0}
