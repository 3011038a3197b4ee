"""Token weights in the loss of an optimiser step, which do not depend on its split into micro-batches."""

from dataclasses import dataclass

import torch
from torch import Tensor

from training.config import Aggregation
from training.losses.segments import firsts, sums


@dataclass(frozen=True, kw_only=True)
class Totals:
    """The size of an optimiser step, over all of its micro-batches and ranks.

    It counts every trajectory that is not masked, also one whose advantages are all 0 and that is left out of
    the forward pass: it adds nothing to the loss, but the loss is a mean over it too. Turns and trajectories
    without a sampled token are not counted.
    """

    tokens: int
    turns: int
    trajectories: int


def token_weights(
    turns: Tensor, trajectories: Tensor, totals: Totals, aggregation: Aggregation, longest: int = 1
) -> Tensor:
    """[N] float: the weight of each token of a micro-batch; weighted losses of all micro-batches add up to
    the step's.

    `turns` and `trajectories` [N] are indices that do not decrease; a micro-batch holds whole trajectories.
    `longest` is the most tokens a trajectory can have, for "token_sum" only. The weights of a whole step sum
    to 1 under every aggregation but that one.
    """
    one = torch.ones(len(turns), device=turns.device)
    match aggregation:
        case "token_mean":
            return one / max(totals.tokens, 1)
        case "turn_mean_token_mean":
            return one / sums(one, turns) / max(totals.turns, 1)
        case "traj_mean_token_mean":
            return one / sums(one, trajectories) / max(totals.trajectories, 1)
        case "traj_mean_turn_mean_token_mean":
            turns_of_trajectory = sums(firsts(turns).float(), trajectories)
            return one / sums(one, turns) / turns_of_trajectory / max(totals.trajectories, 1)
        case "token_sum":
            return one / (max(totals.trajectories, 1) * longest)
