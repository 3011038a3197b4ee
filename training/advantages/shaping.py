"""Rewards and advantages reshaped by what happened on the way: progress, knowledge, certainty, length."""

from collections.abc import Sequence
from itertools import pairwise
from math import exp
from statistics import fmean


def progress_gains(progress: Sequence[float], reward: float) -> list[float]:
    """The outcome shared out over the steps: what each added to the estimated progress, the last adding what
    is missing to the `reward`. They sum to it.

    `progress` is the estimate after each step, in [0, 1]; before the first it is 0.

    Source: SPA-RL, arXiv 2505.20732, whose estimator is trained so that the contributions sum to the outcome.
    Ours do by construction, and there is no second term for actions that could not be executed.
    """
    known = [0.0, *progress[:-1], reward]
    return [after - before for before, after in pairwise(known)] if progress else []


def information_gains(answers: Sequence[float], reward: float) -> list[float]:
    """A reward for every turn: how much likelier it made the known answer; for the last one the outcome.

    `answers` holds one more probability than there are turns: the first is from before them.

    Source: IGPO, arXiv 2510.14967.
    """
    gains = [after - before for before, after in pairwise(answers)]
    return [*gains[:-1], reward] if gains else []


def entropy_modulated(
    advantages: Sequence[float | None],
    entropies: Sequence[Sequence[float]],
    *,
    k: float = 1.0,
    k_future: float = 1.0,
    zeta: float = 0.05,
) -> list[list[float]]:
    """Larger steps where the policy was sure, smaller ones where it was not, and a bonus for coming to know.

    With H the step's mean token entropy, scaled over all steps to [0, 1]:

        A_t = A g(H_t) + zeta f(H_{t+1}), less the mean over all steps
        g(H) = exp(-k H) / mean(exp(-k H)),   self-calibrating: its mean is 1
        f(H) = exp(-k_future H),              future clarity; none after the last step

    An advantage of None is a masked member's: it enters no statistic, its steps get 0. Where no advantage
    differs from 0 all is 0: the bonus alone would reward certainty, whatever it is certain of.

    Source: EMPG, arXiv 2509.09265 eq. 7 to 12, where scaling and means are over the batch; here over the
    group.
    """
    counted = [steps if a is not None else () for a, steps in zip(advantages, entropies, strict=True)]
    pool = [entropy for steps in counted for entropy in steps]
    if not pool or not any(advantages):
        return [[0.0] * len(steps) for steps in entropies]
    low, high = min(pool), max(pool)
    span = (high - low) or 1.0
    scaled = [[(entropy - low) / span for entropy in steps] for steps in counted]
    calibration = fmean(exp(-k * h) for steps in scaled for h in steps)

    def modulated(advantage: float, steps: Sequence[float]) -> list[float]:
        bonuses = [*(zeta * exp(-k_future * h) for h in steps[1:]), 0.0]
        return [
            advantage * exp(-k * h) / calibration + bonus
            for h, bonus in zip(steps, bonuses, strict=False)  # no step, no bonus
        ]

    raw = [modulated(advantage or 0.0, steps) for advantage, steps in zip(advantages, scaled, strict=True)]
    mean = fmean(a for steps in raw for a in steps)
    return [
        [a - mean for a in steps] if advantage is not None else [0.0] * len(seen)
        for advantage, steps, seen in zip(advantages, raw, entropies, strict=True)
    ]


def length_decay(
    rewards: Sequence[float | None], lengths: Sequence[int], *, eta: float = 0.9
) -> list[float | None]:
    """A success is worth `eta^((T - Tmin) / Tmin)` of its reward, Tmin being the group's shortest success.

    Source: UI-Venus-1.5's reward.
    """
    least = _shortest(rewards, lengths)
    return [
        reward * eta ** ((length - least) / least) if reward is not None and reward > 0 else reward
        for reward, length in zip(rewards, lengths, strict=True)
    ]


def shortest_path(
    rewards: Sequence[float | None], lengths: Sequence[int], *, alpha: float
) -> list[float | None]:
    """A success is worth `1 - alpha (T - Tmin) / T` of its reward, Tmin being the group's shortest success.

    Source: the shortest-path reward adjustment of AdaGRPO, MobileRL, arXiv 2509.18119.
    """
    least = _shortest(rewards, lengths)
    return [
        reward * (1 - alpha * (length - least) / length) if reward is not None and reward > 0 else reward
        for reward, length in zip(rewards, lengths, strict=True)
    ]


def _shortest(rewards: Sequence[float | None], lengths: Sequence[int]) -> int:
    """Length of the shortest success, at least 1."""
    successes = [
        length for reward, length in zip(rewards, lengths, strict=True) if reward is not None and reward > 0
    ]
    return max(1, min(successes, default=1))
