"""Importance weights for samples of an engine or policy other than the one a step begins with."""

from typing import NamedTuple

import torch
from torch import Tensor

from training.algorithms.algorithm import Correction
from training.losses.ratio import MAX_LOG_RATIO
from training.losses.segments import sums


class Corrected(NamedTuple):
    """All [N]."""

    weights: Tensor  # float, in [0, cap]; without gradient
    changed: Tensor  # bool: cut at the cap, or masked
    missing: Tensor  # bool: no behaviour log-probability; counts as on policy


def corrected(
    proximal: Tensor, behaviour: Tensor, turns: Tensor, trajectories: Tensor, config: Correction
) -> Corrected:
    """`w = proximal / behaviour`, with the *product* over the turn's or trajectory's tokens at those levels.

    "truncate" is `min(w, cap)` (TIS), "mask" sets to 0 what is outside [1 / cap, cap] (MIS). Nothing here has
    a gradient. Sources: decoupled PPO, arXiv 2110.00641; DART, arXiv 2509.23866, cap 1.
    """
    missing = behaviour.isnan()
    logs = torch.where(missing, 0.0, proximal - behaviour).detach()
    match config.level:
        case "token":
            pass
        case "turn":
            logs = sums(logs, turns)
        case "sequence":
            logs = sums(logs, trajectories)
    weights = logs.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    match config.kind:
        case "truncate":
            return Corrected(weights.clamp(max=config.cap), weights > config.cap, missing)
        case "mask":
            outside = (weights > config.cap) | (weights < 1 / config.cap)
            return Corrected(torch.where(outside, 0.0, weights), outside, missing)


def effective_share(total: float, squares: float, n: float) -> float:
    """The effective sample size of n weights as a share of n, `(sum w)^2 / (n sum w^2)`; 0 where all are 0.

    Source: L. Kish, "Survey Sampling", 1965.
    """
    return total**2 / (n * squares) if squares else 0.0
