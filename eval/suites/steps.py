"""Suites of recorded steps: `steps:FOLDER` has every step of the episodes in a folder."""

from pathlib import Path

from eval.suites.suite import Suite
from guiagent.client.still import STILL
from rewards.tasksets.steps import PREFIX, Steps


def steps_suite(name: str) -> Suite:
    """The suite `steps:FOLDER`; its digest covers steps and pictures. Raises UsageError for bad ones."""
    tasks = Steps(Path(name.removeprefix(PREFIX)))
    items = tasks.items.values()
    return Suite(
        name=name,
        taskset=name,
        train_tasks=(),
        unseen_tasks=tuple(tasks.names),
        episodes=1,
        device=STILL,
        screen=max(item.size for item in items),
        grants=(),
        baselines=("null", "random", "centre", "done", "oracle"),
        content=tasks.digest,
        groups={
            "action": {item.id: item.kind for item in items},
            "instruction": {item.id: item.level for item in items},
        },
    )
