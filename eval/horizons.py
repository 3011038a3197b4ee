"""How far arms get on a ladder of tasks: success by the number of actions that a task takes.

A task whose end alone pays says nothing to a policy that never reaches it. So a curriculum, or a way to give
credit to single steps, shows in how soon the longer tasks are learned after the shorter ones.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eval.comparison import ArmResult, SeedRun, known_mean
from eval.stats import Mean, Proportion, macro_mean, pooled

HALF = 0.5
WINDOW = 20  # training episodes over which success is counted


@dataclass(frozen=True, slots=True)
class Rung:
    """What an arm's runs came to on the tasks that take so many actions."""

    arm: str
    actions: int
    runs: Mean  # success of the last policies on held-out seeds, over the runs
    episodes: Proportion  # of all runs together
    until_half: tuple[int | None, ...]  # by run: environment steps, or None if training never got there


def rungs(results: Sequence[ArmResult], actions: Mapping[str, int]) -> list[Rung]:
    """Return the rungs of every arm, shortest tasks first; [] where nothing tells a task's `actions`."""
    return [
        Rung(
            arm=result.arm,
            actions=count,
            runs=known_mean(macro_mean(_held_out(run, names).values()) for run in result.runs),
            episodes=pooled(one for run in result.runs for one in _held_out(run, names).values()),
            until_half=tuple(until_half(run, names) for run in result.runs),
        )
        for count in sorted(set(actions.values()))
        for names in [frozenset(name for name, own in actions.items() if own == count)]
        for result in results
        if any(_held_out(run, names) for run in result.runs)
    ]


def until_half(run: SeedRun, names: frozenset[str]) -> int | None:
    """Return the environment steps after which half of the last 20 training episodes of `names` succeeded.

    None if that never was, or if fewer were played.
    """
    last: deque[bool] = deque(maxlen=WINDOW)
    for sample in run.samples:
        for name in names & sample.tasks.keys():
            outcomes = sample.tasks[name]
            last.extend(k < outcomes.successes for k in range(outcomes.n))
        if len(last) == WINDOW and sum(last) >= HALF * WINDOW:
            return sample.env_steps
    return None


def _held_out(run: SeedRun, names: frozenset[str]) -> dict[str, Proportion]:
    return {name: one for name, one in {**run.held_out, **run.unseen}.items() if name in names}
