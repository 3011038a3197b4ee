"""How fast an environment steps, counted in one way for us and for every peer. Standard library only."""

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, NamedTuple

TASK = "click-checkboxes"
POINT = (80, 20)  # on the instruction: no click there ends an episode
WIDTH, HEIGHT = 160, 210  # of MiniWoB's task area
EPISODE_STEPS = 20


class Pace(NamedTuple):
    steps_per_s: float  # of all devices together, between resets
    reset_ms: float  # median


def pace_of(reset: Callable[[int], Any], step: Callable[[], Any], steps: int) -> Pace:
    """Run `steps` steps, with a reset before every twentieth, after a short episode to warm up."""
    reset(0)
    step()
    resets_s, steps_s = [], []
    for number in range(steps):
        if number % EPISODE_STEPS == 0:
            resets_s.append(_seconds(partial(reset, number)))
        steps_s.append(_seconds(step))
    return Pace(steps / sum(steps_s), 1000 * median(resets_s))


def together(paces: list[Pace]) -> Pace:
    """Of devices that ran at the same time."""
    return Pace(sum(pace.steps_per_s for pace in paces), median(pace.reset_ms for pace in paces))


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
