"""Results by group of tasks and by how episodes ended, on a terminal and as a section of the report."""

from collections.abc import Sequence
from html import escape

from rich.console import Console

from eval.breakdown import by_group, by_part, by_stop
from eval.report.page import filled
from eval.report.table import percent, print_rows, print_table, span
from eval.report.viewer import STOPS, shown
from eval.results import SuiteResult
from eval.stats import Proportion

Table = tuple[list[str], list[list[str]]]  # the head, and the rows


def breakdown_tables(results: Sequence[SuiteResult]) -> list[Table]:
    """A table for each way to count the suite's tasks, one of the parts of scores, if they have any, and one
    of how each policy's episodes ended."""
    labels = [result.label for result in results]
    counted = [by_group(result) for result in results]
    tables: list[Table] = []
    for way, rows in counted[0].items():
        if len(rows) > 1:
            others = [{row.task: row.scheduled for row in found.get(way, ())} for found in counted]
            body = [[row.task, *(_rate(found.get(row.task)) for found in others)] for row in rows]
            tables.append(([f"by {way}", *labels], body))
    parts = [by_part(result) for result in results]
    if names := dict.fromkeys(name for found in parts for name in found):
        body = [[name, *(_rate(found.get(name)) for found in parts)] for name in names]
        tables.append((["part of the score", *labels], body))
    ended: list[dict[str, Proportion]] = [
        {row.stop: row.successes for row in by_stop(result)} for result in results
    ]
    stops = [stop for stop in STOPS if any(stop in found for found in ended)]
    body = [[STOPS[stop], *(_count(found.get(stop)) for found in ended)] for stop in stops]
    tables.append((["how episodes ended", *labels], body))
    return tables


def print_results(results: Sequence[SuiteResult], console: Console) -> None:
    """Print the table by task, and after it those of `breakdown_tables`."""
    print_table(results, console)
    for head, rows in breakdown_tables(results):
        console.out("", highlight=False)
        print_rows(head, rows, console)


def breakdown_section(results: Sequence[SuiteResult]) -> str:
    """The section of the report, as HTML."""
    parts = []
    for head, rows in breakdown_tables(results):
        cells = "".join(f'<th scope="col">{shown(name)}</th>' for name in head)
        body = "".join(
            f'<tr><th scope="row">{shown(row[0])}</th>'
            + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in rows
        )
        parts.append(
            f'<div class="scroll"><table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>'
        )
    return filled("breakdown.html", tables="".join(parts))


def _rate(found: Proportion | None) -> str:
    return "–" if found is None else f"{percent(found.rate)} ({span(found.interval)}) of {found.n}"


def _count(found: Proportion | None) -> str:
    return "–" if found is None else f"{found.n}, {found.successes} successes"
