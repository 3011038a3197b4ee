"""Means over seeds and changes of them, with their intervals: as plain text, as HTML, and as JSON."""

from math import isnan
from typing import Any

from eval.report.page import in_points
from eval.report.table import percent, span
from eval.stats import Mean
from guiagent.intervals import Interval


def rate(mean: Mean) -> str:
    """A rate as HTML, its interval in small figures."""
    return percent(mean.value) + (
        f" <small>{span(_within(mean.interval, 0.0))}</small>" if mean.interval else ""
    )


def change(mean: Mean | None) -> str:
    """A change in points as HTML, coloured only if its interval leaves out zero."""
    if mean is None or isnan(mean.value):
        return "–"
    if mean.interval is None:
        return in_points(mean.value)
    interval = _within(mean.interval, -1.0)
    direction = "up" if interval.low > 0 else "down" if interval.high < 0 else "same"
    bounds = f"{in_points(interval.low)} to {in_points(interval.high)}"
    return f'<span class="{direction}">{in_points(mean.value)}</span> <small>{bounds}</small>'


def plain(mean: Mean) -> str:
    """A rate as text."""
    return percent(mean.value) + (f" ({span(_within(mean.interval, 0.0))})" if mean.interval else "")


def plain_points(mean: Mean | None) -> str:
    """A change in points as text."""
    if mean is None or isnan(mean.value):
        return "–"
    if mean.interval is None:
        return in_points(mean.value)
    interval = _within(mean.interval, -1.0)
    return f"{in_points(mean.value)} ({in_points(interval.low)} to {in_points(interval.high)})"


def _within(interval: Interval, least: float) -> Interval:
    """Clip an interval to [least, 1]: Student's interval may leave the range of a rate or difference."""
    return Interval(max(least, interval.low), min(1.0, interval.high))


def mean_json(mean: Mean | None) -> dict[str, Any] | None:
    if mean is None:
        return None
    bounds = [mean.interval.low, mean.interval.high] if mean.interval else None
    return {"mean": mean.value, "interval": bounds, "n": mean.n}
