"""Checkpoints off the loop: training goes on while one is written, and one is written at a time."""

import asyncio
import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from guiagent.errors import InfrastructureError
from rewards.curriculum import CURRICULA, Curriculum
from training.checkpoints import checkpoint
from training.checkpoints.run_state import RunState
from training.checkpoints.saver import Saver
from training.checkpoints.shards import Learned
from training.checkpoints.snapshot import Snapshot


class Learner:
    """Has one weight, and a disk that may be slow: it writes its folder once it `may_write`."""

    def __init__(self, fails: bool = False) -> None:
        self.weight = torch.zeros(3)
        self.may_write = threading.Event()
        self.exported: list[bool] = []
        self.bytes = 0
        self._fails = fails

    def state(self) -> dict[str, Any]:
        return {"weight": float(self.weight[0])}

    def snapshot(self, *, last: bool = False) -> Snapshot:
        self.exported.append(last)
        return Snapshot(Learned({"weight": self.weight}), self, last=last)

    def export(self) -> Callable[[Path], None]:
        def write(folder: Path) -> None:
            assert self.may_write.wait(30)
            if self._fails:
                raise OSError("No space left on device")

        return write

    def load(self, loaded: checkpoint.Loaded) -> None:
        loaded.restore(Learned({"weight": self.weight}))


class Replay:
    def __init__(self) -> None:
        self.taken: list[int] = []

    def state(self) -> dict[str, Any]:
        return {"taken": self.taken}

    def restore(self, state: dict[str, Any] | None, store: object, *, version: int = 0) -> None: ...


def state_of(folder: Path, learner: Learner) -> RunState:
    curriculum = Curriculum(["task"], weigh=CURRICULA["uniform"])
    return RunState(folder, learner, Replay(), {"": curriculum}, random.Random(0))


async def test_training_goes_on_while_a_checkpoint_is_written_and_is_not_in_it(tmp_path: Path) -> None:
    learner = Learner()
    run = state_of(tmp_path, learner)
    run.step = 1
    await run.begin_saving()
    assert not run.is_due(0)  # one is being written
    learner.weight += 1
    run.replay.taken.append(7)  # type: ignore[attr-defined]
    drawn, run.step = run.rng.random(), 2
    learner.may_write.set()
    await run.finish_saving()
    assert run.is_due(0)
    loaded = checkpoint.load(tmp_path)
    assert loaded is not None
    assert (loaded.step, loaded.state["replay"], loaded.state["learner"]) == (1, {"taken": []}, {"weight": 0})
    other = state_of(tmp_path, Learner())
    other.learner.weight += 5  # type: ignore[attr-defined]
    other.load(loaded, [])
    assert other.learner.weight.tolist() == [0, 0, 0]  # type: ignore[attr-defined]
    assert other.rng.random() == drawn


async def test_the_last_one_waits_for_the_one_before_and_has_the_policy(tmp_path: Path) -> None:
    learner = Learner()
    run = state_of(tmp_path, learner)
    run.step = 1
    await run.begin_saving()
    run.step = 2
    saving = asyncio.create_task(run.save())
    await asyncio.sleep(0)
    assert learner.exported == [False]  # no second snapshot takes room before the first one is written
    learner.may_write.set()
    path = await saving
    assert path == tmp_path / "step-000002" and (path / "model").is_dir()
    assert learner.exported == [False, True]
    assert json.loads((tmp_path / "step-000001" / "state.json").read_text())["step"] == 1


async def test_what_could_not_be_written_ends_the_run_at_the_next_step(tmp_path: Path) -> None:
    learner = Learner(fails=True)
    run = state_of(tmp_path, learner)
    await run.begin_saving()
    learner.may_write.set()
    await run.finish_saving()  # does not raise: it is for a run that ends by something else
    assert run.is_due(1e9)
    with pytest.raises(InfrastructureError, match="No space left"):
        await run.begin_saving()
    assert checkpoint.load(tmp_path) is None


def test_a_saver_gives_what_was_written_and_raises_what_was_raised_once() -> None:
    saver = Saver()
    assert saver.settle() is None and not saver.busy and not saver.failed
    saver.begin(lambda: Path("one"))
    assert saver.settle() == Path("one")
    assert saver.settle() is None

    def fail() -> Path:
        raise InfrastructureError("full")

    saver.begin(fail)
    saver.wait()
    assert saver.failed and not saver.busy
    with pytest.raises(InfrastructureError, match="full"):
        saver.begin(lambda: Path("two"))
    assert saver.settle() is None
