"""Caveats of a comparison: parts of a preset that had nothing to work with in its runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from training.algorithms.algorithm import Algorithm, Clipped
from training.config import TrainConfig


def caveats(
    algorithm: Algorithm, config: TrainConfig, updates: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    """Return sentences on the preset as it ran; `updates` are the lines of metrics of all its runs."""
    found: list[str] = []
    surrogate, signals, update = algorithm.objective.surrogate, algorithm.signals, config.update
    at_start = isinstance(surrogate, Clipped) and surrogate.against == "proximal"
    if at_start and update.epochs * update.minibatches == 1:
        found.append(
            "Its ratios are to the policy at the start of a batch, and with one optimiser step a batch they "
            "are all 1: nothing was ever clipped. It takes update.minibatches or update.epochs above 1."
        )
    if "values" in signals:
        found.append(
            "Its critic began untrained and was fitted after each batch: the first updates went by guesses."
        )
    if "labels" in signals and config.step_judge is None:
        found.append(
            "No step judge: its labels came of the outcomes alone, every step of a success right, the last "
            "of a failure wrong."
        )
    if "answers" in signals and not any(line.get("known_answers") for line in updates):
        found.append("No task had a known answer: its turns were rewarded by the outcome alone.")
    if algorithm.replay is not None and updates and not any(line.get("replay_share") for line in updates):
        found.append("Its replay never came in: it learned from fresh episodes alone.")
    if sum(line.get("skipped_updates") or 0 for line in updates):
        found.append("Some of its optimiser steps were no numbers, and were skipped.")
    return tuple(found)
