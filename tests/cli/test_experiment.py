"""An experiment on two platforms: a suite for each, on real devices, counted together and told by group."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from eval.suites.demo import ACTIONS, DEMO_APPS, DEMO_PAGES
from eval.suites.suite import joined
from guiagent.cli.train.experiment import Experiment
from guiagent.cli.train.launch import TrainHere
from training.checkpoints.mirror import RunFolder
from training.config import TrainConfig

pytestmark = pytest.mark.browser
CONFIG = TrainConfig.model_validate(
    {
        "steps": 1,
        "rollout": {"group_size": 2, "max_steps": 2, "max_new_tokens": 24},
        "update": {"algorithm": "rloo", "groups": 2, "flat_groups": "keep"},
        "platforms": [
            {"tasks": ["click-test-2"], "devices": 2},
            {"taskset": "lab", "tasks": ["reach-2"], "devices": 2, "device": {"kind": "lab"}},
        ],
    }
)
SUITES = (DEMO_PAGES.only(["click-test-2", "click-test"]), DEMO_APPS.only(["reach-2", "reach-2@graphs"]))


def conducted(run: Path) -> str:
    out = Console(file=io.StringIO(), width=200)
    train = TrainHere(CONFIG, RunFolder(run))
    Experiment("Two platforms", CONFIG, run, SUITES, 1, train).conduct(out)
    return str(out.file.getvalue())  # type: ignore[attr-defined]


def test_both_are_measured_counted_together_and_shown_again(tmp_path: Path) -> None:
    told = conducted(tmp_path)
    rows = {line.split()[0] for line in told.splitlines() if line.strip()}
    assert rows >= {"click-test-2", "click-test", "reach-2", "reach-2@graphs", "browser", "lab"}
    assert "by platform" in told and f"by {ACTIONS}" in told
    for label in ("before", "after-1", "random-element"):
        folder = tmp_path / "eval" / label
        found = json.loads((folder / "results.json").read_text())
        assert found["digest"] == joined(SUITES).digest
        parts = [json.loads((folder / kind / "results.json").read_text()) for kind in ("browser", "lab")]
        assert found["episodes"] == [episode for part in parts for episode in part["episodes"]]
        assert [part["digest"] for part in parts] == [suite.digest for suite in SUITES]
        assert {device["kind"] for device in found["ran"]["devices"]} == {"browser", "lab"}
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["baselines"]["oracle"]["train_pooled"]["rate"] == 1.0
    report = (tmp_path / "report.html").read_text()
    assert "reach-2@graphs" in report and "three or more" in report

    again = conducted(tmp_path)
    table = told[told.index("task ") : told.index("\nwall ")]
    assert table in again and "[1/5]" not in again
