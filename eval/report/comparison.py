"""The page, the table and the JSON of a comparison of algorithms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
from rich.console import Console

from eval.comparison import PresetResult, area_under, differences, final_success, learning_curve
from eval.report.curve import clock, mean_curves
from eval.report.page import MAX_CONFIG, filled, in_points, write_page
from eval.report.table import percent, span
from eval.report.viewer import shown
from eval.results import write_json
from eval.stats import Mean
from guiagent.intervals import Interval

_CURVE_SIZES = {"wide-only": (1016, 380), "narrow": (380, 300)}
_COLOURS = 8  # series with a colour in the style; further ones start again with the first colour


@dataclass(frozen=True, slots=True)
class ComparisonSummary:
    """The facts of a comparison, besides its results."""

    recipe: str
    commit: str
    budget: int  # environment steps of every run
    fields: Mapping[str, Mapping[str, str]]  # fields by preset and name, as text
    config: Mapping[str, Any]  # the config that all runs share
    notes: Mapping[str, Sequence[str]]  # caveats by preset


def print_comparison(results: Sequence[PresetResult], console: Console) -> None:
    """Print a row per preset: improvement, final success and area with intervals, and differences to the
    first preset."""
    head = ["preset", "seeds", "learned", "final success", "area", "final - first", "area - first"]
    lines = [head] + [
        [
            result.preset,
            str(len(result.runs)),
            _plain_points(result.learned),
            _plain(result.final),
            _plain(result.area),
            _plain_points(result.final_difference),
            _plain_points(result.area_difference),
        ]
        for result in results
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        console.out("  ".join(cells).rstrip(), highlight=False)


def write_comparison(path: Path, summary: ComparisonSummary, results: Sequence[PresetResult]) -> None:
    """Write the comparison as an HTML page.

    Raises:
        InfrastructureError: the file cannot be written.
    """
    title = ", ".join(result.preset for result in results)
    content = filled(
        "compare.html",
        recipe=shown(summary.recipe),
        title=shown(title),
        facts=_facts(summary, results),
        final=_final_is(results),
        first=shown(results[0].preset),
        table=_table(results),
        curves=_curves(results, summary.budget),
        key=_key(results),
        notes=_notes(summary.notes),
        differences=_differences(summary.fields),
        config=shown(msgspec.json.format(msgspec.json.encode(summary.config), indent=2).decode(), MAX_CONFIG),
        commit=shown(summary.commit),
    )
    write_page(path, title, content)


def write_comparison_json(path: Path, summary: ComparisonSummary, results: Sequence[PresetResult]) -> None:
    """Write the same figures, and those of every run, as JSON. Unknown values are null.

    Raises:
        InfrastructureError: the file cannot be written.
    """
    budget = summary.budget
    presets = [
        {
            "preset": result.preset,
            "learned": _mean_json(result.learned),
            "final": _mean_json(result.final),
            "area": _mean_json(result.area),
            "final_difference": _mean_json(result.final_difference),
            "area_difference": _mean_json(result.area_difference),
            "curve": [_mean_json(mean) for mean in result.curve],
            "runs": [
                {
                    "seed": run.seed,
                    "updates": run.updates,
                    "seconds": run.seconds,
                    "trained": run.trained,
                    "replay_share": run.replay_share,
                    "env_steps": run.samples[-1].env_steps if run.samples else 0,
                    "final": final_success(run, budget),
                    "area": area_under(run, budget),
                    "curve": learning_curve(run, budget),
                }
                for run in result.runs
            ],
        }
        for result in results
    ]
    different = [{"field": name, "values": values} for name, values in differences(summary.fields)]
    facts = {"recipe": summary.recipe, "commit": summary.commit, "env_steps": budget}
    findings = {
        "presets": presets,
        "notes": summary.notes,
        "differences": different,
        "config": summary.config,
    }
    write_json(path, facts | findings)


def _facts(summary: ComparisonSummary, results: Sequence[PresetResult]) -> str:
    runs = [run for result in results for run in result.runs]
    facts = {
        "Presets": str(len(results)),
        "Runs": str(len(runs)),
        "Environment steps a run": f"{summary.budget:,}",
        "Training time": clock(sum(run.seconds for run in runs)),
        "Commit": summary.commit[:12] or "–",
    }
    return "".join(f"<div><dt>{name}</dt><dd>{shown(value)}</dd></div>" for name, value in facts.items())


def _final_is(results: Sequence[PresetResult]) -> str:
    if all(run.held_out for result in results for run in result.runs):
        return "Final success: of the last policy on held-out seeds, as the mean over tasks."
    return "Final success: of the training episodes of the last tenth of the budget, as the mean over tasks."


def _table(results: Sequence[PresetResult]) -> str:
    names = (
        "Preset",
        "Seeds",
        "Learned",
        "Final success",
        "Difference",
        "Area",
        "Difference",
        "Updates",
        "Learned from",
        "Time",
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "".join(_row(i, result) for i, result in enumerate(results))
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _row(index: int, result: PresetResult) -> str:
    updates = sum(run.updates for run in result.runs)
    seconds = sum(run.seconds for run in result.runs)
    trained = sum(run.trained for run in result.runs)
    replayed = fmean(run.replay_share for run in result.runs)
    cells = (
        str(len(result.runs)),
        _change(result.learned),
        _rate(result.final),
        _change(result.final_difference),
        _rate(result.area),
        _change(result.area_difference),
        f"{updates:,}",
        f"{trained:,} <small>{replayed:.0%} replayed</small>",
        clock(seconds),
    )
    name = f'<span class="key {_series(index)}"></span>{shown(result.preset)}'
    return f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _curves(results: Sequence[PresetResult], budget: int) -> str:
    series = {_series(i): result.curve for i, result in enumerate(results[:_COLOURS])}
    return "".join(
        f'<div class="{name}">{mean_curves(series, budget, "Success over environment steps", size)}</div>'
        for name, size in _CURVE_SIZES.items()
    )


def _key(results: Sequence[PresetResult]) -> str:
    names = "".join(
        f'<span class="key {_series(i)}"></span>{shown(result.preset)}'
        for i, result in enumerate(results[:_COLOURS])
    )
    rest = len(results) - _COLOURS
    return names + (f" (the first {_COLOURS}; the table has all)" if rest > 0 else "")


def _notes(notes: Mapping[str, Sequence[str]]) -> str:
    """The section of caveats; "" if no preset has any."""
    rows = "".join(
        f'<tr><th scope="row">{shown(preset)}</th><td>{shown(" ".join(own))}</td></tr>'
        for preset, own in notes.items()
        if own
    )
    heading = '<section id="notes"><h2>What to know of these runs</h2>'
    return f'{heading}<table class="fields">{rows}</table></section>' if rows else ""


def _differences(fields: Mapping[str, Mapping[str, str]]) -> str:
    rows = differences(fields)
    if not rows:
        return "<p>Nothing.</p>"
    head = "".join(f'<th scope="col">{shown(name)}</th>' for name in ("Field", *fields))
    body = "".join(
        f'<tr><th scope="row"><code>{shown(name)}</code></th>'
        + "".join(f"<td>{shown(value)}</td>" for value in values)
        + "</tr>"
        for name, values in rows
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table class="fields">{table}</table></div>'


def _series(index: int) -> str:
    return f"series-{index % _COLOURS}"


def _rate(mean: Mean) -> str:
    return percent(mean.value) + (
        f" <small>{span(_within(mean.interval, 0.0))}</small>" if mean.interval else ""
    )


def _change(mean: Mean | None) -> str:
    if mean is None or isnan(mean.value):
        return "–"
    if mean.interval is None:
        return in_points(mean.value)
    interval = _within(mean.interval, -1.0)
    direction = "up" if interval.low > 0 else "down" if interval.high < 0 else "same"
    bounds = f"{in_points(interval.low)} to {in_points(interval.high)}"
    return f'<span class="{direction}">{in_points(mean.value)}</span> <small>{bounds}</small>'


def _plain(mean: Mean) -> str:
    return percent(mean.value) + (f" ({span(_within(mean.interval, 0.0))})" if mean.interval else "")


def _plain_points(mean: Mean | None) -> str:
    if mean is None or isnan(mean.value):
        return "–"
    if mean.interval is None:
        return in_points(mean.value)
    interval = _within(mean.interval, -1.0)
    return f"{in_points(mean.value)} ({in_points(interval.low)} to {in_points(interval.high)})"


def _within(interval: Interval, least: float) -> Interval:
    """Clip an interval to [least, 1]: Student's interval may leave the range of a rate or difference."""
    return Interval(max(least, interval.low), min(1.0, interval.high))


def _mean_json(mean: Mean | None) -> dict[str, Any] | None:
    if mean is None:
        return None
    bounds = [mean.interval.low, mean.interval.high] if mean.interval else None
    return {"mean": mean.value, "interval": bounds, "n": mean.n}
