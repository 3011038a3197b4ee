"""Experiment trackers: figures reach them, and no failure or wait of theirs reaches the run.

The packages are the user's own choice and no part of the tests' environment: a package of the same calls
stands in for trackio, and is imported as the real one would be.
tests/doors/test_trackers.py runs the real ones.
"""

import json
import logging
import sys
from pathlib import Path

import pytest

from guiagent.errors import MissingProgram
from training.metrics import trackers
from training.metrics.trackers import require_tracker
from training.metrics.writer import Metrics, read

PACKAGE = """
import json, threading
go_on = threading.Event()
go_on.set()
def init(project, name, resume, embed):
    assert resume == "allow"
    return Run(project, name)
class Run:
    def __init__(self, project, name):
        self.name = name
        self.file = open(FILE, "a")
    def log(self, figures, step):
        go_on.wait()
        if "broken" in figures:
            raise ConnectionError("no\\nserver")
        self.file.write(json.dumps([self.name, step, figures]) + "\\n")
    def finish(self):
        self.file.close()
"""


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the package where it is imported from; the file that it writes to."""
    file = tmp_path / "sent"
    (tmp_path / "trackio.py").write_text(PACKAGE.replace("FILE", repr(str(file))))
    monkeypatch.syspath_prepend(tmp_path)
    yield file
    sys.modules.pop("trackio", None)


def lines(file: Path) -> list[tuple[str, int, dict[str, float]]]:
    return [tuple(json.loads(line)) for line in file.read_text().splitlines()]


def test_a_tracker_gets_what_the_file_gets_and_a_resumed_run_goes_on_in_its_own(tmp_path: Path, sent: Path):
    run = tmp_path / "my run"
    for step in (1, 2):
        metrics = Metrics(run, after_step=step - 1, tracker="trackio")
        metrics.update(
            {"step": step, "loss": 0.5 / step, "groups": {"mixed": 3}, "kl": float("nan"), "note": "a"}
        )
        metrics.close()
    (first, *_), (second, *_) = found = lines(sent)
    assert first == second != "my run"
    assert first.startswith("my-run-")
    assert [one[1:] for one in found] == [
        (1, {"loss": 0.5, "groups/mixed": 3}),
        (2, {"loss": 0.25, "groups/mixed": 3}),
    ]
    assert [line["step"] for line in read(run)] == [1, 2]


def test_a_tracker_that_fails_is_one_warning_and_the_run_goes_on(
    tmp_path: Path, sent: Path, caplog: pytest.LogCaptureFixture
):
    metrics = Metrics(tmp_path / "run", after_step=0, tracker="trackio")
    with caplog.at_level(logging.WARNING):
        for step in range(1, 6):
            metrics.update({"step": step, "broken": 1.0})
        metrics.close()
    assert len(read(tmp_path / "run")) == 5
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "trackio" in warning
    assert "ConnectionError: no server" in warning


def test_a_tracker_that_hangs_slows_no_step_and_ends_no_later_than_its_bound(
    tmp_path: Path, sent: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trackers, "_END_S", 0.05)
    monkeypatch.setattr(trackers, "_MOST_WAITING", 3)
    import trackio

    trackio.go_on.clear()
    tracker = trackers.Tracker("trackio", tmp_path)
    try:
        with caplog.at_level(logging.WARNING):
            for step in range(10):  # would never return if it waited
                tracker.add(step, {"loss": 1.0})
            tracker.close()
    finally:
        trackio.go_on.set()
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "3 updates wait for it" in warning


def test_a_tracker_that_is_not_installed_is_one_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    require_tracker(None)
    with pytest.raises(MissingProgram, match="tracker wandb is not installed: pip install wandb"):
        require_tracker("wandb")
