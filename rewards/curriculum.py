"""Which task to practise next: the ones the policy sometimes solves, and every other one now and then."""

import random
from collections.abc import Sequence
from typing import Any


class Curriculum:
    """Samples tasks in proportion to `floor + p (1 - p)`, with p an exponential moving average of success.

    p (1 - p) is the variance of a binary outcome, and so the size of the group-relative signal: a task that
    always or never succeeds teaches nothing. The floor keeps such tasks in sight, in case that changes. A
    task not yet tried counts as p = 0.5.

    Source: "learnability" in Rutherford et al., "No Regrets", arXiv 2408.15099.
    """

    def __init__(self, tasks: Sequence[str], *, floor: float = 0.05, rate: float = 0.1) -> None:
        self._success = dict.fromkeys(tasks, 0.5)
        self._floor = floor
        self._rate = rate  # weight of the newest outcome in the average

    @property
    def success(self) -> dict[str, float]:
        """The moving average of each task."""
        return dict(self._success)

    @property
    def weights(self) -> dict[str, float]:
        """The sampling weight of each task; they do not sum to 1."""
        return {task: self._floor + p * (1 - p) for task, p in self._success.items()}

    def next(self, rng: random.Random) -> str:
        weights = self.weights
        return rng.choices(list(weights), list(weights.values()))[0]

    def update(self, task: str, success: float) -> None:
        """Takes in one outcome in [0, 1]. Never a fault's: it says nothing about the task."""
        self._success[task] += self._rate * (success - self._success[task])

    def state(self) -> dict[str, Any]:
        return {"success": self.success}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from `state`; new tasks keep their start, tasks that are gone are ignored."""
        self._success |= {task: p for task, p in state["success"].items() if task in self._success}
