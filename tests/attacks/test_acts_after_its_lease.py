"""A former holder whose step is under way when the lease ends acts no more, and its next holder waits not."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from devices.api.server import Running
from devices.config import SimConfig
from guiagent.actions import Type, Wait
from guiagent.client import FarmClient
from guiagent.errors import FaultError, LeaseError
from guiagent.types import ObserveSpec
from tests.support.joined_hosts import TENANT, client_of, farm_of, host, ready, start_echo, until

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
