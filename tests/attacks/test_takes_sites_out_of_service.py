"""A tenant that may run programs in a site wants devices quarantined, or a pool that reads without end."""

import asyncio
from pathlib import Path

import pytest

from devices.api.server import running
from devices.config import BrowserConfig, PoolConfig
from devices.drivers import DRIVERS
from devices.sites.image import image
from devices.sites.instance import Instance
from guiagent.client import FarmClient
from guiagent.errors import FaultError
from tests.support.standin_site import NAME, installed

pytestmark = pytest.mark.browser

SITE = f"site:{NAME}"


async def test_programs_that_no_keeper_can_start_or_hear_are_answered(tmp_path: Path) -> None:
    with installed(tmp_path) as site:
        async with await Instance.start(site, await image(site)) as instance:
            assert (await instance.exec(["a\0b"], 5)).code == 127
            silent = ["sh", "-c", "exec >/dev/null 2>&1; sleep 60"]
            assert (await instance.exec(silent, 0.2)).code == 124


async def test_a_site_that_is_killed_by_its_holder_is_no_failure_of_the_device(tmp_path: Path) -> None:
    config = BrowserConfig(width=320, height=240, sites=[NAME])
    with installed(tmp_path / "home"):
        async with (
            running(PoolConfig(state_dir=tmp_path, port=0, devices=[config]), DRIVERS) as pool,
            FarmClient(pool.endpoint.url, pool.endpoint.token) as farm,
        ):
            for _ in range(4):  # one more than failures in a row that lead to quarantine
                async with await farm.lease(needs=[SITE], grants=["sites"], wait=60) as device:
                    with pytest.raises(FaultError, match="site"):
                        while True:  # the death may be seen a moment later
                            await device.exec([SITE, "sh", "-c", "kill -9 $(ls /proc | grep '^[0-9]')"])
                            await asyncio.sleep(0.01)
            async with await farm.lease(needs=[SITE], wait=60):
                (shown,) = (await farm.devices()).devices
                assert not shown.probation


async def test_a_log_without_end_is_not_read_whole(tmp_path: Path) -> None:
    with installed(tmp_path) as site:
        async with await Instance.start(site, await image(site)) as instance:
            log = instance._folder / "log"
            with log.open("r+b") as file:
                file.truncate(1 << 40)  # more than any memory holds
                file.seek(0, 2)
                file.write(b"\nthe last words\n")
            assert "the last words" in str(instance.died())
