"""The verdicts of a run: an append-only file beside it, `verdicts.jsonl`, a line a verdict, each synced.

A known verdict of a trajectory by a judge is written once and never changed. An unknown one may be followed
by another line, once the judge can say; so judging again is idempotent. A line torn by a kill is cut off on
opening.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import Self

import msgspec

from guiagent.errors import InfrastructureError
from guiagent.journal import Journal
from guiagent.types import Trajectory
from rewards.judge import judge_episode
from rewards.verdicts import Judge, Verdict


class Entry(msgspec.Struct, frozen=True):
    trajectory: str
    verdict: Verdict


class VerdictLog:
    """The latest verdict by trajectory and judge. One process writes, under a lock. Thread-safe.

    `recovered` says how many bytes of an interrupted line were cut off on opening.

    Raises:
        InfrastructureError: another process is writing, the disk fails, or a line before the last is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._journal = Journal(path, Entry)
        self.recovered = self._journal.recovered
        self._verdicts: dict[tuple[str, str], Verdict] = {}
        self._writing = Lock()
        try:
            for entry in self._journal:
                self._verdicts[entry.trajectory, entry.verdict.judge] = entry.verdict
        except InfrastructureError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._journal.close()

    def __len__(self) -> int:
        return len(self._verdicts)

    def __iter__(self) -> Iterator[Entry]:
        """The latest verdict of each trajectory and judge, in the order of their first lines."""
        for (trajectory, _), verdict in list(self._verdicts.items()):
            yield Entry(trajectory, verdict)

    def get(self, trajectory: str, judge: str) -> Verdict | None:
        """The latest, which may be unknown; None where this judge was never asked."""
        return self._verdicts.get((trajectory, judge))

    def add(self, trajectory: str, verdict: Verdict) -> bool:
        """Makes a verdict durable; False, and nothing is written, where it says nothing new: there is a known
        one already, or an unknown one and this one is unknown too."""
        key = (trajectory, verdict.judge)
        with self._writing:
            before = self._verdicts.get(key)
            if before is not None and (before.value is not None or verdict.value is None):
                return False
            self._journal.append(Entry(trajectory, verdict))
            self._verdicts[key] = verdict
            return True


async def judge_all(
    judge: Judge,
    trajectories: Iterable[Trajectory],
    frame: Callable[[str], bytes],
    log: VerdictLog,
    *,
    concurrency: int = 8,
    on_verdict: Callable[[Trajectory, Verdict], None] = lambda trajectory, verdict: None,
) -> None:
    """Judge what the log has no known verdict of, `concurrency` at once; each is durable as it is told of.

    What the log knows is told of too, without being judged. Trajectories are read one by one: only those
    being judged are in memory, with their screens.
    """
    waiting = iter(trajectories)

    async def work() -> None:
        for trajectory in waiting:
            known = log.get(trajectory.id, judge.name)
            if known is None or known.value is None:
                known = await judge_episode(judge, trajectory, frame)
                await asyncio.to_thread(log.add, trajectory.id, known)
            on_verdict(trajectory, known)

    workers = [asyncio.create_task(work()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
