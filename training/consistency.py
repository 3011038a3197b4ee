"""Parts of a run's config that contradict each other: each in one line that says what to change."""

from collections.abc import Iterator
from typing import NamedTuple

from guiagent.dialects import EVIDENCE
from guiagent.protocols import Taskset
from rewards.tasksets.book import BookTasks
from rewards.tasksets.proposed import Proposed
from training.algorithms.algorithm import Algorithm
from training.config import TrainConfig


class Contradiction(NamedTuple):
    """`part` is what it is about, as a dry run names it: "rewards", "labels" or "seeds"."""

    part: str
    problem: str


def contradictions(
    config: TrainConfig, taskset: Taskset | None, algorithm: Algorithm | None, *, judged: bool
) -> Iterator[Contradiction]:
    """Yield every contradiction of a config; `judged`: a judge gives the rewards.

    `taskset` and `algorithm` are those that the config names; None if there is no such one.
    """
    if isinstance(taskset, Proposed | BookTasks) and not judged:
        yield Contradiction(
            "rewards", "proposed tasks have no reward of their own: add [judge] to the recipe"
        )
    wants_evidence = config.judge is not None and config.judge.preset == "smartsnap"
    if wants_evidence and not config.dialect.endswith(EVIDENCE):
        yield Contradiction(
            "rewards",
            "the judge's preset smartsnap looks at what the policy cites as its evidence, for which its "
            f'prompt has no words: set dialect = "{config.dialect}{EVIDENCE}"',
        )
    if algorithm is None:
        return
    if config.step_judge is not None and "labels" not in algorithm.signals:
        yield Contradiction("labels", f"{algorithm.name} learns from no step labels: leave out [step_judge]")
    if config.update.seeds is not None and algorithm.replay is None:
        yield Contradiction(
            "seeds", f"{algorithm.name} has no replay that seeds could begin: leave out update.seeds"
        )
