"""Grounding: point at the element that an instruction means, in items of ScreenSpot's format and our own."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from importlib.resources import files
from pathlib import Path

import xxhash

from guiagent.client.local_pool import state_dir
from guiagent.errors import UsageError
from rewards.tasksets.grounding.items import Item, content_digest, read_items
from rewards.tasksets.grounding.task import GroundingTask

__all__ = ["GROUNDING", "Grounding", "GroundingTask", "Item", "rendered_folder"]

GROUNDING = "grounding"  # the taskset of our own items


def rendered_folder() -> Path:
    """Where this version's own items lie on this machine: another version renders its own."""
    drawn = xxhash.xxh3_64()
    for name in sorted(path.name for path in files(__package__).iterdir() if path.is_file()):
        drawn.update(files(__package__).joinpath(name).read_bytes())
    return state_dir() / GROUNDING / drawn.hexdigest()


def our_items(oracle: bool = False) -> "Grounding":
    """The taskset of our own items. Raises UsageError if they are not rendered on this machine yet."""
    folder = rendered_folder()
    if not folder.is_dir():
        raise UsageError("the items of grounding are not rendered yet: guiagent grounding render")
    return Grounding(folder, oracle)


class Grounding:
    """The taskset of the items in a folder; a name is the file's and the item's number in it.

    Raises UsageError for a folder without items, or with one that is not as published.
    """

    def __init__(self, folder: Path, oracle: bool = False) -> None:
        self.items = {item.id: item for item in read_items(folder)}
        self._oracle = oracle
        self._points: dict[Path, list[tuple[int, int]]] = defaultdict(list)
        for item in self.items.values():
            self._points[item.picture].append(item.centre)

    @property
    def names(self) -> Sequence[str]:
        return list(self.items)

    @cached_property
    def digest(self) -> str:
        """Changes with any item and any picture."""
        return content_digest(list(self.items.values()))

    def task(self, name: str, seed: int) -> GroundingTask:
        """The item of a name; the seed changes nothing. Raises UsageError if there is none."""
        if name not in self.items:
            raise UsageError(f"there is no grounding item {name!r}")
        item = self.items[name]
        return GroundingTask(item, seed, tuple(self._points[item.picture]), self._oracle)
