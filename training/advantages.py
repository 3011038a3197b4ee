"""Advantage estimators: plain numbers in, plain numbers out, one group at a time."""

from collections.abc import Sequence
from statistics import fmean, pstdev, stdev
from typing import Literal

Std = Literal["sample", "population", "none"]


def group_advantages(
    rewards: Sequence[float | None], *, std: Std = "sample", eps: float = 1e-6
) -> list[float]:
    """How much better each member of a group did than the group: `(r - mean) / (std + eps)`.

    A reward of None is a rollout that says nothing about the policy (a fault, an unknown score): it enters
    no statistic and its advantage is 0. Equal rewards, or a single one, teach nothing: their advantages are
    exactly 0, never NaN. `std` "none" only subtracts the mean (Dr. GRPO, arXiv 2503.20783).

    Source: GRPO, arXiv 2402.03300 eq. 4.
    """
    known = [reward for reward in rewards if reward is not None]
    if not known or min(known) == max(known):
        return [0.0] * len(rewards)
    mean = fmean(known)
    match std:
        case "sample":
            scale = stdev(known) + eps
        case "population":
            scale = pstdev(known) + eps
        case "none":
            scale = 1.0
    return [0.0 if reward is None else (reward - mean) / scale for reward in rewards]
