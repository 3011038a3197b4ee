"""A result as CSV (RFC 4180): a row per episode, with the parts of its score and the groups of its task."""

import csv
import io
from dataclasses import fields

from eval.results import EpisodeResult, SuiteResult

_FIELDS = tuple(field.name for field in fields(EpisodeResult) if field.name != "parts")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a spreadsheet's formulas begin


def result_csv(result: SuiteResult) -> bytes:
    """Return a head and a row for each episode, in the suite's order.

    A text that a spreadsheet would take for a formula gets an apostrophe in front: pages write reasons.
    """
    ways = list(result.suite.groups)
    parts = list(dict.fromkeys(name for episode in result.episodes for name in episode.parts))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["policy", *_FIELDS, *parts, *ways])
    for episode in result.episodes:
        groups = [result.suite.groups[way].get(episode.task, "") for way in ways]
        values = [*(getattr(episode, name) for name in _FIELDS), *(episode.parts.get(name) for name in parts)]
        cells = [result.label, *values, *groups]
        writer.writerow([_plain(cell) for cell in cells])
    return out.getvalue().encode()


def _plain(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
