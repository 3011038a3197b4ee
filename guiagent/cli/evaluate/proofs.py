"""The proofs of an audit, as they are kept in a folder: a stopped audit goes on from them."""

import msgspec

from guiagent.errors import Fault, UsageError
from guiagent.storage.journal import Journal
from rewards.audit import Proof

FILE = "proofs.jsonl"


class Proved(msgspec.Struct, frozen=True):
    """A line of the file. A proof that ended in a fault has none; one that found a check unsound has."""

    suite: str  # digest of the whole suite
    played: str  # who was, beside the oracle, and where, if not on the suite's own devices
    proof: Proof
    faults: tuple[Fault, ...] = ()  # of the tries before


def by_job(journal: Journal[Proved], suite: str, played: str) -> dict[tuple[str, int], Proved]:
    """The proofs by task and seed.

    Raises UsageError if some are of another version of the suite, of other agents or on other devices.
    """
    found: dict[tuple[str, int], Proved] = {}
    for line in journal:
        if (line.suite, line.played) != (suite, played):
            raise UsageError(
                f"{journal.path.parent} has proofs of another version of the suite, of other agents, or on "
                "other devices: name another folder with --run"
            )
        found[line.proof.task, line.proof.seed] = line
    return found
