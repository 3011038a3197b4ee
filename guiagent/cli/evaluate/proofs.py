"""The proofs of an audit, kept in a folder: a stopped audit goes on from them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from guiagent.errors import Fault, UsageError
from guiagent.storage.journal import Journal
from rewards.audit import Proof

_FILE = "proofs.jsonl"


class Proved(msgspec.Struct, frozen=True):
    """A line of `proofs.jsonl`."""

    suite: str  # digest of the whole suite
    played: str  # who was, beside the oracle
    proof: Proof
    faults: tuple[Fault, ...] = ()  # of the tries before


class Proofs:
    """What was proved of a suite, by task and seed; without a folder, nothing outlives the process.

    A proof that ended in a fault is not kept: it is tried again. One that found a check unsound is.

    Raises:
        UsageError: the folder has proofs of another version of the suite, or of other agents.
        InfrastructureError: another process writes there, or the disk fails.
    """

    def __init__(self, folder: Path | None, suite: str, played: str) -> None:
        self._made_of = suite, played
        self._journal = Journal(folder / _FILE, Proved) if folder else None
        self.found: dict[tuple[str, int], Proved] = {}
        try:
            for line in self._journal or ():
                if (line.suite, line.played) != self._made_of:
                    raise UsageError(
                        f"{folder} has proofs of another version of the suite, or of other agents: "
                        "name another folder with --run"
                    )
                self.found[line.proof.task, line.proof.seed] = line
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._journal:
            self._journal.close()

    def keep(self, proof: Proof, faults: Sequence[Fault]) -> None:
        """Write a proof down, durably."""
        if self._journal:
            self._journal.append(Proved(*self._made_of, proof, tuple(faults)))
