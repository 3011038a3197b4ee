"""`guiagent compare`: trains arms of a recipe on the same seeds and environment steps, and reports on them.

An arm is a preset, or any overrides of the recipe. A comparison is a folder with the runs in ARM/SEED.
Finished runs are not repeated; an interrupted one is continued.
"""

import asyncio
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from eval.comparison import compared
from eval.report.comparison import (
    ComparisonSummary,
    print_comparison,
    write_comparison,
    write_comparison_json,
)
from eval.results import write_json
from eval.suites import find_suite
from guiagent import config as configuration
from guiagent.cli.common.provenance import commit
from guiagent.cli.common.terminal import terminal
from guiagent.cli.train.arms import Arm, arms_of_file, arms_of_presets
from guiagent.cli.train.caveats import caveats
from guiagent.cli.train.cells import Cell, Work, work
from guiagent.cli.train.recipes import recipe_path
from guiagent.errors import DivergedError, UsageError
from guiagent.seeds import A_RUN, REINFORCEMENT, checked
from training.algorithms.adjusted import algorithm_of
from training.config import TrainConfig


def compare(
    arms: Sequence[str] | str,
    seeds: int,
    recipe: str,
    run: Path,
    minutes: float | None,
    env_steps: int | None,
    overrides: list[str],
) -> None:
    """Train, measure and report. A run that diverges is left out of the report; the others go on.

    `arms` are names of presets, or one name of a file of arms.

    Raises UsageError for an unknown preset, recipe or file of arms, or if `run` holds a comparison of another
    config, and, after the report is written, DivergedError if runs are missing in it.
    """
    if minutes is not None and env_steps is not None:
        raise UsageError("--minutes and --env-steps both say when a run ends: give one of them")
    path = recipe_path(recipe)
    shared = configuration.load(TrainConfig, path, overrides)
    if isinstance(arms, str):
        found = arms_of_file(arms, path, overrides)
    else:
        found = arms_of_presets(arms, path, overrides)
    checked(shared.rollout.seed + A_RUN * seeds - 1, REINFORCEMENT)  # the last of the last run
    minutes, env_steps = _end(shared, minutes, env_steps)
    shared = shared.model_copy(update={"minutes": None, "env_steps": None})
    _claim(run, shared, found)
    console = terminal()
    cells = [Cell(arm, seed, run / arm.name / str(seed)) for seed in range(seeds) for arm in found]
    done = asyncio.run(work(cells, shared, run, env_steps, minutes, console))
    lost = ", ".join(cell.name for cell in done.diverged)
    if not done.done or done.budget is None:
        raise DivergedError(f"every run diverged ({lost}); lower update.learning_rate")
    names = [arm.name for arm in found]
    results = compared(sorted(done.done, key=lambda one: names.index(one.arm)), done.budget)
    summary = ComparisonSummary(
        recipe=path.stem,
        commit=commit(),
        budget=done.budget,
        fields={arm.name: _fields(arm) for arm in found},
        config=shared.model_dump(mode="json"),
        notes={arm.name: _notes(arm, cells, done) for arm in found},
        before=done.before,
        actions=_actions(shared),
    )
    write_comparison(run / "compare.html", summary, results)
    write_comparison_json(run / "compare.json", summary, results)
    print_comparison(summary, results, console)
    console.print(f"report    {run / 'compare.html'}  {run / 'compare.json'}", soft_wrap=True)
    if lost:
        raise DivergedError(
            f"the report lacks runs that diverged ({lost}); the same command tries them again"
        )


def _actions(config: TrainConfig) -> dict[str, int]:
    """Return how many actions each task of the suite takes, where the suite says so."""
    if config.evaluation is None:
        return {}
    counts = find_suite(config.evaluation.suite).groups.get("actions", {})
    return {task: int(count) for task, count in counts.items()}


def _fields(arm: Arm) -> dict[str, str]:
    """Return the fields of an arm's algorithm and, as `recipe.KEY`, of its config, as text by path."""
    config = {f"recipe.{key}": text for key, text in _flat(arm.config.model_dump(mode="json")).items()}
    return fields_of(algorithm_of(arm.config.update)) | config


def _flat(values: Mapping[str, Any], path: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in values.items():
        key = f"{path}.{name}" if path else name
        found |= _flat(value, key) if isinstance(value, Mapping) else {key: _text(value)}
    return found


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


def _claim(run: Path, shared: TrainConfig, arms: Sequence[Arm]) -> None:
    """Write the configuration and the arms to the folder; later arms may be added to those of before.

    Raises UsageError for a folder whose configuration differs, or in which an arm is another one.
    """
    path, arms_path = run / "shared.toml", run / "arms.json"
    known: dict[str, list[str]] = json.loads(arms_path.read_text()) if arms_path.is_file() else {}
    asked = {arm.name: list(arm.overrides) for arm in arms}
    if path.is_file() and configuration.load(TrainConfig, path) != shared:
        raise UsageError(f"{run} holds a comparison of another configuration: name another --run")
    for name in known.keys() & asked.keys():
        if known[name] != asked[name]:
            raise UsageError(f"in {run} the arm {name!r} is {known[name]}: name it, or --run, otherwise")
    run.mkdir(parents=True, exist_ok=True)
    configuration.save(shared, path)
    write_json(arms_path, known | asked)


def _notes(arm: Arm, cells: Sequence[Cell], done: Work) -> tuple[str, ...]:
    own = [cell for cell in cells if cell.arm is arm]
    lines = [line for cell in own for line in cell.metrics()]
    lost = sum(cell.arm is arm for cell in done.diverged)
    missing = (f"{lost} of its {len(own)} runs diverged, and are left out.",) if lost else ()
    return missing + caveats(algorithm_of(arm.config.update), arm.config, lines)
