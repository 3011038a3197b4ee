"""Writes a run's metrics: a line per update in `metrics.jsonl`, the same for TensorBoard and a tracker."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Any

from guiagent.errors import InfrastructureError
from guiagent.storage.atomic import write_file
from guiagent.storage.journal import Journal
from guiagent.types import Trajectory
from training.config import TrackerName
from training.metrics.judge_agreement import Agreement, judged_and_true
from training.metrics.tensorboard import TensorBoardWriter
from training.metrics.trackers import Tracker


class Metrics:
    """Appends one JSON object per update to `metrics.jsonl`.

    Each has the successes of every task among the episodes since the last one, and the judge's agreement over
    those that were judged and audited. The whole line is on the disk when `update` returns. On resume, lines
    of updates after the checkpoint's `after_step` are dropped: those updates will be made again.

    Raises:
        InfrastructureError: the disk is full or failing, or a line before the last is damaged.
        MissingProgram: the tracker's package is not installed.
    """

    def __init__(self, run: Path, after_step: int, tracker: TrackerName | None = None) -> None:
        path = run / "metrics.jsonl"
        lines = read(run)
        kept = [line for line in lines if line["step"] <= after_step]
        if kept != lines:
            write_file(path, "".join(json.dumps(line) + "\n" for line in kept).encode())
        self._journal = Journal(path, dict[str, Any])
        self._board = TensorBoardWriter(run / "tensorboard", after_step + 1)
        self._tracker = Tracker(tracker, run) if tracker else None
        self._outcomes: dict[str, list[int]] = defaultdict(lambda: [0, 0])  # task: successes, episodes
        self._agreement = Agreement()

    def episode(self, trajectory: Trajectory) -> None:
        """Count one rolled-out episode, if its outcome is known."""
        if trajectory.valid:
            outcome = self._outcomes[trajectory.task]
            outcome[0] += trajectory.success
            outcome[1] += 1
        if (both := judged_and_true(trajectory)) is not None:
            self._agreement.add(*both)

    def update(self, figures: dict[str, Any]) -> None:
        """Write the figures of one update, among them its "step"; non-finite numbers become null."""
        tasks = {task: {"successes": s, "episodes": n} for task, (s, n) in sorted(self._outcomes.items())}
        self._outcomes.clear()
        figures = figures | self._agreement_figures()
        self._journal.append(_plain(figures) | {"tasks": tasks})
        self._board.add(figures["step"], figures)
        if self._tracker is not None:
            self._tracker.add(figures["step"], figures | {"tasks": tasks})

    def close(self) -> None:
        self._journal.close()
        self._board.close()
        if self._tracker is not None:
            self._tracker.close()

    def _agreement_figures(self) -> dict[str, Any]:
        """Return the judge's agreement figures; {} if no episode was both judged and audited."""
        counted, self._agreement = self._agreement, Agreement()
        if not counted.n:
            return {}
        return {
            "judged_success": counted.judged_success,
            "true_success": counted.true_success,
            "judge_false_positive_rate": counted.false_positive_rate,
            "judge_false_negative_rate": counted.false_negative_rate,
            "agreement": asdict(counted),
        }


class Phases:
    """Seconds spent in each phase: `with phases("learning"): ...`."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._began = monotonic()

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began = monotonic()
        try:
            yield
        finally:
            self._seconds[name] += monotonic() - began

    def read(self) -> tuple[float, dict[str, float]]:
        """Return the seconds since the last reading, in all and by phase."""
        now = monotonic()
        seconds, self._began = now - self._began, now
        phases, self._seconds = dict(self._seconds), defaultdict(float)
        return max(seconds, 1e-9), phases


def read(run: Path) -> list[dict[str, Any]]:
    """Read the updates of a run so far, in order; [] before the first. An incomplete last line is left out.

    Raises:
        InfrastructureError: the file cannot be read, or one of its lines is damaged.
    """
    path = run / "metrics.jsonl"
    try:
        *whole, _ = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InfrastructureError(f"cannot read {path}: {error.strerror}") from error
    lines = [_line(text) for text in whole]
    if None in lines:
        raise InfrastructureError(
            f"{path}: line {lines.index(None) + 1} is damaged; restore it from a copy, or remove that line"
        )
    return [line for line in lines if line is not None]


def _line(text: bytes) -> dict[str, Any] | None:
    """Decode a line; None if it is not an update."""
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("step"), int) else None


def _plain(value: Any) -> Any:
    """Convert to plain JSON values: non-finite numbers become None, numpy's floats become floats."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
