"""The algorithms, by the name a recipe gives them. Each is a preset in a file of its own."""

from training.algorithms.legacy.algorithm import Aggregation, Algorithm, ClippedLoss
from training.algorithms.legacy.arpo import ARPO
from training.algorithms.legacy.zerogui import ZEROGUI

ALGORITHMS: dict[str, Algorithm] = {algorithm.name: algorithm for algorithm in (ARPO, ZEROGUI)}

__all__ = ["ALGORITHMS", "Aggregation", "Algorithm", "ClippedLoss"]
