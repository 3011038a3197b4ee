"""Whole runs on the real farm, killed again and again: nothing is lost, nothing is learned from twice."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from guiagent.cli.memory import descendants
from guiagent.trajectories import TrajectoryStore
from training import checkpoint

pytestmark = [pytest.mark.browser, pytest.mark.drill]
_PER_UPDATE = 2
SMALL = {
    "rollout.devices": 2,
    "rollout.group_size": 4,
    "update.groups": _PER_UPDATE,
    "checkpoint_minutes": 0.02,
}


def command(run: Path, steps: int, *launch: str) -> list[str]:
    settings = [f"--set={name}={value}" for name, value in (SMALL | {"steps": steps}).items()]
    train = ["train", "--recipe", "arpo-demo", "--run", str(run)]
    return [sys.executable, "-m", "guiagent.cli", *train, *settings, *launch]


def committed(run: Path) -> list[str]:
    if not (run / "trajectories").is_dir():
        return []
    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        return store.ids


def updates(run: Path) -> list[dict[str, Any]]:
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def wait_for_updates(process: "subprocess.Popen[str]", run: Path, number: int) -> None:
    give_up = time.monotonic() + 240
    while not any(update["step"] >= number for update in updates(run)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < give_up, f"update {number} did not come"
        time.sleep(0.05)


def settled_once(run: Path) -> None:
    """Every group of the last checkpoint's past was settled once and whole: learned from, or counted out."""
    loaded = checkpoint.load(run / "checkpoints")
    assert loaded is not None
    replay = loaded.state["replay"]
    waiting = {number for number, *_ in replay["pending"]}
    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        seats = Counter((int(t.group.removeprefix("g")), t.group_index) for t in store)
    assert set(seats.values()) == {1}, "two episodes in one seat"
    members = Counter(number for number, _ in seats)
    settled = {number for number in members if number < replay["opened"]} - waiting
    assert all(members[number] == SMALL["rollout.group_size"] for number in settled)
    stats = replay["stats"]
    assert len(settled) == sum(stats[name] for name in ("taken", "stale", "invalid", "flat"))
    assert stats["taken"] == loaded.step * _PER_UPDATE


def test_kills_at_any_moment_lose_and_repeat_nothing(tmp_path: Path) -> None:
    run, dice = tmp_path / "run", random.Random(0)
    known: list[str] = []
    for kill in range(5):
        steps = updates(run)[-1]["step"] if updates(run) else 0
        with subprocess.Popen(
            command(run, 500), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            wait_for_updates(process, run, steps + 1)
            time.sleep(dice.uniform(0.0, 4.0))
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        now = committed(run)
        assert now[: len(known)] == known, f"kill {kill} lost trajectories"
        known = now
    done = subprocess.run(
        command(run, updates(run)[-1]["step"] + 2), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert committed(run)[: len(known)] == known
    assert [update["step"] for update in updates(run)] == list(range(1, len(updates(run)) + 1))
    settled_once(run)


def test_a_killed_process_ends_the_run_in_one_line_and_one_process_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    launch = ("--launch", "torchrun", "--processes", "2")
    with subprocess.Popen(
        command(run, 500, *launch), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for_updates(process, run, 3)
        os.kill(_rank(process.pid, 1), signal.SIGKILL)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 3, said
    assert said.count("\n") == 1 and said.startswith("guiagent: process 1 of 2 was ended by SIGKILL"), said
    known, reached = committed(run), updates(run)[-1]["step"]

    done = subprocess.run(command(run, reached + 2), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert committed(run)[: len(known)] == known
    settled_once(run)
    loaded = checkpoint.load(run / "checkpoints")
    assert loaded is not None
    weights = load_file(loaded.model / "model.safetensors").values()
    assert all(tensor.isfinite().all() for tensor in weights)


def _rank(launcher: int, rank: int) -> int:
    """The process that torchrun gave this rank."""
    for child in itertools.islice(descendants(launcher), 1, None):
        environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        arguments = Path(f"/proc/{child}/cmdline").read_bytes()
        if f"RANK={rank}".encode() in environment and b"guiagent.cli\0train" in arguments:
            return child
    raise AssertionError(f"there is no rank {rank}")
