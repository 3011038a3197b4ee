"""The page, the table and the JSON of a comparison of arms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
from rich.console import Console

from eval.collapse import Before, signs
from eval.comparison import ArmResult, area_under, differences, final_success, learning_curve
from eval.horizons import rungs
from eval.report.curve import clock, mean_curves
from eval.report.horizons import rung_json, rung_rows, rung_section
from eval.report.means import change, mean_json, plain, plain_points, rate
from eval.report.page import MAX_CONFIG, filled, write_page
from eval.report.signs import print_rows, signs_json, signs_rows, signs_section
from eval.report.viewer import shown
from eval.results import write_json

_CURVE_SIZES = {"wide-only": (1016, 380), "narrow": (380, 300)}
_COLOURS = 8  # series with a colour in the style; further ones start again with the first colour


@dataclass(frozen=True, slots=True)
class ComparisonSummary:
    """The facts of a comparison, besides its results."""

    recipe: str
    commit: str
    budget: int  # environment steps of every run
    fields: Mapping[str, Mapping[str, str]]  # fields by arm and name, as text
    config: Mapping[str, Any]  # the config that all runs share
    notes: Mapping[str, Sequence[str]]  # caveats by arm
    before: Before | None = None  # the policy that all arms begin with; None if it was not measured
    actions: Mapping[str, int] = field(default_factory=dict)  # of a task's shortest solution, where known


def print_comparison(summary: ComparisonSummary, results: Sequence[ArmResult], console: Console) -> None:
    """Print a row per arm: improvement, final success and area with intervals, and differences to the first
    arm; then what became of its policies, and success by the tasks' lengths, where they were measured."""
    head = ["arm", "seeds", "learned", "final success", "area", "final - first", "area - first"]
    rows = [
        [
            result.arm,
            str(len(result.runs)),
            plain_points(result.learned),
            plain(result.final),
            plain(result.area),
            plain_points(result.final_difference),
            plain_points(result.area_difference),
        ]
        for result in results
    ]
    print_rows([head, *rows], console)
    if found := signs(results):
        console.out("")
        print_rows(signs_rows(found, summary.before), console)
    if ladder := rungs(results, summary.actions):
        console.out("")
        print_rows(rung_rows(ladder), console)


def write_comparison(path: Path, summary: ComparisonSummary, results: Sequence[ArmResult]) -> None:
    """Write the comparison as an HTML page.

    Raises:
        InfrastructureError: the file cannot be written.
    """
    title = ", ".join(result.arm for result in results)
    content = filled(
        "compare.html",
        recipe=shown(summary.recipe),
        title=shown(title),
        facts=_facts(summary, results),
        final=_final_is(results),
        first=shown(results[0].arm),
        table=_table(results),
        signs=signs_section(signs(results), summary.before),
        horizons=rung_section(rungs(results, summary.actions)),
        curves=_curves(results, summary.budget),
        key=_key(results),
        notes=_notes(summary.notes),
        differences=_differences(summary.fields),
        config=shown(msgspec.json.format(msgspec.json.encode(summary.config), indent=2).decode(), MAX_CONFIG),
        commit=shown(summary.commit),
    )
    write_page(path, title, content)


def write_comparison_json(path: Path, summary: ComparisonSummary, results: Sequence[ArmResult]) -> None:
    """Write the same figures, and those of every run, as JSON. Unknown values are null.

    Raises:
        InfrastructureError: the file cannot be written.
    """
    budget = summary.budget
    arms = [
        {
            "arm": result.arm,
            "learned": mean_json(result.learned),
            "final": mean_json(result.final),
            "area": mean_json(result.area),
            "final_difference": mean_json(result.final_difference),
            "area_difference": mean_json(result.area_difference),
            "curve": [mean_json(mean) for mean in result.curve],
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
    facts |= signs_json(signs(results), summary.before)
    findings = {
        "arms": arms,
        "horizons": rung_json(rungs(results, summary.actions)),
        "notes": summary.notes,
        "differences": different,
        "config": summary.config,
    }
    write_json(path, facts | findings)


def _facts(summary: ComparisonSummary, results: Sequence[ArmResult]) -> str:
    runs = [run for result in results for run in result.runs]
    facts = {
        "Arms": str(len(results)),
        "Runs": str(len(runs)),
        "Environment steps a run": f"{summary.budget:,}",
        "Training time": clock(sum(run.seconds for run in runs)),
        "Commit": summary.commit[:12] or "–",
    }
    return "".join(f"<div><dt>{name}</dt><dd>{shown(value)}</dd></div>" for name, value in facts.items())


def _final_is(results: Sequence[ArmResult]) -> str:
    if all(run.held_out for result in results for run in result.runs):
        return "Final success: of the last policy on held-out seeds, as the mean over tasks."
    return "Final success: of the training episodes of the last tenth of the budget, as the mean over tasks."


def _table(results: Sequence[ArmResult]) -> str:
    names = (
        "Arm",
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


def _row(index: int, result: ArmResult) -> str:
    updates = sum(run.updates for run in result.runs)
    seconds = sum(run.seconds for run in result.runs)
    trained = sum(run.trained for run in result.runs)
    replayed = fmean(run.replay_share for run in result.runs)
    cells = (
        str(len(result.runs)),
        change(result.learned),
        rate(result.final),
        change(result.final_difference),
        rate(result.area),
        change(result.area_difference),
        f"{updates:,}",
        f"{trained:,} <small>{replayed:.0%} replayed</small>",
        clock(seconds),
    )
    name = f'<span class="key {_series(index)}"></span>{shown(result.arm)}'
    return f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _curves(results: Sequence[ArmResult], budget: int) -> str:
    series = {_series(i): result.curve for i, result in enumerate(results[:_COLOURS])}
    return "".join(
        f'<div class="{name}">{mean_curves(series, budget, "Success over environment steps", size)}</div>'
        for name, size in _CURVE_SIZES.items()
    )


def _key(results: Sequence[ArmResult]) -> str:
    names = "".join(
        f'<span class="key {_series(i)}"></span>{shown(result.arm)}'
        for i, result in enumerate(results[:_COLOURS])
    )
    rest = len(results) - _COLOURS
    return names + (f" (the first {_COLOURS}; the table has all)" if rest > 0 else "")


def _notes(notes: Mapping[str, Sequence[str]]) -> str:
    """The section of caveats; "" if no arm has any."""
    rows = "".join(
        f'<tr><th scope="row">{shown(arm)}</th><td>{shown(" ".join(own))}</td></tr>'
        for arm, own in notes.items()
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
