"""Result tables on a terminal: policies side by side, with intervals; plain text when piped."""

from collections.abc import Sequence
from statistics import fmean

from rich.console import Console
from rich.table import Table
from rich.text import Text

from eval.breakdown import fault_reasons
from eval.results import TRAINED, UNSEEN, SuiteResult, TaskResult
from guiagent.intervals import Interval

MOST_ROWS = 150  # of a table by task: what has more tasks is shown in its groups
_MOST_REASONS = 5  # of faults, per policy


def percent(rate: float) -> str:
    return "–" if rate != rate else f"{100 * rate:.0f}%"


def span(interval: Interval) -> str:
    """An interval of rates in per cent, without the per cent sign: `51–75`."""
    return f"{100 * interval.low:.0f}–{100 * interval.high:.0f}"


def print_table(results: Sequence[SuiteResult], console: Console) -> None:
    """Print a row per task and per pool, a column per policy: rate (95% Wilson interval), and the faults."""
    sections = [_section(results, trained) for trained in (True, False)]
    head = ["task", *(r.label for r in results), "faults"]
    if console.is_terminal:
        table = _table(head, f"{results[0].suite.name}, 95% intervals")
        for section in filter(None, sections):
            for row in section[:-1]:
                table.add_row(*map(Text, row))
            table.add_row(*map(Text, section[-1]), style="bold", end_section=True)
        console.print(table)
    else:
        _print_plain(head, [row for section in sections for row in section], console)
    for note in [*score_notes(results), *fault_notes(results)]:
        console.out(note, highlight=False)


def print_rows(head: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    """Print a table of texts, plain where the output is piped."""
    if not console.is_terminal:
        _print_plain(head, rows, console)
        return
    table = _table(head)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _table(head: Sequence[str], title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left")
    for name in head:  # as Text: a label must not be read as markup
        table.add_column(Text(name))
    return table


def _print_plain(head: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        console.out("  ".join(cells).rstrip(), highlight=False)


def score_notes(results: Sequence[SuiteResult]) -> list[str]:
    """For each policy with tasks that were solved in part, the mean score, in which fractions count."""
    notes = []
    for result in results:
        partial = sum(0.0 < e.score < 1.0 for e in result.episodes)
        if partial:
            mean = fmean(e.score for e in result.episodes)
            notes.append(
                f"{result.label}: mean score {mean:.3f} with the fractions of {partial} episodes counted, "
                "as OSWorld averages; faults are 0"
            )
    return notes


def fault_notes(results: Sequence[SuiteResult]) -> list[str]:
    """For each policy with faults its rates with them as failures, left out, and as successes; and why."""
    notes = []
    for result in results:
        pools = [result.pooled(trained=True), result.pooled(trained=False)]
        if faults := sum(pool.faults for pool in pools):
            rates = "; ".join(
                f"on {name} {percent(pool.scheduled.rate)} with them as failures, "
                f"{percent(pool.judged.rate)} without them, "
                f"{percent(pool.rate_if_faults_succeeded)} had they succeeded"
                for pool, name in zip(pools, (TRAINED, UNSEEN), strict=True)
                if pool.faults
            )
            episodes = "1 episode" if faults == 1 else f"{faults} episodes"
            notes.append(f"{result.label}: {episodes} without a verdict; success {rates}")
            reasons = fault_reasons(result).most_common()
            notes += [
                f"{result.label}: {n} of {task}: {why[:300]}" for (task, why), n in reasons[:_MOST_REASONS]
            ]
            if len(reasons) > _MOST_REASONS:
                notes.append(f"{result.label}: {len(reasons) - _MOST_REASONS} more reasons in results.json")
    return notes


def _section(results: Sequence[SuiteResult], trained: bool) -> list[list[str]]:
    """The rows of one half of the suite and its pooled row; empty if the suite has no such tasks."""
    rows = [
        _row(cells[0].task, cells)
        for cells in zip(*(result.tasks for result in results), strict=True)
        if cells[0].trained == trained
    ]
    if not rows:
        return []
    name = TRAINED if trained else UNSEEN
    pooled = _row(f"all {name}", [r.pooled(trained) for r in results])
    return [*(rows if len(rows) <= MOST_ROWS else []), pooled]


def _row(name: str, cells: Sequence[TaskResult]) -> list[str]:
    rates = [f"{percent(c.scheduled.rate)} ({span(c.scheduled.interval)})" for c in cells]
    return [name, *rates, str(sum(c.faults for c in cells))]
