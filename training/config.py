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


class RolloutConfig(_Config):
    """Episodes: how many at once, and how they are sampled."""

    devices: Positive = 12  # browsers, and so episodes at once
    group_size: Annotated[int, Field(ge=2)] = 8  # siblings of one task and seed
    dynamic: bool = False  # fewer siblings, and shorter episodes, for tasks that mostly succeed (DART)
    max_new_tokens: Positive = 16
    seed: int = 1_000_000  # the first task seed; demonstrations use those below, `eval` those from 10**9


class UpdateConfig(_Config):
    """One optimiser step: what it takes and how far it goes."""

    algorithm: Literal["arpo", "zerogui"] = "arpo"
    groups: Positive = 16
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
