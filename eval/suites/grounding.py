"""Suites of grounding items: `screenspot:FOLDER` has every item of the files in it."""

from pathlib import Path

from eval.suites.suite import Suite
from guiagent.client.still import STILL
from rewards.tasksets.grounding import Grounding

PREFIX = "screenspot:"


def screenspot_suite(name: str) -> Suite:
    """The suite `screenspot:FOLDER`; its digest covers items and pictures. Raises UsageError for bad ones."""
    return suite_of(name, Path(name.removeprefix(PREFIX)))


def suite_of(name: str, folder: Path) -> Suite:
    """A suite of the items in a folder, each played once, counted by platform, element and resolution too."""
    tasks = Grounding(folder)
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
        content=tasks.digest,
        groups={
            "platform": {item.id: item.platform for item in items},
            "element": {item.id: item.element for item in items},
            "platform and element": {item.id: f"{item.platform} {item.element}" for item in items},
            "resolution": {item.id: item.resolution for item in items},
        },
    )
