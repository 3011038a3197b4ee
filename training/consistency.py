"""What can be known of a config before anything is started: each mistake in one line, with the way out."""

from collections.abc import Iterator
from typing import NamedTuple

from guiagent.dialects import EVIDENCE, find_dialect
from guiagent.errors import UsageError
from guiagent.protocols import Taskset
from guiagent.storage.trajectories import TrajectoryStore
from rewards.catalogue import find_taskset, training_names
from rewards.tasksets.book import BookTasks
from rewards.tasksets.proposed import Proposed
from training.algorithms.adjusted import algorithm_of
from training.algorithms.algorithm import Algorithm
from training.config import TrainConfig, checkpoint_folder
from training.engine.vllm.server import environment_python


def require_possible(config: TrainConfig, *, elsewhere: bool = False) -> None:
    """Raise the first error that would end a run by this config before its first update.

    It starts nothing, and writes nothing but a policy that has to be downloaded: algorithm, tasks, dialect,
    policy, seeds, vLLM's environment, and parts of the config that contradict each other. With `elsewhere`
    the run is another machine's, and so are policy, seeds and environment.

    Raises UsageError, and InfrastructureError for what this machine lacks.
    """
    algorithm, taskset = algorithm_of(config.update), find_taskset(config.taskset)
    if not (isinstance(taskset, BookTasks) and tuple(config.tasks) == ("*",)):  # a begun run has its own
        training_names(taskset, config.tasks)
    find_dialect(config.dialect)
    if found := next(contradictions(config, taskset, algorithm, judged=config.judge is not None), None):
        raise UsageError(found.problem)
    if elsewhere:
        return
    if config.update.seeds is not None:
        TrajectoryStore(config.update.seeds, readonly=True).close()
    if config.rollout.vllm is not None and not config.rollout.vllm.urls:
        environment_python()
    checkpoint_folder(config.policy)


class Contradiction(NamedTuple):
    """`part` is what it is about, as a dry run names it: "rollouts", "rewards", "labels" or "seeds"."""

    part: str
    problem: str


def contradictions(
    config: TrainConfig, taskset: Taskset | None, algorithm: Algorithm | None, *, judged: bool
) -> Iterator[Contradiction]:
    """Yield every contradiction of a config; `judged`: a judge gives the rewards.

    `taskset` and `algorithm` are those that the config names; None if there is no such one.
    """
    if config.rollout.temperature == 0:
        yield Contradiction(
            "rollouts",
            "at rollout.temperature 0 the episodes of a group are all the same, and teach nothing: raise it",
        )
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
