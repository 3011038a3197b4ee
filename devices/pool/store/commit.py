"""Group commit: callers that come while a commit is under way share the next one.

One thread writes. All waiting callers share the cost of one fsync, and none starves at a lock. Renewals are
not written: after a restart every lease counts as just renewed, which can only lengthen it.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from devices.leases import Event, Granted
from devices.pool.store.schema import Database, Deposed, Remembered
from guiagent.errors import InfrastructureError

_PRUNE_EVERY = 1_000  # events


class Store:
    """Durable state of a pool: tokens, live leases, marks, and an append-only log of their changes.

    Between commits, and never in one, old rows are deleted in batches.
    """

    def __init__(self, database: Database) -> None:
        self.deposed = asyncio.Event()  # another pool instance leads: nothing is stored any more
        self._database = database
        self._waiting: list[tuple[tuple[Event, ...], asyncio.Future[None]]] = []
        self._owed: list[Event] = []
        self._unpruned = _PRUNE_EVERY  # events since old rows were looked for
        self._flushing: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pool-store")

    def load(self) -> Remembered:
        """Read the stored state. Blocks; call it before the first commit."""
        return self._database.load()

    def commit(self, events: Iterable[Event] = ()) -> asyncio.Future[None]:
        """Queue events for writing; return a future that is done once they and all earlier ones are on disk.

        The future raises InfrastructureError if they could not be written. Failed grants are then dropped;
        ends and marks have taken effect already and are written with the next commit.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((tuple(events), done))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        return done

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            events = [*self._owed, *(event for group, _ in batch for event in group)]
            failure: Exception | None = None
            try:
                await loop.run_in_executor(self._thread, self._database.write, events)
                self._owed = []
            except Exception as error:  # the waiting futures raise it
                failure = error
                if isinstance(error, Deposed):
                    self.deposed.set()
                self._owed = [event for event in events if not isinstance(event, Granted)]
            for _, done in batch:
                if done.done():  # its caller was cancelled meanwhile
                    continue
                if failure is None:
                    done.set_result(None)
                else:
                    done.set_exception(failure)
            self._unpruned += len(events)
            if failure is None and self._unpruned >= _PRUNE_EVERY:
                self._unpruned = 0
                with contextlib.suppress(InfrastructureError):  # as the next commit will say, if it lasts
                    if await loop.run_in_executor(self._thread, self._database.prune):
                        self._unpruned = _PRUNE_EVERY
        self._flushing = None

    async def close(self) -> None:
        """Write the events that are left, and close the database."""
        try:
            await self.commit()
        finally:
            self._thread.shutdown()
            self._database.close()
