"""`guiagent compare`: presets trained on the same recipe, seeds and environment steps; a table, a page, JSON.

A comparison is a folder with a run in PRESET/SEED each. What is finished is not done again; what was cut goes
on.
"""

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from eval.compare_report import (
    ComparisonSummary,
    print_comparison,
    write_comparison,
    write_comparison_json,
)
from eval.comparison import Sample, SeedRun, compared
from eval.results import write_json
from eval.stats import Proportion
from eval.suites import find_suite
from guiagent import config as configuration
from guiagent.cli.evaluate import measure
from guiagent.cli.experiment import ShowTraining, judge_of
from guiagent.cli.farm import Farm, farm_of
from guiagent.cli.policy import Sampling
from guiagent.cli.progress import StageLine
from guiagent.cli.provenance import commit
from guiagent.cli.recipes import recipe_path
from guiagent.errors import UsageError
from guiagent.trajectories import TrajectoryStore
from rewards.verdicts import Judge
from training.algorithms import find_algorithm
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
        """The recipe with what is the run's own. The same seed means the same tasks and pages for every
        preset."""
        rollout = shared.rollout.model_copy(update={"seed": shared.rollout.seed + _TASK_SEEDS * self.seed})
        changes: dict[str, Any] = {
            "seed": shared.seed + self.seed,
            "rollout": rollout,
            "update": shared.update.model_copy(update={"algorithm": self.preset}),
            "env_steps": env_steps,
        }
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
    """Train, measure and report.

    Raises UsageError for an unknown preset or recipe, and where `run` holds a comparison of another
    configuration.
    """
    if minutes is not None and env_steps is not None:
        raise UsageError("--minutes and --env-steps both say when a run ends: give one of them")
    if len(set(presets)) < max(2, len(presets)):
        raise UsageError("name two presets or more, each once: --presets arpo,traj_rpo")
    algorithms = {name: find_algorithm(name) for name in presets}
    shared = configuration.load(TrainConfig, recipe_path(recipe), overrides)
    minutes, env_steps = _end(shared, minutes, env_steps)
    shared = shared.model_copy(update={"minutes": minutes, "env_steps": None})
    _claim(run, shared)
    console = Console()
    cells = [_Cell(preset, seed, run / preset / str(seed)) for seed in range(seeds) for preset in presets]
    runs, budget = asyncio.run(_work(cells, shared, run, env_steps, console))
    by_preset = sorted(runs, key=lambda one: presets.index(one.preset))
    results = compared(by_preset, budget)
    summary = ComparisonSummary(
        recipe=recipe_path(recipe).stem,
        commit=commit(),
        budget=budget,
        fields={name: fields_of(algorithm) for name, algorithm in algorithms.items()},
        config=shared.model_dump(mode="json"),
    )
    write_comparison(run / "compare.html", summary, results)
    write_comparison_json(run / "compare.json", summary, results)
    print_comparison(results, console)
    console.print(f"report    {run / 'compare.html'}  {run / 'compare.json'}", soft_wrap=True)


def fields_of(algorithm: object) -> dict[str, str]:
    """All fields of a preset but its name as text, those of its parts by path: "objective.surrogate.low"."""
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
    """When runs end: what was asked for, else what the recipe says."""
    if minutes is None and env_steps is None:
        return (None, config.env_steps) if config.env_steps is not None else (config.minutes, None)
    return minutes, env_steps


def _claim(run: Path, shared: TrainConfig) -> None:
    """Makes the folder the comparison's. Runs that differ in more than preset and seed compare nothing."""
    path = run / "shared.toml"
    lasting = shared.model_copy(update={"minutes": None})
    if path.is_file():
        if configuration.load(TrainConfig, path) != lasting:
            raise UsageError(f"{run} holds a comparison of another configuration: name another --run")
        return
    run.mkdir(parents=True, exist_ok=True)
    configuration.save(lasting, path)


async def _work(
    cells: Sequence[_Cell], shared: TrainConfig, run: Path, env_steps: int | None, console: Console
) -> tuple[list[SeedRun], int]:
    """All runs, one after the other, and the environment steps that each had.

    Where only a time was given, the first run has that time, and all others as many environment steps as it
    took. A farm is started only where something is left to do.
    """
    budget_path = run / "budget.json"
    spent = json.loads(budget_path.read_text())["env_steps"] if budget_path.is_file() else None
    if spent is not None and env_steps is not None and env_steps < spent:
        raise UsageError(f"the runs in {run} had {spent:,} environment steps already: name another --run")
    budget = env_steps if env_steps is not None else spent
    done: list[SeedRun] = []
    async with AsyncExitStack() as stack:
        trainer: _Trainer | None = None
        for number, cell in enumerate(cells, 1):
            outcome = _finished(cell, budget)
            if outcome is None:
                if trainer is None:
                    trainer = await stack.enter_async_context(_trainer(shared, console))
                outcome = await trainer.run(cell, cell.config(shared, budget), f"{number}/{len(cells)}")
            done.append(_seed_run(cell, outcome))
            budget = budget if budget is not None else int(outcome["env_steps"])
            write_json(budget_path, {"env_steps": budget})
    assert budget is not None  # there are cells
    return done, budget


@dataclass(frozen=True)
class _Trainer:
    farm: Farm
    judge: Judge | None
    console: Console

    async def run(self, cell: _Cell, config: TrainConfig, stage: str) -> dict[str, Any]:
        """One run, or what is left of it; writes down that it is finished, and what came of it."""
        from training.crew import crew_here
        from training.train import train

        with StageLine(self.console, stage, f"{cell.preset} {cell.seed}") as line:
            crew = crew_here(config, self.farm.client)
            trained = await train(config, cell.folder, crew, ShowTraining(self.console, line), self.judge)
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
    """What came of a run that had all of these environment steps; None where some of it is left to do."""
    path = cell.folder / _FINISHED
    if env_steps is None or not path.is_file():
        return None
    outcome: dict[str, Any] = json.loads(path.read_text())
    return outcome if outcome["env_steps"] == env_steps else None


def _seed_run(cell: _Cell, outcome: Mapping[str, Any]) -> SeedRun:
    return SeedRun(
        preset=cell.preset,
        seed=cell.seed,
        samples=tuple(_samples(cell.folder)),
        held_out={task: Proportion(*counts) for task, counts in outcome["held_out"].items()},
        updates=outcome["updates"],
        seconds=outcome["seconds"],
    )


async def _held_out(
    config: TrainConfig, trained: "Trained", farm: Farm, folder: Path, line: StageLine
) -> Mapping[str, Proportion]:
    """The last policy on the recipe's suite, of its training tasks; empty where the recipe names none."""
    if config.evaluation is None:
        return {}
    result = await measure(
        find_suite(config.evaluation.suite),
        farm.client,
        str(trained.policy),
        "after",
        folder / "eval" / f"after-{trained.step}",
        config.evaluation.episodes,
        config.rollout.devices,
        Sampling.of_training(config),
        line,
    )
    return {row.task: row.scheduled for row in result.tasks if row.trained}


def _samples(folder: Path) -> list[Sample]:
    """The run's episodes in the order of their commits; with a judge, by the truth it never saw."""
    samples, env_steps = [], 0
    with TrajectoryStore(folder / "trajectories", readonly=True) as store:
        for trajectory in store:
            env_steps += len(trajectory.steps)
            score = trajectory.audit or trajectory.score
            known = trajectory.fault is None and score is not None and score.value is not None
            outcome = Proportion(int(known and score is not None and (score.value or 0.0) >= 1.0), int(known))
            samples.append(Sample(env_steps, {trajectory.task: outcome}))
    return samples
