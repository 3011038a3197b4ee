"""Clients that lease, act, release, disappear and come too late, and record every answer."""

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from guiagent import wire
from guiagent.client.http import Answer, Connections
from guiagent.errors import FaultError, LeaseError, UsageError
from tests.drills.evidence import Counts, Hold
from tests.drills.farm import TOKEN

_PATIENCE_S = 120.0  # with a pool that is away
_REQUEST_S = 5.0
_AWAY = ("no_leader", "leader_lost")  # what makes a request worth sending again


class Clients:
    """`count` of them against the instances at `urls`, until `stop`; `holds` is what was acknowledged.

    `record` is told of each hold when it begins and whenever what is known of it changes; `name` begins the
    names of requests and actions, which are unique among all clients of a farm.
    """

    def __init__(
        self,
        urls: Sequence[str],
        count: int,
        counts: Counts,
        seed: int = 0,
        name: str = "n",
        record: Callable[[Hold], None] = lambda _: None,
    ) -> None:
        self.holds: list[Hold] = []
        self.last_grant = 0.0
        self._name_of_all = name
        self._record = record
        self._ways = [Connections(url, TOKEN) for url in urls]
        self._counts = counts
        self._names = itertools.count()
        self._dice = random.Random(seed)
        self._stopping = False
        self._tasks = [asyncio.create_task(self._live()) for _ in range(count)]

    async def stop(self) -> None:
        self._stopping = True
        await asyncio.gather(*self._tasks)
        for way in self._ways:
            way.close()

    async def _live(self) -> None:
        while not self._stopping:
            hold = await self.take(self._dice.choice((0.4, 2.0, 6.0)))
            if hold is None:
                continue
            with self.told():
                for _ in range(self._dice.randint(1, 4)):
                    await self.type(hold)
                match self._dice.random():
                    case dice if dice < 0.03 and hold.ttl < 1.0:
                        await self.come_late(hold, 3)
                    case dice if dice < 0.06 and hold.ttl < 1.0:
                        await self.queue_late(hold, 3)
                    case _:
                        await self.give_back(hold)

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """A lease that is over is the end of what a client wants with it; another fault is counted, too."""
        try:
            yield
        except LeaseError:
            pass
        except FaultError:
            self._counts.faults += 1

    # -- what a client does ----------------------------------------------------------------------------------

    async def take(self, ttl: float) -> Hold | None:
        """A lease; None where there was none to be had."""
        wish = {"kind": "sim", "ttl_s": ttl, "wait_s": 2.0, "key": self._name()}
        began = time.monotonic()
        try:
            answer = await self._ask("POST", wire.LEASES, wish)
        except FaultError:
            return None
        except UsageError:  # a pool that was just started knows no devices before their hosts have joined
            self._counts.faults += 1
            await asyncio.sleep(0.1)
            return None
        now = time.monotonic()
        (lease,) = msgspec.json.decode(answer.body, type=wire.Leases).leases
        hold = Hold(lease.id, lease.device, lease.token, ttl, now, began + ttl)
        self.holds.append(hold)
        self.last_grant = now
        self._record(hold)
        return hold

    async def type(self, hold: Hold) -> None:
        """One action that names its device and token. LeaseError where the lease is over."""
        name = self._name()
        action = {"type": "type", "text": f"{hold.device} {hold.token} {name}"}
        await self._verb(hold, "step", {"key": name, "actions": [action]})

    async def give_back(self, hold: Hold) -> None:
        self._gave_up(hold, time.monotonic())
        await self._ask("DELETE", f"{wire.LEASES}/{hold.lease}")

    async def come_late(self, hold: Hold, n: int) -> None:
        """Act when the lease has run out."""
        await asyncio.sleep(hold.ttl + 0.15)
        self._gave_up(hold, min(hold.sure_until, time.monotonic()))
        await asyncio.gather(*(self._late(hold) for _ in range(n)))

    async def queue_late(self, hold: Hold, n: int) -> None:
        """Send actions in time that wait for their turn on the device until the lease has run out."""
        self._gave_up(hold, time.monotonic())
        waiting = [{"type": "wait", "ms": round(hold.ttl * 1000) + 300}]
        busy = asyncio.create_task(self._verb(hold, "step", {"key": self._name(), "actions": waiting}))
        await asyncio.sleep(0.02)
        await asyncio.gather(*(self._late(hold) for _ in range(n)))
        with contextlib.suppress(FaultError):
            await busy

    async def _late(self, hold: Hold) -> None:
        self._counts.late += 1
        try:
            await self.type(hold)
        except FaultError:
            self._counts.late_refused += 1

    # -- requests --------------------------------------------------------------------------------------------

    async def _verb(self, hold: Hold, verb: str, ask: dict[str, Any]) -> None:
        began = time.monotonic()
        path = f"{wire.LEASES}/{hold.lease}"
        spec = {"frame": "none"}
        try:
            try:
                await self._ask("POST", f"{path}/{verb}", {"token": hold.token, "spec": spec, **ask})
            except FaultError as error:
                if error.fault.code != "restarted":
                    raise
                again = {"token": hold.token, "spec": spec, "key": self._name(), "seed": 0}
                await self._ask("POST", f"{path}/reset", again)
        except LeaseError as error:
            if error.fault.code != "host_lost" and hold.refused is None:
                hold.refused, hold.end = time.monotonic(), f"{error.fault.code}: {error.fault.message}"
                self._record(hold)
            raise
        hold.sure_until = max(hold.sure_until, began + hold.ttl)
        self._record(hold)

    async def _ask(self, method: str, path: str, body: object = None) -> Answer:
        """One request, sent (with the same key) to one instance after the other until one answers it."""
        data = b"" if body is None else msgspec.json.encode(body)
        give_up = time.monotonic() + _PATIENCE_S
        for way in itertools.cycle(self._ways):
            error: Exception
            try:
                answer = await self._request(way, method, path, data)
            except OSError as gone:
                error = gone
            else:
                if answer.status < 400:
                    return answer
                error = wire.error_of(answer.status, answer.body)
                if not isinstance(error, FaultError) or error.fault.code not in _AWAY:
                    raise error
            if time.monotonic() > give_up:
                raise error
            await asyncio.sleep(0.02)
        raise AssertionError("the ways are never used up")

    async def _request(self, way: Connections, method: str, path: str, data: bytes) -> Answer:
        return await way.request(method, path, data, _REQUEST_S)

    def _gave_up(self, hold: Hold, at: float) -> None:
        hold.gave_up = at
        self._record(hold)

    def _name(self) -> str:
        return f"{self._name_of_all}{next(self._names)}"
