"""What a trajectory is worth."""

import pytest

from guiagent.errors import Fault
from guiagent.types import PolicyStep, Score, Step, Trajectory
from rewards.proposals import comparable
from training.reward import outcome, shaped_reward


def trajectory(value: float | None, *errors: str | None, fault: Fault | None = None) -> Trajectory:
    """One with a step per error; None is a step that was understood."""
    steps = [Step("", 1, 1, PolicyStep("text", error=error)) for error in errors]
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
