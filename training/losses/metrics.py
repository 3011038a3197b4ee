"""Sums over tokens, which add up over micro-batches and ranks, and the metrics computed from them.

A name that ends in `_max` is a largest value and combines as such; all others add. "entropy/3" and "tokens/3"
are those of the step with index 3; they exist only if the objective has an entropy band.
"""

from collections.abc import Mapping
from math import nan

from training.distributed.ranks import ProcessGroup
from training.losses.correction import effective_share
from training.losses.history import entropies_in

Sums = Mapping[str, float]

_SHARES = ("clipped_low", "clipped_high", "clipped_dual")


def added(first: Sums, second: Sums) -> dict[str, float]:
    """Combine the sums of two micro-batches."""
    return {
        name: max(first.get(name, 0.0), second.get(name, 0.0))
        if _largest(name)
        else first.get(name, 0.0) + second.get(name, 0.0)
        for name in [*first, *(name for name in second if name not in first)]
    }


def over_ranks(sums: Sums, ranks: ProcessGroup) -> dict[str, float]:
    """Combine the sums of all ranks, with the result on every rank. Collective.

    A rank without a micro-batch passes `training.losses.objective.no_sums`.
    """
    indices = int(ranks.largest([entropies_in(sums)])[0])
    by_step = [f"{kind}/{index}" for index in range(indices) for kind in ("entropy", "tokens")]
    whole = {name: sums.get(name, 0.0) for name in sorted({*sums, *by_step})}
    sizes = [name for name in whole if _largest(name)]
    totals = [name for name in whole if not _largest(name)]
    return dict(zip(totals, ranks.sum([whole[name] for name in totals]), strict=True)) | dict(
        zip(sizes, ranks.largest([whole[name] for name in sizes]), strict=True)
    )


def summary(sums: Sums) -> dict[str, float]:
    """Metrics of an optimiser step; empty if it had no token. Means are over tokens.

    `kl` estimates KL(behaviour || policy) and `kl_reference` KL(policy || reference), both with k3 and never
    negative. `ratio_*` are of the surrogate's ratio. `ess` is the effective sample size, as a share of the
    tokens and in (0, 1], under the token ratios to the behaviour; `correction_ess` is that of the
    correction's weights. `correction_truncated` is the share of tokens whose weight was cut or masked,
    `behaviour_missing` the share without a behaviour log-probability. `loss_*` are the parts that sum to the
    loss.
    """
    n = sums.get("tokens", 0.0)
    if not n:
        return {}
    figures = {
        "ratio_mean": sums["ratio"] / n,
        "ratio_min": 1 / inverse if (inverse := sums["ratio_inverse_max"]) else nan,  # 0: all ratios are NaN
        "ratio_max": sums["ratio_max"],
        "kl": sums["kl"] / n,
        "entropy": sums["entropy"] / n,
        "ess": effective_share(sums["importance"], sums["importance_squared"], n),
        "behaviour_missing": sums["behaviour_missing"] / n,
    }
    figures |= {name: sums[name] / n for name in _SHARES if name in sums}
    if "kl_reference" in sums:
        figures["kl_reference"] = sums["kl_reference"] / n
    if "correction" in sums:
        figures["correction_truncated"] = sums["correction_truncated"] / n
        figures["correction_ess"] = effective_share(sums["correction"], sums["correction_squared"], n)
    return figures | {name: value for name, value in sums.items() if name.startswith("loss_")}


def _largest(name: str) -> bool:
    return name.endswith("_max")
