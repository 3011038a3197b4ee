"""The policy-gradient loss, token by token, and the figures that say whether to trust a step.

Shapes: B rows of T tokens. A row is one whole trajectory; `mask` is True on the tokens the policy sampled.
"""

from dataclasses import dataclass, fields
from math import isnan
from typing import Self

import torch
from torch import Tensor

from training.algorithms.legacy import ClippedLoss

MAX_LOG_RATIO = 20.0  # e^20 is finite in float32; a token further off has no gradient


@dataclass(frozen=True, kw_only=True)
class LossInputs:
    """One micro-batch, and the size of the optimiser step it is a part of.

    The totals count over every micro-batch and rank of the step, so the gradients of the parts simply add
    up to that of the whole, however it was split. They include what need not be computed: a trajectory
    whose advantage is 0 adds exactly 0 to the loss and may be left out of every micro-batch, but not out of
    the totals.
    """

    logprobs: Tensor  # [B, T] float, log pi_theta of the sampled tokens, with gradient
    behaviour_logprobs: Tensor  # [B, T] float, the same under the policy that sampled them
    advantages: Tensor  # [B] float
    mask: Tensor  # [B, T] bool
    total_tokens: int  # sampled tokens in the step
    total_trajectories: int  # trajectories with at least one sampled token in the step
    entropy: Tensor | None = None  # [B, T] float, in nats; only reported


@dataclass(frozen=True)
class LossMetrics:
    """Sums over sampled tokens, which add across micro-batches; `summary` makes the figures of them."""

    tokens: float = 0.0
    ratio: float = 0.0
    ratio_squared: float = 0.0
    ratio_max: float = 0.0
    clipped_low: float = 0.0
    clipped_high: float = 0.0
    clipped_dual: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0

    def __add__(self, other: Self) -> Self:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        sums["ratio_max"] = max(self.ratio_max, other.ratio_max)
        return type(self)(**sums)

    def summary(self) -> dict[str, float]:
        """Means over tokens; empty where there were none, and no `entropy` where it was not given.

        `kl` estimates KL(behaviour || current) with k3, `(r - 1) - log r` (Schulman, "Approximating KL
        divergence", 2020). `ess` is the effective share of the sample, `(sum r)^2 / (n sum r^2)`, in (0, 1].
        """
        n = self.tokens
        if not n:
            return {}
        means = {
            "ratio_mean": self.ratio / n,
            "ratio_max": self.ratio_max,
            "clipped_low": self.clipped_low / n,
            "clipped_high": self.clipped_high / n,
            "clipped_dual": self.clipped_dual / n,
            "kl": self.kl / n,
            "ess": self.ratio**2 / (n * self.ratio_squared),
        }
        return means if isnan(self.entropy) else means | {"entropy": self.entropy / n}


@dataclass(frozen=True)
class LossOutputs:
    loss: Tensor  # scalar, this micro-batch's share of the step's loss
    metrics: LossMetrics


def policy_loss(inputs: LossInputs, config: ClippedLoss) -> LossOutputs:
    """PPO's clipped objective over the sampled tokens, with clip-higher and dual clip.

    Per token, with r = pi_theta / pi_behaviour: `max(-r A, -clamp(r, 1 - low, 1 + high) A)`, and for A < 0 at
    most `-A dual`. "token_mean" gives every token of the step the same weight; "traj_mean_token_mean" every
    trajectory. What the mask hides, NaN included, changes neither loss nor gradient.

    Sources: PPO, arXiv 1707.06347 eq. 7; clip-higher and token mean, DAPO, arXiv 2503.14476; dual clip, arXiv
    1912.09729 eq. 5.
    """
    mask = inputs.mask
    log_ratio = torch.where(mask, inputs.logprobs.float() - inputs.behaviour_logprobs.float(), 0.0)
    log_ratio = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    ratio = log_ratio.exp()
    advantages = inputs.advantages.float().unsqueeze(1)  # [B, 1]

    clipped = ratio.clamp(1 - config.clip_low, 1 + config.clip_high)
    losses = torch.maximum(-ratio * advantages, -clipped * advantages)
    if config.dual_clip is not None:
        bounded = torch.minimum(losses, -advantages * config.dual_clip)
        losses = torch.where(advantages < 0, bounded, losses)

    loss = (losses * mask * _token_weights(inputs, config)).sum()
    with torch.no_grad():
        metrics = _metrics(inputs, config, log_ratio, ratio, advantages)
    return LossOutputs(loss, metrics)


def _token_weights(inputs: LossInputs, config: ClippedLoss) -> Tensor:
    """What a token of each row weighs in the step's loss: [B, 1]."""
    match config.aggregation:
        case "token_mean":
            return torch.full_like(inputs.advantages, 1 / max(inputs.total_tokens, 1)).float().unsqueeze(1)
        case "traj_mean_token_mean":
            lengths = inputs.mask.sum(dim=1, keepdim=True).clamp(min=1)
            return 1.0 / (lengths * max(inputs.total_trajectories, 1))


def _metrics(
    inputs: LossInputs, config: ClippedLoss, log_ratio: Tensor, ratio: Tensor, advantages: Tensor
) -> LossMetrics:
    unknown = torch.full_like(ratio, torch.nan)
    dual = torch.inf if config.dual_clip is None else config.dual_clip
    per_token = {
        "tokens": torch.ones_like(ratio),
        "ratio": ratio,
        "ratio_squared": ratio**2,
        "clipped_low": (advantages < 0) & (ratio < 1 - config.clip_low),
        "clipped_high": (advantages > 0) & (ratio > 1 + config.clip_high),
        "clipped_dual": (advantages < 0) & (ratio > dual),
        "kl": log_ratio.expm1() - log_ratio,
        "entropy": unknown if inputs.entropy is None else inputs.entropy,
    }
    sums = [torch.where(inputs.mask, values.double(), 0.0).sum() for values in per_token.values()]
    ratio_max = torch.where(inputs.mask, ratio, 0.0).amax().double()
    *totals, largest = torch.stack([*sums, ratio_max]).tolist()  # one transfer from the device
    return LossMetrics(**dict(zip(per_token, totals, strict=True)), ratio_max=largest)
