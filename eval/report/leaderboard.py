"""A leaderboard on a terminal, as one HTML page, as Markdown and as JSON."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from rich.console import Console

from eval.leaderboard import Board, Entry, best, labels_of
from eval.report.card import cell
from eval.report.page import bars, filled, rate_cell, write_page
from eval.report.table import percent, print_rows, span
from eval.report.viewer import shown
from eval.results import rate_json, write_json
from guiagent.storage.atomic import write_file

_COLUMNS = (  # of the page, with their classes
    *(("Policy", ""), ("0 to 100%", "plot"), ("Success", ""), ("Rank", ""), ("Episodes", "")),
    *(("Faults", ""), ("Steps", ""), ("Agent", "why")),
)
_HEAD = ("rank", "policy", "success", "episodes", "faults", "steps", "agent")


def print_leaderboard(boards: Sequence[Board], console: Console) -> None:
    """Print the policies against the suites, and a table for each suite."""
    head, rows = _overview(boards)
    print_rows(head, rows, console)
    for board in boards:
        console.out("", highlight=False)
        console.out(f"{board.name}  {board.digest}", highlight=False)
        print_rows(_HEAD, [_row(board, entry) for entry in board.entries], console)
        for note in board.notes:
            console.out(f"not the same  {note}", highlight=False)


def write_leaderboard(folder: Path, boards: Sequence[Board]) -> None:
    """Write `leaderboard.html`, `.md` and `.json` into a folder.

    Raises InfrastructureError if one cannot be written.
    """
    title = f"{len(labels_of(boards))} policies on {len(boards)} suites"
    sections = "".join(_section(board, folder) for board in boards)
    content = filled("leaderboard.html", title=title, overview=_grid(boards), sections=sections)
    write_page(folder / "leaderboard.html", title, content)
    write_file(folder / "leaderboard.md", _markdown(boards).encode())
    write_json(folder / "leaderboard.json", {"suites": [_board_json(board) for board in boards]})


def _overview(boards: Sequence[Board]) -> tuple[list[str], list[list[str]]]:
    """Head and rows: a row for each policy, a column for each suite; "–" where it was not played."""
    head = ["success (95%)", *(board.name for board in boards)]
    return head, [[label, *(_rate(best(board, label)) for board in boards)] for label in labels_of(boards)]


def _rate(entry: Entry | None) -> str:
    if entry is None:
        return "–"
    rate = entry.total.scheduled
    return f"{percent(rate.rate)} ({span(rate.interval)})"


def _row(board: Board, entry: Entry) -> list[str]:
    total = entry.total
    runs = f" in {entry.runs} runs" if entry.runs > 1 else ""
    steps = "–" if total.mean_steps != total.mean_steps else f"{total.mean_steps:.1f}"
    return [
        str(board.rank(entry)),
        entry.label,
        _rate(entry),
        f"{total.scheduled.n}{runs}",
        str(total.faults),
        steps,
        _agent(entry),
    ]


def _agent(entry: Entry) -> str:
    """Who was measured, in a few words: policy, language, and what it could use."""
    said = [entry.ran.agent.get("policy"), entry.ran.agent.get("dialect"), entry.ran.surface]
    return ", ".join(str(one) for one in said if one)


def _markdown(boards: Sequence[Board]) -> str:
    head, rows = _overview(boards)
    lines = [_line(head), f"|{'---|' * len(head)}", *map(_line, rows), ""]
    for board in boards:
        lines += [f"### {cell(board.name)}", "", f"Digest {cell(board.digest)}.", ""]
        lines += [_line(_HEAD), f"|{'---|' * len(_HEAD)}"]
        lines += [_line(_row(board, entry)) for entry in board.entries]
        lines += ["", *(f"- not the same: {cell(note)}" for note in board.notes), ""]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(cell, cells))} |"


def _grid(boards: Sequence[Board]) -> str:
    head, rows = _overview(boards)
    names = "".join(f'<th scope="col">{shown(name)}</th>' for name in ("Policy", *head[1:]))
    body = ""
    for row in rows:
        entries = (best(board, row[0]) for board in boards)
        cells = "".join(rate_cell(e.total.scheduled) if e else "<td>–</td>" for e in entries)
        body += f'<tr><th scope="row">{shown(row[0])}</th>{cells}</tr>'
    return f'<div class="scroll"><table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>'


def _section(board: Board, page: Path) -> str:
    head = "".join(f'<th scope="col" class="{kind}">{name}</th>' for name, kind in _COLUMNS)
    body = ""
    for entry in board.entries:
        rank, _, _, episodes, faults, steps, agent = _row(board, entry)
        rate = entry.total.scheduled
        cells = f'<td class="plot">{bars([("after", rate)])}</td>{rate_cell(rate)}'
        cells += "".join(f"<td>{shown(text)}</td>" for text in (rank, episodes, faults, steps))
        body += (
            f'<tr><th scope="row">{_name(entry, page)}</th>{cells}<td class="why">{shown(agent)}</td></tr>'
        )
    notes = "".join(f"<li>Not the same: {shown(note)}</li>" for note in board.notes)
    return filled(
        "board.html",
        suite=shown(board.name),
        digest=shown(board.digest),
        table=f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>',
        notes=f'<ul class="notes">{notes}</ul>' if notes else "",
    )


def _name(entry: Entry, page: Path) -> str:
    """The policy's label, linked to the evaluation's own report where there is one."""
    report = entry.folder / "report.html"
    if not report.is_file():
        return shown(entry.label)
    return f'<a href="{quote(os.path.relpath(report, page.resolve()))}">{shown(entry.label)}</a>'


def _board_json(board: Board) -> dict[str, Any]:
    return {
        "suite": board.name,
        "digest": board.digest,
        "entries": [
            {
                "rank": board.rank(entry),
                "label": entry.label,
                "folder": str(entry.folder),
                "runs": entry.runs,
                **rate_json(entry.total),
                "mean_steps": entry.total.mean_steps,
                "ran": msgspec.to_builtins(entry.ran),
            }
            for entry in board.entries
        ],
        "not_the_same": list(board.notes),
    }
