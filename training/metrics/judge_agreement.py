"""Agreement of a judge with the tasks' own checks, which it never sees: counts of outcomes, and rates."""

from collections import deque
from dataclasses import dataclass

from guiagent.types import Trajectory

GAP = 0.05  # a larger gap of judged over true success means a gamed reward or a judge that has drifted


@dataclass
class Agreement:
    """Counts of episodes with both a verdict and an audit. A rate over no episodes is NaN."""

    true_positive: int = 0
    false_positive: int = 0
    false_negative: int = 0
    true_negative: int = 0

    def add(self, judged: bool, true: bool) -> None:
        if judged:
            self.true_positive += true
            self.false_positive += not true
        else:
            self.false_negative += true
            self.true_negative += not true

    @property
    def n(self) -> int:
        return self.true_positive + self.false_positive + self.false_negative + self.true_negative

    @property
    def judged_success(self) -> float:
        return _rate(self.true_positive + self.false_positive, self.n)

    @property
    def true_success(self) -> float:
        return _rate(self.true_positive + self.false_negative, self.n)

    @property
    def false_positive_rate(self) -> float:
        """Share of the true failures that were judged successes."""
        return _rate(self.false_positive, self.false_positive + self.true_negative)

    @property
    def false_negative_rate(self) -> float:
        """Share of the true successes that were judged failures."""
        return _rate(self.false_negative, self.true_positive + self.false_negative)


class GapMonitor:
    """Judged minus true success rate over the newest `window` audited episodes. It only reports.

    `gap` is None until the window is full.
    """

    def __init__(self, window: int = 512) -> None:
        self._excess: deque[int] = deque(maxlen=window)

    @property
    def gap(self) -> float | None:
        full = len(self._excess) == self._excess.maxlen
        return sum(self._excess) / len(self._excess) if full else None

    @property
    def opened(self) -> bool:
        return self.gap is not None and self.gap > GAP

    def add(self, judged: bool, true: bool) -> None:
        self._excess.append(judged - true)


def judged_and_true(trajectory: Trajectory) -> tuple[bool, bool] | None:
    """Return an episode's judged and true outcome; None if either is unknown, or without a judge."""
    audit = trajectory.audit
    if not trajectory.valid or audit is None or audit.value is None:
        return None
    return trajectory.success, audit.value >= 1


def _rate(count: int, n: int) -> float:
    return count / n if n else float("nan")
