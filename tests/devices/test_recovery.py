"""Killing things: the pool's process, and real browsers under a lease and without one."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from devices.api.server import Running, running
from devices.config import BrowserConfig, PoolConfig
from guiagent.actions import Click
from guiagent.client import FarmClient
from guiagent.errors import FaultError, LeaseError
from guiagent.types import ObserveSpec, ResetSpec
from tests.support.canvas_device import DRIVERS, TOKEN, farm_of

COUNT = ObserveSpec(frame="none", probes={"clicks": "how many"})
SCRIPT = Path(__file__).parents[1] / "support" / "canvas_device.py"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


class Farm:
    """A pool in a process of its own, which can be killed."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.folder = folder
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, SCRIPT, self.folder, str(self.port), "2"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={"PYTHONPATH": "."})
        give_up = time.monotonic() + 30
        while not (self.folder / "endpoint.json").exists():
            assert self.process.poll() is None and time.monotonic() < give_up
            time.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        (self.folder / "endpoint.json").unlink()  # so that `start` can wait for the next one


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Farm]:
    farm = Farm(tmp_path / "state")
    yield farm
    farm.process.terminate()
    assert farm.process.wait(20) == 0


async def test_kill_9_keeps_leases_and_tokens(process: Farm) -> None:
    async with FarmClient(process.url, TOKEN) as client:
        device = await client.lease("sim", ttl=30.0, grants=("exec",))
        await device.act([Click(x=1, y=1)], COUNT)
        process.kill()
        stepping = asyncio.create_task(device.act([Click(x=1, y=1)], COUNT))  # finds nobody, and tries again
        await asyncio.to_thread(process.start)
        with pytest.raises(FaultError) as lost:  # the screen it knew is gone: no click on a blank one
            await stepping
        assert (lost.value.fault.code, lost.value.fault.retryable) == ("restarted", True)
        assert (await device.reset(0, ResetSpec(), COUNT)).probes == {"clicks": 0}
        assert (await device.act([Click(x=1, y=1)], COUNT)).probes == {"clicks": 1}
        other = await client.lease("sim", grants=("exec",))
        assert other.id != device.id
        await device.close()
        heir = await client.lease("sim")
        assert heir.id == device.id
        assert heir.token > device.token


async def test_a_farm_that_comes_back_smaller_says_which_device_is_gone(tmp_path: Path) -> None:
    port = free_port()
    client = FarmClient(f"http://127.0.0.1:{port}", TOKEN)
    async with running(farm_of(2, tmp_path, port), DRIVERS):
        first, second = await client.lease("sim"), await client.lease("sim")
    async with running(farm_of(1, tmp_path, port), DRIVERS) as farm:
        with pytest.raises(LeaseError, match="this farm no longer has sim-1"):
            await second.observe(ObserveSpec())
        with pytest.raises(FaultError, match="the farm was restarted"):
            await first.observe(ObserveSpec())
        assert farm.service.hosts["local"].records["sim-0"].fence == first.token  # the host remembers, too
        await client.close()


def test_the_way_in_is_private_and_gone_after_a_stop(tmp_path: Path) -> None:
    farm = Farm(tmp_path / "state")
    path, page = farm.folder / "endpoint.json", farm.folder / "live.html"
    assert {file.stat().st_mode & 0o077 for file in (path, page)} == {0}
    known = {"url": farm.url, "token": TOKEN, "pid": farm.process.pid, "page": page.as_uri()}
    assert json.loads(path.read_bytes()) == known
    farm.process.send_signal(signal.SIGINT)
    assert farm.process.wait(20) == 0
    assert not path.exists() and not page.exists()


# -- real browsers -------------------------------------------------------------------------------------------


@pytest.fixture
async def browsers(tmp_path: Path) -> AsyncIterator[Running]:
    devices = [BrowserConfig(count=2, width=320, height=240)]
    async with running(PoolConfig(state_dir=tmp_path, port=0, token=TOKEN, devices=devices)) as farm:
        yield farm


def browser_pids() -> set[int]:
    children = psutil.Process().children(recursive=True)
    return {one.pid for one in children if one.is_running() and one.status() != psutil.STATUS_ZOMBIE}


@pytest.mark.browser
async def test_a_killed_browser_is_a_fault_and_is_replaced(browsers: Running) -> None:
    script = "document.body.innerHTML = '<h1>' + SEED + '</h1>'"
    text = ObserveSpec(probes={"text": "document.body.innerText"})
    async with FarmClient(browsers.endpoint.url, TOKEN) as client:
        async with asyncio.timeout(60):  # one that is killed while it starts is started again by its driver
            while any(one.state != "ready" for one in browsers.service.views.farm().devices):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        device = await client.lease("browser", grants=("exec",))
        shown = await device.reset(42, ResetSpec(script=script), text)
        assert shown.probes == {"text": "42"}
        assert shown.frame.startswith(b"\xff\xd8")
        for pid in browser_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with pytest.raises(FaultError) as killed:
            await device.observe(text)
        assert killed.value.fault.origin == "device"
        assert killed.value.fault.retryable
        async with asyncio.timeout(60):
            while any(one.generation < 2 for one in browsers.service.views.farm().devices):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        for heir in await client.lease_group("browser", 2, grants=("exec",)):  # the idle one died as well
            assert (await heir.reset(7, ResetSpec(script=script), text)).probes == {"text": "7"}


@pytest.mark.browser
async def test_nothing_of_a_holder_is_left_for_the_next(browsers: Running) -> None:
    write = ResetSpec(
        "miniwob:click-test", "localStorage.setItem('canary', '1'); document.cookie = 'canary=1'"
    )
    canary = ObserveSpec(probes={"canary": "localStorage.getItem('canary')", "cookie": "document.cookie"})
    async with FarmClient(browsers.endpoint.url, TOKEN) as client:
        for device in await client.lease_group("browser", 2, grants=("exec",)):
            await device.reset(0, write, canary)
            await device.close()
        for device in await client.lease_group("browser", 2, grants=("exec",)):
            seen = await device.reset(0, ResetSpec("miniwob:click-test"), canary)
            assert seen.probes == {"canary": None, "cookie": ""}


@pytest.mark.browser
async def test_no_browser_outlives_its_farm(tmp_path: Path) -> None:
    before = browser_pids()
    devices = [BrowserConfig(count=2, width=320, height=240)]
    async with running(PoolConfig(state_dir=tmp_path, port=0, token=TOKEN, devices=devices)) as farm:
        await farm.service.settled()
        assert len(browser_pids() - before) >= 2
    assert browser_pids() - before == set()
