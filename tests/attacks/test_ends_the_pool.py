"""A driver that raises anything at all, anywhere, and a host that answers anything: the pool goes on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from PIL import Image

from devices.config import SimConfig
from devices.drivers.sim import SimDevice
from guiagent.actions import Action, Click
from guiagent.client import FarmClient
from guiagent.errors import FaultError, InfrastructureError, UsageError
from guiagent.types import Health, Observation, ObserveSpec, ResetSpec
from tests.support.joined_hosts import NOTHING, client_of, farm_of, host, ready

RAISED = [
    UsageError("no such thing"),
    InfrastructureError("no such program"),
    OSError(28, "No space left on device"),
    Image.DecompressionBombError("400000000 pixels"),
    TimeoutError("late"),
    asyncio.CancelledError(),
    RecursionError("deep"),
    ValueError("two\nlines"),
]


class Broken(SimDevice):
    """A device whose verb named `at` raises `raised`, once."""

    at = ""
    raised: BaseException = Exception()

    @classmethod
    def fail(cls, verb: str) -> None:
        if cls.at == verb:
            cls.at = ""
            raise cls.raised

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        self.fail("reset")
        return await super().reset(seed, baseline, spec)

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        self.fail("act")
        return await super().act(actions, spec)

    async def allow(self, egress: Sequence[str]) -> None:
        self.fail("allow")
        await super().allow(egress)

    async def health(self) -> Health:
        self.fail("health")
        return await super().health()

    async def attest(self) -> str:
        self.fail("attest")
        return await super().attest()

    async def close(self) -> None:
        self.fail("close")
        await super().close()


async def start_broken(config: SimConfig) -> Broken:
    Broken.fail("start")
    return Broken(config)


@pytest.fixture(params=["here", "joined"])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FarmClient]:
    """The operator's client of a farm with one such device, which must be running in the end."""
    Broken.at = ""
    joined = request.param == "joined"
    devices = [] if joined else [SimConfig(count=1)]
    async with (
        farm_of(tmp_path, devices, start_broken) as farm,
        client_of(farm) as client,
        host(farm.endpoint.url, "far", 1, start=start_broken) if joined else contextlib.nullcontext(),
    ):
        await ready(client, 1)
        yield client
        assert not farm.work.done()
        await ready(client, 1)
        assert (await (await client.lease("sim")).act([Click(x=1, y=1)], NOTHING)).width


@pytest.mark.parametrize("raised", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("verb", ["health", "reset", "attest"])
async def test_what_a_driver_raises_between_leases_costs_its_device_alone(
    client: FarmClient, verb: str, raised: BaseException
) -> None:
    Broken.at, Broken.raised = verb, raised
    if verb != "health":
        await (await client.lease("sim")).close()
    async with asyncio.timeout(10.0):
        while (await client.devices()).devices[0].generation == 1:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("raised", RAISED[1:], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("verb", ["act", "allow"])
async def test_what_a_driver_raises_in_a_verb_is_a_fault_of_its_device(
    client: FarmClient, verb: str, raised: BaseException
) -> None:
    device = await client.lease("sim", ttl=60)
    Broken.at, Broken.raised = verb, raised
    with pytest.raises(FaultError) as failed:
        await asyncio.wait_for(device.act([Click(x=1, y=1)], NOTHING), 10.0)
    assert (failed.value.fault.origin, failed.value.fault.code) == ("device", "driver_error")
    assert "\n" not in failed.value.fault.message


@pytest.mark.parametrize("raised", RAISED, ids=lambda error: type(error).__name__)
async def test_what_a_driver_raises_as_it_stops_and_starts_again_keeps_nobody_from_it(
    client: FarmClient, raised: BaseException
) -> None:
    device = await client.lease("sim", ttl=60)
    Broken.at, Broken.raised = "act", OSError("gone")
    with pytest.raises(FaultError):
        await device.act([Click(x=1, y=1)], NOTHING)
    Broken.at, Broken.raised = "close", raised
    await ready(client, 1)
    device = await client.lease("sim", ttl=60)
    Broken.at, Broken.raised = "act", OSError("gone")
    with pytest.raises(FaultError):
        await device.act([Click(x=1, y=1)], NOTHING)
    Broken.at, Broken.raised = "start", raised
    await ready(client, 1)
