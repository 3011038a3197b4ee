"""The algorithms, by the name a recipe gives them. Each is a preset in a file of its own."""

from training.algorithms.algorithm import Aggregation, Algorithm, ClippedLoss
from training.algorithms.arpo import ARPO

ALGORITHMS: dict[str, Algorithm] = {ARPO.name: ARPO}

__all__ = ["ALGORITHMS", "Aggregation", "Algorithm", "ClippedLoss"]
