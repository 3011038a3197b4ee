"""The whole loop on the real farm with the real commands: trained, killed, resumed, reported."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from guiagent.cli.common.memory import descendants
from guiagent.errors import MissingProgram
from guiagent.storage.trajectories import TrajectoryStore

pytestmark = pytest.mark.browser
SMALL = ["--set", "rollout.devices=2", "--set", "rollout.group_size=4", "--set", "update.groups=2"]


def guiagent(*arguments: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "guiagent.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def committed(run: Path) -> list[str]:
    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        return store.ids


@pytest.mark.slow
def test_killed_training_goes_on_and_loses_no_committed_trajectory(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = ["train", "--recipe", "arpo-demo", "--run", str(run), *SMALL]
    often = ["--set", "checkpoint_minutes=0.02"]
    process = subprocess.Popen(
        [sys.executable, "-m", "guiagent.cli", *arguments, *often, "--set", "steps=500"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 120
        while not list((run / "checkpoints").glob("step-*")):
            assert process.poll() is None, "training ended before its first checkpoint"
            assert time.monotonic() < deadline, "no checkpoint came"
            time.sleep(0.2)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = committed(run)
    steps = len((run / "metrics.jsonl").read_text().splitlines())
    assert before and steps

    done = guiagent(*arguments, "--set", f"steps={steps + 2}")
    assert done.returncode == 0, done.stderr
    after = committed(run)
    assert after[: len(before)] == before
    numbers = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert numbers == list(range(1, steps + 3))


@pytest.mark.slow
def test_killed_browser_is_a_recorded_fault_and_the_run_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = ["train", "--recipe", "arpo-demo", "--run", str(run), *SMALL, "--set", "steps=8"]
    command = [sys.executable, "-m", "guiagent.cli", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not (run / "metrics.jsonl").is_file() or not (run / "metrics.jsonl").read_text():
            assert process.poll() is None and time.monotonic() < deadline, "no update came"
            time.sleep(0.05)
        os.killpg(a_browser_below(process.pid), signal.SIGKILL)
        _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        faults = [trajectory for trajectory in store if trajectory.fault is not None]
    assert faults and all(fault.score is None for fault in faults)
    assert {fault.fault.origin for fault in faults if fault.fault} <= {"device", "farm"}


def a_browser_below(pid: int) -> int:
    """The process group of one of the browsers that `pid` started."""
    for child in descendants(pid):
        arguments = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        profile = any(a.startswith(b"--user-data-dir=") and b"guiagent-browser-" in a for a in arguments)
        if profile and not any(a.startswith(b"--type=") for a in arguments):
            return os.getpgid(child)
    raise AssertionError("no browser is running")


def test_run_drives_a_browser_with_the_small_policy(tmp_path: Path) -> None:
    page = ["--url", "miniwob:click-tab", "--width", "160", "--height", "224"]
    done = guiagent("run", "Click on Tab #2.", *page, "--policy", "tiny", "--run", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Action: click(start_box=" in done.stdout and "task_done after 1 steps, score" in done.stdout
    assert "data:image/png" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (
            ["train", "--recipe", "arpo-demo", "--run", "RUN", "--set", "update.learnig_rate=1e-4"],
            2,
            "update.learning_rate",
        ),
        (["train", "--recipe", "no-such", "--run", "RUN"], 2, "arpo-demo"),
        (["train", "--recipe", "arpo-demo", "--run", "RUN", "--set", "policy=/no/where"], 3, "config.json"),
        (["eval", "--policy", "null", "--suite", "osworld", "--run", "RUN"], 2, "miniwob-demo"),
        (["up", "--port", "PORT", "--state-dir", "RUN"], 3, "--port"),
    ],
)
def test_mistakes_are_one_line_with_the_way_out(
    arguments: list[str], code: int, says: str, tmp_path: Path
) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        values = {"RUN": str(tmp_path / "run"), "PORT": str(taken.getsockname()[1])}
        done = guiagent(*[values.get(argument, argument) for argument in arguments])
    assert done.returncode == code, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1 and lines[0].startswith("guiagent: ") and says in lines[0]


def test_missing_browser_is_one_line(tmp_path: Path) -> None:
    environment = os.environ | {"GUIAGENT_CHROMIUM": "/no/such/browser"}
    command = [sys.executable, "-m", "guiagent.cli", "train", "--recipe", "arpo-demo", "--run", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == MissingProgram.exit_code
    assert done.stderr.count("\n") == 1 and "chromium" in done.stderr.lower()
    assert "Traceback" not in done.stderr
