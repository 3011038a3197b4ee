"""Measuring arms in turn, and the rows of the results: ours, a peer's, and whether the goal holds."""

import math
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from statistics import median

import msgspec

from tests.bench.peers import PeerMissing


@dataclass
class Arm:
    """One way of doing something; `measure` does it once and returns its figure."""

    measure: Callable[[], float]
    figures: list[float] = field(default_factory=list)
    missing: str = ""  # why there are no figures


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


class Row(msgspec.Struct):
    name: str
    ours: float
    peer: float | None
    ratio: float | None
    goal: str
    holds: bool | None  # None: could not be told, because the peer is missing
    load: float  # one-minute load average when the row was done
    commit: str
    unit: str
    note: str = ""


def times_the_peer(name: str, unit: str, ours: Arm, peer: Arm, at_least: float) -> Row:
    """Goal: the median of ours is at least so many times the peer's."""
    goal = f">= {at_least:g}x"
    if peer.missing:
        return _row(name, median(ours.figures), None, None, goal, None, unit, f"peer missing: {peer.missing}")
    mine, theirs = median(ours.figures), median(peer.figures)
    return _row(name, mine, theirs, mine / theirs, goal, mine / theirs >= at_least, unit)


def at_least(name: str, unit: str, ours: Arm, limit: float) -> Row:
    """Goal: the median of ours reaches the limit."""
    mine = median(ours.figures)
    return _row(name, mine, None, None, f">= {limit:g} {unit}", mine >= limit, unit)


def at_most(name: str, unit: str, ours: Arm, limit: float, peer: Arm | None = None) -> Row:
    """Goal: the median of ours is within the limit. The ratio says how much less it is than a peer's."""
    mine = median(ours.figures)
    theirs = median(peer.figures) if peer is not None and peer.figures else None
    ratio = theirs / mine if theirs is not None and mine else None
    note = f"peer missing: {peer.missing}" if peer is not None and peer.missing else ""
    return _row(name, mine, theirs, ratio, f"<= {limit:g} {unit}", mine <= limit, unit, note)


def share_of_the_peer(name: str, unit: str, ours: Arm, peer: Arm, at_most: float) -> Row:
    """Goal: the median of ours is at most that share of the peer's."""
    goal = f"<= {at_most:g}x"
    if peer.missing:
        return _row(name, median(ours.figures), None, None, goal, None, unit, f"peer missing: {peer.missing}")
    mine, theirs = median(ours.figures), median(peer.figures)
    return _row(name, mine, theirs, mine / theirs, goal, mine / theirs <= at_most, unit)


def reported(name: str, unit: str, ours: Arm, beside: Arm | None = None) -> Row:
    """Goal: that there is a figure. `beside` is what it is to be seen against, such as a bound."""
    if ours.missing:
        return _row(name, math.nan, None, None, "reported", None, unit, f"missing: {ours.missing}")
    mine = median(ours.figures)
    other = median(beside.figures) if beside is not None and beside.figures else None
    return _row(name, mine, other, mine / other if other else None, "reported", True, unit)


def _row(
    name: str,
    ours: float,
    peer: float | None,
    ratio: float | None,
    goal: str,
    holds: bool | None,
    unit: str,
    note: str = "",
) -> Row:
    load = round(os.getloadavg()[0], 1)
    return Row(name, ours, peer, ratio, goal, holds, load, _commit(), unit, note)


@cache
def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"
    except FileNotFoundError:
        return "unknown"
