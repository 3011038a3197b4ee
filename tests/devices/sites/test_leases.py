"""A lease that needs a site gets a browser that has it, reads it with the grant, and leaves nothing."""

import sqlite3
from pathlib import Path

import pytest

from devices.api.server import running
from devices.config import BrowserConfig, PoolConfig
from devices.drivers import DRIVERS
from guiagent.actions import Open
from guiagent.client import FarmClient
from guiagent.errors import UsageError
from guiagent.types import ObserveSpec, ResetSpec
from tests.support.standin_site import NAME, installed

pytestmark = pytest.mark.browser

PAGE = ObserveSpec(frame="none", page=True)


async def test_a_site_is_leased_with_its_browser_and_fresh_for_the_next_holder(tmp_path: Path) -> None:
    config = BrowserConfig(width=320, height=240, sites=[NAME])
    with installed(tmp_path / "home"):
        async with (
            running(PoolConfig(state_dir=tmp_path, port=0, devices=[config]), DRIVERS) as pool,
            FarmClient(pool.endpoint.url, pool.endpoint.token) as farm,
        ):
            for _ in range(2):  # the second holder finds the seeded rows alone
                async with await farm.lease(needs=[f"site:{NAME}"], grants=["sites"]) as device:
                    shown = await device.reset(0, ResetSpec("http://standin.test/"), PAGE)
                    assert shown.title == "1 rows for standin.test"
                    await device.exec([f"site:{NAME}", "touch", "pages/mine.txt"])
                    await device.act([Open(target="http://standin.test/add?word=mine")], PAGE)
                    database = sqlite3.connect(":memory:")
                    database.deserialize(await device.get(f"site:{NAME}/rows.db"))
                    assert database.execute("SELECT count(*) FROM rows").fetchone() == (2,)
            async with await farm.lease(needs=[f"site:{NAME}"]) as device:
                with pytest.raises(UsageError, match=r'grants=\["sites"\]'):
                    await device.get(f"site:{NAME}/rows.db")
            with pytest.raises(UsageError, match="site:other"):
                await farm.lease(needs=["site:other"], wait=0)
