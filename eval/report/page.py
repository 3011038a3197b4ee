"""The report of a run: one HTML file that needs nothing else, runs no script, and can be sent to anyone.

Its content security policy allows the page's own style by hash and `data:` pictures, and nothing more; every
text goes through `viewer.shown`, which escapes it.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from math import isnan
from pathlib import Path
from string import Template
from typing import Any

import msgspec

from eval.report.curve import CurvePoint, clock, learning_curve, small_curve
from eval.report.judged import JudgedRun, judged_json, judged_parts
from eval.report.table import MOST_ROWS, fault_notes, percent, span
from eval.report.viewer import Frames, cards, shown
from eval.results import TRAINED, UNSEEN, Comparison, TaskResult, summary_json, write_json
from eval.stats import Proportion, mcnemar_exact, newcombe
from guiagent.storage.atomic import write_file
from guiagent.types import Trajectory

_CURVE_SIZES = {"wide-only": (1016, 330), "narrow": (380, 270)}
MAX_CONFIG = 50_000  # characters
_TEMPLATES = files("eval.report") / "templates"


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The facts of a run that are not in its suite results."""

    title: str
    commit: str
    wall_seconds: float
    episodes: int  # all episodes of the run, in training and evaluation
    env_steps: int
    peak_memory_mb: float
    config: Mapping[str, Any]  # as resolved; shown as JSON


def write_report(
    path: Path,
    run: RunSummary,
    comparison: Comparison,
    curve: Sequence[CurvePoint],
    episodes: Sequence[tuple[str, Trajectory]],
    frames: Frames,
    judged: JudgedRun | None = None,
    more: str = "",
) -> None:
    """Write the HTML report.

    `episodes` are shown in order under their labels; neighbours of the same task and seed share a card.
    Without `curve` (a plain evaluation) its section is left out, and so is the section on judged success
    without `judged`. `more` are further sections, as HTML: a run's health, or the spread of an evaluation.

    Raises:
        InfrastructureError: the file cannot be written.
    """
    suite = comparison.after.suite
    content = filled(
        "report.html",
        title=shown(run.title),
        suite=shown(suite.name),
        headline=_pool(comparison, trained=True) + _pool(comparison, trained=False),
        facts=_facts(run),
        curve=_curves(curve, comparison, ", by the judge's verdicts," if judged else "") if curve else "",
        judged=filled("judged.html", **judged_parts(judged)) if judged else "",
        more=more,
        table=_table(comparison),
        episodes=cards(episodes, frames),
        config=shown(msgspec.json.format(msgspec.json.encode(run.config), indent=2).decode(), MAX_CONFIG),
        commit=shown(run.commit),
        digest=suite.digest,
    )
    write_page(path, run.title, content)


def write_episodes(
    path: Path, title: str, episodes: Sequence[tuple[str, Trajectory]], frames: Frames
) -> None:
    """Write a page with episodes only, step by step, for a run without a suite.

    Raises:
        InfrastructureError: the file cannot be written.
    """
    write_page(path, title, filled("episodes.html", title=shown(title), episodes=cards(episodes, frames)))


def write_summary(
    path: Path,
    run: RunSummary,
    comparison: Comparison,
    judged: JudgedRun | None = None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write the figures of the report as JSON, for programs; `more` are further ones.

    Raises:
        InfrastructureError: the file cannot be written.
    """
    facts = {
        "title": run.title,
        "commit": run.commit,
        "wall_seconds": run.wall_seconds,
        "episodes": run.episodes,
        "env_steps": run.env_steps,
        "peak_memory_mb": run.peak_memory_mb,
    }
    verdicts = {"judged": judged_json(judged)} if judged else {}
    figures = facts | summary_json(comparison) | verdicts | dict(more or {})
    write_json(path, figures | {"config": run.config})


def write_page(path: Path, title: str, content: str) -> None:
    """Write a page around `content`, which is HTML already.

    Raises:
        InfrastructureError: the file cannot be written.
    """
    style = (_TEMPLATES / "report.css").read_text("utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    page = filled(
        "page.html", style_hash=f"sha256-{digest}", style=style, title=shown(title), content=content
    )
    write_file(path, page.encode())


def filled(template: str, **parts: str) -> str:
    """Fill in a template of `eval/report/templates`; its parts are HTML already."""
    return Template((_TEMPLATES / template).read_text("utf-8")).substitute(parts)


def _pool(comparison: Comparison, trained: bool) -> str:
    """The pooled rate of one half of the suite in large type, and a sentence with intervals and change."""
    after = comparison.after.pooled(trained).scheduled
    if not after.n:
        return ""
    name = (TRAINED if trained else UNSEEN).capitalize()
    now = f'<span class="is">{percent(after.rate)}</span>'
    if comparison.before is None:
        figures, said = now, f"95% interval {span(after.interval)}, {after.n} episodes"
    else:
        before = comparison.before.pooled(trained).scheduled
        change = newcombe(before, after)
        gained, lost = comparison.paired(trained)
        p = mcnemar_exact(gained, lost)
        figures = f'<span class="was">{percent(before.rate)}</span> <span class="arrow">→</span> {now}'
        said = (
            f"95% intervals {span(before.interval)} and {span(after.interval)}; "
            f"change {in_points(after.rate - before.rate)} points "
            f"({in_points(change.low)} to {in_points(change.high)}). "
            f"Of {after.n} paired seeds {gained} were gained and {lost} lost, "
            f"p&nbsp;{'&lt;&nbsp;0.001' if p < 0.001 else f'=&nbsp;{p:.3f}'}."
        )
    return f'<div class="pool"><h2>{name}</h2><p class="figures">{figures}</p><p>{said}</p></div>'


def _facts(run: RunSummary) -> str:
    facts = {
        "Wall time": clock(run.wall_seconds),
        "Episodes": f"{run.episodes:,}",
        "Environment steps": f"{run.env_steps:,}",
        "Peak memory": f"{run.peak_memory_mb:,.0f} MB",
        "Commit": run.commit[:12] or "–",
    }
    return "".join(f"<div><dt>{name}</dt><dd>{shown(value)}</dd></div>" for name, value in facts.items())


def _curves(points: Sequence[CurvePoint], comparison: Comparison, by: str) -> str:
    before = comparison.before.pooled(trained=True).scheduled if comparison.before else None
    after = comparison.after.pooled(trained=True).scheduled
    levels = [
        (shown(r.label), rate)
        for r in comparison.baselines
        if 0 < (rate := r.pooled(trained=True).scheduled.rate) < 1
    ]
    whole = "".join(
        f'<div class="{name}">{learning_curve(points, before, after, levels, size)}</div>'
        for name, size in _CURVE_SIZES.items()
    )
    trained = {p.task for p in points}
    tasks = dict.fromkeys(
        (*comparison.after.suite.tasks, *sorted(trained))
    )  # those of the suite in its order
    multiples = "".join(_multiple(points, task) for task in tasks if task in trained)
    return filled("curve.html", whole=whole, multiples=multiples, by=by)


def _multiple(points: Sequence[CurvePoint], task: str) -> str:
    count = sum(p.n for p in points if p.task == task)
    return (
        f"<figure><figcaption><b>{shown(task)}</b><span>{count:,}</span></figcaption>"
        f"{small_curve(points, task)}</figure>"
    )


def _table(comparison: Comparison) -> str:
    before, after, baselines = comparison.before, comparison.after, comparison.baselines
    columns = [("", "Task"), ("plot", "0 to 100%")]
    columns += (
        [("before", "Before"), ("after", "After"), ("", "Change")] if before else [("after", after.label)]
    )
    columns += [("", name) for name in (*(b.label for b in baselines), "Faults")]
    head = "".join(f'<th scope="col" class="{kind}">{shown(name)}</th>' for kind, name in columns)
    body = "".join(_group(comparison, trained, len(columns)) for trained in (True, False))
    results = [r for r in (before, after, *baselines) if r]
    notes = "".join(f"<li>{shown(note)}</li>" for note in fault_notes(results))
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>{body}</table></div>' + (
        f'<ul class="notes">{notes}</ul>' if notes else ""
    )


def _group(comparison: Comparison, trained: bool, width: int) -> str:
    """The rows of one half of the suite under its name, and its pooled row; "" if it has no tasks."""
    before, after, baselines = comparison.before, comparison.after, comparison.baselines
    was = before.tasks if before else [None] * len(after.tasks)
    rows = [
        _line(old, row, beside)
        for old, row, *beside in zip(was, after.tasks, *(b.tasks for b in baselines), strict=True)
        if row.trained == trained
    ]
    if not rows:
        return ""
    lines = "".join(rows if len(rows) <= MOST_ROWS else [])
    name = (TRAINED if trained else UNSEEN).capitalize()
    pooled = _line(
        before.pooled(trained) if before else None,
        after.pooled(trained),
        [b.pooled(trained) for b in baselines],
    )
    return (
        f'<tbody class="group"><tr><th scope="rowgroup" colspan="{width}">{name}</th></tr></tbody>'
        f'<tbody>{lines}</tbody><tbody class="pooled">{pooled}</tbody>'
    )


def _line(before: TaskResult | None, after: TaskResult, baselines: Sequence[TaskResult]) -> str:
    sides = [("before", before.scheduled)] if before else []
    sides.append(("after", after.scheduled))
    cells = [f'<td class="plot">{bars(sides)}</td>', *(rate_cell(p) for _, p in sides)]
    if before:
        cells.append(_change(before.scheduled, after.scheduled))
    cells += [f"<td>{percent(b.scheduled.rate)}</td>" for b in baselines]
    faults = sum(row.faults for row in (before, after, *baselines) if row)
    cells.append(f'<td><span class="faulted">{faults}</span></td>' if faults else "<td>0</td>")
    return f'<tr><th scope="row">{shown(after.task)}</th>{"".join(cells)}</tr>'


def rate_cell(proportion: Proportion) -> str:
    """A cell of a table, as HTML: a rate, and its interval in small figures."""
    return f"<td>{percent(proportion.rate)} <small>{span(proportion.interval)}</small></td>"


def _change(before: Proportion, after: Proportion) -> str:
    """The difference in points; coloured only if its interval excludes zero."""
    interval = newcombe(before, after)
    direction = "up" if interval.low > 0 else "down" if interval.high < 0 else "same"
    bounds = f"{in_points(interval.low)} to {in_points(interval.high)}"
    points = in_points(after.rate - before.rate)
    return f'<td><span class="{direction}">{points}</span> <small>{bounds}</small></td>'


def in_points(difference: float) -> str:
    """A difference of rates in percentage points, with its sign; a minus, not a hyphen."""
    if isnan(difference):
        return "–"
    rounded = round(100 * difference)
    return f"{rounded:+}".replace("-", "\N{MINUS SIGN}") if rounded else "0"


def bars(sides: Sequence[tuple[str, Proportion]]) -> str:
    """A bar per side, from 0 to its rate, with the interval as a line and the rate as a dot."""
    width, lane = 200, 9
    height = lane * len(sides) + 3
    grid = "".join(
        f'<line class="grid" x1="{x}" y1="0" x2="{x}" y2="{height}"/>' for x in (0.5, width / 2, width - 0.5)
    )
    lanes = []
    for i, (name, proportion) in enumerate(sides):
        y, interval = 2 + lane * i, proportion.interval
        rate, low, high = (round(width * r, 1) for r in (proportion.rate, interval.low, interval.high))
        lanes.append(
            f'<g class="{name}"><rect class="bar" x="0" y="{y}" width="{rate}" height="{lane - 2}"/>'
            f'<line class="whisker" x1="{low}" y1="{y + 3.5}" x2="{high}" y2="{y + 3.5}"/>'
            f'<circle class="point" cx="{rate}" cy="{y + 3.5}" r="3"/></g>'
        )
    label = ", ".join(f"{name} {percent(p.rate)}" for name, p in sides)
    return (
        f'<svg class="bars" viewBox="-4 0 {width + 8} {height}" role="img" aria-label="{label}">'
        f"{grid}{''.join(lanes)}</svg>"
    )
