"""Find a taskset by its name: a shipped one, or files of tasks by their path."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from guiagent import plugins
from guiagent.errors import UsageError, nearest
from guiagent.protocols import Taskset
from rewards.synthesis.taskset import Synthetic
from rewards.tasksets.book import BookTasks
from rewards.tasksets.desktop import DesktopTasks
from rewards.tasksets.grounding import GROUNDING, Grounding, our_items
from rewards.tasksets.harbor import Harbor
from rewards.tasksets.lab import TRAIN_TASKS as LAB_TASKS
from rewards.tasksets.lab import Lab
from rewards.tasksets.lab.steps import LabSteps
from rewards.tasksets.miniwob import TRAIN_TASKS, MiniWob
from rewards.tasksets.miniwob.rounds import TRAIN_TASKS as ROUNDS_TASKS
from rewards.tasksets.miniwob.rounds import MiniWobRounds
from rewards.tasksets.osworld import Osworld
from rewards.tasksets.osworld.support import lacking
from rewards.tasksets.phone import TRAIN_TEMPLATES, PhoneTasks
from rewards.tasksets.proposed import Proposed
from rewards.tasksets.safety import SafetyTasks
from rewards.tasksets.steps import Steps
from rewards.tasksets.web import WebTasks
from rewards.tasksets.webarena import WebArena, named


class MakeTaskset(Protocol):
    def __call__(self, oracle: bool = False) -> Taskset:
        """Build the taskset; with `oracle`, observations carry the probe that `OraclePolicy` reads."""
        ...


TASKSETS: dict[str, MakeTaskset] = {
    "desktop": DesktopTasks,
    "lab": Lab,
    "lab-steps": LabSteps,
    "miniwob": MiniWob,
    "miniwob-rounds": MiniWobRounds,
    "phone": PhoneTasks,
    "proposed": Proposed,
    "safety": SafetyTasks,
    "web": WebTasks,
}

_BY_PATH = (
    *(GROUNDING, "osworld:PATH", "screenspot:FOLDER", "steps:FOLDER"),
    *("harbor:FOLDER", "webarena:PATH", "synthetic:FILE", "book:FILE"),
)


def find_taskset(name: str, oracle: bool = False) -> Taskset:
    """Return the taskset of a name.

    A name is a key of `TASKSETS`, one that an installed package brings, "osworld:PATH" for OSWorld's task
    files below a path, "grounding" for our grounding items, "screenspot:FOLDER" for those of a folder,
    "steps:FOLDER" for the steps of its episodes, "harbor:FOLDER" for its task folders,
    "webarena:PATH,SITE=ADDRESS" for WebArena's task files below a path on the user's sites, "synthetic:FILE"
    for the verified tasks of a file, or "book:FILE" for the accepted proposals of a book.

    Raises:
        UsageError: no taskset has that name, a package's cannot be loaded, or a task file is bad.
    """
    if name == GROUNDING:
        return our_items(oracle)
    kind, _, where = name.partition(":")
    if kind == "osworld" and where:
        return Osworld(Path(where))
    if kind == "screenspot" and where:
        return Grounding(Path(where), oracle)
    if kind == "steps" and where:
        return Steps(Path(where), oracle)
    if kind == "harbor" and where:
        return Harbor(Path(where))
    if kind == "webarena" and where:
        return named(name)
    if kind == "synthetic" and where:
        return Synthetic(Path(where), oracle)
    if kind == "book" and where:
        return BookTasks(Path(where))
    others = plugins.names(plugins.TASKSETS)
    make: MakeTaskset
    if name in TASKSETS:
        make = TASKSETS[name]
    elif name in others:
        make = plugins.load(plugins.TASKSETS, name)
    else:
        known = f"; known: {', '.join((*sorted([*TASKSETS, *others]), *_BY_PATH))}"
        raise UsageError(f"no taskset {name!r}{nearest(name, [*TASKSETS, *others]) or known}")
    return make(oracle=oracle)


def training_names(taskset: Taskset, names: Sequence[str]) -> Sequence[str]:
    """Return the tasks that a recipe names; for "*", all tasks of the taskset that training may use.

    Training may not use tasks that a suite keeps unseen, nor OSWorld's, Harbor's and WebArena's tasks that
    need what is unsupported.

    Raises:
        UsageError: a name is unknown, no task is left, or all are a benchmark's, as grounding items are.
    """
    if isinstance(taskset, Grounding | Steps):
        raise UsageError(
            "grounding items and steps are for evaluation alone: name another taskset to train on"
        )
    if tuple(names) != ("*",):
        for name in names:
            require_task(taskset, name)
        return names
    match taskset:
        case MiniWob():
            found: Sequence[str] = TRAIN_TASKS
        case MiniWobRounds():
            found = ROUNDS_TASKS
        case PhoneTasks():
            found = TRAIN_TEMPLATES
        case Lab() | LabSteps():
            found = LAB_TASKS
        case Osworld():
            found = tuple(file.id for file in taskset if not lacking(file))
        case WebArena():
            found = tuple(task.id for task in taskset if not task.unsupported)
        case Harbor():
            found = tuple(folder.name for folder in taskset if not folder.lacks)
        case _:
            found = taskset.names
    if not found and isinstance(taskset, BookTasks):
        raise UsageError(f"trials have refused all that {taskset.path} holds: `guiagent propose` adds to it")
    if not found:
        raise UsageError("none of the taskset's tasks can be trained on: each needs what is unsupported")
    for name in found:
        require_task(taskset, name)
    return found


def require_task(taskset: Taskset, name: str) -> None:
    """Raise UsageError if the taskset has no task of that name, or one that goes by another.

    Curriculum, replay and suites know a task by its name; its episodes are filed under `Task.id`.
    """
    try:
        task = taskset.task(name, 0)
    except UsageError as error:
        if name not in taskset.names and (near := nearest(name, taskset.names)):
            raise UsageError(f"there is no task {name!r}{near}") from error
        raise
    if task.id != name:
        raise UsageError(
            f"the task {name!r} calls itself {task.id!r}: its id has to be the name that its taskset has"
        )
