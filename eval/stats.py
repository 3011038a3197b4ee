"""The formulas behind every figure in a result table: pure functions of counts.

Sources: R. G. Newcombe, "Interval estimation for the difference between independent proportions: comparison
of eleven methods", Statistics in Medicine 17 (1998), method 10; Q. McNemar, Psychometrika 12 (1947), with the
exact conditional test in place of the chi-squared approximation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb, exp, hypot
from statistics import fmean

from guiagent.intervals import CONFIDENCE, Interval, wilson


@dataclass(frozen=True, slots=True)
class Proportion:
    """`successes` of `n` trials. Without trials nothing is known: the rate is NaN, the interval [0, 1]."""

    successes: int
    n: int

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.n:
            raise ValueError(f"{self.successes} successes of {self.n} trials")

    @property
    def rate(self) -> float:
        return self.successes / self.n if self.n else float("nan")

    @property
    def interval(self) -> Interval:
        return wilson(self.successes, self.n)


def newcombe(before: Proportion, after: Proportion, confidence: float = CONFIDENCE) -> Interval:
    """Interval of `after.rate - before.rate` from the two Wilson intervals ("square and add").

    It treats the samples as independent, which for the same seeds before and after errs on the wide side.
    """
    if not before.n or not after.n:
        return Interval(-1.0, 1.0)
    b, a = wilson(before.successes, before.n, confidence), wilson(after.successes, after.n, confidence)
    difference = after.rate - before.rate
    return Interval(
        max(-1.0, difference - hypot(after.rate - a.low, b.high - before.rate)),
        min(1.0, difference + hypot(a.high - after.rate, before.rate - b.low)),
    )


def mcnemar_exact(gained: int, lost: int) -> float:
    """Two-sided p-value for paired outcomes: `gained` pairs went from failure to success, `lost` went back.

    Pairs with the same outcome twice say nothing about the difference and do not enter.
    """
    n, fewer = gained + lost, min(gained, lost)
    tail = sum(comb(n, k) for k in range(fewer + 1))
    return min(1.0, 2 * tail / (1 << n))


def pooled(parts: Iterable[Proportion]) -> Proportion:
    """All trials as one sample: every episode weighs the same."""
    items = list(parts)
    return Proportion(sum(p.successes for p in items), sum(p.n for p in items))


def macro_mean(parts: Iterable[Proportion]) -> float:
    """Mean of the rates: every task weighs the same. NaN without a task that has trials."""
    rates = [p.rate for p in parts if p.n]
    return fmean(rates) if rates else float("nan")


def local_rate(
    samples: Sequence[tuple[float, Proportion]], at: float, bandwidth: float
) -> tuple[float, Interval]:
    """Success rate around `at`, with its interval: a Gaussian-weighted mean of `(position, outcomes)`.

    The kernel estimate of E. A. Nadaraya and G. S. Watson (1964); the interval is Wilson's at the effective
    count (sum w)^2 / (sum w^2) of L. Kish (1965). NaN and [0, 1] where no weight falls.
    """
    weights = [exp(-0.5 * ((position - at) / bandwidth) ** 2) for position, _ in samples]
    mass = sum(w * p.n for w, (_, p) in zip(weights, samples, strict=True))
    if mass == 0:
        return float("nan"), Interval(0.0, 1.0)
    hits = sum(w * p.successes for w, (_, p) in zip(weights, samples, strict=True))
    count = mass * mass / sum(w * w * p.n for w, (_, p) in zip(weights, samples, strict=True))
    rate = min(1.0, hits / mass)
    return rate, wilson(rate * count, count)
