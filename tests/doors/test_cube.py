"""CUBE's own checks, runner and wire, unmodified, on suites; its cube of MiniWoB++ on leased browsers."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.doors import ROOT, python_of, run_in

pytestmark = pytest.mark.doors
EXAMPLES = ROOT / "examples" / "doors"
CHECKS = [
    *("test_debug_tasks_exist", "test_debug_agent_exists", "test_full_episode", "test_reset_reproducibility"),
    *("test_tools_list", "test_close_idempotent", "test_benchmark_metadata"),
]
DARK = "device fault (crashed): the screen went dark"
ENDED = "the task has ended: nothing was done"


def checked(module: str, folder: Path) -> None:
    """Have `cube test` check a benchmark, its episodes and its resets: all of it passes."""
    command = [str(python_of("cube").with_name("cube")), "test", module, f"--output={folder}/report.json"]
    own = {"PYTHONPATH": str(ROOT), "CUBE_CI": "1", "GUIAGENT_HOME": str(folder), "HOME": str(folder)}
    ran = subprocess.run(
        command, env=os.environ | own, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    report = json.loads((folder / "report.json").read_text())
    assert report["compliance"] == {"passed": CHECKS, "failed": []}


def ran(part: str, folder: Path) -> dict[str, Any]:
    said = run_in("cube", ROOT / "tests" / "doors" / "cube_runs.py", part, GUIAGENT_HOME=str(folder))
    result: dict[str, Any] = json.loads(said.splitlines()[-1])
    return result


@pytest.mark.browser
def test_its_checks_pass_on_a_suite_of_pages(tmp_path: Path) -> None:
    checked("examples.doors.cube_suite", tmp_path)


@pytest.mark.browser
def test_its_checks_pass_for_its_own_miniwob_on_leased_browsers(tmp_path: Path) -> None:
    checked("examples.doors.cube_miniwob", tmp_path)


@pytest.mark.browser
def test_the_examples_play_pages(tmp_path: Path) -> None:
    said = run_in("cube", EXAMPLES / "cube_suite.py", GUIAGENT_HOME=str(tmp_path)).splitlines()
    assert said[2:] == ["click-test-2 1000000000 Click button ONE.", "reward 1.0 done True"]
    said = run_in("cube", EXAMPLES / "cube_miniwob.py", GUIAGENT_HOME=str(tmp_path)).splitlines()
    assert [line.strip() for line in said] == ["click-button 1.0", "click-checkboxes 1.0"]


def test_its_runner_has_the_scores_of_our_checks(tmp_path: Path) -> None:
    assert ran("scores", tmp_path) == {
        "oracle": [1.0, True, 3, None],
        "nothing": [0.0, True, 1, None],
        "waiting": [0.0, True, 6, None],  # the task's own last step
        "no action": [0.0, True, 2, None],
    }


def test_tasks_at_once_have_a_device_each_and_give_it_back(tmp_path: Path) -> None:
    assert ran("together", tmp_path) == {
        "devices": [["", ""], ["cube", "cube"], ["", "cube"], ["", ""]],
        "same": True,
        "evaluated": [0.0, ENDED, True, None],
        "closed": "reset first: there is no task, or it could not begin",
    }


def test_a_fault_is_an_error_and_no_score(tmp_path: Path) -> None:
    assert ran("faults", tmp_path) == {
        "report": [0.0, False, 0, f"FaultError: {DARK}"],
        "raised": [DARK, DARK, DARK],
        "mended": None,
        "refused": ["the tasks here are those of lab (evaluation)", "7 is no seed for evaluation"],
    }


def test_its_servers_and_clients_play_a_task_over_the_wire(tmp_path: Path) -> None:
    assert ran("wire", tmp_path) == {
        "info": "guiagent-lab",
        "tools": ["look", "answer", "click"],
        "contents": ["cube.core.TextContent", "cube.core.ImageContent"],
        "done": [1.0, True, 1.0],
    }


@pytest.mark.browser
def test_its_browsergym_tool_solves_a_page_on_a_leased_browser(tmp_path: Path) -> None:
    said = ran("browsergym", tmp_path)
    assert said == {"reward": 1.0, "done": True, "error": None}


@pytest.mark.browser
def test_a_leased_browser_that_is_lost_is_an_error_and_no_score(tmp_path: Path) -> None:
    told = ran("lost", tmp_path)
    assert told.pop("error").startswith("TargetClosedError: ")
    assert told == {"labels": ["cube"], "reward": 0.0, "done": False}
