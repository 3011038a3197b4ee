"""The config of a recipe in stages: fine-tuning on demonstrations, then online RL of steps and of tasks.

Each stage begins with the weights of the one before it. What all of them share (the policy, its dialect, the
devices, the seed) is said once, at the top of the recipe.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field

from guiagent.errors import UsageError
from training.config import (
    DeviceConfig,
    EvaluationConfig,
    PlatformConfig,
    Positive,
    Rate,
    SftConfig,
    TrainConfig,
)

StageName = Literal["sft", "single", "multi"]
STAGES: tuple[StageName, ...] = ("sft", "single", "multi")
DEMONSTRATIONS = "demonstrations"  # in a run's folder: the store of what the oracle showed

_SHARED = ("policy", "dialect", "max_pixels", "device", "seed")
_Stage = TypeVar("_Stage", bound=BaseModel)


class DemonstrationsConfig(BaseModel, extra="forbid", frozen=True):
    """Demonstrations by a taskset's oracle: see `training/sft/demonstrations.py`."""

    taskset: str = "lab"
    tasks: Annotated[tuple[str, ...], Field(min_length=1)] = ("*",)
    episodes: Positive = 2000
    midway: Annotated[float, Field(ge=0, le=1)] = 0.0  # share that begins on the oracle's way, or at its end
    astray: Annotated[float, Field(ge=0, le=1)] = 0.0  # share that begins after one to three random taps
    careless: Annotated[float, Field(ge=0, le=1)] = 0.0  # share of the replies that tap any control instead
    platforms: tuple[PlatformConfig, ...] = ()
    """Several platforms, in place of `taskset` and `tasks` on the recipe's devices; `share` is of all
    episodes, and of the base's screens."""


class BaseConfig(BaseModel, extra="forbid", frozen=True):
    """The policy that the stages begin with, made anew and taught to read: see `training/sft/base.py`."""

    vocabulary: Positive = 768  # tokens that are learned from the demonstrations' words
    screens: Positive = 3000  # of the tasks demonstrated
    reading: Positive = 300  # optimiser steps of reading alone
    pointing: Positive = 400  # then of reading and pointing
    copying: Annotated[int, Field(ge=0)] = 0  # and then of both and of typing what an instruction quotes
    batch: Positive = 32  # screens
    learning_rate: Rate = 2e-3
    processes: Positive = 2  # with one thread each


class SftStage(SftConfig):
    store: Path = Path(DEMONSTRATIONS)  # in the run's folder


class StagesConfig(BaseModel, extra="forbid", frozen=True):
    """`guiagent train --recipe lab`: the stages of one policy, and what it is measured on between them."""

    stages: Annotated[tuple[StageName, ...], Field(min_length=1)] = STAGES
    policy: str = "tiny"  # as in `TrainConfig`, like the next four
    dialect: str = "ui-tars"
    max_pixels: Positive | None = None
    device: DeviceConfig = DeviceConfig(kind="lab")
    seed: int = 0
    devices: Positive = 4  # of demonstrations and measurements
    demonstrations: DemonstrationsConfig = DemonstrationsConfig()
    processes: Positive = 2  # of fine-tuning, with one thread each
    base: BaseConfig | None = None  # made in the shape of the small policy; None: begin with `policy` itself
    sft: SftStage = SftStage()
    single: TrainConfig = TrainConfig(taskset="lab-steps")
    multi: TrainConfig = TrainConfig(taskset="lab")
    evaluation: EvaluationConfig = EvaluationConfig(suite="lab")

    def require_consistent(self) -> None:
        """Raise UsageError for stages out of order, and for what all of them share, said for one."""
        if list(self.stages) != [name for name in STAGES if name in self.stages]:
            raise UsageError(f"stages: each of them once, in this order: {', '.join(STAGES)}")
        for name in STAGES:
            if own := set(_SHARED) & getattr(self, name).model_fields_set:
                raise UsageError(f"{name}.{min(own)} is shared by all stages: say it once, without '{name}.'")
        if self.base is not None and self.policy != "tiny":
            raise UsageError("a base is made in the shape of the small policy: leave out base, or policy")
        if "store" in self.sft.model_fields_set:
            raise UsageError("the stage sft learns from its own demonstrations: leave out sft.store")

    def shown_on(self, total: int) -> list[tuple[PlatformConfig, int]]:
        """The platforms of the demonstrations, and how many of `total` episodes or screens each has."""
        shown = self.demonstrations
        sole = PlatformConfig(
            taskset=shown.taskset, tasks=shown.tasks, device=self.device, devices=self.devices
        )
        platforms = shown.platforms or (sole,)
        shares = [platform.share for platform in platforms]
        ends = [round(total * sum(shares[: n + 1]) / sum(shares)) for n in range(len(shares))]
        return [
            (platform, end - start) for platform, start, end in zip(platforms, [0, *ends], ends, strict=False)
        ]

    def fine_tuning(self, run: Path) -> SftConfig:
        """The config of the stage "sft" in the folder `run`."""
        return self._of(self.sft, store=run / DEMONSTRATIONS)

    def reinforcement(self, name: StageName, policy: str) -> TrainConfig:
        """The config of a stage of online RL that begins with `policy`."""
        stage: TrainConfig = getattr(self, name)
        return self._of(stage, policy=policy, device=self.device)

    def _of(self, stage: _Stage, **more: Any) -> _Stage:
        shared = {"policy": self.policy, "dialect": self.dialect, "max_pixels": self.max_pixels}
        return stage.model_copy(update={**shared, "seed": self.seed, **more})


class Shown(BaseModel, extra="forbid", frozen=True):
    """What tells one store of demonstrations from another: the identity of a run in stages."""

    demonstrations: DemonstrationsConfig
    dialect: str
    device: DeviceConfig
    seed: int

    @classmethod
    def of(cls, config: StagesConfig) -> "Shown":
        return cls(**{name: getattr(config, name) for name in cls.model_fields})
