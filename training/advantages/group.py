"""Advantages relative to the group: against its mean, its deviation, or the other members."""

from collections.abc import Iterator, Sequence
from itertools import islice
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


def leave_one_out(rewards: Sequence[float | None]) -> list[float]:
    """Each reward against the mean of the *other* members'; 0 where there is no other.

    Source: RLOO, arXiv 2402.14740: n / (n - 1) times the distance from the group's mean.
    """
    n = sum(reward is not None for reward in rewards)
    scale = n / (n - 1) if n > 1 else 0.0
    return [scale * advantage for advantage in group_advantages(rewards, std="none")]


def step_weighted_advantages(
    rewards: Sequence[float | None], steps: Sequence[int], *, std: Std = "sample", eps: float = 1e-6
) -> list[float]:
    """Group advantages whose mean and deviation count a trajectory once for every one of its `steps`.

    What a pipeline computes that cuts trajectories into steps before it takes statistics: DART's A_ij, arXiv
    2509.23866. They sum to 0 over steps, not over trajectories. A trajectory without steps gets 0.
    """
    per_step = [reward for reward, count in zip(rewards, steps, strict=True) for _ in range(count)]
    flat = iter(group_advantages(per_step, std=std, eps=eps))
    return [next(iter(part), 0.0) for part in _parts(flat, steps)]


def pooled_advantages(
    rewards: Sequence[Sequence[float] | None], *, std: Std = "sample", eps: float = 1e-6
) -> list[list[float]]:
    """Rewards of steps against those of all steps of the group alike. A member of None is masked: no
    steps."""
    lengths = [len(steps or ()) for steps in rewards]
    pool = [reward for steps in rewards for reward in steps or ()]
    return list(_parts(iter(group_advantages(pool, std=std, eps=eps)), lengths))


def on_every_step(advantages: Sequence[float], steps: Sequence[int]) -> list[list[float]]:
    """A trajectory's advantage copied to each of its steps."""
    return [[advantage] * count for advantage, count in zip(advantages, steps, strict=True)]


def _parts(flat: Iterator[float], lengths: Sequence[int]) -> Iterator[list[float]]:
    return (list(islice(flat, length)) for length in lengths)
