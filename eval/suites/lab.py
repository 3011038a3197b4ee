"""Suites on made-to-order apps: graphs of training with held-out seeds, unseen graphs, themes and sizes."""

from eval.suites.suite import Suite
from rewards.tasksets.lab import SPLITS, TRAIN_TASKS

_SCREEN = (160, 224)

LAB = Suite(
    name="lab",
    taskset="lab",
    train_tasks=TRAIN_TASKS,
    unseen_tasks=tuple(f"{name}@{split}" for split in SPLITS for name in TRAIN_TASKS),
    episodes=20,
    device="lab",
    screen=_SCREEN,
)
LAB_PERTURBED = Suite(
    name="lab-perturbed",
    taskset="lab",
    train_tasks=(),
    unseen_tasks=tuple(f"{name}+perturbed" for name in TRAIN_TASKS),
    episodes=20,
    device="lab",
    screen=_SCREEN,
)
