"""Repetitions of an evaluation, on a terminal and in the report: spread, pass@k, stops, effort."""

from rich.console import Console

from eval.repetitions import Half, Prices, Repetitions
from eval.report.page import filled
from eval.report.table import percent, span
from eval.report.viewer import STOPS
from eval.results import TRAINED, UNSEEN


def print_repetitions(found: Repetitions, console: Console, prices: Prices | None = None) -> None:
    """Print a line for each half of the suite, one on how episodes ended and one on what a success took."""
    if len(found.runs) > 1:
        for name, half in _halves(found):
            console.out(f"{len(found.runs)} runs on {name}: " + ", ".join(_figures(half)), highlight=False)
    console.out(f"ended     {_stops(found)}", highlight=False)
    if effort := took(found, prices):
        console.out(f"a success took {effort}", highlight=False)


def repetitions_section(found: Repetitions, prices: Prices | None = None) -> str:
    """The section of the report, as HTML."""
    rows = []
    if len(found.runs) > 1:
        rows = [
            (f"{len(found.runs)} runs on {name}", "; ".join(_figures(half))) for name, half in _halves(found)
        ]
    rows.append(("Episodes ended", _stops(found)))
    rows.append(("A success took", took(found, prices) or "–"))
    body = "".join(f'<tr><th scope="row">{name}</th><td>{said}</td></tr>' for name, said in rows)
    return filled("repetitions.html", rows=body)


def _halves(found: Repetitions) -> list[tuple[str, Half]]:
    halves = [(TRAINED, found.half(trained=True)), (UNSEEN, found.half(trained=False))]
    return [(name, half) for name, half in halves if half is not None]


def _figures(half: Half) -> list[str]:
    runs = len(half.rates)
    return [
        f"mean {percent(half.mean)} ({span(half.interval)} with tasks drawn anew)",
        f"half-range {100 * half.half_range:.1f} points",
        f"pass@{runs} {percent(half.at_least_one[-1])}",
        f"pass^{runs} {percent(half.every_one[-1])}",
    ]


def _stops(found: Repetitions) -> str:
    return ", ".join(f"{count:,} {STOPS[stop]}" for stop, count in found.stops.most_common())


def took(found: Repetitions, prices: Prices | None = None) -> str:
    """What a success took, failures included, and what it cost; "" without a success."""
    effort = found.effort
    if effort.steps is None or effort.seconds is None:
        return ""
    tokens = f", {effort.tokens:,.0f} tokens" if effort.tokens is not None else ""
    cost = prices.of(effort) if prices else None
    paid = f", {cost:,.4f} at the prices given" if cost is not None else ""
    return f"{effort.steps:.1f} steps, {effort.seconds:.1f} s{tokens}{paid}, those of failures included"
