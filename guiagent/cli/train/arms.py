"""Arms of a comparison: what each changes in the recipe, as presets or as lines of `--set` in a TOML file."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from guiagent import config as configuration
from guiagent.errors import UsageError, nearest
from guiagent.seeds import of_run
from training.algorithms import find_algorithm
from training.algorithms.adjusted import algorithm_of
from training.config import TrainConfig

_ENDLESS = 10**9  # optimiser steps: it is the environment steps that end a run
_NAME = re.compile(r"\w[\w .,+%=-]*")  # it names a folder


@dataclass(frozen=True)
class Arm:
    """The overrides of the recipe in one arm, each as `--set` takes it, and the configuration they make."""

    name: str
    overrides: tuple[str, ...]
    config: TrainConfig

    def of_seed(self, seed: int, env_steps: int | None, minutes: float | None) -> TrainConfig:
        """Return the config of a run: the arm's with its seed and end, without what its preset ignores.

        The same seed means the same tasks and pages for every arm. A run that has stopped learning goes on to
        its end: that is a result.
        """
        config, algorithm = self.config, algorithm_of(self.config.update)
        rollout = {"seed": of_run(config.rollout.seed, seed)}
        update = {} if algorithm.replay else {"seeds": None}
        changes: dict[str, Any] = {
            "seed": config.seed + seed,
            "rollout": config.rollout.model_copy(update=rollout),
            "update": config.update.model_copy(update=update),
            "health": config.health.model_copy(update={"stop_after": 0}),
            "minutes": minutes,
            "env_steps": env_steps,
        }
        if "labels" not in algorithm.signals:
            changes["step_judge"] = None
        if env_steps is not None:
            changes |= {"steps": _ENDLESS, "minutes": None}
        return config.model_copy(update=changes)


def arms_of_presets(presets: Sequence[str], recipe: Path, overrides: Sequence[str]) -> list[Arm]:
    """Make an arm of each preset. Raises UsageError if fewer than two are named, or one twice."""
    if len(set(presets)) < max(2, len(presets)):
        raise UsageError("name two presets or more, each once: --presets arpo,traj_rpo")
    for name in presets:
        find_algorithm(name)
    return [_arm(name, [f"update.algorithm={name}"], recipe, overrides) for name in presets]


def arms_of_file(name: str, recipe: Path, overrides: Sequence[str]) -> list[Arm]:
    """Read arms from a TOML file, or a shipped one by its name: `NAME = ["update.groups=16", ...]`.

    Raises UsageError: there is no such file, it is no table of lists, or an override is invalid.
    """
    path = _found(name)
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as TOML: {error}") from None
    if len(table) < 2:
        raise UsageError(f"{path} has {len(table)} arms: a comparison takes two or more")
    for arm, lines in table.items():
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise UsageError(f'{path}: write the arm {arm!r} as a list of overrides: ["update.groups=16"]')
        if not _NAME.fullmatch(arm):
            raise UsageError(f"{path}: {arm!r} cannot name a folder: letters, digits, spaces and .,+%=-_ can")
    return [_arm(arm, lines, recipe, overrides) for arm, lines in table.items()]


def _arm(name: str, own: Sequence[str], recipe: Path, overrides: Sequence[str]) -> Arm:
    try:
        config = configuration.load(TrainConfig, recipe, [*overrides, *own])
        algorithm_of(config.update)
    except UsageError as error:
        raise UsageError(f"arm {name!r}: {error}") from None
    return Arm(name, tuple(own), config)


def _found(name: str) -> Path:
    shipped = Path(str(files("training") / "arms"))
    for path in (Path(name), shipped / f"{name}.toml"):
        if path.is_file():
            return path
    known = sorted(path.stem for path in shipped.glob("*.toml"))
    raise UsageError(f"no arms {name!r}: name a TOML file or one of {', '.join(known)}{nearest(name, known)}")
