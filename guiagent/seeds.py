"""Task seeds in three disjoint ranges, so that nothing is evaluated on seeds that it was trained on.

Code that draws or receives a seed has it `checked` against the range of its purpose.
"""

import itertools
from collections.abc import Iterator

from guiagent.errors import UsageError

DEMONSTRATIONS = range(10**6)  # scripted episodes, proposals of `guiagent propose`, examples for them
REINFORCEMENT = range(10**6, 10**9)  # rollouts
A_RUN = 10**6  # task seeds that a run of several may use before it would meet those of the next one
EVALUATION = range(10**9, 2**31)  # suites; the end is that of a signed integer of 32 bits

_PURPOSES = {
    DEMONSTRATIONS: "demonstrations",
    REINFORCEMENT: "reinforcement learning",
    EVALUATION: "evaluation",
}


def checked(seed: int, among: range) -> int:
    """Return the seed. Raises UsageError if it is not in the range."""
    if seed not in among:
        raise UsageError(
            f"{seed:,} is no seed for {_PURPOSES[among]}: those are {among.start:,} to {among.stop - 1:,}"
        )
    return seed


def of_run(first: int, number: int) -> int:
    """The first rollout seed of run `number`, counted from 0, of several that share none; `checked`."""
    return checked(first + A_RUN * number, REINFORCEMENT)


def upwards(first: int, among: range) -> Iterator[int]:
    """`first` and the seeds after it, each `checked` when it is drawn."""
    return (checked(seed, among) for seed in itertools.count(first))


def trainable(seed: int) -> int:
    """Return the seed of an episode to learn from. Raises UsageError if it is an evaluation seed."""
    if seed in EVALUATION:
        raise UsageError(
            f"an episode on seed {seed:,} must not be learned from: seeds from {EVALUATION.start:,} are for "
            f"evaluation; roll out others, from {REINFORCEMENT.start:,} on"
        )
    return seed
