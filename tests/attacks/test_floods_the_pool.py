"""A tenant that asks for more than its share: it waits, its neighbours and the operator do not."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.api import admission
from devices.api.admission import spend
from devices.api.server import running
from devices.config import TenantConfig
from guiagent import wire
from guiagent.client import FarmClient
from guiagent.types import ObserveSpec
from tests.support.canvas_device import DRIVERS, TOKEN, farm_of

ANN, BOB = "a-token-that-is-anns", "a-token-that-is-bobs"
TENANTS = TenantConfig(name="ann", token=ANN), TenantConfig(name="bob", token=BOB)
WAITING = 256


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with running(farm_of(2, tmp_path, tenants=TENANTS), DRIVERS) as farm:
        await farm.service.settled()
        yield farm.endpoint.url


def client(url: str, token: str) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token}"}
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=60, limits=limits)


async def test_a_tenant_has_so_many_requests_in_the_queue_and_no_more(url: str) -> None:
    async with client(url, ANN) as ann, client(url, BOB) as bob, FarmClient(url, TOKEN) as operator:
        await operator.lease_group("sim", 2)
        ask = {"kind": "sim", "wait_s": 600.0}
        asked = {asyncio.create_task(ann.post(wire.LEASES, json=ask)) for _ in range(WAITING + 20)}
        refused: list[httpx.Response] = []
        while len(refused) < 20:
            done, asked = await asyncio.wait(asked, timeout=60, return_when=asyncio.FIRST_COMPLETED)
            refused += [one.result() for one in done]
        assert {(one.status_code, one.json()["code"]) for one in refused} == {(429, "quota")}
        assert (await operator.devices()).queue == WAITING
        his = await bob.post(wire.LEASES, json={"kind": "sim", "wait_s": 0.0})
        assert his.json()["code"] == "no_device"  # he may wait as well
        for one in asked:
            one.cancel()


@pytest.fixture
def frugal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two requests of each kind at once, and one more every second."""
    for name, value in (("CONTROL_RATE", 1.0), ("VERB_RATE", 1.0), ("BURST_S", 2.0)):
        monkeypatch.setattr(admission, name, value)


@pytest.mark.usefixtures("frugal")
async def test_a_tenant_has_so_many_requests_a_second_and_no_more(url: str) -> None:
    async with client(url, ANN) as ann, client(url, BOB) as bob, client(url, TOKEN) as operator:
        answers = [await ann.get(wire.DEVICES) for _ in range(10)]
        refused = [one for one in answers if one.status_code == 429]
        assert answers[0].status_code == 200
        assert {one.json()["code"] for one in refused} == {"too_many_requests"}
        assert {one.headers["retry-after"] for one in refused} == {"1"}
        for _ in range(10):
            assert (await operator.get(wire.DEVICES)).status_code == 200
        assert (await bob.get(wire.DEVICES)).status_code == 200
    async with FarmClient(url, ANN) as patient:
        await patient.devices()  # waits as it is told to


@pytest.mark.usefixtures("frugal")
async def test_a_tenants_verbs_are_counted_by_the_devices_that_it_holds(url: str) -> None:
    async with FarmClient(url, BOB) as bob:
        first, _ = await bob.lease_group("sim", 2)
        body = msgspec.json.encode(wire.ObserveRequest(first.token, ObserveSpec(frame="none")))
        async with client(url, BOB) as http:
            path = f"{wire.LEASES}/{first._lease}/observe"
            statuses = [(await http.post(path, content=body)).status_code for _ in range(40)]
    assert statuses[:4] == [200] * 4  # two devices: twice the rate
    assert 429 in statuses


@given(st.lists(st.floats(0.0, 10.0), max_size=60), st.floats(0.1, 100.0), st.floats(1.0, 200.0))
def test_no_more_is_spent_than_comes_in(pauses: list[float], rate: float, burst: float) -> None:
    level, spent = burst, 0
    for pause in pauses:
        level, wait_s = spend(level, pause, rate, burst)
        spent += wait_s == 0.0
        assert 0.0 <= level <= burst
    assert spent <= burst + rate * sum(pauses) + 1e-6


def test_a_refusal_says_when_there_is_room_again() -> None:
    level, wait_s = spend(0.0, 0.05, rate=10.0, burst=20.0)
    assert (level, wait_s) == (0.5, pytest.approx(0.05))
    assert spend(level, wait_s, rate=10.0, burst=20.0) == (0.0, 0.0)
