"""A leaderboard: results found below folders, by suite, ranked as far as their intervals allow."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import msgspec

from eval.conditions import Conditions, differences
from eval.results import RESULTS, EpisodeResult, StoredResult, TaskResult, pooled_of, read_stored
from guiagent.errors import InfrastructureError

_NOT_RESULTS = ("trajectories", "verified")  # large folders within an evaluation that hold none of their own
_REPETITION = re.compile(r"(?P<label>.+)-run\d+")


@dataclass(frozen=True, slots=True)
class Entry:
    """A policy on a suite: its repetitions of one evaluation together."""

    label: str
    folder: Path  # of the evaluation
    runs: int
    episodes: tuple[EpisodeResult, ...]
    ran: Conditions

    @property
    def total(self) -> TaskResult:
        return pooled_of(self.label, self.episodes)


@dataclass(frozen=True, slots=True)
class Board:
    """The entries of one suite, best rate first; `name` tells versions of the suite apart."""

    name: str
    digest: str
    entries: tuple[Entry, ...]

    def rank(self, entry: Entry) -> int:
        """1, and 1 more for each entry whose whole 95% interval lies above this one's.

        What cannot be told apart by its episodes shares a rank.
        """
        mine = entry.total.scheduled.interval
        return 1 + sum(other.total.scheduled.interval.low > mine.high for other in self.entries)

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for each entry that ran otherwise than the first: on other devices, by another evaluator."""
        if not self.entries:
            return ()
        first = msgspec.structs.replace(self.entries[0].ran, agent={})
        found = []
        for entry in self.entries[1:]:
            if other := differences(first, msgspec.structs.replace(entry.ran, agent={})):
                found.append(f"{entry.label} ({entry.folder}): {'; '.join(other)}")
        return tuple(found)


def find_results(folders: Iterable[Path]) -> tuple[list[tuple[Path, StoredResult]], list[str]]:
    """Read all results below folders, in the order of their paths; and a line for each that is damaged."""
    found: dict[Path, StoredResult] = {}
    damaged = []
    for top in folders:
        for at, below, files in os.walk(top):
            below[:] = sorted(name for name in below if name not in _NOT_RESULTS)
            if RESULTS in files:
                folder = Path(at)
                try:
                    found[folder.resolve()] = read_stored(folder / RESULTS)
                except InfrastructureError as error:
                    damaged.append(str(error))
    return list(found.items()), damaged


def boards_of(results: Sequence[tuple[Path, StoredResult]]) -> list[Board]:
    """Arrange results by suite and its version, and repetitions of an evaluation under its own label."""
    groups: dict[tuple[str, str], dict[tuple[Path, str], list[StoredResult]]] = {}
    for folder, result in results:
        again = _REPETITION.fullmatch(result.label)
        label = again["label"] if again else result.label
        entries = groups.setdefault((result.suite, result.digest), {})
        entries.setdefault((folder.parent, label), []).append(result)
    names = [suite for suite, _ in groups]
    boards = []
    for (suite, digest), entries in groups.items():
        name = suite if names.count(suite) == 1 else f"{suite}@{digest[:8]}"
        played = [
            Entry(
                label,
                folder,
                len(runs),
                tuple(episode for run in runs for episode in run.episodes),
                runs[0].ran,
            )
            for (folder, label), runs in entries.items()
            if any(run.episodes for run in runs)
        ]
        ranked = sorted(played, key=lambda e: (-e.total.scheduled.rate, e.label, e.folder))
        if ranked:
            boards.append(Board(name, digest, tuple(ranked)))
    return sorted(boards, key=lambda board: board.name)


def labels_of(boards: Sequence[Board]) -> list[str]:
    """The policies on any of the boards: those on most boards first, then by their mean rate, best first."""
    rates: dict[str, list[float]] = {}
    for board in boards:
        for label in {entry.label for entry in board.entries}:
            if entry := best(board, label):
                rates.setdefault(label, []).append(entry.total.scheduled.rate)
    return sorted(rates, key=lambda label: (-len(rates[label]), -fmean(rates[label]), label))


def best(board: Board, label: str) -> Entry | None:
    """The first of a policy's entries on a board."""
    return next((entry for entry in board.entries if entry.label == label), None)
