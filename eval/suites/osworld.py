"""Suites over OSWorld's task files: `osworld:PATH`, every task below that path, on desktops."""

from pathlib import Path

from eval.suites.suite import Suite
from rewards.tasksets.osworld import Osworld

PREFIX = "osworld:"
_ATTEMPTS = 50  # at most, per task: the tasks have no parameters


def osworld_suite(name: str) -> Suite:
    """The suite `osworld:PATH`; its digest is that of the files. UsageError for a bad one."""
    tasks = Osworld(Path(name.removeprefix(PREFIX)))
    return Suite(
        name=name,
        taskset=name,
        train_tasks=(),
        unseen_tasks=tuple(tasks.names),
        episodes=_ATTEMPTS,
        device="desktop",
        screen=(1920, 1080),
        grants=("shell",),
        oracle=False,
        content=tasks.digest,
    )
