"""The config of a recipe in stages: fine-tuning, online RL of steps and of tasks, a few shots of other tasks.

Each stage begins with the weights of the one before it. What all of them share (the policy, its dialect, the
devices, the seed) is said once, at the top of the recipe.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field

from guiagent.errors import UsageError
from guiagent.seeds import of_run
from training.config import (
    DeviceConfig,
    EvaluationConfig,
    PlatformConfig,
    Positive,
    Rate,
    SftConfig,
    TrainConfig,
)

StageName = Literal["sft", "single", "multi", "adapt"]
STAGES: tuple[StageName, ...] = ("sft", "single", "multi", "adapt")
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

    hidden: Annotated[int, Field(ge=64, multiple_of=64)] = 128  # width of its language model
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


class AdaptConfig(BaseModel, extra="forbid", frozen=True):
    """Few-shot adaptation: fine-tuning on a few demonstrations of tasks that no stage before has seen."""

    demonstrations: DemonstrationsConfig
    rehearsed: Annotated[float, Field(ge=0)] = 0.0
    """How many of the demonstrations are of the tasks before, to each of the new ones: those that are not
    shown again are forgotten."""
    sft: SftStage = SftStage()


class StagesConfig(BaseModel, extra="forbid", frozen=True):
    """`guiagent train --recipe lab`: the stages of one policy, and what it is measured on between them."""

    stages: Annotated[tuple[StageName, ...], Field(min_length=1)] = ("sft", "single", "multi")
    policy: str = "tiny"  # as in `TrainConfig`, like the next four
    dialect: str = "ui-tars"
    max_pixels: Positive | None = None
    device: DeviceConfig = DeviceConfig(kind="lab")
    seed: int = 0
    seeds: Positive = 1  # runs, from `seed` on, each in a folder of its own
    devices: Positive = 4  # of demonstrations and measurements
    demonstrations: DemonstrationsConfig = DemonstrationsConfig()
    processes: Positive = 2  # of fine-tuning, with one thread each
    base: BaseConfig | None = None  # made in the shape of the small policy; None: begin with `policy` itself
    sft: SftStage = SftStage()
    single: TrainConfig = TrainConfig(taskset="lab-steps")
    multi: TrainConfig = TrainConfig(taskset="lab")
    adapt: AdaptConfig | None = None
    evaluation: EvaluationConfig = EvaluationConfig(suite="lab")

    def require_consistent(self) -> None:
        """Raise UsageError for a recipe that contradicts itself: stages out of order, what all of them share,
        said for one, a policy measured with a history that it was never shown."""
        if list(self.stages) != [name for name in STAGES if name in self.stages]:
            raise UsageError(f"stages: each of them once, in this order: {', '.join(STAGES)}")
        for name in STAGES:
            if own := set(_SHARED) & self._said(name):
                raise UsageError(f"{name}.{min(own)} is shared by all stages: say it once, without '{name}.'")
        if self.base is not None and self.policy != "tiny":
            raise UsageError("a base is made in the shape of the small policy: leave out base, or policy")
        if "adapt" in self.stages and self.adapt is None:
            raise UsageError("the stage adapt has nothing to learn from: add [adapt.demonstrations]")
        for name in ("sft", "adapt"):
            if "store" in self._said(name):
                raise UsageError(f"the stage {name} learns from its own demonstrations: leave out store")
            if name in self.stages:
                self._require_known_history(name)

    def _require_known_history(self, name: StageName) -> None:
        """Raise UsageError if fine-tuning never shows a history such as the policy is measured with."""
        shown, measured = self._stage(name), self.multi.rollout.history
        assert isinstance(shown, SftStage)
        sliding = measured.kind == "sliding"
        if sliding != (shown.history == "sliding") or (sliding and measured.images not in shown.images):
            raise UsageError(
                f"the policy is measured with multi.rollout.history, {measured.kind} of {measured.images} "
                f"screenshots, which {name} never shows ({shown.history} of "
                f"{', '.join(map(str, shown.images))}): let both say the same"
            )

    def _said(self, name: StageName) -> set[str]:
        """The keys that the recipe says of a stage's training."""
        stage = self._stage(name)
        return stage.model_fields_set if stage else set()

    def _stage(self, name: StageName) -> SftStage | TrainConfig | None:
        """The training that the recipe says of a stage; None: there is no such stage."""
        if name == "adapt":
            return self.adapt.sft if self.adapt else None
        stage: SftStage | TrainConfig = getattr(self, name)
        return stage

    def of_seeds(self) -> "list[StagesConfig]":
        """The configs of the runs of several seeds, from `seed` on: no two roll out the same task seeds."""
        return [self._of_seed(number) for number in range(self.seeds)]

    def _of_seed(self, number: int) -> "StagesConfig":
        def moved(stage: TrainConfig) -> TrainConfig:
            first = of_run(stage.rollout.seed, number)
            return stage.model_copy(update={"rollout": stage.rollout.model_copy(update={"seed": first})})

        rl = {"single": moved(self.single), "multi": moved(self.multi)}
        return self.model_copy(update={"seed": self.seed + number, "seeds": 1, **rl})

    def shown_on(self, total: int) -> list[tuple[PlatformConfig, int]]:
        """The platforms of the demonstrations, and how many of `total` episodes or screens each has."""
        platforms = self._platforms(self.demonstrations)
        shares = [platform.share for platform in platforms]
        ends = [round(total * sum(shares[: n + 1]) / sum(shares)) for n in range(len(shares))]
        return [
            (platform, end - start) for platform, start, end in zip(platforms, [0, *ends], ends, strict=False)
        ]

    def _platforms(self, shown: DemonstrationsConfig) -> tuple[PlatformConfig, ...]:
        """The platforms that demonstrations are shown on."""
        sole = PlatformConfig(
            taskset=shown.taskset, tasks=shown.tasks, device=self.device, devices=self.devices
        )
        return shown.platforms or (sole,)

    def fine_tuning(self, run: Path) -> SftConfig:
        """The config of the stage "sft" in the folder `run`."""
        return self._of(self.sft, store=run / DEMONSTRATIONS)

    def adaptation(self, policy: str) -> "StagesConfig":
        """The config of the stage "adapt": a recipe of its own, with fine-tuning alone, from `policy` on."""
        assert self.adapt is not None
        shown, rehearsed = self.adapt.demonstrations, self.adapt.rehearsed
        if rehearsed:
            new, before = self._platforms(shown), self._platforms(self.demonstrations)
            scale = rehearsed * sum(one.share for one in new) / sum(one.share for one in before)
            again = tuple(one.model_copy(update={"share": scale * one.share}) for one in before)
            shown = shown.model_copy(update={"platforms": new + again})
        changes = {"demonstrations": shown, "sft": self.adapt.sft}
        return self.model_copy(update={"stages": ("sft",), "policy": policy, **changes})

    def reinforcement(self, name: StageName, policy: str) -> TrainConfig:
        """The config of a stage of online RL that begins with `policy`.

        A stage that names no tasks learns those that were demonstrated.
        """
        stage: TrainConfig = getattr(self, name)
        named = stage.model_fields_set & {"tasks", "platforms"}
        tasks = {} if named else {"tasks": self.demonstrations.tasks}
        return self._of(stage, policy=policy, device=self.device, **tasks)

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
