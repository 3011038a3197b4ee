"""Idempotency keys that come again with another request, after a part has ended, or with a takeover."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from devices.api.server import running
from guiagent import wire
from guiagent.client import FarmClient
from guiagent.errors import FaultError, LeaseError
from tests.support.canvas_device import DRIVERS, TOKEN, farm_of


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with running(farm_of(3, tmp_path), DRIVERS) as farm:
        await farm.service.settled()
        yield farm.endpoint.url


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as client:
        yield client


async def granted(http: httpx.AsyncClient, **ask: Any) -> list[dict[str, Any]]:
    answer = await http.post(wire.LEASES, json={"kind": "sim", "wait_s": 0.0, **ask})
    assert answer.status_code == 201, answer.text
    leases: list[dict[str, Any]] = answer.json()["leases"]
    return leases


@pytest.mark.parametrize("other", [{"ttl_s": 9.0}, {"n": 2}, {"grants": ["files"]}, {"device": "sim-2"}])
async def test_another_lease_request_under_the_same_key_is_refused(
    http: httpx.AsyncClient, other: dict[str, Any]
) -> None:
    (first,) = await granted(http, key="k")
    (again,) = await granted(http, key="k")
    assert again["id"] == first["id"]
    refused = await http.post(wire.LEASES, json={"kind": "sim", "key": "k", **other})
    assert (refused.status_code, refused.json()["code"]) == (409, "key_reused")


async def test_another_step_under_the_same_key_is_refused(http: httpx.AsyncClient) -> None:
    (lease,) = await granted(http)
    step = {"token": lease["token"], "key": "k", "actions": [{"type": "click", "x": 1, "y": 2}]}
    path = f"{wire.LEASES}/{lease['id']}/step"
    first = await http.post(path, json=step)
    assert (await http.post(path, json=step)).content == first.content
    refused = await http.post(path, json={**step, "actions": [{"type": "type", "text": "x"}]})
    assert (refused.status_code, refused.json()["code"]) == (409, "key_reused")


async def test_a_group_of_which_a_part_has_ended_is_not_granted_again(http: httpx.AsyncClient) -> None:
    first, second = await granted(http, n=2, key="k")
    await http.delete(f"{wire.LEASES}/{first['id']}")
    refused = await http.post(wire.LEASES, json={"kind": "sim", "n": 2, "key": "k"})
    assert (refused.status_code, refused.json()["code"]) == (410, "ended")
    await http.delete(f"{wire.LEASES}/{second['id']}")
    assert len(await granted(http, n=2, key="k", wait_s=10.0)) == 2


async def test_a_takeover_that_is_sent_again_takes_nothing_over(http: httpx.AsyncClient) -> None:
    await granted(http, device="sim-0")
    take = {"device": "sim-0", "takeover": True, "key": "k"}
    (mine,) = await granted(http, **take)
    (again,) = await granted(http, **take)
    assert (again["id"], again["token"]) == (mine["id"], mine["token"])


async def test_a_client_is_told_what_is_wrong(url: str) -> None:
    async with FarmClient(url, TOKEN) as farm:
        request = wire.LeaseRequest(kind="sim", key="k")
        await farm.take(request)
        with pytest.raises(FaultError, match="used for a different lease request") as refused:
            await farm.take(request.model_copy(update={"ttl_s": 9.0}))
        assert not isinstance(refused.value, LeaseError)
