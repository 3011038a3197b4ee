"""The dry run of a recipe: loads everything it names except the weights, and estimates its cost.

An episode is played against blank screenshots of the device's size, with a policy that only waits: prompts,
history, dialect and contexts are the real ones, so the token counts are those of training.
"""

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from transformers import AutoConfig, AutoModelForImageTextToText

from guiagent.actions import Wait
from guiagent.episode import PastTurn
from guiagent.errors import GuiAgentError, UsageError
from guiagent.protocols import Taskset
from guiagent.types import Observation, Step, Trajectory
from rewards.catalogue import find_taskset, training_names
from rewards.judges.config import JudgeConfig, StepJudgeConfig
from training.algorithms import find_algorithm
from training.algorithms.algorithm import Algorithm
from training.config import TrainConfig, checkpoint_folder
from training.consistency import contradictions
from training.engine.engine import Completion, EngineStats, Request
from training.engine.policy import EnginePolicy
from training.inputs.checkpoint_files import readable
from training.inputs.contexts import contexts
from training.inputs.encoder import Encoder

_GIB = 2**30
_UNKNOWN_LENGTH = 30  # turns, where the tasks cannot be read
_INSTRUCTION = (
    "Carry out the task, in as many words as an instruction usually has: about twenty of them, say."
)
_VLLM = Path(".venv-vllm")


@dataclass(frozen=True)
class Finding:
    """One line of a dry run: what was found, or in `missing` the problem and how to solve it."""

    what: str
    found: str = ""
    missing: str = ""


async def dry_run(config: TrainConfig, turn_seconds: float) -> list[Finding]:
    """Check every part of the recipe. Problems that a user can solve are findings; no device is started."""
    algorithm, algorithm_line = _algorithm(config)
    taskset, tasks_line, longest = _tasks(config)
    turns = min(longest, config.rollout.max_steps or longest)
    judged = config.judge is not None
    wrong = [
        Finding(part, missing=problem)
        for part, problem in contradictions(config, taskset, algorithm, judged=judged)
    ]
    contradicted = {finding.what for finding in wrong}
    found = [
        algorithm_line,
        tasks_line,
        *await _policy(config, turns),
        _cost(config, turns, turn_seconds),
        _engine(config),
        _rewards(config),
        *_labels(config, algorithm),
    ]
    return [finding for finding in found if finding.what not in contradicted] + wrong


def _algorithm(config: TrainConfig) -> tuple[Algorithm | None, Finding]:
    try:
        algorithm = find_algorithm(config.update.algorithm)
    except UsageError as error:
        return None, Finding("algorithm", missing=str(error))
    signals = f"; computes {', '.join(sorted(algorithm.signals))}" if algorithm.signals else ""
    return algorithm, Finding("algorithm", f"{algorithm.name}, arXiv {algorithm.paper}{signals}")


def _tasks(config: TrainConfig) -> tuple[Taskset | None, Finding, int]:
    """Check the tasks; also return the largest number of turns that one of them allows."""
    try:
        taskset = find_taskset(config.taskset)
        names = training_names(taskset, config.tasks)
        longest = max(taskset.task(name, config.rollout.seed).max_steps for name in names)
    except GuiAgentError as error:
        return None, Finding("tasks", missing=str(error)), config.rollout.max_steps or _UNKNOWN_LENGTH
    found = f"{len(names)} of {config.taskset}, by their own bound of {longest} turns"
    return taskset, Finding("tasks", found), longest


async def _policy(config: TrainConfig, turns: int) -> list[Finding]:
    try:
        folder = checkpoint_folder(config.policy, weights=False)
        with readable(folder):
            encoder = Encoder(folder, config.dialect, config.max_pixels)
            told = AutoConfig.from_pretrained(folder, local_files_only=True)
            with torch.device("meta"):
                model = AutoModelForImageTextToText.from_config(told)
    except GuiAgentError as error:
        return [Finding("policy", missing=str(error))]
    parameters = sum(p.numel() for p in model.parameters())
    text = told.get_text_config()
    return [
        Finding("policy", f"{type(model).__name__}, {parameters / 1e6:,.1f} M parameters, {config.dialect}"),
        Finding("memory", _memory(config, parameters)),
        await _lengths(config, encoder, turns, int(text.max_position_embeddings)),
    ]


def _memory(config: TrainConfig, parameters: int) -> str:
    """Describe the learner's memory over all ranks, without activations.

    Weights and, for trained parameters, the gradient and two moments, in float32.
    """
    trained = 4 * 4 * parameters if config.update.lora is None else 4 * parameters
    adapters = "" if config.update.lora is None else f", adapters of rank {config.update.lora.rank} beside"
    return f"{trained / _GIB:,.1f} GiB of weights and optimiser over all trainers{adapters}"


async def _lengths(config: TrainConfig, encoder: Encoder, turns: int, positions: int) -> Finding:
    """Count the tokens of the longest episode that the recipe allows, and compare them with the bounds."""
    trajectory = await _blank_episode(config, encoder, turns)
    spare = sum(config.rollout.max_new_tokens - len(s.policy.completion_ids) for s in trajectory.steps)
    sizes = [len(context.ids) for context in contexts(trajectory)]
    picture = encoder.picture(_blank(config.device.width, config.device.height)).tokens
    longest = max(sizes) + spare
    found = (
        f"{picture} a screenshot, up to {longest:,} a context, {len(sizes)} contexts and "
        f"{sum(sizes) + spare:,} in all over {turns} turns"
    )
    bounds = {"the model's positions": positions}
    if config.rollout.vllm is not None:
        bounds["rollout.vllm.max_model_len"] = config.rollout.vllm.max_model_len
    for name, bound in bounds.items():
        if longest > bound:
            way = "show fewer screenshots (rollout.history), or smaller ones (max_pixels)"
            return Finding("tokens", missing=f"{found}: over {name}, {bound:,}; {way}")
    return Finding("tokens", found)


def _cost(config: TrainConfig, turns: int, turn_seconds: float) -> Finding:
    episodes = config.steps * config.update.groups * config.rollout.group_size
    hours = episodes * turns * turn_seconds / 3600
    devices = config.rollout.devices
    sooner = f", or {config.minutes:g} minutes of training" if config.minutes else ""
    return Finding(
        "cost",
        f"{episodes:,} episodes of up to {turns} turns, {episodes * turns:,} turns: {hours:,.0f} "
        f"device-hours at {turn_seconds:g} s a turn, {hours / devices:,.1f} hours of {devices} "
        f"{config.device.kind}s{sooner}",
    )


def _engine(config: TrainConfig) -> Finding:
    vllm = config.rollout.vllm
    if vllm is None:
        return Finding("engine", "in this process")
    if vllm.urls:
        return Finding("engine", f"vLLM at {', '.join(vllm.urls)} (not asked)")
    if not _VLLM.is_dir():
        return Finding("engine", missing="vLLM has no environment here: scripts/vllm makes it")
    return Finding("engine", f"vLLM from {_VLLM}, weights by {vllm.update}")


def _rewards(config: TrainConfig) -> Finding:
    judge = config.judge
    if judge is None:
        return Finding("rewards", "the tasks' own checks")
    if judge.url is None:
        return Finding("rewards", f"the small judge, preset {judge.preset}")
    return Finding("rewards", _asked(judge))


def _labels(config: TrainConfig, algorithm: Algorithm | None) -> list[Finding]:
    """Name the source of step labels, if the algorithm learns from them."""
    if algorithm is None or "labels" not in algorithm.signals:
        return []
    judge = config.step_judge
    return [Finding("labels", "by the outcome, without [step_judge]" if judge is None else _asked(judge))]


def _asked(judge: JudgeConfig | StepJudgeConfig) -> str:
    key = "" if judge.key_env in os.environ else f", no key in ${judge.key_env}"
    return f"{judge.model} at {judge.url} (not asked{key}), preset {judge.preset}"


class _Waiting:
    """An engine that answers every screenshot with a second of waiting."""

    version = 0
    stats = EngineStats()

    def __init__(self, reply: list[int]) -> None:
        self._reply = reply

    async def generate(self, request: Request) -> Completion:
        return Completion(list(self._reply), [0.0] * len(self._reply), [(0, 0)])

    def forget(self, conversation: str) -> None: ...

    def load_weights(self, state: Mapping[str, torch.Tensor], version: int) -> None: ...

    def close(self) -> None: ...


async def _blank_episode(config: TrainConfig, encoder: Encoder, turns: int) -> Trajectory:
    width, height = config.device.width, config.device.height
    reply = encoder.completion(encoder.dialect.render([Wait()], (width, height)))
    policy = EnginePolicy(encoder, _Waiting(reply), config.rollout.history)
    shown = Observation(width, height, hash="blank", media_type="image/png", frame=_blank(width, height))
    past: list[PastTurn] = []
    for _ in range(turns):
        past.append(PastTurn(shown, await policy.act("dry", _INSTRUCTION, past, shown)))
    steps = [Step(shown.hash, width, height, turn.output) for turn in past]
    return Trajectory("dry", "dry", 0, _INSTRUCTION, steps, "max_steps")


def _blank(width: int, height: int) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (width, height), "white").save(data, "PNG")
    return data.getvalue()
