"""What a run is told: defaults < recipe TOML < `--set a.b=c`. Imports no torch."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from guiagent.errors import InfrastructureError
from rewards.judge_config import JudgeConfig

Positive = Annotated[int, Field(gt=0)]
Rate = Annotated[float, Field(gt=0, lt=1)]


SMALL_POLICY = Path(__file__).parent / "tiny" / "checkpoint"


def checkpoint_folder(name: str) -> Path:
    """`tiny` is the shipped small policy. Raises InfrastructureError where the folder holds no checkpoint."""
    folder = SMALL_POLICY if name == "tiny" else Path(name)
    require_checkpoint(folder)
    return folder


def require_checkpoint(folder: Path) -> None:
    """Raises InfrastructureError where `folder` holds no Hugging Face checkpoint."""
    if not (folder / "config.json").is_file():
        raise InfrastructureError(
            f"no Hugging Face checkpoint at {folder} (config.json is missing); "
            "name a folder written by save_pretrained, or tiny"
        )


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HistoryConfig(_Config):
    """What of an episode the policy is shown. "full": every screenshot. "anchored": the history starts anew after
    `images` screenshots, so that a KV cache and a packed batch serve all of it. "sliding": the last `images`."""

    kind: Literal["full", "anchored", "sliding"] = "full"
    images: Positive = 5


class VllmConfig(_Config):
    """vLLM servers that sample in place of this process. Without `urls` one is started from `.venv-vllm`."""

    urls: tuple[str, ...] = ()
    update: Literal["path", "memory", "lora"] = "path"  # how new weights reach it
    max_model_len: Positive = 32_768


class RolloutConfig(_Config):
    """Episodes: how many at once, and how they are sampled."""

    devices: Positive = 12  # browsers, and so episodes at once
    history: HistoryConfig = HistoryConfig()
    temperature: Annotated[float, Field(ge=0)] = 1.0
    vllm: VllmConfig | None = None  # None: sampled in this process
    group_size: Annotated[int, Field(ge=2)] = 8  # siblings of one task and seed
    dynamic: bool = False  # fewer siblings, and shorter episodes, for tasks that mostly succeed (DART)
    max_new_tokens: Positive = 16
    seed: int = 1_000_000  # the first task seed; demonstrations use those below, `eval` those from 10**9


class LoraConfig(_Config):
    """Low-rank adapters in place of all weights (arXiv 2106.09685)."""

    rank: Positive = 16
    alpha: Positive = 32


class UpdateConfig(_Config):
    """One batch of groups: how many optimiser steps it is worth and how far they go."""

    algorithm: str = "arpo"
    groups: Positive = 16
    epochs: Positive = 1  # passes over a batch
    minibatches: Positive = 1  # optimiser steps a pass
    batch_tokens: Positive = 16_384  # per forward pass; a longer trajectory has one of its own
    precision: Literal["float32", "bfloat16"] = (
        "float32"  # of activations; weights and optimiser stay float32
    )
    gradient_checkpointing: bool = False
    compile: bool = False
    optimizer: Literal["adamw", "adamw8bit"] = "adamw"
    lora: LoraConfig | None = None
    learning_rate: Rate = 3e-4
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    micro_batch: Positive = 32  # trajectories per forward pass
    max_staleness: Positive = 4  # policy versions between sampling and training


class EvaluationConfig(_Config):
    """A suite that the policy is measured on before and after training; null, random and oracle beside it."""

    suite: str = "miniwob-demo"
    episodes: Positive = 30  # per task


class TrainConfig(_Config):
    """`guiagent train --recipe arpo-demo` or `zero`: online RL of a policy on a farm of browsers."""

    taskset: Literal["miniwob", "proposed"] = "miniwob"
    tasks: Annotated[tuple[str, ...], Field(min_length=1)]
    policy: str = "tiny"  # the checkpoint to start from: a folder, or the shipped small policy
    steps: Positive = 200
    minutes: Annotated[float, Field(gt=0)] | None = None  # stop earlier, after this much time of training
    checkpoint_minutes: Annotated[float, Field(gt=0)] = 1.0
    seed: int = 0
    rollout: RolloutConfig = RolloutConfig()
    update: UpdateConfig = UpdateConfig()
    curriculum: Literal["learnability", "band", "uniform"] = "learnability"
    judge: JudgeConfig | None = None  # gives the rewards in place of the tasks' checks
    evaluation: EvaluationConfig | None = None


class WarmStartConfig(_Config):
    """`guiagent train --recipe tiny-sft`: the small policy from scripted demonstrations."""

    demonstrations: Positive = 28_000
    devices: Positive = 4
    steps: Positive = 2_600
    batch: Positive = 32
    learning_rate: Rate = 1.5e-3
    processes: Positive = 2  # one thread each
    seed: int = 0


class JudgeFitConfig(_Config):
    """`guiagent train --recipe tiny-judge`: the small judge from episodes whose outcome is known."""

    labelled: Positive = 15_000  # episodes with a known outcome
    devices: Positive = 6
    steps: Positive = 2_000
    batch: Positive = 32
    learning_rate: Rate = 1e-3
    processes: Positive = 2  # one thread each
    seed: int = 0
