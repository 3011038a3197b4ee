"""A former holder whose step is under way when the lease ends acts no more, and its next holder waits not."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from devices.api.server import Running
from devices.config import AnyDeviceConfig, BrowserConfig, DesktopConfig, PhoneConfig, SimConfig
from devices.drivers import DRIVERS
from devices.hosts.local import DeviceHost
from devices.leases import Lease
from guiagent.actions import Type, Wait
from guiagent.client import FarmClient
from guiagent.errors import FaultError, LeaseError, MissingProgram
from guiagent.types import ObserveSpec
from guiagent.wire import StepRequest
from tests.support.joined_hosts import NOTHING, TENANT, client_of, farm_of, host, ready, start_echo, until

TEXT = ObserveSpec(frame="none", probes={"text": "text"})
LATE = [Wait(ms=1500), Type(text="typed after the lease")]


@pytest.fixture(params=["here", "joined"])
async def farm(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Running, Any]]:
    """A farm with one device, and the record that its host keeps of it."""
    if request.param == "here":
        async with farm_of(tmp_path, [SimConfig(count=1)], start_echo) as farm, client_of(farm) as operator:
            await ready(operator, 1)
            yield farm, farm.service.hosts["local"].records["sim-0"]
        return
    async with (
        farm_of(tmp_path) as farm,
        client_of(farm) as operator,
        host(farm.endpoint.url, "far", 1, start=start_echo) as agent,
    ):
        await ready(operator, 1)
        yield farm, agent._host.records["far.sim-0"]


@contextlib.asynccontextmanager
async def under_way(farm: Running, record: Any) -> AsyncIterator[tuple[FarmClient, Any, asyncio.Task[Any]]]:
    """A tenant's device and its step, which waits on it before it types."""
    async with client_of(farm, TENANT) as tenant:
        device = await tenant.lease("sim", grants=["exec"], ttl=60)
        step = asyncio.create_task(device.act(LATE, TEXT))
        await until(record.turn.locked)
        yield tenant, device, step
        await asyncio.gather(step, return_exceptions=True)


async def test_a_step_under_way_ends_with_its_lease_when_the_device_is_taken_over(
    farm: tuple[Running, Any],
) -> None:
    running, record = farm
    async with client_of(running) as operator, under_way(running, record) as (_, device, step):
        heir = await operator.lease(device=device.id, takeover=True, grants=["exec"])
        with pytest.raises((LeaseError, FaultError)):
            await step
        assert (await heir.observe(TEXT)).probes["text"] == ""
        assert (await heir.act([Type(text="mine")], TEXT)).probes["text"] == "mine"
    assert "typed" not in "".join(line.text for line in record.log)


async def test_the_next_holder_does_not_wait_for_a_step_of_the_last(farm: tuple[Running, Any]) -> None:
    running, record = farm
    async with client_of(running) as operator, under_way(running, record) as (_, device, step):
        await device.close()
        heir = await operator.lease("sim", grants=["exec"], wait=20)
        assert not step.done() or step.exception() is not None
        assert (await heir.observe(TEXT)).probes["text"] == ""
        (shown,) = (await operator.devices()).devices
        assert (shown.generation, shown.faults) == (1, 0)


KINDS: dict[str, Callable[[], AnyDeviceConfig]] = {
    "browser": lambda: BrowserConfig(width=320, height=240),
    "desktop": lambda: DesktopConfig(width=320, height=240),
    "phone": PhoneConfig,
}
BUSY = [
    {"type": "click", "x": 50, "y": 60},
    {"type": "type", "text": "typed by the former holder " * 4},
    {"type": "drag", "path": [[20, 30], [120, 130], [90, 40]]},
    {"type": "long_press", "x": 60, "y": 60, "ms": 200},
    {"type": "wait", "ms": 30_000},
]
NOT_ON_A_PHONE = ("type", "drag")  # a phone types only into a field, and has no mouse


@pytest.mark.parametrize("kind", KINDS)
async def test_a_device_whose_step_was_interrupted_is_as_new_for_the_next_holder(kind: str) -> None:
    """Whatever it was at: each round ends the lease a little later in the step."""
    host = DeviceHost({"one": KINDS[kind]()}, DRIVERS)
    try:
        await host.start("one")
    except MissingProgram as missing:
        pytest.skip(str(missing))
    try:
        host.open("one", stale=False)
        for number in range(5):
            token = 2 * number + 1
            lease = Lease("", "one", token, 60.0, frozenset(), "", "")
            actions = [action for action in BUSY if kind != "phone" or action["type"] not in NOT_ON_A_PHONE]
            busy = StepRequest(token, "k", msgspec.Raw(msgspec.json.encode(actions)), NOTHING, 60.0)
            step = asyncio.create_task(host.call(lease, busy))
            await asyncio.sleep(0.1 * number)
            host.fence("one", token + 1, epoch=0)
            with pytest.raises(LeaseError):
                await asyncio.wait_for(step, 10.0)
            await host.recycle("one")
    finally:
        await host.close()
