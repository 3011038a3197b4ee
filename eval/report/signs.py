"""The signs of collapse of a comparison's arms: a table on the terminal, a section of the page, and JSON."""

from collections.abc import Sequence
from math import isnan
from typing import Any

from rich.console import Console

from eval.collapse import Before, Rate, Signs
from eval.report.means import change, mean_json, plain, plain_points, rate
from eval.report.page import filled
from eval.report.table import percent, span
from eval.report.viewer import shown
from eval.stats import Proportion

_HEAD = (
    "arm",
    "trained pages",
    "of episodes",
    "- first",
    "unseen pages",
    "of episodes",
    "- first",
    "one answer",
    "entropy",
    "mixed groups",
)
_BEFORE = "before training"
_NOTHING = "–"


def print_rows(lines: Sequence[Sequence[str]], console: Console) -> None:
    """Print rows in columns, the first one being their heads."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        console.out("  ".join(cells).rstrip(), highlight=False)


def signs_rows(found: Sequence[Signs], before: Before | None) -> list[Sequence[str]]:
    """The table as text: heads, the policy that all arms begin with, and a row per arm."""
    rows: list[Sequence[str]] = [_HEAD]
    if before is not None:
        sides = [cell for side in (before.trained, before.unseen) for cell in _before(side)]
        rows.append([_BEFORE, *sides, percent(before.one_answer), _NOTHING, _NOTHING])
    for one in found:
        sides = [
            cell
            for side in (one.trained, one.unseen)
            for cell in (plain(side.runs), _episodes(side), plain_points(side.difference))
        ]
        rows.append([one.arm, *sides, plain(one.one_answer), _entropy(one), plain(one.mixed)])
    return rows


def signs_section(found: Sequence[Signs], before: Before | None) -> str:
    """The section of the page, as HTML; "" if nothing was measured on held-out seeds."""
    if not found:
        return ""
    head = "".join(f'<th scope="col">{shown(name.capitalize())}</th>' for name in _HEAD)
    rows: list[tuple[str, list[str]]] = []
    if before is not None:
        sides = [cell for side in (before.trained, before.unseen) for cell in _before(side)]
        rows.append((_BEFORE, [*sides, percent(before.one_answer), _NOTHING, _NOTHING]))
    for one in found:
        sides = [
            cell
            for side in (one.trained, one.unseen)
            for cell in (rate(side.runs), _episodes(side), change(side.difference))
        ]
        rows.append((one.arm, [*sides, rate(one.one_answer), _entropy(one), rate(one.mixed)]))
    body = "".join(
        f'<tr><th scope="row">{shown(name)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for name, cells in rows
    )
    return filled("signs.html", head=head, body=body)


def signs_json(found: Sequence[Signs], before: Before | None) -> dict[str, Any]:
    """The same figures for programs; {} if nothing was measured on held-out seeds."""
    if not found:
        return {}
    arms = {
        one.arm: {
            "trained": _rate_json(one.trained),
            "unseen": _rate_json(one.unseen),
            "one_answer": mean_json(one.one_answer),
            "entropy": mean_json(one.entropy),
            "mixed_groups": mean_json(one.mixed),
        }
        for one in found
    }
    if before is None:
        return {"held_out": arms}
    was = {
        "trained": _proportion_json(before.trained),
        "unseen": _proportion_json(before.unseen),
        "one_answer": before.one_answer,
    }
    return {"held_out": arms, "before": was}


def _before(side: Proportion) -> list[str]:
    return [percent(side.rate) if side.n else _NOTHING, _of(side), _NOTHING]


def _episodes(side: Rate) -> str:
    return _of(side.episodes)


def _of(episodes: Proportion) -> str:
    """The interval of pooled episodes, and their number."""
    return f"{span(episodes.interval)} of {episodes.n:,}" if episodes.n else _NOTHING


def _entropy(one: Signs) -> str:
    return _NOTHING if isnan(one.entropy.value) else f"{one.entropy.value:.2f}"


def _rate_json(side: Rate) -> dict[str, Any]:
    means = {"runs": mean_json(side.runs), "difference": mean_json(side.difference)}
    return means | {"episodes": _proportion_json(side.episodes)}


def _proportion_json(episodes: Proportion) -> dict[str, Any]:
    interval = episodes.interval
    return {
        "successes": episodes.successes,
        "n": episodes.n,
        "interval": [interval.low, interval.high],
    }
