"""Drills of the pool: kill it under load, let many holders come late, pause a leader; count the losses."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from tests.drills.clients import Clients
from tests.drills.evidence import Counts, Executed, Logged, check
from tests.drills.farm import ACTIONS, Instance
from tests.support.stores import Place

_CLIENTS = 12
_DEVICES = 8
_PATIENCE_S = 120.0
_LOG = "SELECT at, event, device, token FROM lease_events ORDER BY number"


async def kills(folder: Path, n: int, database: str = "", seed: int = 0) -> Counts:
    """kill -9, `n` times at random moments under twelve clients: the pool, or the leader of two."""
    dice = random.Random(seed)
    async with under_load(folder, 2 if database else 1, database) as (instances, counts, clients):
        for _ in range(n):
            await asyncio.sleep(dice.uniform(0.2, 0.6))
            victim = await asyncio.to_thread(leader_of, instances)
            victim.kill()
            killed = time.monotonic()
            counts.kills += 1
            victim.start()
            await recovered(clients, killed, counts)
            await asyncio.to_thread(victim.wait_until, "leader", "follower")
    return counts


async def late(folder: Path, n: int, database: str = "") -> Counts:
    """At least `n` actions of holders whose lease has run out, half of them sent before it did."""
    async with under_load(folder, 1, database, traffic=2) as (_, counts, clients):

        async def one() -> None:
            while counts.late < n:
                hold = await clients.take(0.3)
                if hold is not None:
                    with clients.told():
                        await clients.type(hold)
                        await (clients.come_late if hold.token % 4 == 1 else clients.queue_late)(hold, 10)

        await asyncio.gather(*(one() for _ in range(_DEVICES)))
    return counts


async def pauses(folder: Path, n: int, database: str) -> Counts:
    """SIGSTOP the leader `n` times until the other instance leads, then let it go on as if nothing was."""
    async with under_load(folder, 2, database) as (instances, counts, clients):
        for _ in range(n):
            await asyncio.sleep(0.5)
            leader = await asyncio.to_thread(leader_of, instances)
            (other,) = (one for one in instances if one is not leader)
            leader.pause()
            paused = time.monotonic()
            counts.kills += 1
            await asyncio.to_thread(other.wait_until, "leader")
            await recovered(clients, paused, counts)
            leader.go_on()
            await asyncio.to_thread(leader.wait_until, "follower")
    return counts


@contextlib.asynccontextmanager
async def under_load(
    folder: Path, instances: int, database: str = "", traffic: int = _CLIENTS
) -> AsyncIterator[tuple[list[Instance], Counts, Clients]]:
    """Pool processes under traffic; once they have stopped, the counts hold what the witnesses say."""
    counts = Counts()
    farm = [Instance(folder, _DEVICES, database) for _ in range(instances)]
    try:
        for one in farm:
            await asyncio.to_thread(one.wait_until, "leader", "follower")
        clients = Clients([one.url for one in farm], traffic, counts)
        try:
            yield farm, counts, clients
        finally:
            await clients.stop()
    finally:
        codes = [one.stop() for one in farm]
    assert codes == [0] * instances, codes
    check(logged(farm[0], database), clients.holds, executed(folder / ACTIONS), counts)


def logged(instance: Instance, database: str) -> list[Logged]:
    """The pool's log, once the pool has stopped."""
    return [Logged(*row) for row in (Place(dsn=database) if database else instance.place).rows(_LOG)]


async def recovered(clients: Clients, since: float, counts: Counts) -> None:
    """Until somebody got a lease that is not one of the last answers on their way."""
    await asyncio.sleep(0.05)
    seen, give_up = clients.last_grant, time.monotonic() + _PATIENCE_S
    while clients.last_grant == seen:
        assert time.monotonic() < give_up, "nobody gets a lease any more"
        await asyncio.sleep(0.005)
    counts.recovery_s.append(clients.last_grant - since)


def leader_of(instances: Sequence[Instance]) -> Instance:
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        for one in instances:
            if one.health().get("role", "leader") == "leader" and one.health():
                return one
        time.sleep(0.02)
    raise AssertionError("no instance leads")


def executed(log: Path) -> list[Executed]:
    lines = [line.split(" ") for line in log.read_text().splitlines()]
    return [Executed(float(at), device, int(token), name) for at, device, token, name in lines]
