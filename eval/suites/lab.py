"""Suites on made-to-order apps: graphs of training with held-out seeds, unseen graphs, themes and sizes.

The ladder is of one app, so that its held-out seeds are other words and other colours.
"""

from collections.abc import Iterable

from eval.suites.suite import Suite
from rewards.tasksets.lab import LADDER_TASKS, SPLITS, TRAIN_TASKS

_SCREEN = (160, 224)


def _groups(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """By the kind of task, by its shortest solution's actions and by its split: `form-8@graphs` is form, 8
    and graphs."""
    parts = {name: name.partition("+")[0].partition("@") for name in names}
    return {
        "kind": {name: head.partition("-")[0] for name, (head, _, _) in parts.items()},
        "actions": {name: head.partition("-")[2] for name, (head, _, _) in parts.items()},
        "split": {name: split or "training's" for name, (_, _, split) in parts.items()},
    }


_UNSEEN = tuple(f"{name}@{split}" for split in SPLITS for name in TRAIN_TASKS)
_PERTURBED = tuple(f"{name}+perturbed" for name in TRAIN_TASKS)

LAB = Suite(
    name="lab",
    taskset="lab",
    train_tasks=TRAIN_TASKS,
    unseen_tasks=_UNSEEN,
    groups=_groups(TRAIN_TASKS + _UNSEEN),
    episodes=20,
    device="lab",
    screen=_SCREEN,
)
LAB_PERTURBED = Suite(
    name="lab-perturbed",
    taskset="lab",
    train_tasks=(),
    unseen_tasks=_PERTURBED,
    groups=_groups(_PERTURBED),
    episodes=20,
    device="lab",
    screen=_SCREEN,
)
LAB_LADDER = Suite(
    name="lab-ladder",
    taskset="lab",
    train_tasks=LADDER_TASKS,
    unseen_tasks=(),
    groups=_groups(LADDER_TASKS),
    episodes=20,
    device="lab",
    screen=_SCREEN,
)
