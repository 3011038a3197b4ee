"""MiniWoB++: small seeded web tasks whose pages check themselves.

The pages come from the package `miniwob` (Farama Foundation); nothing of them is kept here. An episode is
`Math.seedrandom(seed)` and `core.startEpisodeReal()`; the page then holds the outcome in `WOB_*` globals.
Success is a raw reward above zero, as BrowserGym counts it; a raw reward of 1, as the package's binary reward
counts, is a part of the score beside it. The page's own time limit is lifted: how fast the machine is must
not decide a score. Animations are off, so that a click's effect is on the next frame, and the page's own
reward display is hidden: it would make a small window scroll.

Three pages place two buttons at random, sometimes one over the other. If an edge of the right one is visible
(seed 1000000038: four pixels), it can still be clicked; if nothing is (about one seed in 10,000, none in our
suites), the page cannot be solved.

Only the first outcome of the page that was set up counts. A page that has ended cannot be started again, and
another page that the agent goes to fails the task, however it sets its globals.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from guiagent.errors import UsageError
from rewards.tasksets.miniwob.pages import (
    CHOICES,
    CLICKS,
    DRAGS,
    FIELDS,
    GAMES,
    GROUNDING,
    LEFT_OUT,
    PLACES,
    STEPS,
    TRAIN,
    UNSEEN,
    UNSOLVED,
    UNSOLVED_STEPS,
)
from rewards.tasksets.miniwob.reader import READER, probes_of
from rewards.tasksets.miniwob.task import HEIGHT, WIDTH, MiniWobTask, SolvedTask

TRAIN_TASKS: tuple[str, ...] = tuple(TRAIN)
UNSEEN_TASKS: tuple[str, ...] = tuple(UNSEEN)
GROUNDING_TASKS: tuple[str, ...] = tuple(GROUNDING)
STEP_TASKS: tuple[str, ...] = tuple(STEPS)
UNSOLVED_TASKS: tuple[str, ...] = tuple(UNSOLVED)
FAMILIES = {
    "clicks": tuple(CLICKS),
    "fields": tuple(FIELDS),
    "choices": tuple(CHOICES),
    "places": tuple(PLACES),
    "drags": tuple(DRAGS),
    "games": tuple(GAMES),
}
_SOLVED = {**CLICKS, **STEPS}


@dataclass(frozen=True)
class MiniWob:
    """The taskset "miniwob". With `oracle`, observations carry three more probes.

    "oracle" holds the actions that are left to solve the page, the next one first, and "candidates" every
    click an untrained agent might try, both as JSON; "labels" names the candidates.
    """

    oracle: bool = False

    @property
    def names(self) -> Sequence[str]:
        return (*_SOLVED, *UNSOLVED)

    def task(self, name: str, seed: int) -> MiniWobTask:
        """The task `name` with `seed`; at most twice the actions of its shortest solution are allowed.

        A page with an oracle is a `SolvedTask`; one without is allowed as many actions as any other of them.
        """
        probes = probes_of(name, self.oracle)
        if name in _SOLVED:
            return SolvedTask(name, name, seed, 2 * _SOLVED[name], probes)
        if name in UNSOLVED:
            return MiniWobTask(name, name, seed, UNSOLVED_STEPS, probes)
        if name in LEFT_OUT:
            raise UsageError(f"MiniWoB's {name} is no task here: {LEFT_OUT[name]}")
        raise UsageError(f"no MiniWoB task {name!r}; known: {', '.join(self.names)}"[:900])


__all__ = [
    "GROUNDING_TASKS",
    "HEIGHT",
    "READER",
    "STEP_TASKS",
    "TRAIN_TASKS",
    "UNSEEN_TASKS",
    "UNSOLVED_TASKS",
    "WIDTH",
    "MiniWob",
    "MiniWobTask",
    "SolvedTask",
]
