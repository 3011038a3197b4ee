"""The command line and the environment of a vLLM server: pure functions of its settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from training.engine.vllm.frames import CONNECTOR

MODEL = "policy"  # the name that requests call the served model by
WORKER = "training.engine.vllm.worker"
_MIDDLEWARE = "training.engine.vllm.frames.Frames", f"{WORKER}.Guard"  # a request passes the last one first
_CPU_CACHE_GB = 1  # keys and values of a server on the CPU; one on a GPU takes what the weights leave
_VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class ServerConfig:
    """The settings of one server."""

    checkpoint: Path
    log: Path
    max_model_len: int = 32_768  # or the model's own limit, if that is less
    max_lora_rank: int | None = None  # None: no adapters
    host: str = "127.0.0.1"
    port: int | None = None  # None: any that is free
    gpus: tuple[int, ...] = ()  # as this process counts them; several: tensor parallel. (): the first one
    gpu_memory: float = 0.9  # share of each GPU's memory
    start_timeout_s: float = 900.0


@dataclass(frozen=True)
class Start:
    """What is known of a server only when it is started."""

    model: Path  # the folder that it serves
    port: int
    length: int  # tokens of its longest context
    dtype: str
    on_cpu: bool


def arguments(config: ServerConfig, start: Start) -> list[str]:
    """Return the arguments of vLLM's own server."""
    named = {
        "--model": str(start.model),
        "--served-model-name": MODEL,
        "--host": config.host,
        "--port": str(start.port),
        "--dtype": start.dtype,
        "--max-model-len": str(start.length),
        "--limit-mm-per-prompt": '{"video": 0}',
        "--logprobs-mode": "processed_logprobs",  # of the distribution that was drawn from
        "--generation-config": "vllm",  # not the checkpoint's own top-k or top-p
        "--worker-extension-cls": f"{WORKER}.Weights",
    }
    flags = ["--enable-scale-out", "--disable-uvicorn-access-log", "--enable-prompt-tokens-details"]
    flags += [word for part in _MIDDLEWARE for word in ("--middleware", part)]
    if start.on_cpu:
        flags.append("--enforce-eager")
    else:
        named["--gpu-memory-utilization"] = f"{config.gpu_memory:g}"
        named["--tensor-parallel-size"] = str(max(1, len(config.gpus)))
    if config.max_lora_rank is not None:
        flags += ["--enable-lora", "--max-loras", "1", "--max-lora-rank", str(config.max_lora_rank)]
    return [*(word for pair in named.items() for word in pair), *flags]


def environment(
    config: ServerConfig, given: Mapping[str, str], token: str, path: Path, *, on_cpu: bool
) -> dict[str, str]:
    """Return the environment of a server that imports our part of it from `path`; `given` is this process's.

    Our interpreter's path and secrets that the server does not need are left out.
    """
    ours = ("PYTHON", "GUIAGENT_")
    found = {name: value for name, value in given.items() if not name.startswith(ours)} | {
        "PYTHONPATH": str(path),
        "VLLM_API_KEY": token,
        "VLLM_MEDIA_CONNECTOR": CONNECTOR,
        "VLLM_SERVER_DEV_MODE": "1",  # pausing, resetting caches, calling the worker
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
    }
    if on_cpu:
        found.setdefault("VLLM_CPU_KVCACHE_SPACE", str(_CPU_CACHE_GB))
        found["TORCH_COMPILE_DISABLE"] = "1"  # compiling takes 20 s at the first token, for no gain
    elif config.gpus:
        found[_VISIBLE] = visible(config.gpus, given.get(_VISIBLE))
    return found


def visible(gpus: tuple[int, ...], given: str | None) -> str:
    """Return $CUDA_VISIBLE_DEVICES for `gpus`, which count what `given`, the variable as it is, shows.

    Its entries may be numbers or UUIDs: they are passed on as they are.
    """
    shown = [one.strip() for one in given.split(",")] if given else None
    return ",".join(str(gpu) if shown is None else shown[gpu] for gpu in gpus)
