"""Harbor's own jobs, unmodified, on a suite's task folders: its agents act on a browser of ours."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from eval.stepping import SuiteTasks
from guiagent.cli import app
from tests.support.doors import ROOT, TOKEN, environment_of, serving

pytestmark = [pytest.mark.doors, pytest.mark.browser]

VERDICTS = "another token, of verifiers"
AGENTS: list[dict[str, Any]] = [
    {"name": "oracle"},
    {"name": "nop"},
    {"import_path": "harbor_agents:Clicking"},
    {"import_path": "harbor_agents:Mistaken"},
]


def job(folder: Path, url: str, to: Path, agents: list[dict[str, Any]]) -> dict[str, Any]:
    """The results of `harbor run` on a task folder, by the agents' names."""
    config = {
        "job_name": "job",
        "jobs_dir": str(to),
        "n_concurrent_trials": 2,
        "environment": {"import_path": "harbor_environment:Local"},
        "agents": agents,
        "tasks": [{"path": str(folder)}],
    }
    if shutil.which("bwrap") is None:
        pytest.skip("there is no bwrap: scripts/farm desktop")
    to.mkdir()
    (to / "job.json").write_text(json.dumps(config))
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(to),
        "PYTHONPATH": str(ROOT / "tests" / "doors"),
        "HARBOR_TELEMETRY": "0",
        "GUIAGENT_HARBOR_URL": url,
        "GUIAGENT_HARBOR_TOKEN": TOKEN,
        "GUIAGENT_HARBOR_VERDICT_TOKEN": VERDICTS,
    }
    done = subprocess.run(
        [environment_of("harbor") / "bin" / "harbor", "run", "-c", str(to / "job.json"), "-y", "-q"],
        env=variables,
        cwd=to,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    trials = [json.loads(path.read_text()) for path in (to / "job").glob("*/result.json")]
    assert len(trials) == len(agents), done.stdout[-3000:]
    return {trial["agent_info"]["name"]: trial for trial in trials}


def reward(trial: dict[str, Any]) -> Any:
    assert trial["exception_info"] is None, trial["exception_info"]
    return trial["verifier_result"]["rewards"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    environment_of("harbor")
    app(
        ["harbor", "miniwob-demo", "--out", str(tmp_path / "tasks"), "--episodes", "1"], standalone_mode=False
    )
    [made] = (tmp_path / "tasks").glob("click-test-2-*")
    return made


def test_its_trials_have_the_rewards_of_our_check(folder: Path, tmp_path: Path) -> None:
    words = ("harbor", "miniwob-demo", "--devices", "1", "--http", "0")
    with serving(*words, GUIAGENT_HARBOR_TOKEN=TOKEN, GUIAGENT_HARBOR_VERDICT_TOKEN=VERDICTS) as url:
        done = job(folder, url, tmp_path / "jobs", AGENTS)
    assert {name: reward(trial) for name, trial in done.items()} == {
        "oracle": {"reward": 1.0},
        "nop": {"reward": 0.0},
        "clicking": {"reward": 1.0},
        "mistaken": {"reward": 0.0},
    }


def test_a_fault_is_an_error_and_no_reward(folder: Path, tmp_path: Path) -> None:
    words = ("harbor", "miniwob-demo", "--devices", "1", "--http", "0", "--idle", "1")
    with serving(*words, GUIAGENT_HARBOR_TOKEN=TOKEN, GUIAGENT_HARBOR_VERDICT_TOKEN=VERDICTS) as url:
        [trial] = job(folder, url, tmp_path / "jobs", [{"import_path": "harbor_agents:Idle"}]).values()
    assert trial["verifier_result"] is None
    assert trial["exception_info"]["exception_type"] == "RewardFileNotFoundError"


def test_a_task_of_others_is_worth_the_same_by_harbor_as_on_our_desktops(tmp_path: Path) -> None:
    environment_of("harbor")
    task = ROOT / "tests" / "support" / "harbor_tasks" / "write-a-file"  # tests/rewards/test_harbor.py
    done = job(task, "", tmp_path / "jobs", AGENTS[:2])
    assert {name: reward(trial) for name, trial in done.items()} == {
        "oracle": {"reward": 1.0},
        "nop": {"reward": 0.0},
    }


def test_its_loader_takes_every_folder(folder: Path) -> None:
    loading = (
        "import pathlib, sys\n"
        "from harbor.models.task.task import Task\n"
        "for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):\n"
        "    assert Task.is_valid_dir(folder), folder\n"
        "    print(Task(folder).config.metadata['guiagent']['task'])\n"
    )
    python = environment_of("harbor") / "bin" / "python"
    done = subprocess.run(
        [python, "-c", loading, folder.parent], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == sorted(SuiteTasks("miniwob-demo").names)
