"""Input and output of the losses: the sampled tokens of one micro-batch as flat tensors, without padding."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """The N tokens that the policy sampled in one micro-batch, trajectory after trajectory, turn after turn.

    They are those of whole trajectories, so a mean over a turn or a trajectory can be computed here. If a
    long trajectory is divided over micro-batches, `own` are the tokens that this one computed; the others
    have no gradient and weight 0, and count in no sum.
    `weights` carries the aggregation of the whole optimiser step: the gradients of the micro-batches, and of
    the ranks, add up, however the step was split.

    `behaviour` is NaN where the engine reported no log-probability. `proximal` is the policy at the start of
    the step (log-probabilities recomputed before its first update), `reference` a frozen or slowly moved one.
    """

    logprobs: Tensor  # [N] float, log pi_theta, with gradient
    entropy: (
        Tensor  # [N] float, nats, of the distribution each token was drawn from; with gradient if asked for
    )
    behaviour: Tensor  # [N] float, log-probability under the sampling policy, as the engine reported it
    advantages: Tensor  # [N] float, a step's advantage on each of its tokens
    weights: Tensor  # [N] float, weight of each token in the step's loss (training.losses.aggregation)
    turns: Tensor  # [N] long, index of the turn within the micro-batch, not decreasing
    trajectories: Tensor  # [N] long, index of the trajectory within the micro-batch, not decreasing
    steps: Tensor  # [N] long, index of the turn within its trajectory: 0 for the first
    proximal: Tensor | None = None  # [N] float
    reference: Tensor | None = None  # [N] float
    desirable: Tensor | None = None  # [N] float: +1 on tokens of steps labelled good, -1 bad, 0 unlabelled
    own: Tensor | None = None  # long, indices of the tokens that this micro-batch computed; None: of all N


@dataclass(frozen=True)
class Loss:
    """A micro-batch's share of the step's loss, and sums over its tokens that add up across micro-batches."""

    value: Tensor  # scalar, with gradient
    sums: dict[str, float]
