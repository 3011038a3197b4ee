"""What can be known of a config before anything is started: each mistake in one line, with the way out."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeGuard

from guiagent.dialects import EVIDENCE, find_dialect
from guiagent.errors import UsageError
from guiagent.protocols import Taskset
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Trajectory
from rewards.catalogue import find_taskset, training_names
from rewards.tasksets.book import BookTasks
from rewards.tasksets.proposed import Proposed
from training.algorithms.adjusted import algorithm_of
from training.algorithms.algorithm import Algorithm
from training.config import DeviceConfig, RolloutConfig, TrainConfig, checkpoint_folder
from training.engine.vllm.server import environment_python


def require_possible(config: TrainConfig, *, elsewhere: bool = False) -> None:
    """Raise the first error that would end a run by this config before its first update.

    It starts nothing, and writes nothing but a policy that has to be downloaded: algorithm, tasks, dialect,
    policy, seeds, vLLM's environment, and parts of the config that contradict each other. With `elsewhere`
    the run is another machine's, and so are policy, seeds and environment.

    Raises UsageError, and InfrastructureError for what this machine lacks.
    """
    algorithm, tasksets = algorithm_of(config.update), tasksets_of(config)
    found = contradictions(config, tasksets.values(), algorithm, judged=config.judge is not None)
    if (first := next(found, None)) is not None:
        raise UsageError(first.problem)
    if not any(_grows(taskset, config.tasks) for taskset in tasksets.values()):  # a begun run has its own
        tasks_of(config, tasksets)
    find_dialect(config.dialect)
    if elsewhere:
        return
    if config.update.seeds is not None:
        TrajectoryStore(config.update.seeds, readonly=True).close()
    if config.rollout.vllm is not None and not config.rollout.vllm.urls:
        environment_python()
    checkpoint_folder(config.policy)


def tasksets_of(config: TrainConfig) -> dict[str, Taskset]:
    """Return the taskset of each platform. Raises UsageError if there is no such one."""
    return {name: find_taskset(platform.taskset) for name, platform in config.all_platforms().items()}


def tasks_of(
    config: TrainConfig, tasksets: Mapping[str, Taskset], begun: Iterable[Trajectory] = ()
) -> dict[str, Sequence[str]]:
    """Return the tasks to train on, by platform; for "*" of a growing book, those that were `begun`.

    Raises UsageError if a name is unknown or none is left, or two platforms have a task of the same name:
    replay and figures know a task by it.
    """
    names: dict[str, Sequence[str]] = {}
    for platform, one in config.all_platforms().items():
        taskset = tasksets[platform]
        old = taskset.begun(t.task for t in begun) if _grows(taskset, one.tasks) else ()
        names[platform] = old or training_names(taskset, one.tasks)
    counted = Counter(name for own in names.values() for name in set(own))
    if twice := [name for name, count in counted.items() if count > 1]:
        having = [platform for platform, own in names.items() if twice[0] in own]
        raise UsageError(
            f"the platforms {' and '.join(having)} both have a task {twice[0]!r}: name tasks of only one"
        )
    return names


def _grows(taskset: Taskset, tasks: Sequence[str]) -> TypeGuard[BookTasks]:
    return isinstance(taskset, BookTasks) and tuple(tasks) == ("*",)


class Contradiction(NamedTuple):
    """`part` is what it is about, as a dry run names it: "platforms", "rollouts", "rewards", "labels" or
    "seeds"."""

    part: str
    problem: str


def contradictions(
    config: TrainConfig, tasksets: Collection[Taskset], algorithm: Algorithm | None, *, judged: bool
) -> Iterator[Contradiction]:
    """Yield every contradiction of a config; `judged`: a judge gives the rewards.

    `tasksets` and `algorithm` are those that the config names, as far as there are such ones.
    """
    for problem in _of_platforms(config, tasksets):
        yield Contradiction("platforms", problem)
    if config.rollout.temperature == 0:
        yield Contradiction(
            "rollouts",
            "at rollout.temperature 0 the episodes of a group are all the same, and teach nothing: raise it",
        )
    if any(isinstance(taskset, Proposed | BookTasks) for taskset in tasksets) and not judged:
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


def _of_platforms(config: TrainConfig, tasksets: Collection[Taskset]) -> Iterator[str]:
    """Yield what is wrong with [[platforms]], and what beside them is."""
    if not (platforms := config.platforms):
        return
    defaults = TrainConfig()
    single = {
        "taskset": config.taskset != defaults.taskset,
        "tasks": config.tasks != defaults.tasks,
        "device": config.device.model_copy(update={"farm": None}) != DeviceConfig(),
        "rollout.devices": config.rollout.devices != RolloutConfig().devices,
    }
    if said := [key for key, differs in single.items() if differs]:
        yield (
            f"{' and '.join(said)} and [[platforms]] both say what the run plays on: "
            "give each platform its own taskset, tasks, device and devices, and leave these out"
        )
    counted = Counter(platform.device.kind for platform in platforms)
    for kind in (kind for kind, count in counted.items() if count > 1):
        yield (
            f"{counted[kind]} platforms have devices of kind {kind}, which are leased by their kind: "
            "make one platform of them, or give the others another kind"
        )
    if any(platform.device.farm is not None for platform in platforms):
        yield "all platforms are on one farm: name it by device.farm, outside of [[platforms]]"
    if config.update.groups < len(platforms):
        yield (
            f"a batch of {config.update.groups} groups has no place for each of {len(platforms)} platforms: "
            "raise update.groups"
        )
    if len(platforms) > 1 and any(isinstance(taskset, Proposed | BookTasks) for taskset in tasksets):
        yield "proposed tasks and books need a run of their own: leave out the other platforms"
