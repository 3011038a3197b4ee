"""The reward of a trajectory."""

import pytest

from guiagent.errors import Fault
from guiagent.types import PolicyOutput, Score, Step, Trajectory
from rewards.proposers.types import comparable
from training.algorithms import ALGORITHMS
from training.algorithms.reward import earned, outcome, shaped_reward


def trajectory(value: float | None, *errors: str | None, fault: Fault | None = None) -> Trajectory:
    """One with a step per error; None is a step that was understood."""
    steps = [Step("", 1, 1, PolicyOutput("text", error=error)) for error in errors]
    return Trajectory("t", "task", 0, "", steps, "task_done", score=Score(value), fault=fault)


@pytest.mark.parametrize(
    ("value", "errors", "reward"),
    [
        (1.0, (None,), 1.0),
        (0.0, (None, None), 0.0),
        (0.0, (None, "no action"), -0.5),
        (0.3, ("no action",), -0.2),
        (1.0, ("no action", None), 1.0),  # only the last step counts
        (0.0, (), 0.0),
    ],
)
def test_the_score_less_half_a_point_for_an_unreadable_end(value, errors, reward):
    assert shaped_reward(trajectory(value, *errors)) == pytest.approx(reward)


def test_the_weight_of_the_format_is_the_algorithms():
    assert shaped_reward(trajectory(0.0, "no action"), format_weight=0.2) == -0.2


def test_a_judge_of_evidence_pays_less_than_nothing_and_success_is_what_it_was():
    score = Score(0.0, "judge", reward=-1.1)
    proved_nothing = Trajectory("t", "task", 0, "", trajectory(0.0, "?").steps, "task_done", score=score)
    assert (outcome(proved_nothing), proved_nothing.success, earned(proved_nothing)) == (0.0, False, -1.1)
    assert shaped_reward(proved_nothing) == pytest.approx(-1.6)
    earning = {name: algorithm.reward(proved_nothing) for name, algorithm in ALGORITHMS.items()}
    assert (earning["grpo"], earning["arpo"]) == (-1.1, pytest.approx(-1.6))
    assert all(reward is not None and reward <= 0 for reward in earning.values())
    assert earned(trajectory(0.5)) == 0.5
    fault = Fault("device", "crashed", "the browser died")
    assert earned(Trajectory("t", "task", 0, "", [], "fault", score=score, fault=fault)) is None


def test_unknown_is_not_zero():
    fault = Fault("device", "crashed", "the browser died")
    assert shaped_reward(trajectory(None, "no action")) is None
    assert shaped_reward(trajectory(1.0, None, fault=fault)) is None
    assert outcome(trajectory(None)) is None
    assert outcome(trajectory(0.25)) == 0.25
    assert shaped_reward(Trajectory("t", "task", 0, "", [], "fault", fault=fault)) is None


@pytest.mark.parametrize(
    ("known", "sound", "enough"),
    [(0, 0, False), (1, 1, False), (2, 2, True), (2, 4, True), (2, 5, False), (3, 6, True), (1, 8, False)],
)
def test_a_group_is_compared_by_two_at_least_and_half_of_what_no_fault_cut_short(known, sound, enough):
    assert comparable(known, sound) is enough
