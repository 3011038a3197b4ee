"""A witness of a training run that is killed: what began, what was finished, what each update learned from.

A trainer's own files say what it still knows; this one says what there was. The standard library is enough,
so that peers can write it too.
"""

import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SESSION = time.time_ns()


class Ledger:
    """Appends events to a file, each in one write, so that a kill tears none."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def started(self, step: int) -> None:
        """A session began after so many updates: 0, or what its checkpoint has."""
        self._write(started=step)

    def began(self, rollouts: int) -> None:
        self._write(began=rollouts)

    def finished(self, rollouts: Sequence[str]) -> None:
        """They were sampled to their end, and have their reward."""
        self._write(finished=list(rollouts))

    def learned(self, step: int, rollouts: Sequence[str]) -> None:
        """The weights have taken the `step`-th update, which was computed from these."""
        self._write(learned=list(rollouts), step=step)

    def _write(self, **event: Any) -> None:
        os.write(self._file, f"{json.dumps(event)}\n".encode())


def name(number: int) -> str:
    """Of a rollout, by its number in this process."""
    return f"{os.getpid()}.{_SESSION}.{number}"


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@dataclass(frozen=True)
class Losses:
    """What a run's kills cost, over all of its sessions but the last, which was not killed."""

    updates: int  # that the run has in the end
    updates_redone: int  # computed, and then not part of the run any more
    finished: int  # rollouts, over the sessions that were killed
    finished_lost: int  # neither learned from nor kept for later: their work was done again
    in_flight_lost: int  # rollouts that a kill cut short
    learned_twice: int  # rollouts in two updates of the run


def losses(events: Iterable[dict[str, Any]], kept: Iterable[str]) -> Losses:
    """Read the ledger of a run that has ended; `kept` are the rollouts that the trainer still has.

    Updates after the one that a session starts from are no part of the run: it computes them again. A rollout
    may be learned from twice by that, but not in two updates that both remain.
    """
    learned: dict[int, list[str]] = {}
    began: list[int] = []
    ended: list[list[str]] = []
    redone = 0
    for event in events:
        if "started" in event:
            undone = [step for step in learned if step > event["started"]]
            redone += len(undone)
            for step in undone:
                del learned[step]
            began.append(0)
            ended.append([])
        elif "began" in event:
            began[-1] += event["began"]
        elif "finished" in event:
            ended[-1] += event["finished"]
        else:
            learned[event["step"]] = event["learned"]
    finished = [one for session in ended[:-1] for one in session]
    used = [one for rollouts in learned.values() for one in rollouts]
    return Losses(
        updates=len(learned),
        updates_redone=redone,
        finished=len(finished),
        finished_lost=len(set(finished) - set(used) - set(kept)),
        in_flight_lost=sum(began[:-1]) - len(finished),
        learned_twice=len(used) - len(set(used)),
    )
