"""Suites of grounding items: `grounding` has ours, `screenspot:FOLDER` all of the files in a folder."""

from pathlib import Path

from eval.suites.suite import Suite
from guiagent.client.still import STILL
from rewards.tasksets.grounding import GROUNDING, Grounding, our_items

PREFIX = "screenspot:"


def grounding_suite() -> Suite:
    """The suite of our own items. Raises UsageError if they are not rendered on this machine yet."""
    return _suite(GROUNDING, our_items())


def screenspot_suite(name: str) -> Suite:
    """The suite `screenspot:FOLDER`; its digest covers items and pictures. Raises UsageError for bad ones."""
    return _suite(name, Grounding(Path(name.removeprefix(PREFIX))))


def _suite(name: str, tasks: Grounding) -> Suite:
    """A suite of items, each played once, counted by platform, element and resolution too."""
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
        baselines=("null", "random", "random-element", "oracle", "centre"),
        content=tasks.digest,
        groups={
            "platform": {item.id: item.platform for item in items},
            "element": {item.id: item.element for item in items},
            "platform and element": {item.id: f"{item.platform} {item.element}" for item in items},
            "resolution": {item.id: item.resolution for item in items},
        },
    )
