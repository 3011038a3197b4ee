"""A page, another lease, another local user and the site itself want what is of a site, or of its host.

A site's sandbox has no network but its own loopback, and nothing listens for it but a unix socket in a
private folder, so there is no port to find.
"""

import asyncio
import io
import os
import socket
import stat
import subprocess
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from devices.config import BrowserConfig
from devices.drivers import browser
from devices.drivers.browser.device import BrowserDevice
from devices.drivers.browser.with_sites import BrowserWithSites
from devices.sites import instance
from guiagent.actions import Open
from guiagent.types import ObserveSpec, ResetSpec
from tests.devices.test_egress import listening
from tests.support.standin_site import NAME, installed

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

PAGE = ObserveSpec(frame="none", page=True)
HERE = "http://standin.test"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def devices(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[list[BrowserWithSites]]:
    with installed(tmp_path_factory.mktemp("sites")):
        started = []
        for _ in range(2):
            one = await browser.start(BrowserConfig(width=320, height=240, sites=[NAME]))
            assert isinstance(one, BrowserWithSites)
            started.append(one)
        yield started
        for one in started:
            await one.close()


async def title(device: BrowserWithSites, path: str) -> str:
    return (await device.act([Open(target=f"{HERE}{path}")], PAGE)).title or ""


async def test_another_leases_browser_has_a_site_of_its_own(devices: list[BrowserWithSites]) -> None:
    mine, anothers = devices
    for device in devices:
        await device.reset(0, ResetSpec(), PAGE)
    assert await title(mine, "/add?word=secret") == "added"
    assert await title(anothers, "/") == "1 rows for standin.test"
    assert b"secret" not in await anothers.get(f"site:{NAME}/rows.db")


async def test_a_browser_without_the_site_is_refused(devices: list[BrowserWithSites]) -> None:
    plain = await browser.start(BrowserConfig(width=320, height=240))
    try:
        assert isinstance(plain, BrowserDevice)
        await plain.allow(["10.0.0.0/8"])
        for target in (f"{HERE}/", "http://STANDIN.test./", f"http://{NAME}.test:80/"):
            shown = await plain.act([Open(target=target)], PAGE)
            assert "not among what this lease may reach" in (shown.action_error or "")
    finally:
        await plain.close()


async def test_a_site_is_not_served_at_another_port(devices: list[BrowserWithSites]) -> None:
    for target in (f"{HERE}:8000/", f"{HERE}:8080/", "https://standin.test/"):
        shown = await devices[0].act([Open(target=target)], PAGE)
        assert "not among what this lease may reach" in (shown.action_error or ""), target


async def test_no_port_listens_on_the_host(devices: list[BrowserWithSites]) -> None:
    assert await title(devices[0], "/") != ""
    for port in (80, 8000):
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0


async def test_another_local_user_cannot_connect(devices: list[BrowserWithSites]) -> None:
    folders = [folder for folder in instance.owned.folders(instance.KIND) if str(os.getpid()) in folder.name]
    assert folders
    for folder in folders:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        if os.geteuid() != 0:
            continue
        program = f"import socket; socket.socket(socket.AF_UNIX).connect('{folder}/web')"
        tried = await asyncio.to_thread(
            subprocess.run,
            ["setpriv", "--reuid", "65534", "--clear-groups", "/usr/bin/python3", "-c", program],
            capture_output=True,
            text=True,
        )
        assert "Permission denied" in tried.stderr


async def test_the_site_reaches_nothing_of_the_host(devices: list[BrowserWithSites]) -> None:
    device = devices[0]
    await device.reset(0, ResetSpec(), PAGE)
    async with listening() as listener:
        for host in ("127.0.0.1", "localhost", "[::1]"):
            said = await title(device, f"/fetch?url=http://{host}:{listener.port}/")
            assert said.startswith("no:"), said
        assert listener.connections == 0
    assert (await title(device, "/fetch?url=http://192.0.2.1/")).startswith("no:")


async def test_the_site_reads_no_files_of_the_host(devices: list[BrowserWithSites], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    secret.chmod(0o644)
    for path in (secret, Path("/etc/shadow"), Path("/etc/hostname"), Path.home() / ".bashrc"):
        assert (await title(devices[0], f"/read?path={path}")).startswith("no:"), path
    assert "root:x" in await title(devices[0], "/read?path=/etc/passwd")  # the sandbox's own


async def test_a_link_in_the_place_of_a_folder_leads_no_check_to_the_host(
    devices: list[BrowserWithSites], tmp_path: Path
) -> None:
    device = devices[0]
    await device.reset(0, ResetSpec(), PAGE)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/secret.txt").write_text("of the host")
    linked = await device.exec([f"site:{NAME}", "sh", "-c", f"mv pages was; ln -s {tmp_path} pages"], 5)
    assert linked.code == 0
    for path in ("pages/", "pages/deep/"):
        with zipfile.ZipFile(io.BytesIO(await device.get(f"site:{NAME}/{path}"))) as archive:
            assert archive.namelist() == []


async def test_a_page_reads_no_files_through_the_site(devices: list[BrowserWithSites]) -> None:
    await title(devices[0], "/")
    shown = await devices[0].act([Open(target="file:///data/private.txt")], PAGE)
    assert "refused to open" in (shown.action_error or "")


async def test_a_site_that_writes_without_end_fills_its_own_disk(devices: list[BrowserWithSites]) -> None:
    device = devices[0]
    await device.reset(0, ResetSpec(), PAGE)
    fill = "for i in 1 2 3; do dd if=/dev/zero of=fill$i bs=1M count=255; done"
    done = await device.exec([f"site:{NAME}", "sh", "-c", fill], 60)
    assert "No space left on device" in done.stderr
    await device.reset(0, ResetSpec(), PAGE)
    assert await title(device, "/") == "1 rows for standin.test"
