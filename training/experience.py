"""A library of experiences: short lessons in words that are put into a policy's prompt. No gradients.

Training-Free GRPO (arXiv 2510.08191): a language model compares a group's episodes and changes the library by
adding, modifying and deleting. The library is a journal, a line for each group that was compared;
`Experienced` gives it to any policy.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

import msgspec

from guiagent.journal import Journal
from guiagent.protocols import Policy, Turn
from guiagent.types import Observation, PolicyStep

MAX_CHARS = 300  # of one experience
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]  # as a model may write it

_HEADING = "What was learned in earlier attempts at such tasks; use what fits:"


class Add(msgspec.Struct, tag_field="op", tag="add", frozen=True):
    text: _Text


class Modify(msgspec.Struct, tag_field="op", tag="modify", frozen=True):
    id: int
    text: _Text


class Delete(msgspec.Struct, tag_field="op", tag="delete", frozen=True):
    id: int


Operation = Add | Modify | Delete


class Revision(msgspec.Struct, frozen=True):
    """What one group changed, possibly nothing."""

    group: str
    operations: list[Operation] = []


class ExperienceLibrary:
    """At most `largest` experiences by number, kept in the journal at `path`. `version` counts its revisions.

    Raises as `Journal`.
    """

    def __init__(self, path: Path, largest: int) -> None:
        self._journal = Journal(path, Revision)
        self._largest = largest
        self._next = 1
        self._groups: set[str] = set()
        self.entries: dict[int, str] = {}
        for revision in self._journal:
            self._apply(revision)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()

    def __contains__(self, group: str) -> bool:
        """True where the group has been compared."""
        return group in self._groups

    @property
    def version(self) -> int:
        return len(self._groups)

    @property
    def room(self) -> int:
        return self._largest - len(self.entries)

    def revise(self, group: str, operations: Sequence[Operation]) -> int:
        """Write down and do what can be done of these; returns how much that was.

        Not done: what names an experience that is not there, what says one that is there already, and an
        addition where there is no room.
        """
        entries, following, done = dict(self.entries), self._next, []
        for operation in operations:
            if _possible(operation, entries, self._largest):
                following = _do(operation, entries, following)
                done.append(operation)
        revision = Revision(group, done)
        self._journal.append(revision)
        self._apply(revision)
        return len(done)

    def told(self, instruction: str) -> str:
        """The instruction with the experiences after it, oldest first."""
        if not self.entries:
            return instruction
        return "\n".join([instruction, "", _HEADING, *(f"- {text}" for text in self.entries.values())])

    def _apply(self, revision: Revision) -> None:
        self._groups.add(revision.group)
        for operation in revision.operations:
            self._next = _do(operation, self.entries, self._next)


class Experienced:
    """A `Policy` whose instructions come with the experiences that there are when an episode begins."""

    def __init__(self, policy: Policy, library: ExperienceLibrary) -> None:
        self._policy = policy
        self._library = library
        self._instructions: dict[str, str] = {}  # by episode: its prompt must not change under way

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyStep:
        told = self._instructions.setdefault(episode, self._library.told(instruction))
        return await self._policy.act(episode, told, history, observation)

    def forget(self, episode: str) -> None:
        self._instructions.pop(episode, None)
        self._policy.forget(episode)


def _possible(operation: Operation, entries: Mapping[int, str], largest: int) -> bool:
    if isinstance(operation, Delete):
        return operation.id in entries
    text = _one_line(operation.text)
    if not text or text in entries.values():
        return False
    return len(entries) < largest if isinstance(operation, Add) else operation.id in entries


def _do(operation: Operation, entries: dict[int, str], following: int) -> int:
    """Change `entries`; returns the number that the next experience gets."""
    match operation:
        case Add(text):
            entries[following] = _one_line(text)
            return following + 1
        case Modify(id, text):
            entries[id] = _one_line(text)
        case Delete(id):
            del entries[id]
    return following


def _one_line(text: str) -> str:
    """A model's text as one bounded line of printable characters: it becomes a part of prompts."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= MAX_CHARS else words[: MAX_CHARS - 1] + "…"
