"""Curriculum: choose the next task, the size of its group and its step limit from past outcomes."""

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import sqrt
from statistics import fmean, variance
from typing import Any

_LENGTHS_KEPT = 20  # lengths in steps of a task's latest successes
_TRIALS = 16  # rollouts after which ARPO gives up a task that was never solved


@dataclass(frozen=True, slots=True)
class TaskStatistics:
    """What is known of a task: over its episodes, and over its groups of episodes from one seed.

    An untried task counts as solved half of the time, with all of that variance within its groups.
    """

    success: float = 0.5  # moving average of the outcomes
    variance: float = 0.25  # moving average over groups: variance of the outcomes within a group
    variation: float = 1.0  # moving average over groups: their deviation within a group over their mean
    episodes: int = 0
    successes: int = 0


Weigh = Callable[[TaskStatistics], float]  # a task's statistics to its weight, >= 0


def signal(task: TaskStatistics) -> float:
    """The variance of outcomes within the task's groups: the size of a group-relative gradient.

    A task that one seed always solves and another never has a rate of success of 0.5, and teaches nothing:
    an advantage compares the episodes of one seed. For a binary outcome this is p (1 - p) of each seed,
    averaged.

    Source: learnability of Rutherford et al., "No Regrets", arXiv 2408.15099, which is of one level, not of a
    family of levels; the reward variance within a group as the size of GRPO's signal, DAPO, arXiv 2503.14476.
    """
    return task.variance


def learnability(task: TaskStatistics) -> float:
    """p (1 - p) of the task's rate of success over all its seeds.

    Source: Rutherford et al., arXiv 2408.15099, where a level has one seed. Over a family of seeds this is
    the variance within groups plus that between the seeds, and the latter teaches nothing: see `signal`.
    """
    return task.success * (1 - task.success)


def dart(task: TaskStatistics) -> float:
    """The share of a full group's episodes that DART rolls out for a task of this rate of success.

    Its dynamic number of rollouts (`rollouts`) gives easy tasks fewer episodes; here a task's groups are
    whole, and there are fewer of them. `rollout.dynamic` is DART's own form, with smaller groups.

    Source: dynamic rollout number, DART, arXiv 2509.23866.
    """
    return rollouts(task.success) / 8


def paprika(task: TaskStatistics) -> float:
    """The deviation of outcomes within a group over their mean, PAPRIKA's learning potential.

    It prefers tasks that are rarely solved: for a binary outcome it is sqrt((1 - p) / p), and 0 where nothing
    was solved. PAPRIKA draws families of tasks by an upper confidence bound on it; here they are drawn in
    proportion, and the floor of `Curriculum` is what keeps all of them in sight.

    Source: the coefficient of variation in the curriculum of Tajwar et al., arXiv 2502.17543.
    """
    return task.variation


def arpo(task: TaskStatistics) -> float:
    """1 while a task may be of use: until 16 episodes of it have all failed.

    ARPO filters tasks once, by 16 rollouts of the policy that training begins with. Here the rollouts of
    training are counted, and a later success, which the floor of `Curriculum` allows, brings a task back.

    Source: valuable tasks selection, ARPO, arXiv 2505.16282.
    """
    return float(task.episodes < _TRIALS or task.successes > 0)


def within_band(success: float, low: float = 0.05, high: float = 0.75) -> bool:
    """Whether a rate of success is neither hopeless nor learned.

    Source: the band of critic values in which WebRL keeps generated tasks, arXiv 2411.02337.
    """
    return low <= success <= high


def band(task: TaskStatistics) -> float:
    """1 if the task is neither hopeless nor learned (`within_band`), else 0."""
    return float(within_band(task.success))


def cooling(task: TaskStatistics, low: float = 0.1) -> float:
    """1 for a task that sometimes succeeds; less and less for one that keeps failing.

    Below `low` the weight is proportional to the rate of success. As that is an exponential average, every
    further failure in a row makes the task rarer by the same factor.

    Source: failure curriculum filtering, MobileRL, arXiv 2509.18119.
    """
    return min(1.0, task.success / low)


def uniform(task: TaskStatistics) -> float:
    """1 for every task."""
    return 1.0


CURRICULA: dict[str, Weigh] = {
    weigh.__name__: weigh for weigh in (signal, learnability, dart, paprika, arpo, band, cooling, uniform)
}


def rollouts(success: float, full: int = 8, least: int = 2, threshold: float = 0.6) -> int:
    """How many rollouts a group needs: `full` up to a rate of success of `threshold`, then fewer and fewer.

    Source: dynamic rollout number, DART, arXiv 2509.23866: int(9 / success - 7), written there for 8.
    """
    if success < threshold:
        return full
    return min(full, max(least, int(9 / success - 7)))


def step_cap(lengths: Sequence[int], longest: int, least: int = 10) -> int:
    """How many steps an episode may take: those of the task's longest success, or `longest` before any.

    Never fewer than `least`, nor more than `longest`: one lucky short success must not cut off all others.

    Source: dynamic trajectory length, DART, arXiv 2509.23866, there between 10 and 50.
    """
    return min(longest, max(least, *lengths)) if lengths else longest


class Curriculum:
    """Samples tasks in proportion to `floor + weigh(statistics)`.

    A task that teaches nothing now keeps the weight `floor`, in case that changes.
    """

    def __init__(
        self,
        tasks: Sequence[str],
        *,
        weigh: Weigh = signal,
        floor: float = 0.05,
        rate: float = 0.1,
        group_rate: float = 0.2,
    ) -> None:
        self._tasks = dict.fromkeys(tasks, TaskStatistics())
        self._lengths: dict[str, deque[int]] = {task: deque(maxlen=_LENGTHS_KEPT) for task in tasks}
        self._weigh = weigh
        self._floor = floor
        self._rate = rate  # weight of the newest outcome in the averages over episodes
        self._group_rate = group_rate  # weight of the newest group in the averages over groups

    @property
    def statistics(self) -> dict[str, TaskStatistics]:
        """What is known of each task."""
        return dict(self._tasks)

    @property
    def weights(self) -> dict[str, float]:
        """The sampling weight of each task; they do not sum to 1."""
        return {name: self._floor + self._weigh(task) for name, task in self._tasks.items()}

    def next(self, rng: random.Random) -> str:
        weights = self.weights
        return rng.choices(list(weights), list(weights.values()))[0]

    def rollouts(self, task: str, full: int) -> int:
        """The size of the task's next group."""
        return rollouts(self._tasks[task].success, full)

    def step_cap(self, task: str, longest: int) -> int:
        """The steps its next episodes may take."""
        return step_cap(self._lengths[task], longest)

    def update(self, task: str, success: float, steps: int = 0) -> None:
        """Record one outcome in [0, 1] and its length in steps. Never call it for an episode with a fault."""
        was = self._tasks[task]
        self._tasks[task] = replace(
            was,
            success=was.success + self._rate * (success - was.success),
            episodes=was.episodes + 1,
            successes=was.successes + (success >= 1),
        )
        if success >= 1 and steps:
            self._lengths[task].append(steps)

    def unjudged(self, task: str) -> None:
        """Record an episode that the judge abstained on: a failure, and no part of a group that differs."""
        self.update(task, 0.0)
        was, kept = self._tasks[task], 1 - self._rate
        self._tasks[task] = replace(was, variance=kept * was.variance, variation=kept * was.variation)

    def closed(self, task: str, outcomes: Sequence[float]) -> None:
        """Record the known outcomes, in [0, 1], of a group whose episodes have all ended.

        Fewer than two say nothing about the variance within a group, and change nothing.
        """
        if len(outcomes) < 2:
            return
        spread, mean = variance(outcomes), fmean(outcomes)
        was, rate = self._tasks[task], self._group_rate
        self._tasks[task] = replace(
            was,
            variance=was.variance + rate * (spread - was.variance),
            variation=was.variation + rate * ((sqrt(spread) / mean if mean else 0.0) - was.variation),
        )

    def state(self) -> dict[str, Any]:
        return {
            "tasks": {name: asdict(task) for name, task in self._tasks.items()},
            "lengths": {name: list(lengths) for name, lengths in self._lengths.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore `state`; new tasks keep their initial values, tasks that are gone are ignored.

        The state of an older checkpoint holds rates of success alone: all variance is then taken to be within
        the groups, until they have shown otherwise.
        """
        for name, success in state.get("success", {}).items():
            if name in self._tasks:
                self._tasks[name] = TaskStatistics(success, variance=success * (1 - success))
        known = {field.name for field in fields(TaskStatistics)}
        for name, values in state.get("tasks", {}).items():
            if name in self._tasks:
                self._tasks[name] = TaskStatistics(**{key: values[key] for key in known & values.keys()})
        for name, lengths in state.get("lengths", {}).items():
            if name in self._tasks:
                self._lengths[name].extend(lengths)
