"""What the lines of a run's `metrics.jsonl` say: curves, a row per task, and what happened when.

Lines are read one by one as they are added, whatever figures they have, so a run of another version is shown
too.
"""

import math
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from eval.watch.thinning import Thinned
from guiagent.errors import DECODE_ERRORS

ROWS = 800  # of the curves
_TASK_ROWS = 40
_MOST_NAMES = 400  # figures of an update
_MOST_TASKS = 5_000
_MOST_EVENTS = 400
_MOST_TEXT = 600  # characters of an event or a name
_WINDOW = 50  # episodes of a task that "at first" and "lately" are taken over
_DROPPED = {
    "stale_groups": "groups too old to learn from",
    "invalid_groups": "groups without a verdict",
    "flat_groups": "flat groups left out",
    "masked": "episodes masked",
}


class TaskFigures:
    """Outcomes of one task's training episodes; `line` is the number of the last line that had some."""

    def __init__(self) -> None:
        self.line = 0
        self._successes = self._episodes = 0
        self._first = [0, 0]
        self._latest: deque[tuple[int, int]] = deque()
        self._curve = Thinned(_TASK_ROWS)

    def add(self, line: int, step: int, successes: int, episodes: int) -> None:
        self.line = line
        self._successes += successes
        self._episodes += episodes
        if self._first[1] < _WINDOW:
            self._first = [self._first[0] + successes, self._first[1] + episodes]
        self._latest.append((successes, episodes))
        while sum(n for _, n in self._latest) - self._latest[0][1] >= _WINDOW:
            self._latest.popleft()
        self._curve.add(step, {"successes": successes, "episodes": episodes})

    def row(self, name: str) -> dict[str, Any]:
        curve = self._curve.columns()
        successes, episodes = curve["columns"]["successes"], curve["columns"]["episodes"]
        late = [sum(one) for one in zip(*self._latest, strict=True)]
        return {
            "task": name,
            "episodes": self._episodes,
            "success": self._successes / self._episodes,
            "first": self._first[0] / self._first[1],
            "lately": late[0] / late[1],
            "steps": curve["steps"],
            "rates": [round(s / n, 3) for s, n in zip(successes, episodes, strict=True)],
        }


class Figures:
    """The lines of a run so far. `lines` counts them, `damaged` those that are no update."""

    def __init__(self) -> None:
        self.lines = 0
        self.damaged = 0
        self.latest: dict[str, Any] = {}
        self.curves = Thinned(ROWS)
        self.tasks: dict[str, TaskFigures] = {}
        self.events = 0  # that were ever added
        self._events: deque[dict[str, Any]] = deque(maxlen=_MOST_EVENTS)
        self._faults: dict[str, float] = {}

    def add(self, text: bytes) -> None:
        """Add a line of the file."""
        try:
            line = msgspec.json.decode(text, type=dict[str, Any])
        except DECODE_ERRORS:
            line = {}
        step = line.get("step")
        if type(step) is not int:
            self.damaged += 1
            return
        self.lines += 1
        tasks = line.pop("tasks", None)
        figures = dict(_scalars(line))
        self.curves.add(step, figures)
        if isinstance(tasks, dict):
            self._count(step, tasks)
        self._tell(step, line)
        self.latest = figures | {"step": step}

    def event(self, kind: str, step: int | None, text: str) -> None:
        self.events += 1
        self._events.append({"kind": kind, "step": step, "text": text[:_MOST_TEXT]})

    def events_since(self, number: int) -> list[dict[str, Any]]:
        """Return the events after the first `number`, as far as they are kept."""
        kept = list(self._events)
        return kept[max(0, len(kept) - (self.events - number)) :]

    def _count(self, step: int, tasks: Mapping[str, Any]) -> None:
        for name, counts in tasks.items():
            if not isinstance(counts, dict) or (len(self.tasks) >= _MOST_TASKS and name not in self.tasks):
                continue
            successes, episodes = counts.get("successes"), counts.get("episodes")
            if type(successes) is int and type(episodes) is int and 0 <= successes <= episodes and episodes:
                self.tasks.setdefault(name[:_MOST_TEXT], TaskFigures()).add(
                    self.lines, step, successes, episodes
                )

    def _tell(self, step: int, line: Mapping[str, Any]) -> None:
        """Add the events of an update; counters that grew are told by how much."""
        warnings = line.get("warnings")
        for warning in warnings[:20] if isinstance(warnings, list) else ():
            self.event("warning", step, str(warning))
        by_code = line.get("faults_by_code")
        if isinstance(by_code, dict) and by_code:
            counted = ", ".join(f"{_whole(count)} {code}" for code, count in sorted(by_code.items())[:20])
            self.event("fault", step, counted)
        for name, what in _DROPPED.items():
            grown = _number(line.get(name)) - _number(self.latest.get(name))
            if grown > 0:
                self.event("drop", step, f"{grown:,.0f} {what}")
        if skipped := _number(line.get("skipped_updates")):
            self.event("warning", step, f"{skipped:,.0f} updates skipped: a gradient was no number")
        opened = bool(line.get("gap_opened"))
        if opened != bool(self.latest.get("gap_opened")):
            self.event("warning" if opened else "note", step, _gap(opened))


def _gap(opened: bool) -> str:
    return f"judged success is {'above' if opened else 'near'} true success{'' if opened else ' again'}"


def _scalars(line: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The finite numbers of a line; those of a dict get its name before theirs."""
    names = 0
    for name, value in line.items():
        if names >= _MOST_NAMES:
            return
        if isinstance(value, bool | int | float) and math.isfinite(value):
            names += 1
            yield f"{prefix}{name[:_MOST_TEXT]}", float(value)
        elif isinstance(value, dict) and not prefix:
            names += len(value)
            yield from _scalars(value, f"{name[:_MOST_TEXT]}/")


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def _whole(count: Any) -> str:
    return f"{count:,}" if isinstance(count, int) else "?"
