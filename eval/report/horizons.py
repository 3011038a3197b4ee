"""The ladder of a comparison, by the number of actions of a task: on the terminal, the page, and as JSON."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from eval.horizons import HALF, WINDOW, Rung
from eval.report.means import mean_json, plain, rate
from eval.report.page import filled
from eval.report.table import span
from eval.report.viewer import shown

_HEAD = ("actions", "arm", "held-out success", "of episodes", f"{HALF:.0%} of {WINDOW} in training after")


def rung_rows(found: Sequence[Rung]) -> list[Sequence[str]]:
    """The table as text, its heads first."""
    rows = [[str(one.actions), one.arm, plain(one.runs), _episodes(one), until(one)] for one in found]
    return [_HEAD, *rows]


def rung_section(found: Sequence[Rung]) -> str:
    """The section of the page, as HTML; "" without a rung."""
    if not found:
        return ""
    head = "".join(f'<th scope="col">{shown(name.capitalize())}</th>' for name in _HEAD)
    body = "".join(
        f'<tr><th scope="row">{one.actions}</th><td>{shown(one.arm)}</td><td>{rate(one.runs)}</td>'
        f"<td>{_episodes(one)}</td><td>{until(one)}</td></tr>"
        for one in found
    )
    return filled("horizons.html", head=head, body=body)


def rung_json(found: Sequence[Rung]) -> list[dict[str, Any]]:
    """The same figures for programs."""
    return [
        {
            "arm": one.arm,
            "actions": one.actions,
            "held_out": mean_json(one.runs),
            "successes": one.episodes.successes,
            "episodes": one.episodes.n,
            "until_half": list(one.until_half),
        }
        for one in found
    ]


def until(rung: Rung) -> str:
    """Say after how many environment steps the runs that got there did, as their median, and how many."""
    there = [steps for steps in rung.until_half if steps is not None]
    of = f"{len(there)} of {len(rung.until_half)} runs"
    return f"{median(there):,.0f} steps ({of})" if there else f"never ({of})"


def _episodes(rung: Rung) -> str:
    return f"{span(rung.episodes.interval)} of {rung.episodes.n:,}"
