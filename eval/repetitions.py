"""Repetitions of an evaluation: the same tasks and seeds played again, and what varies between them.

An episode that a fault left without a verdict counts as a failure, as in the headline rate.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from eval.results import EpisodeResult, SuiteResult
from eval.stats import Proportion, clustered, pass_at, pass_every, pooled
from guiagent.intervals import Interval


@dataclass(frozen=True, slots=True)
class Half:
    """Figures of one half of a suite (training tasks or unseen ones) over all repetitions.

    Attributes:
        rates: success rate of each repetition.
        interval: of the mean rate, with tasks drawn with replacement.
        at_least_one, every_one: mean over tasks and seeds of pass@k and pass^k for k = 1, 2, ... repetitions.
    """

    rates: tuple[float, ...]
    interval: Interval
    at_least_one: tuple[float, ...]
    every_one: tuple[float, ...]

    @property
    def mean(self) -> float:
        return fmean(self.rates)

    @property
    def half_range(self) -> float:
        """Half of the distance between the best repetition and the worst."""
        return (max(self.rates) - min(self.rates)) / 2


@dataclass(frozen=True, slots=True)
class Effort:
    """What a success took, over all episodes: those that failed are paid for, too.

    Each is None without a success; tokens also where no server told them.
    """

    steps: float | None
    seconds: float | None
    tokens: float | None
    tokens_out: float | None = None  # of its replies alone


@dataclass(frozen=True, slots=True)
class Prices:
    """What a million tokens of prompts and of replies cost, in any currency."""

    tokens_in: float = 0.0
    tokens_out: float = 0.0

    def of(self, effort: Effort) -> float | None:
        """What a success cost; None if its tokens are not known. A prompt's token is paid for once."""
        if effort.tokens is None or effort.tokens_out is None:
            return None
        prompts = effort.tokens - effort.tokens_out
        return (prompts * self.tokens_in + effort.tokens_out * self.tokens_out) / 1e6


@dataclass(frozen=True, slots=True)
class Repetitions:
    """Results of the same policy on the same tasks and seeds of a suite, at least one.

    Raises ValueError if they are of different suites, or of different tasks and seeds.
    """

    runs: tuple[SuiteResult, ...]

    def __post_init__(self) -> None:
        played = {(run.suite.digest, *((e.task, e.seed) for e in run.episodes)) for run in self.runs}
        if len(played) != 1:
            raise ValueError("repetitions are of the same suite, tasks and seeds")

    def half(self, trained: bool) -> Half | None:
        """Figures of the training tasks, or of the unseen ones; None if the suite has no such tasks."""
        suite = self.runs[0].suite
        names = suite.train_tasks if trained else suite.unseen_tasks
        if not names:
            return None
        count = len(self.runs)
        hits = Counter({(e.task, e.seed): 0 for e in self.runs[0].episodes if e.task in names})
        for episode in self._episodes():
            if episode.task in names and episode.outcome == "success":
                hits[episode.task, episode.seed] += 1
        tasks = [[won for (task, _), won in hits.items() if task == name] for name in names]
        return Half(
            rates=tuple(run.pooled(trained).scheduled.rate for run in self.runs),
            interval=clustered([Proportion(sum(won), count * len(won)) for won in tasks]),
            at_least_one=tuple(
                fmean(pass_at(k, won, count) for won in hits.values()) for k in range(1, count + 1)
            ),
            every_one=tuple(
                fmean(pass_every(k, won, count) for won in hits.values()) for k in range(1, count + 1)
            ),
        )

    @property
    def stops(self) -> Counter[str]:
        """How often episodes ended for each reason."""
        return Counter(episode.stop for episode in self._episodes())

    @property
    def effort(self) -> Effort:
        episodes = list(self._episodes())
        won = pooled(run.pooled(half).scheduled for run in self.runs for half in (True, False)).successes
        if not won:
            return Effort(None, None, None)
        tokens, replies = sum(e.tokens for e in episodes), sum(e.tokens_out for e in episodes)
        return Effort(
            steps=sum(e.steps for e in episodes) / won,
            seconds=sum(e.seconds for e in episodes) / won,
            tokens=tokens / won if tokens else None,
            tokens_out=replies / won if tokens else None,
        )

    def _episodes(self) -> Iterator[EpisodeResult]:
        for run in self.runs:
            yield from run.episodes


def repetitions_json(found: Repetitions, prices: Prices | None = None) -> dict[str, Any]:
    """The figures for programs."""
    effort = found.effort
    cost = prices.of(effort) if prices else None
    return {
        "runs": len(found.runs),
        "train": _half_json(found.half(trained=True)),
        "unseen": _half_json(found.half(trained=False)),
        "stops": dict(found.stops),
        "per_success": {
            "steps": effort.steps,
            "seconds": effort.seconds,
            "tokens": effort.tokens,
            "tokens_out": effort.tokens_out,
            "cost": cost,
        },
    }


def _half_json(half: Half | None) -> dict[str, Any] | None:
    if half is None:
        return None
    return {
        "rates": half.rates,
        "mean": half.mean,
        "half_range": half.half_range,
        "by_task": [half.interval.low, half.interval.high],
        "pass_at": half.at_least_one,
        "pass_every": half.every_one,
    }
