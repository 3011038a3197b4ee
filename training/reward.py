"""What a trajectory is worth: its outcome, and what the trainer makes of it."""

from guiagent.types import Trajectory


def outcome(trajectory: Trajectory) -> float | None:
    """The score's value in [0, 1]; None where a fault or an unknown score says nothing about the policy."""
    if not trajectory.valid or trajectory.score is None:
        return None
    return trajectory.score.value


def shaped_reward(trajectory: Trajectory, format_weight: float = 0.5) -> float | None:
    """The outcome, less `format_weight` where the last step's text could not be read as an action.

    Source: ARPO, arXiv 2505.16282 (`r = eval + 0.5 format`, format in {0, -1}).
    """
    value = outcome(trajectory)
    if value is None:
        return None
    unreadable = bool(trajectory.steps) and trajectory.steps[-1].policy.error is not None
    return value - format_weight * unreadable
