"""Trainers on Ray Train: workers learn the same as one process, and report it."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from guiagent.errors import InfrastructureError, UsageError
from guiagent.storage.trajectories import TrajectoryStore
from tests.drills.replayed import sample
from tests.support.ranks import config_of, learn, learn_on_ray, listening
from training.algorithms import find_algorithm
from training.config import RayConfig, TrainConfig
from training.distributed.parallel import LostProcess
from training.inputs.encoder import Encoder
from training.learner.learner import Learner

_LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@pytest.mark.slow
def test_two_trainers_on_a_cluster_of_its_own_learn_what_one_process_does(
    ray: Any, checkpoint: Path, tmp_path: Path
) -> None:
    sample(checkpoint, tmp_path / "source", 2)
    update = config_of("arpo").update
    with TrajectoryStore(tmp_path / "source", readonly=True) as store:
        learner = Learner(checkpoint, Encoder(checkpoint), find_algorithm("arpo"), update)
        alone = learn(learner, store, tmp_path / "alone", lone=False)

    from training.launch.ray import _cluster

    asked = TrainConfig(policy=str(checkpoint), ray=RayConfig(trainers=2))
    with _cluster(asked) as scratch:
        from training.launch.ray_driver import trainers

        trainers(partial(learn_on_ray, checkpoint, tmp_path), asked, scratch).fit()
        cluster = listening(psutil.Process().children(recursive=True))
    assert not scratch.exists()
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["world"] == 2
    assert len(alone) == len(found["steps"])
    for one, two in zip(alone, found["steps"], strict=True):
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-5, abs=1e-6)
        assert two["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-4)
        assert one["grad_norm"] > 0
    assert found["listening"] and set(found["listening"]) | set(cluster) <= _LOOPBACK


def test_a_lost_trainer_is_told_from_a_mistake(ray: Any) -> None:
    from ray.exceptions import ActorDiedError, RayTaskError

    from training.launch.ray_driver import LostTrainer, _failure

    gone, left = ActorDiedError(), LostProcess("another process of this run was lost")
    mistake, bug = UsageError("no algorithm 'x'"), ZeroDivisionError()
    of_an_actor = RayTaskError("play", "Traceback", bug).as_instanceof_cause()
    assert isinstance(_failure({0: left, 1: gone}), LostTrainer)
    assert isinstance(_failure({0: left, 1: left}), LostTrainer)
    assert isinstance(_failure({0: bug, 1: gone}), LostTrainer)  # what is left of an attempt says anything
    assert _failure({0: left, 1: mistake}) is mistake
    assert _failure({0: bug, 1: mistake}) is mistake
    assert _failure({0: left, 1: bug}) is bug
    assert _failure({0: of_an_actor}) is of_an_actor


def test_a_follower_opens_the_same_checkpoint_or_none(tmp_path: Path) -> None:
    from training.launch.leading import _found, _seal

    folders = {name: tmp_path / name / "step-000001" for name in ("leader", "same", "other")}
    for name, folder in folders.items():
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text("another" if name == "other" else "one")
    seal = _seal(folders["leader"])
    assert _found(folders["same"], seal, None) == folders["same"]
    assert _found(folders["other"], seal, lambda _: folders["same"]) == folders["same"]
    with pytest.raises(InfrastructureError, match="all nodes share"):
        _found(folders["other"], seal, None)
    with pytest.raises(InfrastructureError, match="all nodes share"):
        _found(folders["other"], seal, lambda _: tmp_path / "nowhere")


def test_a_follower_fetches_the_checkpoint_of_a_run_at_a_url(ray: Any, tmp_path: Path) -> None:
    from training.checkpoints.mirror import Mirror
    from training.checkpoints.storage import Storage
    from training.launch.ray_trainer import fetched

    url = (tmp_path / "bucket").as_uri()
    model = tmp_path / "run" / "checkpoints" / "step-000002" / "model"
    model.mkdir(parents=True)
    (model / "weights").write_text("of the second step")
    (tmp_path / "run" / "config.toml").write_text("")
    with Mirror(Storage(url), tmp_path / "run", 3600.0, lambda _: None):
        pass
    folder = fetched(url, tmp_path / "here", model.parent)
    assert (folder / "model" / "weights").read_text() == "of the second step"
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["checkpoints"]


def test_a_node_whose_trainer_was_lost_is_of_use_again(
    ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did not bring to the URL is moved away: others have gone on without it."""
    from training.launch.ray_trainer import _run_folder

    url = (tmp_path / "bucket" / "run").as_uri()
    warnings: list[str] = []

    def checkpoint(run: Path, step: int) -> Path:
        return run / "checkpoints" / f"step-{step:06d}" / "state.json"

    def save(run: Path, step: int) -> None:
        checkpoint(run, step).parent.mkdir(parents=True)
        checkpoint(run, step).write_text(f"{step}")

    monkeypatch.setenv("GUIAGENT_HOME", str(tmp_path / "first"))
    with pytest.raises(RuntimeError, match="lost"), _run_folder(url, warnings.append) as folder:
        save(folder.path, 1)
        raise RuntimeError("lost")
    save(folder.path, 2)  # and never at the URL
    monkeypatch.setenv("GUIAGENT_HOME", str(tmp_path / "second"))
    with _run_folder(url, warnings.append) as folder:
        assert checkpoint(folder.path, 1).read_text() == "1"
        save(folder.path, 3)
    assert not warnings
    monkeypatch.setenv("GUIAGENT_HOME", str(tmp_path / "first"))
    with _run_folder(url, warnings.append) as folder:
        assert [checkpoint(folder.path, step).exists() for step in (1, 2, 3)] == [True, False, True]
    (warning,) = warnings
    assert checkpoint(Path(warning.rpartition(" ")[2]), 2).exists()
    save(folder.path, 9)  # of no snapshot, in a folder that was handed over
    with _run_folder(url, warnings.append) as folder:
        assert not checkpoint(folder.path, 9).exists()
        assert checkpoint(folder.path, 3).exists()
