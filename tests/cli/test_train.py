"""`guiagent train` before a farm is started: mistakes, finished and locked runs, forks; and Ctrl-C later."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from guiagent import config as configuration
from guiagent.cli.train import command, experiment
from guiagent.cli.train.command import train
from guiagent.cli.train.demo import demo
from guiagent.cli.train.recipes import recipe_path
from guiagent.errors import GuiAgentError, InfrastructureError, UsageError
from guiagent.storage.trajectories import TrajectoryStore
from tests.training.test_resuming import Exported, checkpointed
from training.checkpoints import checkpoint as checkpoints
from training.config import SMALL_POLICY, TrainConfig
from training.identity import claim


class Started(AssertionError):
    """A farm was started."""


@pytest.fixture(autouse=True)
def no_farm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def farm_of(*_: Any, **__: Any) -> None:
        raise Started

    for module in (command, experiment):
        monkeypatch.setattr(module, "farm_of", farm_of)


SMALL = [
    *("tasks=['click-test-2']", "rollout.devices=2", "rollout.group_size=4", "update.groups=2"),
    *("checkpoint_minutes=100", "steps=30"),
]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("update.algorithm=arppo", "no algorithm 'arppo'; did you mean 'arpo'?"),
        ("update.objective.kl.form=k1", "has no such term"),
        ("dialect=uitars", "no dialect 'uitars'; did you mean 'ui-tars'?"),
        ("policy=nowhere", "no Hugging Face checkpoint at nowhere"),
        ("taskset=minwob", "no taskset 'minwob'; did you mean 'miniwob'?"),
        ("tasks=['click-tst']", "there is no task 'click-tst'; did you mean 'click-test'?"),
        ("rollout.temperature=0", "rollout.temperature 0"),
        ("update.seeds=nowhere", "there is no trajectory store at nowhere"),
        ("evaluation.suite=miniwob-dmo", "no suite 'miniwob-dmo'; did you mean 'miniwob-demo'?"),
        ("evaluation.episodes=1000000", "episodes per task"),
        (
            "evaluation.tasks=['click-tst']",
            "suite miniwob-demo has no task 'click-tst'; did you mean 'click-test",
        ),
        ("judge.url=http://127.0.0.1:1", "say which model to ask"),
        ("judge.preset=smartsnap", r"dialect = \"ui-tars\+evidence\""),
        ("taskset=phone", "there is no task 'click-test-2'|no phone task 'click-test-2'"),
    ],
)
def test_a_mistake_is_told_before_a_farm_or_a_folder(tmp_path: Path, override: str, said: str) -> None:
    run = tmp_path / "run"
    with pytest.raises(GuiAgentError, match=said) as refused:
        train("arpo-demo", str(run), [*SMALL, override])
    assert "\n" not in str(refused.value)
    assert not run.exists()


def test_what_is_right_goes_on_to_a_farm(tmp_path: Path) -> None:
    with pytest.raises(Started):
        train("arpo-demo", str(tmp_path / "run"), SMALL)


def recipe(*overrides: str) -> TrainConfig:
    return configuration.load(TrainConfig, recipe_path("arpo-demo"), [*SMALL, *overrides])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of thirty steps, with a checkpoint of the last one."""
    folder = tmp_path / "run"
    TrajectoryStore(folder / "trajectories").close()
    claim(folder, recipe())
    checkpointed(folder, 30, 90.0, Exported())
    return folder


def contents(folder: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}


def test_a_finished_run_says_so_and_stays_as_it_is(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(run)
    train("arpo-demo", str(run), SMALL)
    printed = capsys.readouterr().out
    assert "this run is finished since" in printed and "step 30" in printed and "with steps = 30" in printed
    assert f"its policy is {run / 'checkpoints' / 'step-000030' / 'model'}" in printed
    assert "--set steps=..." in printed
    assert contents(run) == before


def test_a_run_with_a_raised_budget_goes_on(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Started):
        train("arpo-demo", str(run), [*SMALL, "steps=31"])
    assert "resume    from step 30: arpo, learning rate 0.0005" in capsys.readouterr().out


@pytest.mark.parametrize("evaluated", [[], ["evaluation.episodes=1"]])
def test_another_config_is_refused_before_a_farm(run: Path, evaluated: list[str]) -> None:
    before = contents(run)
    with pytest.raises(UsageError, match=r"update\.learning_rate was 0\.0005, now 1e-05"):
        train("arpo-demo", str(run), [*SMALL, "steps=31", "update.learning_rate=1e-5", *evaluated])
    assert contents(run) == before


def test_the_demo_refuses_another_config_too(run: Path) -> None:
    with pytest.raises(UsageError, match="seed was 0, now 3"):
        demo(run, None, None, 1, 0, ["seed=3"])


@pytest.mark.parametrize("evaluated", [[], ["evaluation.episodes=1"]])
def test_a_run_that_is_being_trained_is_left_alone_before_a_farm(run: Path, evaluated: list[str]) -> None:
    held = TrajectoryStore(run / "trajectories")
    with held, pytest.raises(InfrastructureError, match="another process trains in"):
        train("arpo-demo", str(run), [*SMALL, "steps=31", *evaluated])


def test_a_fork_begins_with_the_weights_and_another_config(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fork = tmp_path / "fork"
    changed = [*SMALL, "update.learning_rate=1e-5"]
    for _ in range(2):  # the same command goes on
        with pytest.raises(Started):
            train("arpo-demo", str(fork), changed, fork_from=run)
        assert f"fork      of {run} at step 30" in capsys.readouterr().out
    weights = "model.safetensors"
    assert (fork / "forked-policy" / weights).read_bytes() == (SMALL_POLICY / weights).read_bytes()
    with pytest.raises(Started):
        train("arpo-demo", str(fork), changed)  # and so does one that does not say it again
    with pytest.raises(UsageError, match="name a folder"):
        train("arpo-demo", "file:///nowhere/run", changed, fork_from=run)
    with pytest.raises(UsageError, match="leave out --fork-from"):
        train("tiny-sft", str(tmp_path / "tiny"), [], fork_from=run)
    with pytest.raises(GuiAgentError, match="no algorithm"):
        train("arpo-demo", str(tmp_path / "other"), ["update.algorithm=magic"], fork_from=run)
    assert not (tmp_path / "other").exists()


# -- Ctrl-C --------------------------------------------------------------------------------------------------


WORKING = """
import sys, time
from guiagent.cli.common.stopping import stoppable
with stoppable() as stop:
    print("ready", flush=True)
    while not stop():
        time.sleep(0.01)
    print("saving", flush=True)
    if sys.argv[1:]:
        time.sleep(60)
print("saved", flush=True)
"""


def working(*arguments: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", WORKING, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_a_wish(number: signal.Signals) -> None:
    process = working()
    process.send_signal(number)
    printed, said = process.communicate(timeout=60)
    assert printed == "saving\nsaved\n"
    assert "a second Ctrl-C ends at once" in said
    assert process.returncode == 0


def test_a_second_one_ends_at_once() -> None:
    process = working("slow")
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "saving\n"
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=60)
    assert printed == ""
    assert "ended at once; the same command goes on" in said
    assert process.returncode == 130


ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


@contextmanager
def started(run: Path, log: Path, *more: str) -> "Iterator[subprocess.Popen[bytes]]":
    sets = [word for one in [*SMALL, *more] for word in ("--set", one)]
    words = [sys.executable, "-m", "guiagent.cli", "train", "--recipe", "arpo-demo", "--run", str(run), *sets]
    with log.open("ab") as file:
        process = subprocess.Popen(words, stdout=file, stderr=file, env=ENVIRONMENT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(happened: Callable[[], bool], process: "subprocess.Popen[bytes]", log: Path) -> None:
    give_up = time.monotonic() + 400
    while not happened():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < give_up, log.read_text()
        time.sleep(0.05)


@pytest.mark.browser
@pytest.mark.drill
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_a_run_which_then_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    run, log = tmp_path / "run", tmp_path / "log"
    metrics = run / "metrics.jsonl"
    with started(run, log, "steps=1000") as process:
        until(lambda: metrics.is_file() and len(metrics.read_text().splitlines()) >= 2, process, log)
        process.send_signal(number)
        assert process.wait(120) == 130, log.read_text()
    loaded = checkpoints.load(run / "checkpoints")
    assert loaded is not None
    assert loaded.step == len(metrics.read_text().splitlines())
    assert f"stopped at step {loaded.step}, saved in" in log.read_text()
    assert (loaded.model / "config.json").is_file()
    with started(run, log, f"steps={loaded.step + 1}") as process:
        assert process.wait(400) == 0, log.read_text()
    assert f"resume    from step {loaded.step}: arpo" in log.read_text()
    done = checkpoints.load(run / "checkpoints")
    assert done is not None and done.step == loaded.step + 1
    assert "Traceback" not in log.read_text()
