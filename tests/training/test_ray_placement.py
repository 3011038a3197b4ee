"""Placement on a real Ray cluster with pretended GPUs: who sees which, and room for the weights."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from training.config import PlacementConfig, RolloutConfig, TrainConfig, VllmConfig


@pytest.fixture
def three_gpus(ray: Any) -> Iterator[Path]:
    """A cluster of one node that says it has three."""
    folder = Path(tempfile.mkdtemp(prefix="gr-", dir="/tmp"))  # short: a socket's path has 107 characters
    ray.init(
        address="local",
        num_cpus=4,
        num_gpus=3,
        object_store_memory=100 * 2**20,
        include_dashboard=False,
        _temp_dir=str(folder),
        log_to_driver=False,
        configure_logging=False,
    )
    yield folder / "train"
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


class Probe:
    """An actor that says which GPUs it sees."""

    def gpus(self) -> str:
        return os.environ.get("CUDA_VISIBLE_DEVICES", "")


def told(path: Path) -> None:
    path.write_text(os.environ.get("CUDA_VISIBLE_DEVICES", ""))


@pytest.mark.drill
def test_an_engine_sees_its_gpus_and_a_trainer_another_one(
    ray: Any, three_gpus: Path, tmp_path: Path
) -> None:
    from training import placement
    from training.launch.ray_driver import host_of, trainers

    config = TrainConfig(
        placement=PlacementConfig(trainers=(0,), engines=((1, 2),)), rollout=RolloutConfig(vllm=VllmConfig())
    )
    assert placement.placed(config, placement.Site("ray", None, None)) == config
    ((gpus,), _, _) = placement.on_ray(config)
    engine = host_of(Probe, 1, gpus).remote()
    seen = set(ray.get(engine.gpus.remote()).split(","))
    trainers(partial(told, tmp_path / "trainer"), config, three_gpus).fit()
    trainer = set((tmp_path / "trainer").read_text().split(","))
    assert len(seen) == 2 and len(trainer) == 1 and seen | trainer == {"0", "1", "2"}


@pytest.mark.slow
def test_a_cluster_with_gpus_that_nothing_is_placed_on_is_warned_of(ray: Any, three_gpus: Path) -> None:
    from training.launch.ray_driver import _unused_gpus

    assert "has 3 GPUs, and without [placement]" in str(_unused_gpus(TrainConfig()))
    assert _unused_gpus(TrainConfig(placement=PlacementConfig())) is None
