"""What a trajectory is worth: its outcome, and what the trainer makes of it."""

from guiagent.types import Trajectory


def outcome(trajectory: Trajectory) -> float | None:
    """The score's value in [0, 1]; None where a fault or an unknown score says nothing about the policy."""
    if not trajectory.valid or trajectory.score is None:
        return None
    return trajectory.score.value


def comparable(known: int, sound: int) -> bool:
    """Whether the outcomes of a group can be compared: `known` of its `sound` members, those that no fault
    cut short. Two at least; and half of them, since those that a judge can judge are no fair sample."""
    return known >= max(2, sound / 2)


def shaped_reward(trajectory: Trajectory, format_weight: float = 0.5) -> float | None:
    """The outcome, less `format_weight` where the last step's text could not be read as an action.

    Source: ARPO, arXiv 2505.16282 (`r = eval + 0.5 format`, format in {0, -1}).
    """
    value = outcome(trajectory)
    if value is None:
        return None
    unreadable = bool(trajectory.steps) and trajectory.steps[-1].policy.error is not None
    return value - format_weight * unreadable
