"""ZeroGUI's loop by the real commands: propose, roll out, judge, train; killed, resumed, judged again."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from guiagent.storage.trajectories import TrajectoryStore
from rewards.judges.log import VerdictLog
from tests.support.model_stand_in import Body, Trouble, stand_in
from training.rollout.proposals import read

pytestmark = pytest.mark.browser
ROLLOUTS = ["--set", "rollout.devices=3", "--set", "rollout.group_size=4", "--set", "update.groups=2"]
_WAIT_S = 180


def guiagent(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "guiagent.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=_WAIT_S)


def without_evaluation(folder: Path) -> Path:
    """The shipped recipe, but for its measurements before and after."""
    shipped = (files("training") / "recipes" / "zero.toml").read_text()
    recipe = folder / "zero.toml"
    recipe.write_text(shipped[: shipped.index("[evaluation]")])
    return recipe


def updates(run: Path) -> list[dict[str, Any]]:
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


@pytest.mark.drill
def test_killed_it_goes_on_and_what_an_outage_left_unknown_is_judged_again(tmp_path: Path) -> None:
    """A judge behind HTTP, every fifth request of which fails."""

    def mind(body: Body) -> str:
        """As by a coin for each episode, so that siblings differ."""
        return f"It is done.\nSCORE: {crc32(json.dumps(body).encode()) % 2}"

    def trouble(number: int, body: Body) -> Trouble | None:
        return "down" if number % 5 == 0 else None

    run, recipe = tmp_path / "run", without_evaluation(tmp_path)
    with stand_in(mind, trouble) as server:
        asked = ["--set", f"judge.url={server.url}", "--set", "judge.model=m", "--set", "judge.attempts=1"]
        arguments = ["train", "--recipe", str(recipe), "--run", str(run), *ROLLOUTS, *asked]
        often = ["--set", "checkpoint_minutes=0.01", "--set", "steps=500"]
        process = subprocess.Popen(
            [sys.executable, "-m", "guiagent.cli", *arguments, *often],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + _WAIT_S
            while not list((run / "checkpoints").glob("step-*")):
                assert process.poll() is None, "training ended before its first checkpoint"
                assert time.monotonic() < deadline, "no checkpoint came"
                time.sleep(0.1)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        with TrajectoryStore(run / "trajectories", readonly=True) as store:
            before = store.ids
        proposed = (run / "proposals.jsonl").read_bytes()
        steps = len(updates(run))
        assert before and steps

        done = guiagent(*arguments, "--set", f"steps={steps + 1}")
        assert done.returncode == 0, done.stderr
        again = guiagent("judge", "again", str(run))
        assert again.returncode == 0, again.stderr

    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        assert store.ids[: len(before)] == before
        trajectories = list(store)
    assert [line["step"] for line in updates(run)] == list(range(1, steps + 2))
    whole = proposed[: proposed.rindex(b"\n") + 1]
    assert (run / "proposals.jsonl").read_bytes().startswith(whole)
    entries = read(run)
    decided = Counter((e.task, e.seed) for e in entries if e.outcome)
    assert decided and set(decided.values()) == {1}
    complete = Counter(t.group for t in trajectories)
    seeds = {t.seed for t in trajectories if complete[t.group] == t.group_size}
    assert seeds == {e.seed for e in entries if (e.outcome and e.outcome.trials) or _all_faulted(e)}

    unknown = [t for t in trajectories if t.fault is None and t.score and t.score.value is None]
    assert unknown and all(t.audit is not None for t in trajectories if t.fault is None)
    with VerdictLog(run / "verdicts.jsonl") as log:
        latest = {entry.trajectory: entry.verdict.value for entry in log}
    judged_again = [latest[t.id] for t in unknown if latest[t.id] is not None]
    assert len(judged_again) >= len(unknown) * 4 // 5  # the server still fails every fifth time


def _all_faulted(entry: Any) -> bool:
    return bool(entry.outcome and entry.outcome.reason == "every trial ended in a fault")


@pytest.mark.slow
def test_the_recipe_measures_trains_and_reports(tmp_path: Path) -> None:
    from training.tiny.judge import SMALL_JUDGE

    if not (SMALL_JUDGE / "judge.json").is_file():
        pytest.skip(f"there is no small judge in {SMALL_JUDGE}")
    run = tmp_path / "zero"
    small = [*ROLLOUTS, "--set", "steps=3", "--set", "evaluation.episodes=1"]
    done = guiagent("train", "--recipe", "zero", "--run", str(run), *small)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    lines = updates(run)
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert all(0 <= line["judged_success"] <= 1 and 0 <= line["true_success"] <= 1 for line in lines)
    assert all(one["proposals"]["accepted"] <= two["proposals"]["accepted"] for one, two in pairwise(lines))

    summary = json.loads((run / "summary.json").read_text())
    for task in summary["tasks"]:
        assert 0 <= task["before"]["rate"] <= 1 and 0 <= task["after"]["rate"] <= 1
    assert [update["step"] for update in summary["judged"]["updates"]] == [1, 2, 3]
    assert summary["judged"]["proposals"]["accepted"] >= 3
    calibration = json.loads((run / "calibration.json").read_text())
    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        trajectories = list(store)
    both = [t for t in trajectories if t.audit is not None and t.audit.value is not None]
    assert calibration["episodes"] == len(both) and calibration["judge"] == summary["judged"]["judge"]
    assert {t.score.source for t in trajectories if t.score} == {"judge"}
    report = (run / "report.html").read_text()
    assert "Judged and true success" in report and "What became of" in report
