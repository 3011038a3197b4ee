"""Taskset of synthesised tasks: verified triples from the JSON lines that `guiagent synthesize` writes."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from guiagent.errors import DECODE_ERRORS, UsageError
from rewards.synthesis.task import SyntheticTask
from rewards.synthesis.triples import Triple
from rewards.synthesis.verify import malformed


class Synthetic:
    """The taskset of one file, all for one kind of device. Names are the triples' ids.

    Raises:
        UsageError: the file cannot be read or is empty, a line is no triple, or `oracle` is asked for.
    """

    def __init__(self, path: Path, oracle: bool = False) -> None:
        if oracle:
            raise UsageError(
                "synthesised tasks have no oracle that acts on the screen; choose another policy"
            )
        self._triples = {triple.id: triple for triple in read(path)}

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._triples)

    def task(self, name: str, seed: int) -> SyntheticTask:
        if name not in self._triples:
            raise UsageError(f"no synthesised task {name!r}; known: {', '.join(self._triples)}"[:500])
        return SyntheticTask(self._triples[name], seed)


def read(path: Path) -> list[Triple]:
    """Read the triples of a file, all of them well-formed.

    Raises:
        UsageError: the file cannot be read or is empty, or a line is no well-formed triple.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    triples = []
    for number, line in enumerate(lines, 1):
        try:
            triple = msgspec.json.decode(line, type=Triple)
        except DECODE_ERRORS as error:
            raise UsageError(f"{path}: line {number} is no triple: {error}") from error
        if wrong := malformed(triple):
            raise UsageError(f"{path}: line {number}: {wrong}")
        triples.append(triple)
    if not triples:
        raise UsageError(f"{path} holds no task")
    return triples
