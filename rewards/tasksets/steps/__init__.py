"""Steps: recorded episodes one screen at a time, the next action compared with the one that was taken."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import msgspec
import xxhash

from guiagent.actions import ACTIONS
from guiagent.client.local_pool import state_dir
from guiagent.dialects import find_dialect
from guiagent.errors import UsageError
from guiagent.formats.androidcontrol import Episode, entering
from guiagent.formats.entering import objects
from guiagent.formats.folder import file_name
from guiagent.formats.pictures import keep
from rewards.tasksets.steps.task import Item, StepTask, in_short

__all__ = ["Item", "Steps", "read_steps"]

PREFIX = "steps:"
_MOST_STEPS = 50_000
_PAST = 8  # actions that an instruction tells, the last ones


class Steps:
    """The taskset of the steps in a folder's episodes; a name is the episode's and the step's number.

    Raises UsageError for a folder without episodes, or with one that is not as it should be.
    """

    def __init__(self, folder: Path, oracle: bool = False) -> None:
        self.items = {item.id: item for item in read_steps(folder)}
        self._oracle = oracle

    @property
    def names(self) -> Sequence[str]:
        return list(self.items)

    @cached_property
    def digest(self) -> str:
        """Changes with any step and any picture."""
        found = xxhash.xxh3_128()
        for item in self.items.values():
            found.update(msgspec.json.encode((item.id, item.picture.name, item.instruction, item.box)))
            found.update(item.wanted.model_dump_json().encode())
        return found.hexdigest()

    def task(self, name: str, seed: int) -> StepTask:
        """The step of a name; the seed changes nothing. Raises UsageError if there is none."""
        if name not in self.items:
            raise UsageError(f"there is no step {name!r}")
        return StepTask(self.items[name], seed, self._oracle)


def read_steps(folder: Path) -> tuple[Item, ...]:
    """Read the steps of all episodes in the JSON files of a folder, in AndroidControl's form.

    Where the file says each step in words, the step is there twice: with the goal alone, and with both. The
    pictures are kept by their hashes in this user's state folder.

    Raises:
        UsageError: there is none, or one is not as it should be; the message names it.
    """
    found: dict[str, Item] = {}
    for at, root, told in objects(folder, Episode, ".json", ".jsonl"):
        try:
            for item in _of_episode(at, told, root):
                if item.id in found:
                    raise UsageError(f"there is an episode of that id already: {item.episode}")
                found[item.id] = item
        except UsageError as error:
            raise UsageError(f"{at}: {error}") from None
        if len(found) > _MOST_STEPS:
            raise UsageError(f"{folder} has more than {_MOST_STEPS:,} steps")
    if not found:
        raise UsageError(f"the episodes of {folder} have no steps")
    return tuple(found.values())


def _of_episode(at: str, told: Episode, root: Path) -> Iterator[Item]:
    shown = entering(at, told, root, find_dialect("androidworld"))
    boxes, words = told.boxes or [], told.step_instructions or []
    for what, given in (("boxes", told.boxes), ("step_instructions", told.step_instructions)):
        if given is not None and len(given) != len(told.actions):
            raise UsageError(
                f"{len(given)} {what} for {len(told.actions)} actions: give one for each, or none"
            )
    name = file_name(str(told.episode_id if told.episode_id is not None else Path(at).stem))
    past: list[str] = []
    for number, turn in enumerate(shown.turns):
        if turn.reply.error is not None:
            raise UsageError(f"action {number}: {turn.reply.error}")
        wanted = ACTIONS.validate_python(turn.reply.actions)[0]
        hash = xxhash.xxh3_128_hexdigest(turn.picture.data)
        pictures = state_dir() / "steps"
        pictures.mkdir(parents=True, exist_ok=True)
        picture = pictures / keep(pictures, hash, turn.picture.data)
        box = boxes[number] if number < len(boxes) else None
        goal = told.goal + ("\nDone so far:\n" + "\n".join(past[-_PAST:]) if past else "")
        item = Item(f"{name}-{number:03d}", name, picture, turn.picture.size, goal, wanted, box)
        yield item
        if number < len(words):
            step = f"{goal}\nNow: {words[number]}"
            yield msgspec.structs.replace(item, id=f"{item.id}-told", instruction=step, level="goal and step")
        past.append(words[number] if number < len(words) else in_short(wanted))
