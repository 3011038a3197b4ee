"""The same click through every door that needs no package of others lands on the same pixel of the device."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, ClassVar

import gymnasium
import httpx
import numpy as np
import pytest
from mcp import Client
from mcp_types import TextContent

import eval.gym
import guiagent
from devices.config import SimConfig
from devices.drivers import Driver
from eval.doors import openenv
from eval.gym.spaces import WORDS
from eval.stepping import SuiteTasks
from eval.suites import SUITES
from eval.suites.suite import Suite
from guiagent import wire
from guiagent.actions import Action, Click
from guiagent.client import FarmClient
from guiagent.mcp.server import Settings, server_of
from guiagent.types import Observation, ObserveSpec
from guiagent.wire import Endpoint
from rewards.catalogue import TASKSETS
from tests.support.canvas_device import CanvasDevice, farm_of
from tests.support.lamp import LampTask
from tests.support.pool_thread import pool_thread
from tests.training.test_proxy import TOKEN, opened
from training.proxy.server import serving
from training.proxy.upstream import ServerUpstream
from training.rollout.outside import _Screen

Point = tuple[int, int]
WIDTH, HEIGHT = 160, 120
SHOW = ObserveSpec(frame="png")


class Pressed(CanvasDevice):
    """A canvas that notes the pixels it is clicked at, whoever holds it."""

    places: ClassVar[list[Point]] = []

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        Pressed.places += [(one.x, one.y) for one in actions if isinstance(one, Click)]
        return await super().act(actions, spec)


class Pressing:
    names = ("lamp",)

    def __init__(self, oracle: bool = False) -> None:
        pass

    def task(self, name: str, seed: int) -> LampTask:
        return LampTask(name, seed)


async def start(config: SimConfig) -> Pressed:
    return Pressed(config.width, config.height)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    config = farm_of(1, tmp_path_factory.mktemp("pool"))
    with pool_thread(config, {"sim": Driver(start)}) as endpoint, pytest.MonkeyPatch.context() as patched:
        suite = Suite("pressing", "pressing", ("lamp",), (), 1, "sim", screen=(WIDTH, HEIGHT))
        patched.setenv("GUIAGENT_TOKEN", endpoint.token)
        patched.setitem(SUITES, "pressing", suite)
        patched.setitem(TASKSETS, "pressing", Pressing)
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
    env = gymnasium.make(
        f"{eval.gym.__name__}:guiagent/Task-v0", suite="pressing", task="lamp", pool=pool.url
    )
    env.reset(seed=1)
    share = np.array([at[0] / WIDTH, at[1] / HEIGHT], np.float32)
    env.step({"word": WORDS.index("click"), "at": share, "to": share, "text": ""})
    env.close()


async def by_openenv(pool: Endpoint, at: Point) -> None:
    async with FarmClient(pool.url, pool.token) as client:
        sessions = openenv.Sessions(SuiteTasks("pressing"), client, 1, None, 60)
        transport = httpx.ASGITransport(openenv.application(sessions))
        async with httpx.AsyncClient(transport=transport, base_url="http://openenv") as http:
            begun = (await http.post("/reset", json={"task": "lamp", "seed": 1})).raise_for_status().json()
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


DOORS: list[Callable[[Endpoint, Point], Awaitable[None] | None]] = [
    by_sdk, by_async_sdk, by_pyautogui, by_http, by_mcp, by_gymnasium, by_openenv, by_proxy
]  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_a_click_lands_where_it_was_meant(pool: Endpoint, door: Any) -> None:
    meant = [(0, 0), (47, 31), (133, 17), (159, 119)]
    Pressed.places.clear()
    for at in meant:
        if (made := door(pool, at)) is not None:
            asyncio.run(made)
    assert Pressed.places == meant
