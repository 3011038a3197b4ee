"""The library of experiences: short pieces of advice that are put into a policy's prompt.

Training-Free GRPO (arXiv 2510.08191): a language model compares a group's episodes and changes the library by
adding, modifying and deleting. The library is a journal with a line per compared group; `Experienced` gives
its experiences to any policy, while the library is being filled or after it was `read`.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Self

import msgspec
import xxhash

from guiagent.errors import DECODE_ERRORS, InfrastructureError, UsageError
from guiagent.protocols import Policy, Turn
from guiagent.storage.journal import Journal
from guiagent.types import Observation, PolicyOutput

MAX_CHARS = 300  # characters of one experience
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
    """The changes made after one group, possibly none."""

    group: str
    operations: list[Operation] = []


_REVISION = msgspec.json.Decoder(Revision)


class Experiences:
    """Experiences by number."""

    def __init__(self) -> None:
        self.entries: dict[int, str] = {}
        self._next = 1

    @property
    def digest(self) -> str:
        """A hash of the experiences' texts."""
        return xxhash.xxh3_64_hexdigest("\n".join(self.entries.values()).encode())

    def follow(self, instruction: str) -> str:
        """Return the instruction with the experiences after it, oldest first."""
        if not self.entries:
            return instruction
        return "\n".join([instruction, "", _HEADING, *(f"- {text}" for text in self.entries.values())])

    def do(self, operation: Operation) -> bool:
        """Apply a change; return False if its experience does not exist, or its text is empty or a copy."""
        match operation:
            case Delete(id):
                return self.entries.pop(id, None) is not None
            case Add(text):
                id = self._next
            case Modify(id, text):
                if id not in self.entries:
                    return False
        line = _one_line(text)
        if not line or line in self.entries.values():
            return False
        self.entries[id] = line
        self._next = max(self._next, id + 1)
        return True


def read(path: Path) -> Experiences:
    """Read the experiences in a library's file, also while it is being filled.

    Raises:
        UsageError: there is no such file.
        InfrastructureError: the file cannot be read, or is damaged.
    """
    try:
        *lines, _ = path.read_bytes().split(b"\n")  # the rest is an incomplete line
    except FileNotFoundError:
        raise UsageError(f"there is no {path}: give the experiences.jsonl of a run") from None
    except OSError as error:
        raise InfrastructureError(f"cannot read {path}: {error.strerror}") from error
    found = Experiences()
    for number, line in enumerate(lines, 1):
        try:
            _replay(path, found, _REVISION.decode(line))
        except DECODE_ERRORS as error:
            raise InfrastructureError(
                f"{path}: line {number} is damaged ({error}); remove that line to go on"
            ) from None
    return found


class ExperienceLibrary:
    """At most `largest` experiences, kept in the journal at `path`. `version` is its number of revisions.

    Raises as `Journal` and `read` do.
    """

    def __init__(self, path: Path, largest: int) -> None:
        self._journal = Journal(path, Revision)
        self._largest = largest
        self._groups: set[str] = set()
        self.experiences = Experiences()
        try:
            for revision in self._journal:
                _replay(path, self.experiences, revision)
                self._groups.add(revision.group)
        except InfrastructureError:
            self._journal.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()

    def __contains__(self, group: str) -> bool:
        """Whether the group has been compared."""
        return group in self._groups

    @property
    def version(self) -> int:
        return len(self._groups)

    @property
    def entries(self) -> Mapping[int, str]:
        return self.experiences.entries

    @property
    def room(self) -> int:
        return self._largest - len(self.entries)

    def revise(self, group: str, operations: Sequence[Operation]) -> int:
        """Apply and write down the valid operations; return their number.

        Left out are operations on an experience that does not exist, texts that are already there, and
        additions to a full library.
        """
        tried = deepcopy(self.experiences)
        done = [
            operation
            for operation in operations
            if (len(tried.entries) < self._largest or not isinstance(operation, Add)) and tried.do(operation)
        ]
        revision = Revision(group, done)
        self._journal.append(revision)
        _replay(self._journal.path, self.experiences, revision)
        self._groups.add(group)
        return len(done)


class Experienced:
    """A `Policy` whose instructions carry the experiences that exist when an episode begins."""

    def __init__(self, policy: Policy, experiences: Experiences) -> None:
        self._policy = policy
        self._experiences = experiences
        self._instructions: dict[str, str] = {}  # by episode: its prompt must not change within it

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        advised = self._instructions.setdefault(episode, self._experiences.follow(instruction))
        return await self._policy.act(episode, advised, history, observation)

    def forget(self, episode: str) -> None:
        self._instructions.pop(episode, None)
        self._policy.forget(episode)


def _replay(path: Path, experiences: Experiences, revision: Revision) -> None:
    """Apply a revision from the journal. Raises InfrastructureError if an operation fails."""
    for operation in revision.operations:
        if not experiences.do(operation):
            raise InfrastructureError(
                f"{path}: what is written of {revision.group!r} cannot be done; restore the file from a copy"
            )


def _one_line(text: str) -> str:
    """Turn a model's text into one bounded line of printable characters, to be part of prompts."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= MAX_CHARS else words[: MAX_CHARS - 1] + "…"
