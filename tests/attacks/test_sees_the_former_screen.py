"""The next holder of a device asks for its frame before anything new was shown on it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devices.api.server import Running
from devices.hosts import messages
from devices.hosts.slot_record import LogLine
from guiagent.actions import Type
from guiagent.client import FarmClient
from guiagent.errors import FaultError
from guiagent.types import ObserveSpec
from tests.support.joined_hosts import OTHER, TENANT, client_of, farm_of, host, ready
from tests.support.rogue_host import rogue_host, until_called

PICTURE = ObserveSpec(frame="png")


@pytest.fixture
async def farm(tmp_path: Path) -> AsyncIterator[Running]:
    async with farm_of(tmp_path) as farm:
        yield farm


async def test_what_the_former_holder_saw_is_gone_before_the_next_one_has_the_device(farm: Running) -> None:
    async with (
        client_of(farm) as operator,
        client_of(farm, TENANT) as tenant,
        client_of(farm, OTHER) as other,
        host(farm.endpoint.url, "far", 1),
    ):
        await ready(operator, 1)
        for number in range(10):
            device = await tenant.lease("sim", wait=10)
            secret = (await device.act([Type(text=f"secret {number}")], PICTURE)).frame
            assert (await tenant.frame(device.id))[0] == secret
            await device.close()
            heir = await other.lease("sim", wait=10)
            assert await picture_of(other) != secret
            await heir.close()


async def test_a_frame_of_the_former_holder_that_comes_late_is_not_shown(farm: Running) -> None:
    async with client_of(farm) as operator, rogue_host(farm.endpoint.url) as joined:
        answering = asyncio.create_task(until_called(joined))
        await ready(operator, 1)
        former = await operator.lease("sim", ttl=60)
        await former.close()
        await ready(operator, 1)
        heir = await operator.lease("sim", ttl=60)
        frames = ((former.token, b"former", "f0"), (0, b"nobody", "b0"), (heir.token, b"heir", "c0"))
        shown = []
        for token, picture, digest in frames:
            said = [LogLine(0.0, heir.token, f"said {digest}")]
            await joined.send(
                messages.encode(messages.Seen("far.sim-0", token, picture, "image/png", digest, said))
            )
            await asyncio.wait_for(until_logged(operator, f"said {digest}"), 10.0)
            shown.append(await picture_of(operator))
        assert shown == [b"", b"nobody", b"heir"]
        answering.cancel()


async def until_logged(operator: FarmClient, text: str) -> None:
    while text not in await operator.logs("far.sim-0"):  # noqa: ASYNC110 - it is the pool's
        await asyncio.sleep(0.02)


async def picture_of(operator: FarmClient) -> bytes:
    try:
        return (await operator.frame("far.sim-0"))[0]
    except FaultError as error:
        assert error.fault.code == "no_frame"
        return b""
