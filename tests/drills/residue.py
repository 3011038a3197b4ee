"""Drill of what a holder leaves behind: marks on a device, and what the next holder finds of them."""

import asyncio
from pathlib import Path

from guiagent.actions import Click
from guiagent.client import FarmClient
from guiagent.errors import FaultError
from guiagent.types import ObserveSpec
from tests.drills.tally import Tally
from tests.support.canvas_device import TOKEN, farm_of
from tests.support.pool_thread import pool_thread

_DEVICES = 4
_SEEN = ObserveSpec(frame="png", probes={"clicks": "clicks"})


def residue(folder: Path, n: int) -> Tally:
    """`n` leases that leave a file, a drawing and a count; real kinds are tested with their drivers."""
    tally = Tally.looking_for("leases", "files found", "drawings found", "counts found")
    with pool_thread(farm_of(_DEVICES, folder)) as endpoint:
        asyncio.run(_leave(endpoint.url, n, tally))
    return tally


async def _leave(url: str, n: int, tally: Tally) -> None:
    async with FarmClient(url, TOKEN) as farm:
        async with farm.lease("sim", device="sim-0", grants=["exec", "files"]) as device:
            blank = (await device.observe(_SEEN)).hash

        async def one(device_id: str) -> None:
            while tally.trials < n:
                tally.did("leases")
                async with farm.lease("sim", device=device_id, grants=["exec", "files"]) as device:
                    shown = await device.observe(_SEEN)
                    if shown.hash != blank:
                        tally.fail("drawings found", device_id)
                    if shown.probes["clicks"]:
                        tally.fail("counts found", f"{device_id}: {shown.probes['clicks']}")
                    try:
                        await device.get("/canary")
                        tally.fail("files found", device_id)
                    except FaultError:
                        pass
                    await device.put("/canary", b"who was here")
                    await device.act([Click(x=10, y=10)], ObserveSpec(frame="none"))

        await asyncio.gather(*(one(f"sim-{index}") for index in range(_DEVICES)))
