"""Suites of OSWorld task files on desktops: `osworld:PATH` has every task below that path."""

from pathlib import Path

from eval.suites.suite import Suite
from rewards.tasksets.osworld import Osworld

PREFIX = "osworld:"
_ATTEMPTS = 50  # at most, per task: seeds change nothing, since the tasks have no parameters


def osworld_suite(name: str) -> Suite:
    """The suite `osworld:PATH`; its digest covers the files' content. Raises UsageError for a bad path or
    file."""
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
        groups={"app": {file.id: ", ".join(file.apps) or "none" for file in tasks}},
    )
