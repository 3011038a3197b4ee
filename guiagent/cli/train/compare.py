"""`guiagent compare`: trains presets on the same recipe, seeds and environment steps, and reports on them.

A comparison is a folder with the runs in PRESET/SEED. Finished runs are not repeated; an interrupted one is
continued.
"""

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from eval.comparison import Sample, SeedRun, compared
from eval.report.comparison import (
    ComparisonSummary,
    print_comparison,
    write_comparison,
    write_comparison_json,
)
from eval.results import write_json
from eval.stats import Proportion
from eval.suites import find_suite
from guiagent import config as configuration
from guiagent.cli.common.farm import Farm, farm_of
from guiagent.cli.common.policy import PolicySettings
from guiagent.cli.common.progress import StageLine
from guiagent.cli.common.provenance import commit
from guiagent.cli.evaluate.evaluator import Evaluator
from guiagent.cli.train.caveats import caveats
from guiagent.cli.train.experiment import ShowTraining
from guiagent.cli.train.launch import judge_of
from guiagent.cli.train.recipes import recipe_path
from guiagent.errors import DivergedError, UsageError
from guiagent.seeds import REINFORCEMENT, checked
from guiagent.storage.trajectories import TrajectoryStore
from rewards.judges.verdicts import Judge
from training.algorithms import find_algorithm
from training.checkpoints.mirror import RunFolder
from training.config import TrainConfig

if TYPE_CHECKING:
    from training.train import Trained

_ENDLESS = 10**9  # optimiser steps: it is the environment steps that end a run
_TASK_SEEDS = 1_000_000  # that a run may use before it would meet those of the next one
_FINISHED = "finished.json"


@dataclass(frozen=True)
class _Cell:
    """One run of the comparison."""

    preset: str
    seed: int
    folder: Path

    def config(self, shared: TrainConfig, env_steps: int | None) -> TrainConfig:
        """Return the run's config: the recipe with its preset, seed and end, without what the preset ignores.

        The same seed means the same tasks and pages for every preset.
        """
        rollout = shared.rollout.model_copy(update={"seed": shared.rollout.seed + _TASK_SEEDS * self.seed})
        algorithm = find_algorithm(self.preset)
        update = {"algorithm": self.preset} | ({} if algorithm.replay else {"seeds": None})
        changes: dict[str, Any] = {
            "seed": shared.seed + self.seed,
            "rollout": rollout,
            "update": shared.update.model_copy(update=update),
            "env_steps": env_steps,
        }
        if "labels" not in algorithm.signals:
            changes["step_judge"] = None
        if env_steps is not None:
            changes |= {"steps": _ENDLESS, "minutes": None}
        return shared.model_copy(update=changes)


def compare(
    presets: Sequence[str],
    seeds: int,
    recipe: str,
    run: Path,
    minutes: float | None,
    env_steps: int | None,
    overrides: list[str],
) -> None:
    """Train, measure and report. A run that diverges is left out of the report; the others go on.

    Raises UsageError for an unknown preset or recipe, or if `run` holds a comparison of another config, and,
    after the report is written, DivergedError if runs are missing in it.
    """
    if minutes is not None and env_steps is not None:
        raise UsageError("--minutes and --env-steps both say when a run ends: give one of them")
    if len(set(presets)) < max(2, len(presets)):
        raise UsageError("name two presets or more, each once: --presets arpo,traj_rpo")
    algorithms = {name: find_algorithm(name) for name in presets}
    shared = configuration.load(TrainConfig, recipe_path(recipe), overrides)
    checked(shared.rollout.seed + _TASK_SEEDS * seeds - 1, REINFORCEMENT)  # the last of the last run
    minutes, env_steps = _end(shared, minutes, env_steps)
    shared = shared.model_copy(update={"minutes": minutes, "env_steps": None})
    _claim(run, shared)
    console = Console()
    cells = [_Cell(preset, seed, run / preset / str(seed)) for seed in range(seeds) for preset in presets]
    work = asyncio.run(_work(cells, shared, run, env_steps, console))
    lost = ", ".join(f"{cell.preset} {cell.seed}" for cell in work.diverged)
    if not work.done or work.budget is None:
        raise DivergedError(f"every run diverged ({lost}); lower update.learning_rate")
    runs = sorted(work.done, key=lambda one: presets.index(one.preset))
    results = compared(runs, work.budget)
    summary = ComparisonSummary(
        recipe=recipe_path(recipe).stem,
        commit=commit(),
        budget=work.budget,
        fields={name: fields_of(algorithm) for name, algorithm in algorithms.items()},
        config=shared.model_dump(mode="json"),
        notes={name: _notes(name, cells, work, shared) for name in presets},
    )
    write_comparison(run / "compare.html", summary, results)
    write_comparison_json(run / "compare.json", summary, results)
    print_comparison(results, console)
    console.print(f"report    {run / 'compare.html'}  {run / 'compare.json'}", soft_wrap=True)
    if lost:
        raise DivergedError(
            f"the report lacks runs that diverged ({lost}); the same command tries them again"
        )


def fields_of(algorithm: object) -> dict[str, str]:
    """Return all fields of a preset except its name as text, by path: "objective.surrogate.low"."""
    found: dict[str, str] = {}

    def walk(value: object, path: str) -> None:
        match value:
            case functools.partial():
                found[path] = _text(value.func)
                parts: dict[str, object] = value.keywords
            case _ if is_dataclass(value):
                found[path] = type(value).__name__
                parts = {field.name: getattr(value, field.name) for field in fields(value)}
            case _:
                found[path] = _text(value)
                parts = {}
        for name, part in parts.items():
            walk(part, f"{path}.{name}" if path else name)

    walk(algorithm, "")
    return {path: text for path, text in found.items() if path not in ("", "name")}


def _text(value: object) -> str:
    match value:
        case None:
            return "–"
        case frozenset():
            return ", ".join(sorted(map(_text, value))) or "–"
        case tuple():
            return ", ".join(map(_text, value))
        case float():
            return f"{value:g}"
        case _ if callable(value):
            return str(getattr(value, "__name__", type(value).__name__))
    return str(value)


def _end(
    config: TrainConfig, minutes: float | None, env_steps: int | None
) -> tuple[float | None, int | None]:
    """Return when runs end, in minutes or environment steps: as asked for, else as the recipe says."""
    if minutes is None and env_steps is None:
        return (None, config.env_steps) if config.env_steps is not None else (config.minutes, None)
    return minutes, env_steps


def _claim(run: Path, shared: TrainConfig) -> None:
    """Write the configuration to the folder, or refuse a folder whose configuration differs (UsageError)."""
    path = run / "shared.toml"
    lasting = shared.model_copy(update={"minutes": None})
    if path.is_file():
        if configuration.load(TrainConfig, path) != lasting:
            raise UsageError(f"{run} holds a comparison of another configuration: name another --run")
        return
    run.mkdir(parents=True, exist_ok=True)
    configuration.save(lasting, path)


class _Work(NamedTuple):
    """The results of all runs."""

    done: list[SeedRun]
    diverged: list[_Cell]
    budget: int | None  # environment steps of each run; None if all diverged before it was known


async def _work(
    cells: Sequence[_Cell], shared: TrainConfig, run: Path, env_steps: int | None, console: Console
) -> _Work:
    """Carry out all runs, one after the other.

    If only a time was given, the first run has that time, and all others as many environment steps as it
    took. A farm is started only if something is left to do.
    """
    budget_path = run / "budget.json"
    spent = json.loads(budget_path.read_text())["env_steps"] if budget_path.is_file() else None
    if spent is not None and env_steps is not None and env_steps < spent:
        raise UsageError(f"the runs in {run} had {spent:,} environment steps already: name another --run")
    budget = env_steps if env_steps is not None else spent
    done: list[SeedRun] = []
    diverged: list[_Cell] = []
    async with AsyncExitStack() as stack:
        trainer: _Trainer | None = None
        for number, cell in enumerate(cells, 1):
            outcome = _finished(cell, budget)
            if outcome is None:
                if trainer is None:
                    trainer = await stack.enter_async_context(_trainer(shared, console))
                try:
                    outcome = await trainer.run(cell, cell.config(shared, budget), f"{number}/{len(cells)}")
                except DivergedError as error:
                    console.print(f"{cell.preset} {cell.seed} is left out: {error}", soft_wrap=True)
                    diverged.append(cell)
                    continue
            done.append(_seed_run(cell, outcome))
            budget = budget if budget is not None else int(outcome["env_steps"])
            write_json(budget_path, {"env_steps": budget})
    return _Work(done, diverged, budget)


@dataclass(frozen=True)
class _Trainer:
    farm: Farm
    judge: Judge | None
    console: Console

    async def run(self, cell: _Cell, config: TrainConfig, stage: str) -> dict[str, Any]:
        """Carry out what is left of a run; write its results into the run's folder and return them."""
        from training.launch.launcher import OneProcess
        from training.launch.wiring import train

        with StageLine(self.console, stage, f"{cell.preset} {cell.seed}") as line:
            show, launcher = ShowTraining(self.console, line), OneProcess(config, self.farm.client)
            trained = await train(config, RunFolder(cell.folder), launcher, show, self.judge)
            held_out = await _held_out(config, trained, self.farm, cell.folder, line)
            samples = _samples(cell.folder)
            took = samples[-1].env_steps if samples else 1
            line.update(f"{trained.step:,} updates on {took:,} environment steps")
        outcome = {
            "env_steps": config.env_steps or took,
            "updates": trained.step,
            "seconds": trained.seconds,
            "held_out": {task: [p.successes, p.n] for task, p in held_out.items()},
        }
        write_json(cell.folder / _FINISHED, outcome)
        return outcome


@asynccontextmanager
async def _trainer(shared: TrainConfig, console: Console) -> AsyncIterator[_Trainer]:
    async with judge_of(shared) as judge, farm_of(shared) as farm:
        console.print(f"farm      live page {farm.live_url}", soft_wrap=True)
        yield _Trainer(farm, judge, console)


def _finished(cell: _Cell, env_steps: int | None) -> dict[str, Any] | None:
    """Return the results of a run that had all of these environment steps; None if it is not finished."""
    path = cell.folder / _FINISHED
    if env_steps is None or not path.is_file():
        return None
    outcome: dict[str, Any] = json.loads(path.read_text())
    return outcome if outcome["env_steps"] == env_steps else None


def _updates(cell: _Cell) -> list[dict[str, Any]]:
    """Read the metrics of a run, one entry per update."""
    from training.metrics import writer

    return writer.read(cell.folder)


def _notes(preset: str, cells: Sequence[_Cell], work: _Work, shared: TrainConfig) -> tuple[str, ...]:
    own = [cell for cell in cells if cell.preset == preset]
    lines = [line for cell in own for line in _updates(cell)]
    lost = sum(cell.preset == preset for cell in work.diverged)
    missing = (f"{lost} of its {len(own)} runs diverged, and are left out.",) if lost else ()
    return missing + caveats(find_algorithm(preset), own[0].config(shared, work.budget), lines)


def _seed_run(cell: _Cell, outcome: Mapping[str, Any]) -> SeedRun:
    updates = _updates(cell)
    return SeedRun(
        preset=cell.preset,
        seed=cell.seed,
        samples=tuple(_samples(cell.folder)),
        held_out={task: Proportion(*counts) for task, counts in outcome["held_out"].items()},
        updates=outcome["updates"],
        seconds=outcome["seconds"],
        trained=int(sum(line["trained"] for line in updates)),
        replay_share=updates[-1]["replay_share"] if updates else 0.0,
    )


async def _held_out(
    config: TrainConfig, trained: "Trained", farm: Farm, folder: Path, line: StageLine
) -> Mapping[str, Proportion]:
    """Measure the last policy on the training tasks of the recipe's suite; {} if the recipe names none."""
    if config.evaluation is None:
        return {}
    suite, settings = find_suite(config.evaluation.suite), PolicySettings.of_training(config)
    evaluator = Evaluator(suite, farm.client, config.rollout.devices, settings)
    out = folder / "eval" / f"after-{trained.step}"
    policy, episodes = str(trained.policy), config.evaluation.episodes
    result = await evaluator.measure(policy, "after", out, episodes, line)
    return {row.task: row.scheduled for row in result.tasks if row.trained}


def _samples(folder: Path) -> list[Sample]:
    """Return the run's episodes in the order of their commits, scored by the tasks' checks alone."""
    samples, env_steps = [], 0
    with TrajectoryStore(folder / "trajectories", readonly=True) as store:
        for trajectory in store:
            if not trajectory.group:  # a seed, which another run rolled out
                continue
            env_steps += len(trajectory.steps)
            score = trajectory.audit or trajectory.score
            known = trajectory.fault is None and score is not None and score.value is not None
            outcome = Proportion(int(known and score is not None and (score.value or 0.0) >= 1.0), int(known))
            samples.append(Sample(env_steps, {trajectory.task: outcome}))
    return samples
