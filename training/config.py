"""The configuration of a run: defaults, overridden by a recipe's TOML, then by `--set a.b=c`. No torch."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from guiagent.errors import InfrastructureError
from guiagent.seeds import REINFORCEMENT
from guiagent.wire import Grant
from rewards.judges.config import JudgeConfig, ServerConfig, StepJudgeConfig

Positive = Annotated[int, Field(gt=0)]
Rate = Annotated[float, Field(gt=0, lt=1)]
TaskSeed = Annotated[int, Field(ge=REINFORCEMENT.start, lt=REINFORCEMENT.stop)]
Gpu = Annotated[int, Field(ge=0)]


_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")
SMALL_POLICY = Path(__file__).parent / "tiny" / "checkpoint"
PLATFORMS_POLICY = Path(__file__).parent / "tiny" / "platforms"
CARELESS_POLICY = Path(__file__).parent / "tiny" / "careless"
_SHIPPED = {"tiny": SMALL_POLICY, "tiny-platforms": PLATFORMS_POLICY, "tiny-careless": CARELESS_POLICY}


def checkpoint_folder(name: str, *, weights: bool = True) -> Path:
    """Return the folder of a checkpoint: a shipped one by its name, ORGANISATION/MODEL, or a path.

    Shipped are `tiny`, the small policy; `tiny-platforms`, which knows several platforms; and
    `tiny-careless`, which has learned from a careless hand.
    A model of the Hugging Face hub is downloaded once, without its weights if `weights` is False.

    Raises InfrastructureError if there is no checkpoint.
    """
    folder = _SHIPPED.get(name) or Path(name)
    if not folder.exists() and _HUB_NAME.fullmatch(name) and not folder.parent.exists():
        folder = _download(name, weights)
    require_checkpoint(folder)
    return folder


def _download(name: str, weights: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = ["*.json", "*.txt", "*.jinja", "tokenizer.model", *(["*.safetensors"] if weights else [])]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().partition("\n")[0][:200]
        raise InfrastructureError(
            f"{name} cannot be had from the Hugging Face hub ({reason}); name a folder that holds it"
        ) from error


def require_checkpoint(folder: Path) -> None:
    """Raise InfrastructureError if `folder` holds no Hugging Face checkpoint."""
    if not (folder / "config.json").is_file():
        raise InfrastructureError(
            f"no Hugging Face checkpoint at {folder} (config.json is missing); "
            "name a folder written by save_pretrained, or tiny"
        )


TrackerName = Literal["trackio", "wandb", "mlflow"]


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HistoryConfig(_Config):
    """The part of an episode that the policy is shown.

    "full": every screenshot. "anchored": a new history starts after every `images` screenshots, so that a KV
    cache and a packed batch serve all of it. "sliding": the last `images` screenshots.
    """

    kind: Literal["full", "anchored", "sliding"] = "full"
    images: Positive = 5


class VllmConfig(_Config):
    """vLLM servers that sample instead of this process. Without `urls` one is started from `.venv-vllm`."""

    urls: tuple[str, ...] = ()
    update: Literal["path", "memory", "lora"] = "path"  # the way that new weights reach a server
    max_model_len: Positive = 32_768


class AgentConfig(_Config):
    """A program that plays the episodes with the policy behind OpenAI's API (`training.rollout.outside`)."""

    command: Annotated[tuple[str, ...], Field(min_length=1)]
    timeout_s: Annotated[float, Field(gt=0)] = 300.0  # of an episode
    environment: tuple[str, ...] = ()  # names of variables that it gets beside PATH, HOME and the like


class RolloutConfig(_Config):
    """Episodes: how many at once, and how they are sampled."""

    devices: Positive = 12  # number of devices, and so of episodes at once
    history: HistoryConfig = HistoryConfig()
    temperature: Annotated[float, Field(ge=0)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0  # draw from the likeliest tokens of this probability
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0  # lowers a token's logit each time
    vllm: VllmConfig | None = None  # None: sample in this process
    agent: AgentConfig | None = None  # None: the agent loop of guiagent.episode
    group_size: Annotated[int, Field(ge=2)] = 8  # episodes of one task and seed
    dynamic: bool = False  # smaller groups and shorter episodes for tasks that mostly succeed (DART)
    max_new_tokens: Positive = 16
    max_steps: Positive | None = None  # most turns of an episode; None: as many as its task allows
    seed: TaskSeed = REINFORCEMENT.start  # the first task seed; see `guiagent.seeds`


class LoraConfig(_Config):
    """Low-rank adapters in place of all weights (arXiv 2106.09685)."""

    rank: Positive = 16
    alpha: Positive = 32


class DeviceConfig(_Config):
    """The devices of the episodes. Without a `farm`, one of this kind and size is started for the run."""

    kind: Literal["browser", "phone", "desktop", "vm", "android", "lab"] = "browser"
    width: Positive = 160  # pixels of the screen; the default is MiniWoB++'s
    height: Positive = 224
    grants: tuple[Grant, ...] = ("exec",)  # rights that the tasks' set-ups and checks need
    frame: Literal["png", "jpeg"] = "png"  # JPEG is a tenth of the bytes for a full HD screen
    farm: str | None = None  # address of a running pool; its token is $GUIAGENT_TOKEN


class PlatformConfig(_Config):
    """A platform: a kind of device, and the tasks that are trained on it beside those of other platforms."""

    taskset: str = "miniwob"  # as in `TrainConfig`, like the tasks
    tasks: Annotated[tuple[str, ...], Field(min_length=1)] = ("*",)
    device: DeviceConfig = DeviceConfig()
    devices: Positive = 4
    share: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Of the groups that may be open or wait for the trainer, or of a recipe's demonstrations, beside the
    shares of the other platforms."""


class OptimizationConfig(_Config):
    """How an optimiser step is computed: batch size, precision, optimiser, learning rate."""

    batch_tokens: Positive = 16_384  # most tokens of a forward pass; a context must fit
    precision: Literal["float32", "bfloat16"] = "float32"  # of activations; weights and moments stay float32
    gradient_checkpointing: bool = False
    compile: bool = False
    freeze_vision: bool = False  # keep the vision tower as it is, and encode each screenshot once
    optimizer: Literal["adamw", "adamw8bit"] = "adamw"
    lora: LoraConfig | None = None
    learning_rate: Rate = 3e-4
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0


FlatGroups = Literal["keep", "drop", "drop_by_outcome"]
"""Groups whose episodes all fared alike: "keep" learns from them what else tells their episodes apart, such
as a format penalty; "drop" leaves out those that all earned the same, "drop_by_outcome" those that all
succeeded or all failed, whatever a judge's reward says of them."""


class ClipConfig(_Config):
    """The bounds of a clipped ratio, `[1 - low, 1 + high]`, and `dual`, the bound on it where A < 0."""

    low: Annotated[float, Field(gt=0, le=1)] | None = None
    high: Annotated[float, Field(gt=0)] | None = None
    dual: Annotated[float, Field(gt=1)] | None = None


class KlConfig(_Config):
    """`coef * kl(policy, the policy that the run began with)`; `coef` 0 takes the term away."""

    coef: Annotated[float, Field(ge=0)] | None = None
    form: Literal["k1", "k2", "k3"] | None = None  # the estimator; k3 for a preset that has no such term


class EntropyConfig(_Config):
    """`-coef * decay**update * entropy`, kept in a `band` around its past; `coef` 0 takes the term away."""

    coef: Annotated[float, Field(ge=0)] | None = None
    decay: Annotated[float, Field(gt=0, le=1)] | None = None
    band: tuple[float, float] | None = None  # factors of each step's past mean entropy, such as [0.8, 1.2]
    band_weight: Annotated[float, Field(ge=0)] | None = None


Aggregation = Literal[
    "token_mean",  # every token of the optimiser step has the same weight (DAPO)
    "turn_mean_token_mean",  # every turn has: seq-mean-token-mean of papers that cut samples at steps
    "traj_mean_token_mean",  # every trajectory has, and within it every token
    "traj_mean_turn_mean_token_mean",  # every trajectory has, within it every turn, within that every token
    "token_sum",  # a sum divided by a constant: trajectories times the longest possible one (Dr. GRPO)
]


class ObjectiveConfig(_Config):
    """Parts of the loss in place of the preset's own, which stay where None is (`algorithms.adjusted`)."""

    aggregation: Aggregation | None = None  # the weight of a token, by the length of its trajectory or not
    clip: ClipConfig = ClipConfig()
    kl: KlConfig = KlConfig()
    entropy: EntropyConfig = EntropyConfig()


class UpdateConfig(OptimizationConfig):
    """One batch of groups: what is learned from it, and in how many optimiser steps."""

    algorithm: str = "arpo"
    objective: ObjectiveConfig = ObjectiveConfig()
    groups: Positive = 16
    flat_groups: FlatGroups | None = None  # None: as the algorithm has it
    replay: bool = True  # False: without the algorithm's replay of earlier successes
    epochs: Positive = 1  # passes over a batch
    minibatches: Positive = 1  # optimiser steps in a pass
    max_staleness: Annotated[int, Field(ge=0)] = 4  # policy versions from sampling to update; 0: in turns
    seeds: Path | None = None  # trajectory store whose successes fill the replay at the start (BEPA)


class PlacementConfig(_Config):
    """Which GPUs the trainers and engines of a run have (`training.placement`).

    Numbers count the GPUs of the machine as $CUDA_VISIBLE_DEVICES shows them, or, where there are several
    hosts, host after host. On Ray they say how many there are and what stays together; Ray chooses which.
    """

    trainers: Annotated[tuple[Gpu, ...], Field(min_length=1)] = (0,)  # one for each process of the learner
    engines: tuple[Annotated[tuple[Gpu, ...], Field(min_length=1)], ...] = ()
    """The GPUs of each vLLM server, with tensor parallelism over them, or of the engine in the process."""
    engine_memory: Annotated[float, Field(gt=0, le=1)] = 0.9  # an engine's share of each of its GPUs
    gpus_per_host: Positive = 8


class RayConfig(_Config):
    """`--launch ray`: which cluster, and how many processes a run has on it."""

    address: str | None = None  # cluster, host:port or "auto"; None: start one on this machine for the run
    workers: Positive = 2  # processes that run episodes; they share the devices
    engines: Positive = 1  # processes that sample; with [placement] it says, here and in the next line
    trainers: Positive = 1  # processes that share the learner (FSDP2)
    restarts: Annotated[int, Field(ge=0)] = 3  # restarts of the trainers after one was lost


class HealthConfig(_Config):
    """When a run warns, and when it ends, because its episodes teach nothing."""

    warn_after: Positive = 5  # updates in a row from whose episodes nothing was learned
    stop_after: Annotated[int, Field(ge=0)] = 20  # such updates, or batches of groups left out; 0: never
    parse_errors: Annotated[float, Field(gt=0, le=1)] = 0.5  # share of episodes that is warned of


class EvaluationConfig(_Config):
    """A suite that the policy is measured on before and after training, beside the baselines."""

    suite: str = "miniwob-demo"
    tasks: Annotated[tuple[str, ...], Field(min_length=1)] = ("*",)  # names of the suite's, or patterns
    episodes: Positive = 30  # episodes per task


CurriculumName = Literal[
    "signal", "learnability", "dart", "paprika", "arpo", "band", "cooling", "uniform"
]  # how tasks are chosen: `rewards.curriculum`


class TrainConfig(_Config):
    """`guiagent train --recipe arpo-demo` or `zero`: online RL of a policy on a farm of browsers."""

    taskset: str = "miniwob"  # or phone, osworld:PATH, book:FILE, synthetic:FILE, proposed
    tasks: Annotated[tuple[str, ...], Field(min_length=1)] = ("*",)  # names; "*": all that can be run
    policy: str = "tiny"  # checkpoint to start from: a folder, ORGANISATION/MODEL, or tiny
    dialect: str = "ui-tars"  # action language of the policy
    max_pixels: Positive | None = None  # most pixels of a shown screenshot; None: the checkpoint's bound
    steps: Positive = 200
    minutes: Annotated[float, Field(gt=0)] | None = None  # stop earlier, after so many minutes of training
    env_steps: Positive | None = None  # stop earlier, after so many turns, with or without a verdict
    checkpoint_minutes: Annotated[float, Field(gt=0)] = 1.0
    seed: int = 0
    device: DeviceConfig = DeviceConfig()
    rollout: RolloutConfig = RolloutConfig()
    update: UpdateConfig = UpdateConfig()
    curriculum: CurriculumName = "signal"
    health: HealthConfig = HealthConfig()
    tracker: TrackerName | None = None  # experiment tracker that gets every update's figures too
    judge: JudgeConfig | None = None  # gives the rewards in place of the tasks' checks
    step_judge: StepJudgeConfig | None = None  # labels steps for seagent and steve; None: by the outcome
    planner: ServerConfig | None = None  # writes plans from an expert's episodes, for `guiagent seeds` (BEPA)
    evaluation: EvaluationConfig | None = None
    placement: PlacementConfig | None = None  # None: trainers first, a vLLM server on the next GPU
    ray: RayConfig = RayConfig()
    platforms: tuple[PlatformConfig, ...] = ()
    """Several kinds of device in one run, in place of `taskset`, `tasks`, `device` and `rollout.devices`;
    only `device.farm` is all platforms'."""

    def all_platforms(self) -> dict[str, PlatformConfig]:
        """Return the platforms of the run by name, which is the kind of its devices; "" if there is only the
        one that the config itself describes."""
        if self.platforms:
            return {platform.device.kind: platform for platform in self.platforms}
        sole = PlatformConfig(
            taskset=self.taskset, tasks=self.tasks, device=self.device, devices=self.rollout.devices
        )
        return {"": sole}

    @property
    def devices(self) -> int:
        """How many devices the run has, of all kinds."""
        return sum(platform.devices for platform in self.all_platforms().values())

    def devices_of(self, kind: str) -> int:
        """How many devices of a kind the run has; of a single kind, it is taken to be the one asked for."""
        sole = self.platforms == ()
        return sum(one.devices for one in self.all_platforms().values() if sole or one.device.kind == kind)


class WarmStartConfig(_Config):
    """`guiagent train --recipe tiny-sft`: the small policy from scripted demonstrations."""

    demonstrations: Positive = 28_000
    devices: Positive = 4
    steps: Positive = 2_600
    batch: Positive = 32
    learning_rate: Rate = 1.5e-3
    processes: Positive = 2  # with one thread each
    seed: int = 0


class SftConfig(_Config):
    """`guiagent train --recipe sft-successes`: a policy from the trajectories of a store, supervised."""

    store: Path  # trajectory store, such as runs/demo/trajectories
    successes_only: bool = True
    policy: str = "tiny"  # as in `TrainConfig`, like the next two
    dialect: str = "ui-tars"
    max_pixels: Positive | None = None
    history: Literal["anchored", "sliding"] = "anchored"
    images: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1, 2, 3, 5)  # one is drawn each time
    steps: Positive = 200
    batch: Positive = 32  # trajectories in an optimiser step
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.05  # share of trajectories not learned, 128 at most
    validate_every: Positive = 20  # steps between measurements of the held-out loss
    checkpoint_minutes: Annotated[float, Field(gt=0)] = 1.0
    update: OptimizationConfig = OptimizationConfig()
    tracker: TrackerName | None = None  # as in `TrainConfig`
    seed: int = 0


class ExperienceConfig(_Config):
    """`guiagent train --recipe experience-demo`: learning by the prompt, on a farm of browsers."""

    experiences: Positive = 32  # most experiences in the library
    server: ServerConfig  # model that compares the episodes of a group
    taskset: str = "miniwob"  # as in `TrainConfig`, like the tasks
    tasks: Annotated[tuple[str, ...], Field(min_length=1)] = ("*",)
    policy: str = "tiny"  # as for `guiagent eval`: a folder, or http(s)://HOST/v1#MODEL
    dialect: str = "ui-tars"  # action language of the policy
    temperature: Annotated[float, Field(gt=0)] = 0.7
    devices: Positive = 10
    group_size: Annotated[int, Field(ge=2)] = 5
    groups: Positive = 100  # groups in an epoch, each with its own seed
    epochs: Positive = 3
    seed: TaskSeed = REINFORCEMENT.start  # the first task seed, as in `RolloutConfig`
    evaluation: EvaluationConfig | None = None  # suite to measure on, before and after learning


class JudgeFitConfig(_Config):
    """`guiagent train --recipe tiny-judge`: the small judge from episodes whose outcome is known."""

    labelled: Positive = 15_000  # episodes with a known outcome
    devices: Positive = 6
    steps: Positive = 2_000
    batch: Positive = 32
    learning_rate: Rate = 1e-3
    processes: Positive = 2  # with one thread each
    seed: int = 0
