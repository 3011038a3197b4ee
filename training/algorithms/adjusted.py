"""A preset with a recipe's numbers in its loss: `[update.objective]` over one of `training.algorithms`."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from guiagent.errors import UsageError
from training.algorithms import find_algorithm
from training.algorithms.algorithm import (
    Algorithm,
    Clipped,
    EntropyTerm,
    FromBuffer,
    Kl,
    Kto,
    Objective,
    Regression,
    Surrogate,
    reads_reference,
)
from training.config import ObjectiveConfig, UpdateConfig


def algorithm_of(update: UpdateConfig) -> Algorithm:
    """Return the preset that a recipe names, its loss with what the recipe sets in place of its own.

    A KL or an entropy term that the preset has not is added by its `coef`, and taken away by `coef` 0; the
    signal "reference" comes and goes with the former. Without `replay` no earlier success joins fresh groups.

    Raises UsageError: there is no such preset, its loss has no place for one of the numbers, or it replays
    nothing that could be left out.
    """
    preset = find_algorithm(update.algorithm)
    if not update.replay:
        _require_fresh_groups(preset)
        preset = replace(preset, replay=None)
    objective = _objective(preset.name, preset.objective, update.objective)
    if objective == preset.objective:
        return preset
    others = preset.signals - {"reference"}
    return replace(
        preset, objective=objective, signals=others | ({"reference"} if reads_reference(objective) else set())
    )


def adjustments(config: ObjectiveConfig) -> str:
    """Return what a recipe sets, as text: "kl.coef 0.1, clip.high 0.28"; "" if it sets nothing."""
    tables: dict[str, dict[str, Any]] = config.model_dump(
        mode="json", exclude_none=True, exclude={"aggregation"}
    )
    found = [f"{table}.{key} {value}" for table, keys in tables.items() for key, value in keys.items()]
    return ", ".join([*found, f"aggregation {config.aggregation}"] if config.aggregation else found)


def _require_fresh_groups(preset: Algorithm) -> None:
    """Raise UsageError unless the preset replays something beside fresh groups."""
    if preset.replay is None:
        raise UsageError(f"update.replay: {preset.name} replays nothing: leave it out")
    if isinstance(preset.replay, FromBuffer):
        raise UsageError(f"update.replay: {preset.name} learns from its replay alone: leave it out")


Term = TypeVar("Term", Kl, EntropyTerm)


def _objective(name: str, own: Objective, config: ObjectiveConfig) -> Objective:
    clip, kl, entropy = (
        part.model_dump(exclude_none=True) for part in (config.clip, config.kl, config.entropy)
    )
    band = config.entropy.band
    if band is not None and not 0 <= band[0] < band[1]:
        raise UsageError(
            f"update.objective.entropy.band: {list(band)} is no band: the lower factor comes first"
        )
    if (kl or entropy or config.aggregation) and isinstance(own.surrogate, Kto | Regression):
        key, *_ = [*(f"kl.{key}" for key in kl), *(f"entropy.{key}" for key in entropy), "aggregation"]
        raise _refused(key, f"the loss of {name} is a distance from the reference alone: leave it out")
    return replace(
        own,
        aggregation=config.aggregation or own.aggregation,
        surrogate=_clipped(name, own.surrogate, clip) if clip else own.surrogate,
        kl=_term("kl", name, partial(Kl, form="k3"), own.kl, kl),
        entropy=_term("entropy", name, EntropyTerm, own.entropy, entropy),
    )


def _clipped(name: str, own: Surrogate, numbers: dict[str, Any]) -> Clipped:
    if not isinstance(own, Clipped):
        raise _refused(f"clip.{next(iter(numbers))}", f"the loss of {name} clips nothing: leave it out")
    return replace(own, **numbers)


def _term(
    table: str, name: str, new: Callable[..., Term], own: Term | None, numbers: dict[str, Any]
) -> Term | None:
    """Return a term with these numbers in place of its own; None if there is none, or none any more."""
    if not numbers or numbers.get("coef") == 0:
        return None if numbers else own
    if own is not None:
        return replace(own, **numbers)
    if "coef" not in numbers:
        key = f"{table}.{next(iter(numbers))}"
        raise _refused(key, f"the loss of {name} has no such term: {table}.coef adds one")
    return new(**numbers)


def _refused(key: str, reason: str) -> UsageError:
    return UsageError(f"update.objective.{key}: {reason}")
