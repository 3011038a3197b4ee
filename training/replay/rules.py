"""The replay rules: which episodes are kept, and how they enter later groups.

Pure functions, except for the buffer itself.
"""

import math
import random
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev

from guiagent.types import Trajectory
from training.advantages import shortest_successes
from training.algorithms.algorithm import FromBuffer, PositiveMix, ReplayRule, RescueAllFail
from training.algorithms.reward import outcome
from training.replay.groups import oldest_version, staleness

_ALL = ""  # the one shelf of a buffer that is drawn from across tasks


class Buffer:
    """The episodes that a rule keeps, oldest first: one shelf per task, or one for all (`FromBuffer`)."""

    def __init__(self, rule: ReplayRule | None) -> None:
        self._rule = rule
        self._shelves: defaultdict[str, deque[Trajectory]] = defaultdict(
            lambda: deque(maxlen=rule.capacity if rule else 0)
        )

    def add(self, trajectory: Trajectory) -> None:
        """Keep the trajectory if the rule says so, in place of the oldest one if its shelf is full."""
        if keeps(self._rule, trajectory):
            self._shelves[self._shelf(trajectory.task)].append(trajectory)

    def of(self, task: str) -> Sequence[Trajectory]:
        """Return the kept episodes that may enter a group of this task."""
        return tuple(self._shelves.get(self._shelf(task), ()))

    def everything(self) -> Sequence[Trajectory]:
        return tuple(trajectory for shelf in self._shelves.values() for trajectory in shelf)

    def ids(self) -> dict[str, list[str]]:
        """Return the ids of the kept episodes by shelf, as JSON."""
        return {name: [kept.id for kept in shelf] for name, shelf in self._shelves.items()}

    def refill(self, ids: Mapping[str, Sequence[str]], found: Mapping[str, Trajectory]) -> None:
        """Fill the shelves again as `ids()` described them; `found` has the trajectories by id."""
        for name, shelf in ids.items():
            self._shelves[name].extend(found[id] for id in shelf)

    def _shelf(self, task: str) -> str:
        return _ALL if isinstance(self._rule, FromBuffer) else task


def keeps(rule: ReplayRule | None, trajectory: Trajectory) -> bool:
    """Whether the rule keeps a settled episode. False if its outcome is unknown."""
    value = outcome(trajectory)
    if value is None:
        return False
    match rule:
        case RescueAllFail():
            return value > rule.keep_above
        case PositiveMix():
            return trajectory.success
        case FromBuffer():
            return trajectory.success or rule.keep == "all"
        case None:
            return False


def failed(rule: RescueAllFail, outcomes: Sequence[float]) -> bool:
    """Whether a group failed as a whole: mean and deviation of its known outcomes are below the limits."""
    return pstdev(outcomes) < rule.std_below and fmean(outcomes) < rule.mean_below


def members(
    rule: ReplayRule | None,
    sampled: tuple[Trajectory, ...],
    kept: Sequence[Trajectory],
    *,
    version: int,
    rng: random.Random,
) -> tuple[Trajectory, ...]:
    """Return the members of a group: its `sampled` episodes, changed by `rule` with the `kept` ones.

    `kept` are the earlier episodes of the group's task, oldest first.
    """
    match rule:
        case RescueAllFail():
            return _rescued(rule, sampled, kept, version, rng)
        case PositiveMix():
            return sampled + _positives(rule, sampled, kept, version, rng)
        case FromBuffer():
            return ()
        case None:
            return sampled


def drawn(
    rule: FromBuffer, kept: Sequence[Trajectory], count: int, rng: random.Random
) -> tuple[Trajectory, ...]:
    """Draw `count` of the kept episodes without replacement; all of them if there are fewer."""
    if rule.shortest is not None:
        kept = _shortest(kept, rule.shortest)
    return tuple(rng.sample(kept, min(count, len(kept))))


def young(rule: RescueAllFail | PositiveMix, kept: Sequence[Trajectory], version: int) -> list[Trajectory]:
    """Return the kept episodes that were sampled at most `rule.max_age` versions from `version`."""
    return [trajectory for trajectory in kept if staleness([trajectory], version) <= rule.max_age]


def _rescued(
    rule: RescueAllFail,
    sampled: tuple[Trajectory, ...],
    kept: Sequence[Trajectory],
    version: int,
    rng: random.Random,
) -> tuple[Trajectory, ...]:
    candidates = young(rule, kept, version)
    if not candidates or not failed(rule, _outcomes(sampled)):
        return sampled
    success = rng.choice(candidates) if rule.source == "uniform" else candidates[-1]
    match rule.slot:
        case "first":
            slot = 0
        case "oldest":
            slot = min(_valid(sampled), key=lambda i: (oldest_version(sampled[i]), sampled[i].started))
        case "random":
            slot = rng.choice(_valid(sampled))
    return (*sampled[:slot], success, *sampled[slot + 1 :])


def _positives(
    rule: PositiveMix,
    sampled: tuple[Trajectory, ...],
    kept: Sequence[Trajectory],
    version: int,
    rng: random.Random,
) -> tuple[Trajectory, ...]:
    low, high = rule.confidence
    candidates = [t for t in young(rule, kept, version) if low <= confidence(t) <= high]
    wanted = rule.share * len(sampled) * (1 - fmean(_outcomes(sampled)) if rule.harder else 1)
    return tuple(rng.sample(candidates, min(math.floor(wanted + 0.5), len(candidates))))


def confidence(trajectory: Trajectory) -> float:
    """Geometric mean of its tokens' sampling probabilities (1 / perplexity); 1 if none is known."""
    logprobs = [x for step in trajectory.steps for call in step.policy.sampled for x in call.logprobs]
    known = [logprob for logprob in logprobs if not math.isnan(logprob)]
    return math.exp(fmean(known)) if known else 1.0


def _shortest(kept: Sequence[Trajectory], q: float) -> list[Trajectory]:
    """Return the episodes that are no longer than the q-quantile of the lengths of their task's episodes."""
    tasks: defaultdict[str, list[Trajectory]] = defaultdict(list)
    for trajectory in kept:
        tasks[trajectory.task].append(trajectory)
    return [
        trajectory
        for of_task in tasks.values()
        for trajectory, short in zip(
            of_task, shortest_successes([1.0] * len(of_task), [len(t.steps) for t in of_task], q), strict=True
        )
        if short
    ]


def _outcomes(trajectories: Sequence[Trajectory]) -> list[float]:
    return [value for t in trajectories if (value := outcome(t)) is not None]


def _valid(sampled: Sequence[Trajectory]) -> list[int]:
    return [i for i, trajectory in enumerate(sampled) if outcome(trajectory) is not None]
