"""Checks every part of a recipe that its config names, and estimates what a run costs."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from transformers import AutoConfig

from guiagent.errors import GuiAgentError, UsageError
from guiagent.protocols import Taskset
from rewards.judges.config import JudgeConfig, StepJudgeConfig
from training import placement
from training.algorithms.adjusted import adjustments, algorithm_of
from training.algorithms.algorithm import Algorithm
from training.config import PlacementConfig, TrainConfig, checkpoint_folder
from training.consistency import contradictions, tasks_of, tasksets_of
from training.dry_run import memory
from training.dry_run.episode import Lengths, longest_episode
from training.dry_run.finding import Finding
from training.dry_run.gpus import GpuRow, Run, findings, gib, numbers, rows
from training.dry_run.memory import Learner
from training.inputs.checkpoint_files import readable
from training.inputs.encoder import Encoder
from training.model.architecture import Architecture
from training.placement import Launch, Site

TURN_SECONDS = 5.0  # assumed of a turn: the device's part and the policy's
GPU_GIB = 80.0  # assumed of a GPU where none is here
_UNKNOWN_LENGTH = 30  # turns, where the tasks cannot be read
_VLLM = Path(".venv-vllm")


@dataclass(frozen=True)
class Machine:
    """What a recipe is to run on."""

    launch: Launch | None = None  # None: the least that reaches the placed GPUs
    processes: int | None = None
    gpus: int | None = None  # of each host; None: not known
    gib: float = GPU_GIB  # memory of each GPU
    turn_seconds: float = TURN_SECONDS

    def site(self, config: TrainConfig) -> Site:
        launch = self.launch or placement.launch_of(config.placement)
        return Site(launch, self.processes, None if launch == "ray" else self.gpus)


class DryRun(NamedTuple):
    """What a dry run found: its lines, and a row for every GPU that is used."""

    findings: list[Finding]
    gpus: list[GpuRow]


async def dry_run(config: TrainConfig, machine: Machine) -> DryRun:
    """Check every part of the recipe. Problems that a user can solve are findings; no device is started."""
    algorithm, algorithm_line = _algorithm(config)
    tasksets, tasks_line, longest = _tasks(config)
    turns = min(longest, config.rollout.max_steps or longest)
    judged = config.judge is not None
    wrong = [
        Finding(part, missing=problem)
        for part, problem in contradictions(config, tasksets, algorithm, judged=judged)
    ]
    contradicted = {finding.what for finding in wrong}
    about_policy, table = await _policy(config, algorithm, turns, machine)
    found = [
        algorithm_line,
        tasks_line,
        *about_policy,
        _cost(config, turns, machine.turn_seconds),
        _engine(config),
        _rewards(config),
        *_labels(config, algorithm),
    ]
    return DryRun([finding for finding in found if finding.what not in contradicted] + wrong, table)


def _algorithm(config: TrainConfig) -> tuple[Algorithm | None, Finding]:
    try:
        algorithm = algorithm_of(config.update)
    except UsageError as error:
        return None, Finding("algorithm", missing=str(error))
    signals = f"; computes {', '.join(sorted(algorithm.signals))}" if algorithm.signals else ""
    changed = adjustments(config.update.objective)
    changes = f" with {changed}" if changed else ""
    return algorithm, Finding("algorithm", f"{algorithm.name}, arXiv {algorithm.paper}{changes}{signals}")


def _tasks(config: TrainConfig) -> tuple[Collection[Taskset], Finding, int]:
    """Check the tasks; also return the largest number of turns that one of them allows."""
    try:
        tasksets = tasksets_of(config)
        names = tasks_of(config, tasksets)
        longest = max(
            tasksets[platform].task(name, config.rollout.seed).max_steps
            for platform, own in names.items()
            for name in own
        )
    except GuiAgentError as error:
        return (), Finding("tasks", missing=str(error)), config.rollout.max_steps or _UNKNOWN_LENGTH
    platforms = config.all_platforms()
    counted = ", ".join(f"{len(own)} of {platforms[platform].taskset}" for platform, own in names.items())
    return tasksets.values(), Finding("tasks", f"{counted}, by their own bound of {longest} turns"), longest


async def _policy(
    config: TrainConfig, algorithm: Algorithm | None, turns: int, machine: Machine
) -> tuple[list[Finding], list[GpuRow]]:
    """Check the policy, count the tokens of an episode with it, and what the GPUs hold."""
    try:
        folder = checkpoint_folder(config.policy, weights=False)
        with readable(folder):
            encoder = Encoder(folder, config.dialect, config.max_pixels)
            told = AutoConfig.from_pretrained(folder, local_files_only=True)
            sizes = Architecture.of(told)
    except GuiAgentError as error:
        return [Finding("policy", missing=str(error))], []
    said = f"{sizes.name}, {sizes.parameters / 1e6:,.1f} M parameters, {config.dialect}"
    lengths = await longest_episode(config, encoder, turns)
    positions = int(told.get_text_config().max_position_embeddings)
    lines, table = _memory(config, algorithm, sizes, lengths, machine)
    heads = placement.heads_of(told.to_dict())
    found = [
        Finding("policy", said),
        _lengths(config, lengths, positions),
        *_divided(config, heads),
        *lines,
    ]
    return found, table


def _divided(config: TrainConfig, heads: dict[str, int]) -> list[Finding]:
    """Find engines whose GPUs do not divide the model."""
    engines = config.placement.engines if config.placement else ()
    found = {problem for engine in engines if (problem := placement.undivided(len(engine), heads))}
    return [Finding("placement", missing=problem) for problem in sorted(found)]


def _memory(
    config: TrainConfig, algorithm: Algorithm | None, sizes: Architecture, lengths: Lengths, machine: Machine
) -> tuple[list[Finding], list[GpuRow]]:
    """Estimate what each GPU holds over a step, as the recipe places it; without GPUs, the learner alone."""
    try:
        site = machine.site(config)
        placed = placement.placed(config, site).placement
    except UsageError as error:
        return [Finding("placement", missing=str(error))], []
    learner = Learner(
        config.update,
        ranks=len(placed.trainers) if placed else 1,
        reference=algorithm is not None and "reference" in algorithm.signals,
        entropy=algorithm is not None and algorithm.objective.entropy is not None,
    )
    batch = config.update.groups * config.rollout.group_size
    longest = lengths.longest_pass(config.update.batch_tokens, batch)
    if placed is None:
        held, most = memory.held(sizes, learner), memory.peak(sizes, learner, longest)
        said = (
            f"{gib(held.total)} of weights, gradients and moments, and {gib(most.total)} for the longest pass"
        )
        return [Finding("memory", f"{said}, in one process without a GPU")], []
    run = Run(config, placed, sizes, learner, longest, machine.gib)
    table = rows(run)
    return [_placement(config, placed, site), *findings(run, table, lengths.longest)], table


def _placement(config: TrainConfig, placed: PlacementConfig, site: Site) -> Finding:
    """Say who has which GPUs, and how that is started."""
    trainers = f"trainers on GPU {numbers(placed.trainers)}"
    kind = "the engine" if config.rollout.vllm is None else "vLLM"
    engines = [numbers(engine) for engine in placed.engines]
    beside = f"; {kind} on {' | '.join(engines)}, {placed.engine_memory:g} of the memory" if engines else ""
    by = "" if site.launch == "process" else f"; --launch {site.launch}"
    default = "" if config.placement is not None else " (nothing is said in [placement])"
    return Finding("placement", f"{trainers}{beside}{by}{default}")


def _lengths(config: TrainConfig, lengths: Lengths, positions: int) -> Finding:
    """Compare the tokens of the longest episode that the recipe allows with the bounds on a context."""
    found = (
        f"{lengths.picture} a screenshot, up to {lengths.longest:,} a context, {lengths.contexts} contexts "
        f"and {lengths.total:,} in all over {lengths.turns} turns"
    )
    bounds = {"the model's positions": positions, "update.batch_tokens": config.update.batch_tokens}
    if config.rollout.vllm is not None:
        bounds["rollout.vllm.max_model_len"] = config.rollout.vllm.max_model_len
    for name, bound in bounds.items():
        if lengths.longest > bound:
            way = "show fewer screenshots (rollout.history), or smaller ones (max_pixels)"
            return Finding("tokens", missing=f"{found}: over {name}, {bound:,}; {way}")
    return Finding("tokens", found)


def _cost(config: TrainConfig, turns: int, turn_seconds: float) -> Finding:
    episodes = config.steps * config.update.groups * config.rollout.group_size
    hours = episodes * turns * turn_seconds / 3600
    kinds = " and ".join(f"{one.devices} {one.device.kind}s" for one in config.all_platforms().values())
    sooner = f", or {config.minutes:g} minutes of training" if config.minutes else ""
    return Finding(
        "cost",
        f"{episodes:,} episodes of up to {turns} turns, {episodes * turns:,} turns: {hours:,.0f} "
        f"device-hours at {turn_seconds:g} s a turn, {hours / config.devices:,.1f} hours of {kinds}{sooner}",
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
