"""Stand-ins with which verl runs without a GPU, by its registers: for vLLM's servers, and for CUDA.

verl imports this in each of its processes, since $VERL_USE_EXTERNAL_MODULES names it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import ray
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor
from verl.plugin.platform import PlatformBase, PlatformRegistry
from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

Sampled = tuple[list[int], list[int], list[float]]  # the prompt's tokens, the reply's and their log-probs


@PlatformRegistry.register(platform="cpu")
class Cpu(PlatformBase):  # type: ignore[misc]
    """A processor in the place of a GPU. To Ray it is one, which `ray.init(num_gpus=1)` pretends."""

    device_name = vendor_name = "cpu"
    device_module = SimpleNamespace(
        is_available=lambda: False,
        get_device_name=lambda: "CPU",
        empty_cache=lambda: None,
        synchronize=lambda *_: None,
        set_device=lambda *_: None,
        memory_allocated=lambda *_: 0,
        memory_reserved=lambda *_: 0,
        max_memory_allocated=lambda *_: 0,
        max_memory_reserved=lambda *_: 0,
        mem_get_info=lambda *_: (0, 0),
        current_device=lambda: torch.device("cpu"),
        manual_seed=torch.manual_seed,
        manual_seed_all=torch.manual_seed,
        get_rng_state=torch.get_rng_state,
        set_rng_state=torch.set_rng_state,
    )

    def is_available(self) -> bool:
        return True

    def current_device(self) -> torch.device:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        # verl asks just before it makes the group for "cpu:gloo,DEVICE:BACKEND", which names the cpu twice.
        if "WORLD_SIZE" in os.environ and not torch.distributed.is_initialized():
            torch.distributed.init_process_group(
                "gloo",
                init_method=os.environ.get("DIST_INIT_METHOD", "env://"),
                rank=int(os.environ["RANK"]),
                world_size=int(os.environ["WORLD_SIZE"]),
            )
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        pass


class Server:
    """A stand-in for vLLM's: samples with transformers, one request at a time."""

    def __init__(self, model: str) -> None:
        torch.manual_seed(0)
        self.model = AutoModelForImageTextToText.from_pretrained(model).eval()
        self.processor = AutoProcessor.from_pretrained(model)
        self.log: list[Sampled] = []
        self.updates = 0

    def generate(
        self,
        request_id: str,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: list[Any],
        video_data: None,
    ) -> TokenOutput:
        config, ids = self.model.config, torch.tensor([prompt_ids])
        end = config.text_config.eos_token_id
        seen = dict(self.processor.image_processor(images=image_data, return_tensors="pt"))
        seen["mm_token_type_ids"] = (ids == config.image_token_id).int()
        past, tokens, logprobs = None, list[int](), list[float]()
        with torch.no_grad():
            while len(tokens) < sampling_params["max_tokens"] and end not in tokens:
                made = self.model(input_ids=ids, past_key_values=past, use_cache=True, **seen)
                scores = made.logits[0, -1] / sampling_params["temperature"]
                scores[[config.image_token_id, config.video_token_id]] = float("-inf")
                ids = torch.multinomial(scores.softmax(-1), 1)[None]
                tokens.append(int(ids))
                logprobs.append(float(scores.log_softmax(-1)[tokens[-1]]))
                past, seen = made.past_key_values, {}
        self.log.append((prompt_ids, tokens, logprobs))
        versions = {"global_steps": self.updates - 1}
        return TokenOutput(
            token_ids=tokens, log_probs=logprobs, stop_reason="completed", extra_fields=versions
        )

    def learn(self, weights: dict[str, torch.Tensor]) -> None:
        self.model.load_state_dict(weights, strict=False)
        self.updates += 1

    def sampled(self) -> list[Sampled]:
        return self.log

    def sleep(self) -> None:
        pass

    wake_up = sleep


class Replica(RolloutReplica):  # type: ignore[misc]
    """Such a server in the place of vLLM's."""

    async def init_standalone(self) -> None:
        await self.launch_servers()

    async def launch_servers(self) -> None:
        server = ray.remote(Server).options(name="stand-in")
        self._server_handle, self._server_address = server.remote(self.model_config.path), "stand-in"
        self.servers = [self._server_handle]


class Adapter(base.BaseRollout):  # type: ignore[misc]
    """Hands the trainer's weights to that server."""

    async def resume(self, tags: list[str]) -> None:
        pass

    async def release(self) -> None:
        pass

    async def update_weights(self, weights: Iterator[tuple[str, torch.Tensor]], **_: Any) -> None:
        learned = {name: tensor.detach().cpu().clone() for name, tensor in weights}
        await ray.get_actor("stand-in").learn.remote(learned)


RolloutReplicaRegistry.register("stand-in", lambda: Replica)
base._ROLLOUT_REGISTRY["stand-in", "async"] = f"{__name__}.Adapter"
