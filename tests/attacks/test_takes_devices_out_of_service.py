"""A tenant that does what every tenant may do, again and again, to have devices quarantined."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from devices.api.server import Running
from devices.config import SimConfig
from devices.drivers.sim import SimDevice
from devices.hosts import local
from guiagent.wire import LEASES
from tests.support.joined_hosts import TENANT, client_of, farm_of, ready

_TIMES = 4  # one more than failures in a row that lead to quarantine


class Deaf(SimDevice):
    """Files are written by something that no cancellation reaches."""

    async def put(self, path: str, data: bytes) -> None:
        writing = asyncio.ensure_future(self._closed.wait())
        while not writing.done():
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                continue


async def start_deaf(config: SimConfig) -> Deaf:
    return Deaf(config)


@pytest.fixture
async def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    monkeypatch.setattr(local, "_RECYCLE_DEADLINE_S", 0.5)
    async with farm_of(tmp_path, [SimConfig(count=1)], start_deaf) as farm:
        yield farm


class Tenant:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def lease(self) -> None:
        wish = {"kind": "sim", "ttl_s": 60, "wait_s": 30, "grants": ["files"]}
        answer = await self._http.post(LEASES, json=wish)
        assert answer.status_code == 201, answer.text
        (self._lease,) = answer.json()["leases"]
        self._path = f"{LEASES}/{self._lease['id']}"

    async def step(self, ms: int, deadline_s: float) -> int:
        return await self._call("step", key="k", actions=[{"type": "wait", "ms": ms}], deadline_s=deadline_s)

    async def observe(self, quality: int) -> int:
        return await self._call("observe", spec={"frame": "jpeg", "quality": quality})

    async def put(self) -> int:
        where = {"path": "/a", "token": self._lease["token"]}
        return (await self._http.put(f"{self._path}/files", params=where, content=b"a")).status_code

    async def release(self) -> None:
        await self._http.delete(self._path)

    async def _call(self, verb: str, **body: object) -> int:
        body["token"] = self._lease["token"]
        return (await self._http.post(f"{self._path}/{verb}", json=body)).status_code


@pytest.fixture
async def tenant(farm: Running) -> AsyncIterator[Tenant]:
    headers = {"Authorization": f"Bearer {TENANT}"}
    async with httpx.AsyncClient(base_url=farm.endpoint.url, headers=headers, timeout=60) as http:
        yield Tenant(http)


async def assert_in_service(farm: Running) -> None:
    async with client_of(farm) as operator:
        await ready(operator, 1)
        (shown,) = (await operator.devices()).devices
        assert not shown.probation


async def test_a_long_step_that_is_left_under_way(farm: Running, tenant: Tenant) -> None:
    for _ in range(_TIMES):
        await tenant.lease()
        step = asyncio.create_task(tenant.step(60_000, 600.0))
        record = farm.service.hosts["local"].records["sim-0"]
        while not record.turn.locked():  # noqa: ASYNC110 - it is the host's
            await asyncio.sleep(0.01)
        await tenant.release()
        assert await asyncio.wait_for(step, 10.0) == 409
    await assert_in_service(farm)


async def test_a_deadline_that_cannot_be_met(farm: Running, tenant: Tenant) -> None:
    for _ in range(_TIMES):
        await tenant.lease()
        assert await tenant.step(60_000, 0.05) == 502
    await assert_in_service(farm)


async def test_a_call_that_outlasts_its_lease_and_no_cancellation_reaches(
    farm: Running, tenant: Tenant
) -> None:
    for _ in range(_TIMES):
        await tenant.lease()
        put = asyncio.create_task(tenant.put())
        record = farm.service.hosts["local"].records["sim-0"]
        while not record.turn.locked():  # noqa: ASYNC110 - it is the host's
            await asyncio.sleep(0.01)
        await tenant.release()
        assert await asyncio.wait_for(put, 10.0) == 409
    await assert_in_service(farm)


@pytest.mark.parametrize("quality", [-5, 0, 101, 100_000, 10**30])
async def test_a_quality_that_is_none(farm: Running, tenant: Tenant, quality: int) -> None:
    await tenant.lease()
    assert await tenant.observe(quality) == 422
    assert await tenant.observe(100) == 200  # the lease goes on
    await tenant.release()
    await assert_in_service(farm)
