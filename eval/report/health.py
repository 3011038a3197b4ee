"""The report's section on a run's health: what of it could teach, and the time of devices and engine."""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from statistics import fmean
from typing import Any

from eval.report.curve import rate_curves
from eval.report.page import filled
from eval.report.table import percent
from eval.stats import Proportion

_SIZES = {"wide-only": (1016, 260), "narrow": (380, 230)}


def _number(value: float) -> str:
    return f"{value:.2f}"


_FIGURES: Sequence[tuple[str, tuple[str, ...], Callable[[float], str]]] = (
    ("Groups with successes and failures", ("health", "mixed"), percent),
    ("Groups without a success", ("health", "all_fail"), percent),
    ("Episodes that taught: they had an advantage", ("health", "taught"), percent),
    ("Episodes that ended in text that is no action", ("health", "parse_errors"), percent),
    ("Entropy of a sampled token", ("health", "entropy"), _number),
    ("Effective sample size, as a share of the tokens", ("health", "effective_samples"), percent),
    ("Least ratio to the policy that sampled", ("health", "least_ratio"), _number),
    ("Greatest ratio", ("health", "greatest_ratio"), _number),
    ("Staleness, in policy versions", ("health", "staleness"), _number),
    ("Devices at an episode, of their time", ("device_utilisation",), percent),
    ("Devices at an episode that taught, of their time", ("useful_device_utilisation",), percent),
    ("Trainer learning, of its time", ("trainer_utilisation",), percent),
    ("Engine with a completion in progress, of its time", ("engine_busy_share",), percent),
    ("Engine's CPU seconds a second", ("engine_cpu_share",), _number),
    ("Memory of the trainer's process, MB", ("memory_mb",), "{:,.0f}".format),
)


def health_section(updates: Sequence[Mapping[str, Any]]) -> str:
    """The section as HTML, from a run's lines of metrics; "" if none of them says how the run fared."""
    known = [line for line in updates if line.get("health")]
    if not known:
        return ""
    series = {
        "mixed": [(line["step"], _share(line, "mixed", "groups")) for line in known],
        "parse-errors": [(line["step"], _share(line, "parse_errors", "episodes")) for line in known],
    }
    label = "Mixed groups and parse errors over the updates"
    curves = "".join(
        f'<div class="{name}">{rate_curves(series, label, size)}</div>' for name, size in _SIZES.items()
    )
    rows = "".join(_row(label, values, form) for label, values, form in _tabled(known))
    vain = sum(line["health"].get("taught") in (0, None) for line in known)
    return filled("health.html", curves=curves, rows=rows, updates=f"{len(known):,}", vain=f"{vain:,}")


def _tabled(
    lines: Sequence[Mapping[str, Any]],
) -> list[tuple[str, list[float | None], Callable[[float], str]]]:
    return [(label, [_at(line, path) for line in lines], form) for label, path, form in _FIGURES]


def _row(label: str, values: Sequence[float | None], form: Callable[[float], str]) -> str:
    """A figure's mean over the first and the last fifth of the updates, and its extremes; "–" if unknown."""
    part = max(1, len(values) // 5)
    known = [value for value in values if value is not None]
    cells = [_mean(values[:part]), _mean(values[-part:]), min(known, default=None), max(known, default=None)]
    written = "".join(f"<td>{'–' if value is None else form(value)}</td>" for value in cells)
    return f'<tr><th scope="row">{label}</th>{written}</tr>'


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _at(line: Mapping[str, Any], path: Sequence[str]) -> float | None:
    value: Any = line
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _share(line: Mapping[str, Any], name: str, of: str) -> Proportion:
    """A share among so many groups or episodes, as counts; of none if it is not known."""
    share, n = _at(line, ("health", name)), int(_at(line, ("health", of)) or 0)
    return Proportion(0, 0) if share is None else Proportion(min(n, round(share * n)), n)
