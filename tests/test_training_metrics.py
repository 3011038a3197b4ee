"""What a run writes down, and how it goes on writing after a crash."""

import json
import resource
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from guiagent.errors import Fault, InfrastructureError
from guiagent.types import Score, Trajectory
from training.agreement import GapMonitor
from training.metrics import Metrics, read


def episode(task: str, value: float | None, fault: Fault | None = None) -> Trajectory:
    return Trajectory("id", task, 0, "", [], "task_done", Score(value), fault=fault)


def test_a_line_an_update_with_every_tasks_success_since_the_last(tmp_path: Path):
    metrics = Metrics(tmp_path, after_step=0)
    for task, value in (("b", 1.0), ("a", 0.0), ("b", 0.0), ("b", 1.0)):
        metrics.episode(episode(task, value))
    metrics.episode(episode("a", None))
    metrics.episode(episode("a", 1.0, Fault("device", "crashed", "gone")))
    metrics.update({"step": 1, "loss": 0.5, "staleness_histogram": [3, 1]})
    assert read(tmp_path)[0]["loss"] == 0.5  # there at once, for whoever watches
    metrics.episode(episode("a", 1.0))
    metrics.update({"step": 2, "loss": float("nan"), "norm": float("inf")})
    metrics.close()
    first, second = read(tmp_path)
    assert first == {
        "step": 1,
        "loss": 0.5,
        "staleness_histogram": [3, 1],
        "tasks": {"a": {"successes": 0, "episodes": 1}, "b": {"successes": 2, "episodes": 3}},
    }
    tasks = {"a": {"successes": 1, "episodes": 1}}
    assert second == {"step": 2, "loss": None, "norm": None, "tasks": tasks}


def test_what_was_judged_and_audited_is_compared(tmp_path: Path):
    metrics = Metrics(tmp_path, after_step=0)
    outcomes = [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (0.0, 0.0), (None, 1.0), (1.0, None)]
    for judged, true in outcomes:
        trajectory = episode("a", judged)
        trajectory.audit = Score(true)
        metrics.episode(trajectory)
    metrics.update({"step": 1})
    metrics.episode(episode("a", 1.0))  # no judge: nothing to compare
    metrics.update({"step": 2})
    metrics.close()
    first, second = read(tmp_path)
    assert (first["judged_success"], first["true_success"]) == (2 / 5, 2 / 5)
    assert first["judge_false_positive_rate"] == 1 / 3
    assert first["judge_false_negative_rate"] == 1 / 2
    counts = {"true_positive": 1, "false_positive": 1, "false_negative": 1, "true_negative": 2}
    assert first["agreement"] == counts
    assert first["tasks"] == {"a": {"successes": 3, "episodes": 6}}  # by the verdicts
    assert "judged_success" not in second


def test_a_gap_is_reported_once_there_is_enough_to_see_it():
    monitor = GapMonitor(window=100)
    for number in range(99):
        monitor.add(judged=True, true=number % 10 != 0)
    assert (monitor.gap, monitor.opened) == (None, False)
    monitor.add(judged=True, true=True)
    assert monitor.gap == pytest.approx(0.1) and monitor.opened
    for _ in range(100):
        monitor.add(judged=False, true=True)
    assert monitor.gap == -1.0 and not monitor.opened  # a strict judge is no reward to be gamed


def test_tensorboard_has_the_same_numbers(tmp_path: Path):
    metrics = Metrics(tmp_path, after_step=0)
    for step in (1, 2):
        figures = {"step": step, "loss": step / 4, "ids": [1], "nothing": None, "nan": float("nan")}
        metrics.update(figures | {"phase_seconds": {"learning": step / 2, "waiting": float("inf")}})
    metrics.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Tags()["scalars"] == ["loss", "phase_seconds/learning"]
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 0.25), (2, 0.5)]


def test_a_resumed_run_drops_what_it_will_do_again(tmp_path: Path):
    """Updates after the checkpoint, and the line that a crash cut short."""
    metrics = Metrics(tmp_path, after_step=0)
    for step in (1, 2, 3, 4):
        metrics.update({"step": step, "loss": 1.0})
    metrics.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "lo')
    assert [line["step"] for line in read(tmp_path)] == [1, 2, 3, 4]
    metrics = Metrics(tmp_path, after_step=2)
    metrics.update({"step": 3, "loss": 2.0})
    metrics.close()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [(line["step"], line["loss"]) for line in map(json.loads, lines)] == [(1, 1.0), (2, 1.0), (3, 2.0)]


def test_a_run_that_wrote_nothing_has_no_updates(tmp_path: Path):
    assert read(tmp_path) == []
    Metrics(tmp_path, after_step=0).close()
    assert read(tmp_path) == []


def test_a_full_disk_is_one_clear_line(tmp_path: Path):
    metrics = Metrics(tmp_path, after_step=0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        with pytest.raises(InfrastructureError, match=r"cannot write .*metrics\.jsonl: .*make room"):
            metrics.update({"step": 1, "loss": 1.0})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with pytest.raises(InfrastructureError, match="cannot write"):
        Metrics(tmp_path / "no such folder", after_step=0)
