"""What a run writes down as it goes: `metrics.jsonl`, a line an update, and the same for TensorBoard."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch.utils.tensorboard import SummaryWriter

from guiagent.errors import InfrastructureError
from guiagent.types import Trajectory
from training.agreement import Agreement, judged_and_true


class Metrics:
    """Appends one JSON object per update, with the success of every task among the episodes since the last
    one, and of episodes that were judged and audited how far the two agree.

    On resume, lines of updates after the checkpoint's `after_step` are dropped: they will be made again.

    Raises:
        InfrastructureError: the disk is full or failing.
    """

    def __init__(self, run: Path, after_step: int) -> None:
        self._path = run / "metrics.jsonl"
        kept = [line for line in _lines(self._path) if line["step"] <= after_step]
        whole = self._path.with_suffix(".tmp")
        try:
            whole.write_text("".join(json.dumps(line) + "\n" for line in kept))
            whole.replace(self._path)
            self._file = self._path.open("a", buffering=1)
            self._board = SummaryWriter(str(run / "tensorboard"), purge_step=after_step + 1)
        except OSError as error:
            raise self._failed(error) from error
        self._outcomes: dict[str, list[int]] = defaultdict(lambda: [0, 0])  # task: successes, episodes
        self._agreement = Agreement()

    def episode(self, trajectory: Trajectory) -> None:
        """Counts one rolled-out episode, unless a fault says nothing about the policy."""
        if trajectory.valid:
            outcome = self._outcomes[trajectory.task]
            outcome[0] += trajectory.success
            outcome[1] += 1
        if (both := judged_and_true(trajectory)) is not None:
            self._agreement.add(*both)

    def update(self, figures: dict[str, Any]) -> None:
        """Writes the figures of one update, among them its "step"; what is not finite becomes null."""
        tasks = {task: {"successes": s, "episodes": n} for task, (s, n) in sorted(self._outcomes.items())}
        self._outcomes.clear()
        figures = figures | self._agreement_figures()
        line = {name: None if _unknown(value) else value for name, value in figures.items()} | {
            "tasks": tasks
        }
        try:
            self._file.write(json.dumps(line) + "\n")
            for name, value in _scalars(figures):
                self._board.add_scalar(name, value, line["step"])
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        self._file.close()
        self._board.close()

    def _agreement_figures(self) -> dict[str, Any]:
        """Nothing where no episode was both judged and audited."""
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

    def _failed(self, error: OSError) -> InfrastructureError:
        return InfrastructureError(
            f"cannot write {self._path}: {error.strerror}; make room, then start the run again to go on"
        )


class Phases:
    """Seconds by what was being done: `with phases("learning"): ...`."""

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
        """The seconds since the last reading, and those of each phase among them."""
        now = monotonic()
        seconds, self._began = now - self._began, now
        phases, self._seconds = dict(self._seconds), defaultdict(float)
        return max(seconds, 1e-9), phases


def accelerator_figures() -> dict[str, float]:
    """How busy this process's GPU was in the last second, and the most memory it held; {} without one."""
    if not torch.cuda.is_available():
        return {}
    figures = {"gpu_memory_mb": torch.cuda.max_memory_allocated() / 2**20}
    with suppress(ModuleNotFoundError):  # pynvml, which asks the driver
        figures["gpu_utilisation"] = torch.cuda.utilization() / 100
    return figures


def read(run: Path) -> list[dict[str, Any]]:
    """The updates of a run so far, in order; [] before the first."""
    return _lines(run / "metrics.jsonl")


def _lines(path: Path) -> list[dict[str, Any]]:
    """Whole lines only: a crash may have cut the last one short."""
    if not path.is_file():
        return []
    lines = []
    for text in path.read_text().splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return lines


def _unknown(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _scalars(figures: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """What can be drawn as curves: finite numbers, those of one kind under its name."""
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from ((f"{name}/{key}", number) for key, number in _scalars(value))
        elif isinstance(value, int | float) and math.isfinite(value) and name != "step":
            yield name, value
