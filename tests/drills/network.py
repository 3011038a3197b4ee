"""Drill of a bad network between pool and hosts and between pool and clients, with doubled requests.

The traffic, the evidence and what must hold are those of the kills; nothing is killed.
"""

import asyncio
import contextlib
import random
import time
from pathlib import Path

from guiagent.client.http import Answer, Connections
from tests.drills.clients import Clients
from tests.drills.evidence import Counts, check
from tests.drills.farm import ACTIONS, TOKEN, Instance
from tests.drills.host import Host
from tests.drills.proxy import Proxy, Weather
from tests.drills.run import executed, logged
from tests.drills.tally import Tally, of_dataclass

_CLIENTS = 12
_DEVICES = 4  # of each host
_DOUBLED = 0.2  # of requests are sent twice, the second somewhat later and on another connection
_PATIENCE_S = 900.0
_BAD = Weather()
_WORSE = Weather((0.0, 0.2), 0.05, 0.2, 0.3, 0.02, 0.02, 0.005, 8.0)


async def weather(folder: Path, n: int, seed: int = 0) -> Tally:
    """Bad weather on all connections until `n` leases were granted; worse every other ten seconds."""
    counts = Counts()
    pool = Instance(folder, 0)
    port = int(pool.url.rpartition(":")[2])
    async with Proxy(port, _BAD, seed) as to_hosts, Proxy(port, _BAD, seed + 1) as to_clients:
        await asyncio.to_thread(pool.wait_until, "leader")
        hosts = [Host(folder, name, _DEVICES, [to_hosts.url]) for name in ("left", "right")]
        try:
            clients = _Doubling([to_clients.url], _CLIENTS, counts, seed)
            give_up = time.monotonic() + _PATIENCE_S
            turn = 0
            while len(clients.holds) < n and time.monotonic() < give_up:
                await asyncio.sleep(10.0 if turn else 2.0)
                turn += 1
                to_hosts.weather = to_clients.weather = _WORSE if turn % 2 else _BAD
            await clients.stop()
        finally:
            codes = [await asyncio.to_thread(one.stop) for one in (*hosts, pool)]
        assert codes == [0] * 3, codes
        did = to_hosts.did + to_clients.did
    check(logged(pool, ""), clients.holds, executed(folder / ACTIONS), counts, joined=True)
    tally = of_dataclass(counts, "acknowledged")
    tally.merge({**did, "doubled": clients.doubled}, {})
    return tally


class _Doubling(Clients):
    """Clients some of whose requests arrive twice, as those of a client that lost patience do."""

    def __init__(self, urls: list[str], count: int, counts: Counts, seed: int) -> None:
        self.doubled = 0
        self._chance = random.Random(seed + 2)
        self._second = [Connections(url, TOKEN) for url in urls]
        self._behind: set[asyncio.Task[None]] = set()
        super().__init__(urls, count, counts, seed)

    async def stop(self) -> None:
        await super().stop()
        await asyncio.gather(*self._behind)
        for way in self._second:
            way.close()

    async def _request(self, way: Connections, method: str, path: str, data: bytes) -> Answer:
        if self._chance.random() < _DOUBLED:
            self.doubled += 1
            task = asyncio.create_task(self._again(method, path, data, self._chance.uniform(0.0, 0.5)))
            self._behind.add(task)
            task.add_done_callback(self._behind.discard)
        return await super()._request(way, method, path, data)

    async def _again(self, method: str, path: str, data: bytes, later_s: float) -> None:
        await asyncio.sleep(later_s)
        with contextlib.suppress(OSError):
            await self._second[0].request(method, path, data, 5.0)
