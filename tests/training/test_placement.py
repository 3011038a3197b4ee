"""Placement on pretended GPUs: what is refused, what is the default, what reaches servers and trainers."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig

from guiagent.cli.train import command
from guiagent.errors import UsageError
from training import placement
from training.config import (
    LoraConfig,
    PlacementConfig,
    RayConfig,
    RolloutConfig,
    TrainConfig,
    UpdateConfig,
    VllmConfig,
)
from training.engine.factory import cache_bytes, placed_servers
from training.engine.vllm.command import ServerConfig, Start, arguments, environment, visible
from training.launch.ray import store_bytes
from training.model.architecture import Architecture
from training.placement import Site, placed, undivided

VLLM = RolloutConfig(vllm=VllmConfig())
QWEN25 = {"attention heads": 28, "key heads": 4, "vision heads": 16}


def config(
    engines: tuple[tuple[int, ...], ...] = (),
    trainers: tuple[int, ...] = (0,),
    *,
    rollout: RolloutConfig = VLLM,
    update: UpdateConfig | None = None,
    ray: RayConfig | None = None,
    **more: Any,
) -> TrainConfig:
    given = PlacementConfig(engines=engines, trainers=trainers, **more)
    return TrainConfig(
        placement=given, rollout=rollout, update=update or UpdateConfig(), ray=ray or RayConfig()
    )


TORCHRUN, RAY, ALONE = Site("torchrun", None, 8), Site("ray", None, None), Site("process", None, 8)
IN_PROCESS = RolloutConfig()


@pytest.mark.parametrize(
    ("made", "site", "line"),
    [
        (config(((8,),)), ALONE, "GPU 8 is of another one"),
        (config(((5,),)), Site("process", None, 4), "GPU 5, and there are 4 here"),
        (config(((1,),)), Site("process", None, 0), "GPU 0, and there are none here"),
        (config(((0,), (0,)), engine_memory=0.6), ALONE, "ask for 1.2 of its memory"),
        (config(((0,),), engine_memory=1.0), ALONE, "1 engines and a trainer, and they ask for 1 "),
        (config(((1, 1),)), ALONE, "one GPU twice in an engine"),
        (config(((3, 4),), gpus_per_host=4), RAY, "of more than one host"),
        (config(), ALONE, "such as placement.engines = [[1]]"),
        (config(((1, 2),), rollout=IN_PROCESS), ALONE, "only a vLLM server takes several GPUs"),
        (config(((1,), (2,)), rollout=IN_PROCESS), ALONE, "has one engine"),
        (config(((1,),), rollout=RolloutConfig(vllm=VllmConfig(urls=("http://a",)))), ALONE, "or the urls"),
        (config(((2,),), (0, 1)), ALONE, "use --launch torchrun"),
        (config(((2,),), (0, 0)), TORCHRUN, "NCCL takes one process"),
        (config(((2,),), (0, 1)), Site("torchrun", 3, 8), "--processes 3 is not the number"),
        (config(((2,),), (0, 1), update=UpdateConfig(optimizer="adamw8bit")), TORCHRUN, "adamw8bit"),
        (config(((0,),), engine_memory=0.5), RAY, "GPUs to itself, and GPU 0 is placed twice"),
        (config(((1,),), ray=RayConfig(trainers=2)), RAY, "leave out ray.trainers"),
        (config(((1,),), ray=RayConfig(engines=2)), RAY, "leave out ray.engines"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(made: TrainConfig, site: Site, line: str) -> None:
    with pytest.raises(UsageError, match=line.replace("[", r"\[")) as refused:
        placed(made, site)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("made", "site"),
    [
        (config(((4, 5), (6, 7)), (0, 1, 2, 3)), TORCHRUN),
        (config(((0,), (0,)), engine_memory=0.4), ALONE),
        (config(((1,),), rollout=IN_PROCESS), ALONE),
        (config(tuple((gpu,) for gpu in range(8, 16)), tuple(range(8))), RAY),
    ],
)
def test_what_can_be_is_taken_as_it_is(made: TrainConfig, site: Site) -> None:
    assert placed(made, site) == made


def test_a_recipe_that_does_not_say_never_has_two_on_one_memory() -> None:
    vllm, none = TrainConfig(rollout=VLLM), TrainConfig()
    assert placed(none, Site("process", None, 0)).placement is None
    assert placed(vllm, Site("ray", None, None)).placement is None
    assert placed(none, Site("process", None, 8)).placement == PlacementConfig()
    assert placed(vllm, Site("process", None, 2)).placement == PlacementConfig(engines=((1,),))
    assert placed(vllm, Site("torchrun", 2, 4)).placement == PlacementConfig(trainers=(0, 1), engines=((2,),))
    shared = placed(vllm, Site("process", None, 1))
    assert shared.placement == PlacementConfig(engines=((0,),), engine_memory=0.4)
    assert placement.share_of(shared, 0) == pytest.approx(0.6)
    with pytest.raises(UsageError, match="GPU 1, and there are 1 here"):
        placed(none, Site("torchrun", 2, 1))


def test_processes_are_one_for_each_placed_trainer() -> None:
    assert placement.processes(config(trainers=(0, 1, 2)), None) == 3
    assert placement.processes(config(trainers=(0, 1, 2)), 3) == 3
    assert placement.processes(TrainConfig(), None) == 2


@pytest.mark.parametrize(("parallel", "fits"), [(1, True), (2, True), (4, True), (7, False), (8, False)])
def test_an_engine_divides_all_heads_of_its_model(parallel: int, fits: bool) -> None:
    problem = undivided(parallel, QWEN25)
    assert (problem is None) == fits
    if problem is not None:
        assert f"has {parallel} GPUs" in problem and "heads do not divide" in problem
    assert undivided(8, {"attention heads": 32, "key heads": 4}) is None  # each key head on two GPUs
    published = {"text_config": {"num_attention_heads": 28, "num_key_value_heads": 4}, "vision_config": {}}
    assert placement.heads_of(published) == {"attention heads": 28, "key heads": 4}


def test_each_server_has_its_gpus_in_its_command_and_its_environment(tmp_path: Path) -> None:
    made = config(((4, 5), (6,)), engine_memory=0.8)
    first, second = placed_servers(made.placement, ServerConfig(tmp_path, tmp_path / "vllm.log"))
    assert (first.log.name, second.log.name) == ("vllm.log", "vllm-1.log")
    start = Start(tmp_path, 8000, 4096, "bfloat16", on_cpu=False)
    for server, parallel, shown in ((first, "2", "4,5"), (second, "1", "6")):
        words = arguments(server, start)
        said = dict(pairwise(words))
        assert said["--tensor-parallel-size"] == parallel and said["--gpu-memory-utilization"] == "0.8"
        given = {"GUIAGENT_TOKEN": "secret", "PYTHONPATH": "x", "HOME": "/h"}
        env = environment(server, given, "key", tmp_path, on_cpu=False)
        assert env["CUDA_VISIBLE_DEVICES"] == shown and env["VLLM_API_KEY"] == "key" and env["HOME"] == "/h"
        assert "GUIAGENT_TOKEN" not in env and env["PYTHONPATH"] == str(tmp_path)
    on_cpu = arguments(first, start.__class__(tmp_path, 8000, 4096, "float32", on_cpu=True))
    assert "--enforce-eager" in on_cpu and "--tensor-parallel-size" not in on_cpu
    assert "CUDA_VISIBLE_DEVICES" not in environment(first, {}, "key", tmp_path, on_cpu=True)


def test_gpus_are_counted_as_this_process_sees_them() -> None:
    assert visible((0, 2), None) == "0,2"
    assert visible((0, 2), "4,5,6,7") == "4,6"
    assert visible((1,), "GPU-aa, GPU-bb") == "GPU-bb"


def test_the_engine_in_the_process_stays_within_its_share() -> None:
    assert cache_bytes(0.5 * 80e9, 16_000_000_000) == 18_000_000_000
    assert cache_bytes(10e9, 16_000_000_000) == 0


def test_actors_on_ray_have_whole_gpus_and_count_their_own_from_0() -> None:
    made = config(((8, 9), (10,)), tuple(range(8)))
    assert placement.on_ray(made) == ([2, 1], 8, 1)
    assert placement.on_ray(TrainConfig(ray=RayConfig(engines=3))) == ([0, 0, 0], 1, 0)
    first = placement.of_engine(made, 0).placement
    assert first is not None and first.engines == ((0, 1),)
    urls = RolloutConfig(vllm=VllmConfig(urls=("http://a", "http://b", "http://c")))
    shares = [
        placement.of_engine(config(rollout=urls, ray=RayConfig(engines=2)), number).rollout.vllm
        for number in range(2)
    ]
    assert [share.urls for share in shares if share] == [("http://a", "http://c"), ("http://b",)]


def test_a_trainer_works_on_its_own_gpu_with_what_servers_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[tuple[object, ...]] = []
    monkeypatch.setattr(torch.cuda, "set_device", lambda gpu: did.append(("device", gpu)))
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda share, gpu: did.append((round(share, 3), gpu))
    )
    made = config(((0,),), (0, 12), engine_memory=0.3)
    assert [command._take_gpu(made, rank) for rank in (0, 1)] == [0, 4]  # the second host's fifth
    assert did == [("device", 0), (0.7, 0), ("device", 4)]
    assert command._take_gpu(TrainConfig(), 0) is None


def test_the_command_counts_the_gpus_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert command.site_of("process", 2) == Site("process", None, 8)
    assert command.site_of("torchrun", None) == Site("torchrun", None, 8)
    assert command.site_of("ray", None) == Site("ray", None, None)
    monkeypatch.setenv("WORLD_SIZE", "4")  # a process of torchrun
    assert command.site_of("torchrun", None) == Site("torchrun", 4, 8)


def test_a_cluster_started_here_has_room_for_two_versions_of_what_it_sends(checkpoint: Path) -> None:
    """The last of a store that is too small would go to disk, at every update."""
    weights = Architecture.of(AutoConfig.from_pretrained(checkpoint)).parameters
    made = TrainConfig(policy=str(checkpoint))
    assert store_bytes(made) == 200 * 2**20 + 2 * 4 * weights
    adapted = TrainConfig(
        policy=str(checkpoint),
        rollout=RolloutConfig(vllm=VllmConfig(update="lora")),
        update=UpdateConfig(lora=LoraConfig(rank=4)),
    )
    assert 200 * 2**20 < store_bytes(adapted) < store_bytes(made)
