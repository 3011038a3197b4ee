"""Implementation of `guiagent synthesize`: makes tasks with checks, verifies and records each."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.table import Table

from guiagent.cli.common.progress import StageLine
from guiagent.cli.common.terminal import terminal
from guiagent.client import FarmClient
from guiagent.client.local_pool import private_pool
from guiagent.errors import InfrastructureError, UsageError
from guiagent.protocols import Device
from guiagent.storage.journal import Journal
from rewards.judges.config import ServerConfig
from rewards.proposers.types import Outcome, Proposal
from rewards.proposers.validation import Validator
from rewards.synthesis import DEEDS
from rewards.synthesis.deeds import compose
from rewards.synthesis.triples import DeviceKind, Triple
from rewards.synthesis.verify import verify

if TYPE_CHECKING:
    from rewards.synthesis.author import Author

_IN_VAIN = 20  # refusals in a row, after which to stop


class Refused(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of FILE.refused.jsonl; `triple` is None if it could not even be parsed."""

    outcome: Outcome
    triple: Triple | None = None


@dataclass(frozen=True)
class _Record:
    """The files of accepted and refused tasks, and how many there are of each outcome."""

    accepted: Journal[Triple]
    refused: Journal[Refused]
    counts: Counter[str]

    def add(self, triple: Triple | Outcome, outcome: Outcome) -> bool:
        """Write a task and its outcome down; return whether it was accepted."""
        self.counts[outcome.refusal or "accepted"] += 1
        if outcome.refusal is None and isinstance(triple, Triple):
            self.accepted.append(triple)
            return True
        self.refused.append(Refused(outcome, triple if isinstance(triple, Triple) else None))
        return False


def synthesize(device: str, out: Path, n: int, url: str | None, model: str) -> None:
    """Make `n` more tasks into the file `out`, and print the counts of outcomes.

    Raises UsageError for a kind of device without templates, InfrastructureError if no task was accepted.
    """
    if device not in DEEDS:
        raise UsageError(f"no tasks can be synthesised for {device!r}; known: {', '.join(DEEDS)}")
    kind: DeviceKind = device
    console = terminal(highlight=False)
    refused = out.with_name(f"{out.name}.refused.jsonl")
    counts: Counter[str] = Counter()
    with (
        Journal(out, Triple) as accepted,
        Journal(refused, Refused) as rejected,
        StageLine(console, "1/1", "synthesize") as line,
    ):
        asyncio.run(_work(kind, n, url, model, _Record(accepted, rejected, counts), line))
    print_counts(counts, console)
    console.print(f"tasks     {out}  (refused: {refused})", soft_wrap=True)
    if not counts["accepted"]:
        raise InfrastructureError(f"no task was accepted; {refused} says why")


async def _work(
    kind: DeviceKind, n: int, url: str | None, model: str, record: _Record, line: StageLine
) -> None:
    before, counts = list(record.accepted), record.counts
    validator = Validator()
    await validator.recall([as_proposal(triple) for triple in before])
    first = 1 + max((int(t.id.rpartition("/")[2]) for t in before), default=-1)
    author = open_author(url, model, kind) if url else None
    instructions = [triple.instruction for triple in before]
    in_vain = 0
    with private_pool(f"{kind}=1") as endpoint:
        async with (
            AsyncExitStack() as held,
            FarmClient(endpoint.url, endpoint.token) as farm,
            farm.lease(kind, grants=("shell", "files"), label="guiagent synthesize") as device,
        ):
            if author is not None:
                held.push_async_callback(author.close)
            made = written(author, first, instructions) if author else drawn(kind, first)
            async for triple in made:
                outcome = await judged(triple, device, validator)
                if record.add(triple, outcome) and isinstance(triple, Triple):
                    instructions.append(triple.instruction)
                    in_vain = 0
                else:
                    in_vain += 1
                line.update(f"{counts['accepted']} of {n} accepted, {counts.total()} tried")
                if counts["accepted"] >= n or in_vain >= _IN_VAIN:
                    break


async def judged(triple: Triple | Outcome, device: Device, validator: Validator) -> Outcome:
    """Validate a triple and verify it on the device; a duplicate is refused without verification."""
    if isinstance(triple, Outcome):
        return triple
    outcome = await validator.outcome(as_proposal(triple))
    return outcome if outcome.refusal is not None else await verify(triple, device)


async def drawn(kind: DeviceKind, first: int) -> AsyncIterator[Triple]:
    """Yield tasks composed from templates without end, each from a seed of its own."""
    seed = first
    while True:
        yield compose(kind, DEEDS[kind], seed)
        seed += 1


async def written(author: "Author", first: int, earlier: list[str]) -> AsyncIterator[Triple | Outcome]:
    """Yield tasks written by a model without end; `earlier` are instructions that it must not repeat."""
    number = first
    while True:
        yield await author.write(number, earlier)
        number += 1


def open_author(url: str, model: str, kind: DeviceKind) -> "Author":
    """Open the model that writes tasks. Raises InfrastructureError if a package is missing."""
    try:
        from rewards.synthesis.author import Author
    except ModuleNotFoundError as error:
        raise InfrastructureError(f"{error.name} is not installed: pip install 'guiagent[judge]'") from None
    return Author(ServerConfig(url=url, model=model), kind)


def as_proposal(triple: Triple) -> Proposal:
    """Return the task as a proposal, for the validation that both share."""
    return Proposal(triple.id, triple.instruction, triple.device, 0, triple.origin)


def print_counts(counts: Counter[str], console: Console) -> None:
    """Print a table of outcomes, accepted tasks first."""
    table = Table("outcome", "tasks", box=None)
    for name, count in sorted(counts.items(), key=lambda item: (item[0] != "accepted", -item[1])):
        table.add_row(name.replace("_", " "), str(count))
    console.print(table)
