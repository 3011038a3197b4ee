"""What an objective remembers from one optimiser step to the next; the caller keeps and saves it."""

from collections.abc import Mapping
from typing import TypedDict

import torch
from torch import Tensor


class History(TypedDict):
    """JSON as it is. Every micro-batch and rank of a step is given the same one."""

    updates: int  # optimiser steps so far
    kl: float  # per turn, of the last step from the reference: KTO's z0 is beta times this
    entropy: list[tuple[float, float]]  # by step index: sum over all tokens so far, and how many


def no_history() -> History:
    return {"updates": 0, "kl": 0.0, "entropy": []}


def remembered(history: History, sums: Mapping[str, float]) -> History:
    """The history after a step, from the sums of all its micro-batches and ranks.

    KTO's z0 is thereby the step before's: it can then be the same for every part of a step, and needs no
    pairs of prompt and foreign answer.
    """
    entropy = list(history["entropy"])
    for index in range(entropies_in(sums)):
        past = entropy[index] if index < len(entropy) else (0.0, 0.0)
        new = (sums[f"entropy/{index}"], sums[f"tokens/{index}"])
        entropy[index : index + 1] = [(past[0] + new[0], past[1] + new[1])]
    turns = sums.get("turns", 0.0)
    kl = max(0.0, sums["turn_kl"] / turns) if turns else history["kl"]
    return {"updates": history["updates"] + 1, "kl": kl, "entropy": entropy}


def usual_entropy(history: History, steps: Tensor) -> Tensor:
    """[N] float: the mean entropy so far of each token's step; NaN where there is none."""
    means = [total / n if n else torch.nan for total, n in history["entropy"]]
    known = torch.tensor([*means, torch.nan], device=steps.device)
    return known[steps.clamp(max=len(means))]


def entropies_in(sums: Mapping[str, float]) -> int:
    """Of how many step indices the entropy was summed up: they are 0, 1, 2 ... without a gap."""
    return sum(name.startswith("entropy/") for name in sums)
