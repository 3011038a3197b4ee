"""Somebody who took a device host over, with the token that it joins the pool with."""

import asyncio
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr, ValidationError
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from devices.api.auth import OPEN
from devices.api.server import Running, running
from devices.config import PoolConfig, TenantConfig
from guiagent import wire
from guiagent.client import FarmClient
from tests.support.joined_hosts import NOTHING, host, ready

OPERATOR, HOST = "a-token-for-the-operator", "a-token-for-the-hosts"


def pool(folder: Path) -> PoolConfig:
    return PoolConfig(
        state_dir=folder, port=0, token=SecretStr(OPERATOR), host_token=SecretStr(HOST), devices=[]
    )


def paths(farm: Running) -> list[tuple[str, str]]:
    """Every route of the API, as its own document has it."""
    answer = httpx.get(farm.endpoint.url + wire.OPENAPI, headers={"Authorization": f"Bearer {OPERATOR}"})
    document = answer.raise_for_status().json()
    return [(method, path) for path, item in document["paths"].items() for method in item]


async def test_it_brings_devices_and_does_nothing_else(tmp_path: Path) -> None:
    async with (
        running(pool(tmp_path)) as farm,
        FarmClient(farm.endpoint.url, OPERATOR) as operator,
        host(farm.endpoint.url, "far", 1, HOST),
    ):
        await ready(operator, 1)
        await (await operator.lease("sim")).observe(NOTHING)
        headers = {"Authorization": f"Bearer {HOST}"}
        async with httpx.AsyncClient(base_url=farm.endpoint.url, headers=headers) as taken:
            routes = await asyncio.to_thread(paths, farm)
            assert len(routes) > 20
            answers = {
                (method, path): (await taken.request(method, path)).status_code
                for method, path in routes
                if path not in OPEN
            }
        assert set(answers.values()) == {403}, answers
        socket = farm.endpoint.url.replace("http", "ws")
        with pytest.raises((ConnectionClosed, InvalidStatus)):
            async with connect(socket + wire.LIVE, additional_headers=headers) as live:
                await live.recv()


def test_nobody_else_has_that_token() -> None:
    with pytest.raises(ValidationError, match="the same token"):
        PoolConfig(token=SecretStr(HOST), host_token=SecretStr(HOST))
    with pytest.raises(ValidationError, match="the same token"):
        PoolConfig(host_token=SecretStr(HOST), tenants=[TenantConfig(name="a", token=SecretStr(HOST))])
