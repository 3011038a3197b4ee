"""Drill of leases whose holders vanish: how long after its time to live the next one has the device."""

import asyncio
import random
import time
from pathlib import Path

import msgspec

from guiagent import wire
from guiagent.client.http import Connections
from tests.drills.farm import TOKEN, Instance
from tests.drills.tally import Tally

_DEVICES = 8
_TTL_S = (0.3, 0.6, 1.2)
_GRACE_S = 2.0  # which a reset and a busy machine may take
_WAIT_S = 30.0


async def reclaims(folder: Path, n: int) -> Tally:
    """`n` leases that nobody renews or ends; their connections are closed, as by a kill."""
    tally = Tally.looking_for("holders", "late", "never")
    pool = Instance(folder, _DEVICES)
    late: list[float] = []
    try:
        await asyncio.to_thread(pool.wait_until, "leader")
        dice = random.Random(0)

        async def vanish(device: str) -> None:
            while tally.trials < n:
                tally.did("holders")
                ttl = dice.choice(_TTL_S)
                granted = await _take(pool.url, device, ttl)
                began = time.monotonic()
                heir = await _take(pool.url, device, 60.0) if granted else None
                if heir is None:
                    tally.fail("never", f"{device} did not come back {_WAIT_S:g} s after {ttl:g}")
                    return
                late.append(time.monotonic() - began - ttl)
                if late[-1] > _GRACE_S:
                    tally.fail("late", f"{device}: {late[-1]:.2f} s after its {ttl:g} s")
                way = Connections(pool.url, TOKEN)
                await way.request("DELETE", f"{wire.LEASES}/{heir}", b"", _WAIT_S)
                way.close()

        await asyncio.gather(*(vanish(f"sim-{index}") for index in range(_DEVICES)))
    finally:
        pool.stop()
    tally.spread("after its time, s", late)
    return tally


async def _take(url: str, device: str, ttl: float) -> str | None:
    """The id of a lease, on a connection of its own that is closed at once; None where there was none."""
    way = Connections(url, TOKEN)
    wish = {"kind": "sim", "device": device, "ttl_s": ttl, "wait_s": _WAIT_S}
    try:
        answer = await way.request("POST", wire.LEASES, msgspec.json.encode(wish), _WAIT_S + 10)
    finally:
        way.close()
    if answer.status != 201:
        return None
    return msgspec.json.decode(answer.body, type=wire.Leases).leases[0].id
