"""What a start in a run's folder means, before any device: finished, locked, a fork, or something to do."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from guiagent.errors import InfrastructureError, UsageError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import PolicyOutput, Score, Step, Trajectory
from training.checkpoints import checkpoint as checkpoints
from training.checkpoints.shards import Learned
from training.checkpoints.snapshot import Snapshot
from training.config import SMALL_POLICY, TrainConfig
from training.identity import claim
from training.launch.forking import forked_policy, origin_of
from training.launch.resuming import finished, standing
from training.learner import optimizers


class Exported:
    """The small policy's folder in the place of a model's."""

    bytes = 1

    def export(self) -> Callable[[Path], object]:
        return lambda folder: shutil.copytree(SMALL_POLICY, folder, dirs_exist_ok=True)


def checkpointed(run: Path, step: int, seconds: float, policy: Exported | None = None) -> Path:
    weight = torch.nn.Parameter(torch.ones(2))
    learned = Learned({"weight": weight}, torch.optim.AdamW([weight]))
    state = {"seconds": seconds}
    return checkpoints.save(run / "checkpoints", step, Snapshot(learned, policy), state=state, rng={})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Thirty updates in 90 seconds, on two episodes of three turns each and an adopted one."""
    folder = tmp_path / "run"
    with TrajectoryStore(folder / "trajectories") as store:
        for name, group in (("a", "g0"), ("b", "g0"), ("seed", "")):
            steps = [Step(store.put_frame(b"screen"), 9, 9, PolicyOutput("?")) for _ in range(3)]
            episode = Trajectory(name, "task", 0, "Do.", steps, "max_steps", Score(1.0), group=group)
            store.commit([episode])
    claim(folder, TrainConfig(steps=30))
    checkpointed(folder, 30, 90.0, Exported())
    return folder


def contents(folder: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize(
    ("config", "is_finished"),
    [
        (TrainConfig(steps=30), True),
        (TrainConfig(steps=20), True),
        (TrainConfig(steps=31), False),
        (TrainConfig(minutes=1.5), True),
        (TrainConfig(minutes=1.6), False),
        (TrainConfig(env_steps=6), True),
        (TrainConfig(env_steps=7), False),
    ],
)
def test_a_run_is_finished_while_its_budget_is_not_raised(
    run: Path, config: TrainConfig, is_finished: bool
) -> None:
    before = contents(run)
    step, done = standing(config, run)
    assert step == 30
    assert (done is not None) == is_finished
    if done is not None:
        assert (done.step, done.seconds, done.episodes) == (30, 90.0, 3)
        assert done.policy == run / "checkpoints" / "step-000030" / "model"
    assert contents(run) == before


def test_a_run_whose_last_checkpoint_is_damaged_is_not_finished(run: Path) -> None:
    checkpointed(run, 31, 95.0, Exported())
    next((run / "checkpoints" / "step-000031" / "shards").iterdir()).write_bytes(b"")
    assert finished(TrainConfig(steps=31), run) is None
    found = finished(TrainConfig(steps=30), run)
    assert found is not None
    assert (found.step, len(found.refused)) == (30, 1)


def test_a_checkpoint_without_a_policy_is_no_end(run: Path) -> None:
    """That of a large policy which was killed after its last update: the run still has one to write."""
    checkpointed(run, 40, 99.0)
    assert finished(TrainConfig(steps=40), run) is None


def test_a_new_folder_is_no_finished_run(tmp_path: Path) -> None:
    assert standing(TrainConfig(), tmp_path / "new") == (0, None)
    assert not (tmp_path / "new").exists()


def test_a_run_that_another_process_trains_is_left_alone(run: Path) -> None:
    held = TrajectoryStore(run / "trajectories")
    with held, pytest.raises(InfrastructureError, match="another process trains in"):
        standing(TrainConfig(steps=31), run)
    assert standing(TrainConfig(steps=31), run).finished is None


def test_a_fork_has_the_weights_and_says_whose(run: Path, tmp_path: Path) -> None:
    fork, before = tmp_path / "fork", contents(run)
    policy = forked_policy(fork, run)
    assert policy is not None
    files = sorted(path.name for path in SMALL_POLICY.iterdir())
    assert sorted(path.name for path in policy.iterdir()) == files
    assert (policy / "model.safetensors").read_bytes() == (SMALL_POLICY / "model.safetensors").read_bytes()
    assert origin_of(fork) == {"run": str(run.resolve()), "checkpoint": "step-000030", "step": 30}
    assert contents(run) == before
    shutil.rmtree(run)  # it is a copy
    assert forked_policy(fork, None) == policy
    claim(fork, TrainConfig(policy=str(policy)))
    assert forked_policy(fork, run) == policy  # the same command goes on


def test_what_cannot_be_forked_says_why(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it has no checkpoint"):
        forked_policy(tmp_path / "new", tmp_path / "nothing")
    with pytest.raises(UsageError, match="holds a run already"):
        forked_policy(run, run)
    assert not (tmp_path / "new").exists()
    forked_policy(tmp_path / "new", run)
    with pytest.raises(UsageError, match="was forked from"):
        forked_policy(tmp_path / "new", tmp_path / "another")
    checkpointed(run, 40, 99.0)
    with pytest.raises(UsageError, match="no policy's folder"):
        forked_policy(tmp_path / "third", run)


def test_an_interrupted_fork_is_begun_anew(run: Path, tmp_path: Path) -> None:
    (tmp_path / "fork" / "forked-policy").mkdir(parents=True)
    (tmp_path / "fork" / "forked-policy" / "half").write_text("a part")
    policy = forked_policy(tmp_path / "fork", run)
    assert policy is not None and not (policy / "half").exists()


def test_an_optimiser_has_the_learning_rate_of_the_config(caplog: pytest.LogCaptureFixture) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    restored = optimizers.make("adamw", [weight], 1e-5, 0.01)
    restored.load_state_dict(optimizers.make("adamw", [weight], 5e-4, 0.01).state_dict())
    optimizers.hold(restored, 1e-5, 0.01)
    assert [group["lr"] for group in restored.param_groups] == [1e-5]
    assert "0.0005" in caplog.text and "1e-05" in caplog.text
    caplog.clear()
    optimizers.hold(restored, 1e-5, 0.01)
    assert caplog.text == ""


def test_its_origin_can_be_read_by_others(run: Path, tmp_path: Path) -> None:
    forked_policy(tmp_path / "fork", run)
    assert json.loads((tmp_path / "fork" / "forked.json").read_text())["step"] == 30
