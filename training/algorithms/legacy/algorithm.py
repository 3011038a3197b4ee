"""An algorithm: a few pure parts and their numbers. Imports no torch, so that a command line can list it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from guiagent.types import Trajectory
from training.replay import RescueAllFail

Aggregation = Literal["token_mean", "traj_mean_token_mean"]


@dataclass(frozen=True, kw_only=True)
class ClippedLoss:
    """The numbers of PPO's clipped objective; the formula is in `training.losses`.

    A ratio counts within `[1 - clip_low, 1 + clip_high]`. `dual_clip` bounds the loss of a token with a
    negative advantage by `-advantage * dual_clip` (arXiv 1912.09729); None leaves it unbounded.
    """

    clip_low: float
    clip_high: float
    dual_clip: float | None
    aggregation: Aggregation


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """How closed groups become a loss: `rescue` -> `reward` -> `advantage` -> `loss`.

    With `dynamic_sampling`, groups whose outcomes are all equal are dropped before anything else. `reward`
    gives None for a trajectory to mask; `advantage` maps one group's rewards to as many advantages.
    """

    name: str
    rescue: RescueAllFail | None
    dynamic_sampling: bool
    reward: Callable[[Trajectory], float | None]
    advantage: Callable[[Sequence[float | None]], list[float]]
    loss: ClippedLoss

    def advantages(self, members: Sequence[Trajectory]) -> list[float]:
        """One advantage per member of a group, in order; 0 for a masked one."""
        return self.advantage([self.reward(member) for member in members])
