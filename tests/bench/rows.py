"""Measuring arms in turn, and the rows of the results: ours, a peer's or a limit, whether the goal holds."""

import math
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import median

import msgspec

from tests.bench.peers import PeerMissing

SLACK = 1.5  # a goal further from its figure than this many times says little


@dataclass
class Arm:
    """One way of doing something; `measure` does it once and returns its figure."""

    measure: Callable[[], float]
    figures: list[float] = field(default_factory=list)
    missing: str = ""  # why there are no figures

    @classmethod
    def of(cls, *figures: float, missing: str = "") -> "Arm":
        """What was measured already, or is not to be had."""
        return cls(lambda: math.nan, list(figures), missing)


def interleave(rounds: int, *arms: Arm) -> None:
    """Measure the arms in turn, so that what else the machine does falls on all of them alike."""
    for _ in range(rounds):
        for arm in arms:
            if arm.missing:
                continue
            try:
                arm.figures.append(arm.measure())
            except PeerMissing as error:
                arm.missing = str(error)


class Row(msgspec.Struct, kw_only=True):
    """One figure. Medians; `ratio` says how many times better than the peer's ours is, above 1 or below.

    A `limit` is what this machine can do at best, measured in the same run: an fsync, an empty request, a
    bare browser's start. `slack` says how many times worse the figure could be and still reach its goal.
    `spread` holds the least and the greatest over the rounds: of the ratio, round by round, where there is
    one, else of ours.
    """

    name: str
    unit: str
    ours: float | None = None
    peer: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None  # None: one round says nothing of it
    limit: float | None = None
    goal: str = "reported"
    holds: bool | None = None  # None: could not be told, because something is missing
    slack: float | None = None
    note: str = ""
    load: float = msgspec.field(default_factory=lambda: round(os.getloadavg()[0], 1))
    commit: str = msgspec.field(default_factory=lambda: current_commit())

    @property
    def verdict(self) -> str:
        if self.ours is None:
            return "missing" if self.holds is None else "failed"
        if self.holds is None:
            return "no verdict"
        if not self.holds:
            return "no"
        return f"yes, {self.slack:.1f}x slack" if self.slack is not None and self.slack > SLACK else "yes"


def against(name: str, unit: str, ours: Arm, peer: Arm, times: float, *, less: bool = False) -> Row:
    """Goal: at least so many times better than the peer; with `less`, less of the unit is better."""
    goal = f">= {times:g}x the peer"
    if absent := _absent(name, unit, goal, ours, peer):
        return absent
    mine, theirs = median(ours.figures), median(peer.figures)
    ratio = theirs / mine if less else mine / theirs
    row = Row(name=name, unit=unit, ours=mine, peer=theirs, ratio=ratio, goal=goal)
    row.spread = _spread(_ratios(ours, peer, less=less))
    return _judged(row, ratio / times)


def within(name: str, unit: str, ours: Arm, limit: Arm, times: float, *, less: bool = True) -> Row:
    """Goal: not so many times worse than the limit; with `less`, less of the unit is better."""
    goal = f"{'<=' if less else '>='} {times if less else 1 / times:.3g}x the limit"
    if absent := _absent(name, unit, goal, ours, limit):
        return absent
    mine, best = median(ours.figures), median(limit.figures)
    worse = mine / best if less else best / mine
    row = Row(name=name, unit=unit, ours=mine, spread=_spread(ours.figures), limit=best, goal=goal)
    return _judged(row, times / worse)


def at_least(name: str, unit: str, ours: Arm, least: float) -> Row:
    """Goal: the median of ours reaches `least`."""
    goal = f">= {least:g} {unit}"
    if absent := _absent(name, unit, goal, ours):
        return absent
    mine = median(ours.figures)
    row = Row(name=name, unit=unit, ours=mine, spread=_spread(ours.figures), goal=goal)
    return _judged(row, mine / least)


def at_most(name: str, unit: str, ours: Arm, most: float) -> Row:
    """Goal: the median of ours is no more than `most`, which may be 0."""
    goal = f"<= {most:g} {unit}"
    if absent := _absent(name, unit, goal, ours):
        return absent
    mine = median(ours.figures)
    row = Row(name=name, unit=unit, ours=mine, spread=_spread(ours.figures), goal=goal)
    if mine and most:
        return _judged(row, most / mine)
    row.holds = mine <= most
    return row


def reported(name: str, unit: str, ours: Arm, peer: Arm | None = None, *, limit: Arm | None = None) -> Row:
    """No goal but that there is a figure, beside what it is to be seen against."""
    if absent := _absent(name, unit, "reported", ours):
        return absent
    mine = median(ours.figures)
    row = Row(name=name, unit=unit, ours=mine, spread=_spread(ours.figures), holds=True)
    if peer is not None and peer.figures:
        row.peer = median(peer.figures)
        if all(peer.figures):
            row.ratio = mine / row.peer
            row.spread = _spread(_ratios(ours, peer))
    if limit is not None and limit.figures:
        row.limit = median(limit.figures)
    return row


def noted(row: Row, note: str) -> Row:
    """The row with one note more."""
    row.note = "; ".join(filter(None, (row.note, note)))
    return row


def _ratios(ours: Arm, peer: Arm, *, less: bool = False) -> list[float]:
    """How many times better ours is in each round, in which both took their turn."""
    pairs = zip(ours.figures, peer.figures, strict=False)
    return [theirs / mine if less else mine / theirs for mine, theirs in pairs]


def _spread(figures: Sequence[float]) -> tuple[float, float] | None:
    return (min(figures), max(figures)) if len(figures) > 1 else None


def _judged(row: Row, slack: float) -> Row:
    row.holds, row.slack = slack >= 1, slack
    return row


def _absent(name: str, unit: str, goal: str, ours: Arm, other: Arm | None = None) -> Row | None:
    """The row of what cannot be compared; None where it can."""
    if ours.missing:
        return Row(name=name, unit=unit, goal=goal, note=f"missing: {ours.missing}")
    if other is not None and other.missing:
        note = f"peer missing: {other.missing}"
        mine, spread = median(ours.figures), _spread(ours.figures)
        return Row(name=name, unit=unit, ours=mine, spread=spread, goal=goal, note=note)
    return None


@cache
def current_commit() -> str:
    """Of this checkout, "-dirty" where it was changed since."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"
    except FileNotFoundError:
        return "unknown"
