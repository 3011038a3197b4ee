"""Statistics for result tables, such as intervals and tests: pure functions of counts.

Sources: R. G. Newcombe, "Interval estimation for the difference between independent proportions: comparison
of eleven methods", Statistics in Medicine 17 (1998), method 10; Q. McNemar, Psychometrika 12 (1947), with the
exact conditional test in place of the chi-squared approximation; Student, Biometrika 6 (1908), with the
distribution function of Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4;
B. Efron, "Bootstrap methods", Annals of Statistics 7 (1979), over clusters. pass@k is equation 1 of Chen et
al., "Evaluating Large Language Models Trained on Code" (2021), pass^k that of Yao et al., "tau-bench" (2024).
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import atan, comb, cos, exp, hypot, pi, sin, sqrt
from statistics import fmean, stdev

from guiagent.intervals import CONFIDENCE, Interval, wilson


@dataclass(frozen=True, slots=True)
class Proportion:
    """`successes` of `n` trials. Without trials the rate is NaN and the interval [0, 1]."""

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


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a few repetitions and its confidence interval, which is None for fewer than two."""

    value: float
    interval: Interval | None
    n: int


def mean_of(values: Sequence[float], confidence: float = CONFIDENCE) -> Mean:
    """The mean with Student's t interval, which allows for the uncertain spread of a few repetitions.

    NaN without values.
    """
    n = len(values)
    if n < 2:
        return Mean(values[0] if values else float("nan"), None, n)
    mean = fmean(values)
    reach = student_quantile(n - 1, confidence) * stdev(values) / sqrt(n)
    return Mean(mean, Interval(mean - reach, mean + reach), n)


def student_quantile(freedom: int, confidence: float) -> float:
    """The t with P(|T| <= t) = `confidence` in Student's distribution, by bisection."""
    low, high = 0.0, 1.0
    while _student_within(high, freedom) < confidence:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_within(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2


def _student_within(t: float, freedom: int) -> float:
    """P(|T| <= t) for an integer number of degrees of freedom."""
    angle = atan(t / sqrt(freedom))
    odd = freedom % 2
    term = total = cos(angle) if odd else 1.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= (k - 1) / k * cos(angle) ** 2
        total += term
    if odd:
        return 2 / pi * (angle + (sin(angle) * total if freedom > 1 else 0.0))
    return sin(angle) * total


def newcombe(before: Proportion, after: Proportion, confidence: float = CONFIDENCE) -> Interval:
    """Interval of `after.rate - before.rate` from the two Wilson intervals ("square and add").

    It treats the samples as independent; for the same seeds before and after it is therefore rather too wide.
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

    Pairs with the same outcome twice carry no information about the difference and do not enter.
    """
    n, fewer = gained + lost, min(gained, lost)
    tail = sum(comb(n, k) for k in range(fewer + 1))
    return min(1.0, 2 * tail / (1 << n))


def pooled(parts: Iterable[Proportion]) -> Proportion:
    """Pool all trials into one sample: every episode has the same weight."""
    items = list(parts)
    return Proportion(sum(p.successes for p in items), sum(p.n for p in items))


def macro_mean(parts: Iterable[Proportion]) -> float:
    """The mean of the rates: every task has the same weight. NaN without a task that has trials."""
    rates = [p.rate for p in parts if p.n]
    return fmean(rates) if rates else float("nan")


def pass_at(k: int, successes: int, n: int) -> float:
    """Estimate the chance that one or more of `k` attempts succeed, from `successes` of `n` >= k attempts."""
    return 1.0 - comb(n - successes, k) / comb(n, k)


def pass_every(k: int, successes: int, n: int) -> float:
    """Estimate pass^k, the chance that all of `k` attempts succeed, from `successes` of `n` >= k attempts."""
    return comb(successes, k) / comb(n, k)


def clustered(parts: Sequence[Proportion], draws: int = 2000, confidence: float = CONFIDENCE) -> Interval:
    """Percentile interval of the pooled rate when whole clusters, such as tasks, are drawn with replacement.

    Episodes of one task resemble each other, so that this is wider than an interval over episodes. Draws are
    seeded: the same parts give the same interval. [0, 1] for fewer than two clusters.
    """
    items = [part for part in parts if part.n]
    if len(items) < 2:
        return Interval(0.0, 1.0)
    dice = random.Random(0)
    rates = sorted(pooled(dice.choices(items, k=len(items))).rate for _ in range(draws))
    cut = int(draws * (1 - confidence) / 2)
    return Interval(rates[cut], rates[draws - 1 - cut])


def local_rate(
    samples: Sequence[tuple[float, Proportion]], at: float, bandwidth: float
) -> tuple[float, Interval]:
    """The success rate around `at`, with its interval: a Gaussian-weighted mean of `(position, outcomes)`.

    This is the kernel estimate of E. A. Nadaraya and G. S. Watson (1964); the interval is Wilson's at the
    effective count (sum w)^2 / (sum w^2) of L. Kish (1965). NaN and [0, 1] if all weights are 0.
    """
    weights = [exp(-0.5 * ((position - at) / bandwidth) ** 2) for position, _ in samples]
    mass = sum(w * p.n for w, (_, p) in zip(weights, samples, strict=True))
    if mass == 0:
        return float("nan"), Interval(0.0, 1.0)
    hits = sum(w * p.successes for w, (_, p) in zip(weights, samples, strict=True))
    count = mass * mass / sum(w * w * p.n for w, (_, p) in zip(weights, samples, strict=True))
    rate = min(1.0, hits / mass)
    return rate, wilson(rate * count, count)
