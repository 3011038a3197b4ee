"""The type of a flaw: a way in which the check of a task file pays too much, too little or by chance."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Task = TypeVar("Task")


@dataclass(frozen=True)
class Flaw:
    """A flaw that can be seen in a task file, without a device.

    Attributes:
        name: a few words with hyphens, the same in every output.
        why: one sentence about what an agent could do, or what is measured instead.
        source: who found tasks with it.
    """

    name: str
    why: str
    source: str


def found(flaws: Mapping[Flaw, Callable[[Task], bool]], task: Task) -> list[Flaw]:
    """The flaws that a task has, in their order."""
    return [flaw for flaw, has in flaws.items() if has(task)]
