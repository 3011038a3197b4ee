"""The same click through every door of our own lands on the same pixel of the device.

A door counts in pixels, but for Gymnasium's: there a place is a share of the screen as a float32, pixel x is
`x / width`, and a share means the pixel that it falls into.
"""

import json
from collections.abc import Iterator

import gymnasium
import httpx
import numpy as np
import pytest
from mcp import Client
from mcp_types import TextContent

import eval.gym
import guiagent
from eval.doors import openenv
from eval.gym.spaces import WORDS
from eval.stepping import SuiteTasks
from guiagent import wire
from guiagent.actions import Click
from guiagent.client import FarmClient
from guiagent.mcp.server import Settings, server_of
from guiagent.types import ObserveSpec
from guiagent.wire import Endpoint
from tests.support.lamp import LampTask
from tests.support.pressed_canvas import HEIGHT, MEANT, SUITE, TASK, WIDTH, Door, Point, landed, pressed_pool
from tests.training.test_proxy import TOKEN, opened
from training.proxy.server import serving
from training.proxy.upstream import ServerUpstream
from training.rollout.outside import _Screen

SHOW = ObserveSpec(frame="png")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with pressed_pool(tmp_path_factory.mktemp("pool")) as endpoint:
        yield endpoint


def by_sdk(pool: Endpoint, at: Point) -> None:
    with guiagent.connect(pool.url, pool.token) as farm, farm.lease("sim") as device:
        device.click(*at)


async def by_async_sdk(pool: Endpoint, at: Point) -> None:
    async with FarmClient(pool.url, pool.token) as client, client.lease("sim") as device:
        await device.act([Click(x=at[0], y=at[1])], SHOW)


def by_pyautogui(pool: Endpoint, at: Point) -> None:
    with guiagent.connect(pool.url, pool.token) as farm, farm.lease("sim") as device:
        device.pyautogui.click(*at)


async def by_http(pool: Endpoint, at: Point) -> None:
    headers = {"Authorization": f"Bearer {pool.token}"}
    async with httpx.AsyncClient(base_url=pool.url, headers=headers) as http:
        leased = (await http.post(wire.LEASES, json={"kind": "sim"})).raise_for_status().json()
        lease = leased["leases"][0]
        step = {"token": lease["token"], "key": "k", "actions": [{"type": "click", "x": at[0], "y": at[1]}]}
        (await http.post(f"{wire.LEASES}/{lease['id']}/step", json=step)).raise_for_status()
        await http.delete(f"{wire.LEASES}/{lease['id']}")


async def by_mcp(pool: Endpoint, at: Point) -> None:
    async with Client(server_of(FarmClient(pool.url, pool.token), Settings())) as client:
        (leased, *_) = (await client.call_tool("lease", {"kind": "sim"})).content
        assert isinstance(leased, TextContent)
        device = json.loads(leased.text)["device"]
        await client.call_tool("screenshot", {"device": device})
        await client.call_tool("click", {"device": device, "x": at[0], "y": at[1]})
        await client.call_tool("release", {"device": device})


def by_gymnasium(pool: Endpoint, at: Point) -> None:
    env = gymnasium.make(f"{eval.gym.__name__}:guiagent/Task-v0", suite=SUITE, task=TASK, pool=pool.url)
    env.reset(seed=1)
    share = np.array([at[0] / WIDTH, at[1] / HEIGHT], np.float32)
    env.step({"word": WORDS.index("click"), "at": share, "to": share, "text": ""})
    env.close()


async def by_openenv(pool: Endpoint, at: Point) -> None:
    async with FarmClient(pool.url, pool.token) as client:
        sessions = openenv.Sessions(SuiteTasks(SUITE), client, 1, None, 60)
        transport = httpx.ASGITransport(openenv.application(sessions))
        async with httpx.AsyncClient(transport=transport, base_url="http://openenv") as http:
            begun = (await http.post("/reset", json={"task": TASK, "seed": 1})).raise_for_status().json()
            episode = begun["observation"]["metadata"]["episode_id"]
            step = {"episode_id": episode, "action": {"type": "click", "x": at[0], "y": at[1]}}
            (await http.post("/step", json=step)).raise_for_status()
        await sessions.close()


async def by_proxy(pool: Endpoint, at: Point) -> None:
    upstream = ServerUpstream("http://127.0.0.1:1")
    proxy = opened(upstream)
    async with (
        FarmClient(pool.url, pool.token) as client,
        client.lease("sim") as device,
        serving(proxy) as url,
        httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
    ):
        base = f"{url}/s/one/v1"
        await http.get(f"{base}/models")
        task, shown = LampTask(), await device.observe(SHOW)
        proxy.screens["one"] = _Screen(task, device, proxy.sessions["one"], SHOW, shown)
        click = [{"type": "click", "x": at[0], "y": at[1]}]
        (await http.post(f"{base}/device/act", json=click)).raise_for_status()
    await upstream.close()


DOORS: list[Door] = [
    by_sdk, by_async_sdk, by_pyautogui, by_http, by_mcp, by_gymnasium, by_openenv, by_proxy
]  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_a_click_lands_where_it_was_meant(pool: Endpoint, door: Door) -> None:
    assert landed(pool, door) == MEANT
