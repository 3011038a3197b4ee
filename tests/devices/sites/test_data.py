"""The site `data`: Datasette serves, takes what a form writes, and is read where it keeps it."""

import sqlite3

import pytest

from devices.config import BrowserConfig
from devices.drivers import browser
from devices.sites.site import is_installed
from guiagent.types import ObserveSpec, ResetSpec

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not is_installed("data"), reason="the site data is not installed: scripts/sites data"),
]
PAGE = ObserveSpec(frame="none", page=True, probes={"text": "document.body.innerText"})
_FORM = "http://data.test/counters/report_fault?counter=2&fault=odd&reported=2026-03-01"


async def test_a_form_writes_to_the_database() -> None:
    device = await browser.start(BrowserConfig(sites=["data"]))
    try:
        shown = await device.reset(0, ResetSpec("http://data.test/"), PAGE)
        assert shown.title == "Bicycle counters: counters"
        send = "document.querySelector('form.sql').submit()"
        await device.reset(0, ResetSpec(_FORM, script=send), PAGE)
        shown = await device.observe(PAGE)
        assert "The fault is reported" in shown.probes["text"]
        database = sqlite3.connect(":memory:")
        database.deserialize(await device.get("site:data/counters.db"))  # type: ignore[union-attr]
        rows = database.execute("SELECT counter, fault FROM repairs WHERE reported = '2026-03-01'").fetchall()
        assert rows == [(2, "odd")]
    finally:
        await device.close()
