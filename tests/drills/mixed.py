"""Drill of the whole: pool, leader, host, holder, trainer and database killed in turn by chance, under load.

A farm of two hosts with four devices each, behind one pool, or behind two with PostgreSQL; clients here, in a
process of their own, and a trainer with rollouts.
"""

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from devices.hosts.messages import GRACE_S
from tests.drills import holder as holders
from tests.drills.clients import Clients
from tests.drills.evidence import Counts, Hold, check
from tests.drills.farm import ACTIONS, Instance, Part
from tests.drills.holder import Holder
from tests.drills.host import Host
from tests.drills.light_trainer import LightTrainer
from tests.drills.run import executed, leader_of, logged, recovered
from tests.drills.tally import Tally, of_dataclass
from tests.support.postgres import Server

_DEVICES = 4  # of each host
_NAMES = ("left", "right")
_HERE, _THERE = 6, 4  # clients of this process, and of one that is killed


async def kills(
    folder: Path, n: int, server: Server | None = None, database: str = "", seed: int = 0
) -> Tally:
    """kill -9, or a crash of the database, `n` times; every part as likely as every other."""
    dice = random.Random(seed)
    counts = Counts()
    lost_at: list[tuple[str, float]] = []  # hosts, and when they were killed
    killed: dict[str, int] = {}
    pools = [Instance(folder, 0, database) for _ in range(2 if database else 1)]
    urls = [one.url for one in pools]
    hosts = [Host(folder, name, _DEVICES, urls) for name in _NAMES]
    parts: list[Part] = [*pools, *hosts]
    try:
        for pool in pools:
            await asyncio.to_thread(pool.wait_until, "leader", "follower")
        clients = Clients(urls, _HERE, counts, seed)
        holder = Holder(folder / "held", _THERE, urls)
        trainer = LightTrainer(folder / "run", urls[0])
        parts = [trainer, holder, *hosts, *pools]
        roles: dict[str, Callable[[], Part]] = {
            "pool": lambda: dice.choice(pools),
            "host": lambda: dice.choice(hosts),
            "holder": lambda: holder,
            "trainer": lambda: trainer,
        }
        if server is not None:
            roles["leader"] = lambda: leader_of(pools)
        try:
            await asyncio.to_thread(trainer.wait_until_it_plays)
            names = [*roles, *(["database"] if server is not None else [])]
            for _ in range(n):
                await asyncio.sleep(dice.uniform(0.2, 0.6))
                role = dice.choice(names)
                killed[role] = killed.get(role, 0) + 1
                counts.kills += 1
                at = time.monotonic()
                if role == "database":
                    assert server is not None
                    await asyncio.to_thread(_crash, server)
                else:
                    victim = await asyncio.to_thread(roles[role])
                    at = time.monotonic()
                    victim.kill()
                    if isinstance(victim, Host):
                        lost_at.append((victim.name, at))
                    victim.start()
                async with _supervised(parts):
                    await recovered(clients, at, counts)
                await asyncio.to_thread(_all_run, parts, pools)
        finally:
            await clients.stop()
    finally:
        codes = [one.stop() for one in parts]
    assert all(code in (0, -signal.SIGTERM) for code in codes), codes  # some had only just been started
    lines = holder.lines()
    for other in holders.counts(lines):
        for name in ("late", "late_refused", "faults"):
            setattr(counts, name, getattr(counts, name) + getattr(other, name))
    held = [*clients.holds, *holders.holds(lines)]
    _end_with_their_hosts(held, lost_at)
    check(logged(pools[0], database), held, executed(folder / ACTIONS), counts, joined=True)
    tally = of_dataclass(counts, "kills")
    tally.merge(
        trainer.done() | {f"of the {role}": count for role, count in killed.items()}, trainer.problems()
    )
    return tally


def _crash(server: Server) -> None:
    with server.crashed():
        pass


@contextlib.asynccontextmanager
async def _supervised(parts: list[Part]) -> AsyncIterator[None]:
    """Start what ends by itself meanwhile: without it two hosts that were refused leave nobody to recover.

    A host is refused, and ends, as long as the pool has not noticed that the one of its name is gone.
    """

    async def watch() -> None:
        while True:
            await asyncio.sleep(0.5)
            for one in parts:
                if not one.runs:
                    one.start()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def _all_run(parts: list[Part], pools: list[Instance]) -> None:
    """Start what ended by itself, such as a host whose name was still taken; wait for the pools."""
    for one in parts:
        if not one.runs:
            one.start()
    for pool in pools:
        pool.wait_until("leader", "follower")
    leader_of(pools)


def _end_with_their_hosts(held: list[Hold], lost_at: list[tuple[str, float]]) -> None:
    """A lease ends with its host, whether or not its holder asked since.

    So does one that was acknowledged after the host's death and before the pool knew of it. When that was
    nobody here can tell, so nothing is held against the pool for leases of the time that it may take.
    """
    for hold in held:
        for name, at in lost_at:
            if not hold.device.startswith(f"{name}."):
                continue
            if hold.acked < at < hold.sure_until:
                hold.sure_until = at
            elif at <= hold.acked < at + GRACE_S:
                hold.sure_until = min(hold.sure_until, hold.acked)
