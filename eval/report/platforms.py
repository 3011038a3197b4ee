"""The report's section on the platforms of a run: what each gave to it, and when one was lost."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import isfinite
from statistics import fmean
from typing import Any

from msgspec.structs import replace

from eval.report.curve import CurvePoint, small_curve, training_curve
from eval.report.page import filled
from eval.report.table import percent
from guiagent.types import Trajectory

_CURVE_SIZE = (320, 150)


def platform_section(updates: Sequence[Mapping[str, Any]], rolled_out: Iterable[Trajectory]) -> str:
    """The section as HTML, from a run's lines of metrics and its training episodes.

    "" for a run with one kind of device.
    """
    lines = [found for line in updates if isinstance(found := line.get("platforms"), Mapping) and found]
    if not lines:
        return ""
    names = list(dict.fromkeys(name for line in lines for name in line))
    of = {name: [line[name] for line in lines if isinstance(line.get(name), Mapping)] for name in names}
    all_groups = sum(_sum(figures, "groups") for figures in of.values())
    rows = "".join(_row(name, figures, all_groups) for name, figures in of.items())
    said = "".join(
        f'<p class="about">{escape(str(reason))}</p>'
        for figures in of.values()
        for reason in dict.fromkeys(one.get("lost") for one in figures if one.get("lost"))
    )
    return filled("platforms.html", rows=rows, lost=said, curves=_curves(names, rolled_out))


def _curves(names: Sequence[str], rolled_out: Iterable[Trajectory]) -> str:
    """A learning curve for each platform, over the episodes of all of them."""
    points = training_curve(replace(one, task=one.platform) for one in rolled_out)
    return "".join(_curve(name, points) for name in names)


def _curve(name: str, points: Sequence[CurvePoint]) -> str:
    count = sum(point.n for point in points if point.task == name)
    return (
        f"<figure><figcaption><b>{escape(name)}</b><span>{count:,}</span></figcaption>"
        f"{small_curve(points, name, _CURVE_SIZE)}</figure>"
    )


def _row(name: str, figures: Sequence[Mapping[str, Any]], all_groups: float) -> str:
    groups = _sum(figures, "groups")
    success = [value for one in figures if (value := _number(one, "success")) is not None]
    part = max(1, len(success) // 5)
    busy = [value for one in figures if (value := _number(one, "device_utilisation")) is not None]
    cells = [
        f"{groups:,.0f}",
        percent(groups / all_groups) if all_groups else "–",
        *(f"{_sum(figures, key):,.0f}" for key in ("episodes", "env_steps")),
        *(percent(fmean(fifth)) if fifth else "–" for fifth in (success[:part], success[-part:])),
        percent(fmean(busy)) if busy else "–",
        f"{_sum(figures, 'faults'):,.0f}",
    ]
    written = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row">{escape(name)}</th>{written}</tr>'


def _sum(figures: Sequence[Mapping[str, Any]], key: str) -> float:
    return sum(value for one in figures if (value := _number(one, key)) is not None)


def _number(figures: Mapping[str, Any], key: str) -> float | None:
    value = figures.get(key)
    return float(value) if isinstance(value, int | float) and isfinite(value) else None
