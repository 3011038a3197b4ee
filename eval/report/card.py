"""A snippet for a model's card: the result, what it ran on and how to check it, in Markdown."""

from collections.abc import Sequence
from pathlib import Path

from eval.breakdown import by_group
from eval.conditions import told
from eval.repetitions import Prices, Repetitions
from eval.report.repetitions import took
from eval.report.table import percent, span
from eval.results import TRAINED, UNSEEN, SuiteResult, TaskResult
from guiagent.storage.atomic import write_file

_MOST_GROUPS = 40  # rows; a card is a page, the rest is in summary.json
_LONGEST = 300  # characters of a cell


def model_card(found: Repetitions, beside: Sequence[SuiteResult], prices: Prices | None = None) -> str:
    """Markdown about the first of the repetitions, with baselines beside it. Texts in it cannot format it."""
    first = found.runs[0]
    lines = [f"### {cell(first.label)} on {cell(first.suite.name)}", ""]
    lines += [*_table(("", "success", "95% interval", "episodes", "faults")), *_pools([first, *beside])]
    rows = [(way, row) for way, rows in by_group(first).items() if len(rows) > 1 for row in rows]
    if rows:
        lines += ["", *_table(("group", "success", "95% interval", "episodes", "faults"))]
        lines += [_row(f"{way}: {row.task}", row) for way, row in rows[:_MOST_GROUPS]]
    if effort := took(found, prices):
        lines += ["", f"A success took {cell(effort)}."]
    if len(found.runs) > 1:
        lines += ["", f"{len(found.runs)} runs; the table is of the first."]
    lines += ["", "Ran on:", ""]
    facts = [("suite digest", first.suite.digest), *told(first.ran)]
    lines += [f"- {cell(name)}: {cell(value)}" for name, value in facts]
    lines += ["", "Check it: `guiagent eval --verify FOLDER` plays its recorded actions again.", ""]
    return "\n".join(lines)


def write_card(path: Path, found: Repetitions, beside: Sequence[SuiteResult], prices: Prices | None) -> None:
    """Write the snippet. Raises InfrastructureError if it cannot be written."""
    write_file(path, model_card(found, beside, prices).encode())


def _table(head: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]


def _pools(results: Sequence[SuiteResult]) -> list[str]:
    pools = [(result, result.pooled(half), half) for result in results for half in (True, False)]
    return [
        _row(f"{result.label}, {TRAINED if half else UNSEEN}", pool)
        for result, pool, half in pools
        if pool.scheduled.n
    ]


def _row(name: str, row: TaskResult) -> str:
    rate = row.scheduled
    return f"| {cell(name)} | {percent(rate.rate)} | {span(rate.interval)} | {rate.n} | {row.faults} |"


def cell(text: str) -> str:
    """A text as one line of Markdown that cannot end its cell, link, emphasise or be HTML."""
    line = " ".join(text.split())[:_LONGEST]
    return "".join(f"\\{letter}" if letter in "\\`*[]<>|#!" else letter for letter in line)
