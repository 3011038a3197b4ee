"""Drill of a PostgreSQL that stalls, restarts and loses its primary, under the traffic of the kills."""

import asyncio
import random
import time
from pathlib import Path

from tests.drills.replicas import Pair
from tests.drills.run import recovered, under_load
from tests.drills.tally import Tally, of_dataclass

_STALLS_S = (0.5, 3.0, 12.0)  # the last is longer than any commit waits


async def troubles(folder: Path, n: int, pair: Pair, database: str, seed: int = 0) -> Tally:
    """`n` troubles, in turn: a stall, a restart as after a power cut, a primary that is lost for good."""
    dice = random.Random(seed)
    did = {"stalls": 0, "restarts": 0, "primaries lost": 0}
    async with under_load(folder, 2, database) as (_, counts, clients):
        for number in range(n):
            await asyncio.sleep(dice.uniform(0.5, 1.5))
            began = time.monotonic()
            match number % 3:
                case 0:
                    did["stalls"] += 1
                    with pair.primary.stalled():
                        await asyncio.sleep(dice.choice(_STALLS_S))
                case 1:
                    did["restarts"] += 1
                    await asyncio.to_thread(_restart, pair)
                case _:
                    did["primaries lost"] += 1
                    await asyncio.to_thread(pair.lose_primary)
            counts.kills += 1
            await recovered(clients, began, counts)
    tally = of_dataclass(counts, "troubles")
    tally.tried = {"troubles": tally.tried.pop("kills"), **did, **tally.tried}
    return tally


def _restart(pair: Pair) -> None:
    with pair.primary.crashed():
        pass
