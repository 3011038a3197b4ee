"""Lease holders in a process of its own, to be killed; what they were told stands in a file, line by line.

python -m tests.drills.holder RECORD COUNT URL...
"""

import asyncio
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.drills.clients import Clients
from tests.drills.evidence import Counts, Hold
from tests.drills.farm import Part


class Line(msgspec.Struct):
    """What a process knew of a lease at some moment, and what it had counted."""

    process: int
    hold: Hold
    counts: Counts


class Holder(Part):
    """One process of `count` clients."""

    def __init__(self, record: Path, count: int, urls: list[str]) -> None:
        self.record = record
        super().__init__("tests.drills.holder", str(record), str(count), *urls)

    def lines(self) -> list[Line]:
        """What all runs of this process wrote; a last line that is not whole was never written."""
        text = self.record.read_bytes() if self.record.exists() else b""
        return [msgspec.json.decode(line, type=Line) for line in text.split(b"\n")[:-1]]


def holds(lines: Iterable[Line]) -> list[Hold]:
    """Every lease as it was last known."""
    return list({line.hold.lease: line.hold for line in lines}.values())


def counts(lines: Iterable[Line]) -> list[Counts]:
    """The last counts of every process."""
    return list({line.process: line.counts for line in lines}.values())


async def _run(record: Path, count: int, urls: list[str]) -> None:
    file = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    process, counted = os.getpid(), Counts()

    def write(hold: Hold) -> None:
        os.write(file, msgspec.json.encode(Line(process, hold, counted)) + b"\n")

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    clients = Clients(urls, count, counted, process, f"{process}-", write)
    await stop.wait()
    await clients.stop()


if __name__ == "__main__":
    asyncio.run(_run(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
