"""A site is reached by its lease's browser alone, read as of one moment, and fresh after every reset."""

import asyncio
import io
import os
import select
import signal
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from devices.config import BrowserConfig
from devices.drivers import browser
from devices.drivers.browser.with_sites import BrowserWithSites
from devices.hosts.grants import NotGranted, require
from devices.leases import Lease
from devices.sites import image as images
from devices.sites import instance
from devices.sites.image import image
from devices.sites.instance import Instance
from devices.sites.site import Program, Site
from devices.specs import parse
from guiagent.actions import Open
from guiagent.errors import FaultError, MissingProgram, UsageError
from guiagent.protocols import Files, Shell
from guiagent.types import Observation, ObserveSpec, ResetSpec
from guiagent.wire import ExecRequest, GetRequest, PutRequest
from tests.support.standin_site import NAME, installed

pytestmark = pytest.mark.browser
looped = pytest.mark.asyncio(loop_scope="module")

PAGE = ObserveSpec(frame="none", page=True)
HERE = "http://standin.test"
DATABASE = f"site:{NAME}/rows.db"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[BrowserWithSites]:
    with installed(tmp_path_factory.mktemp("sites")):
        started = await browser.start(BrowserConfig(width=320, height=240, sites=[NAME]))
        assert isinstance(started, BrowserWithSites)
        yield started
        await started.close()


async def visit(device: BrowserWithSites, path: str) -> Observation:
    return await device.act([Open(target=f"{HERE}{path}")], PAGE)


def words(database: bytes) -> list[str]:
    opened = sqlite3.connect(":memory:")
    opened.deserialize(database)
    return [word for (word,) in opened.execute("SELECT word FROM rows ORDER BY word")]


@looped
async def test_says_which_sites_it_has(device: BrowserWithSites) -> None:
    features = (await device.describe()).features
    assert {"sites", "site:standin"} <= set(features)
    assert isinstance(device, Shell) and isinstance(device, Files)


@looped
async def test_a_reset_opens_the_site_by_its_name_and_brings_a_fresh_one(device: BrowserWithSites) -> None:
    blank = await device.reset(0, ResetSpec(), PAGE)
    before = await device.attest()
    shown = await device.reset(0, ResetSpec(f"{HERE}/"), PAGE)
    assert (shown.title, blank.url) == ("1 rows for standin.test", "about:blank")
    assert (await visit(device, "/add?word=mine")).title == "added"
    assert words(await device.get(DATABASE)) == ["mine", "seeded"]
    assert await device.attest() != before
    shown = await device.reset(1, ResetSpec(f"{HERE}/"), PAGE)
    assert shown.title == "1 rows for standin.test"
    assert words(await device.get(DATABASE)) == ["seeded"]
    await device.reset(0, ResetSpec(), PAGE)
    assert await device.attest() == before


@looped
async def test_a_site_that_nothing_was_done_with_is_kept(device: BrowserWithSites) -> None:
    await device.reset(0, ResetSpec(), PAGE)
    before = await device.exec(["site:standin", "cat", "/proc/sys/kernel/random/boot_id"], 10)
    await device.reset(0, ResetSpec(), PAGE)
    place = device._sites._places[NAME]
    kept = place.current
    await device.reset(0, ResetSpec(), PAGE)
    assert place.current is kept
    await device.put("site:standin/pages/new.txt", b"x")
    await device.reset(0, ResetSpec(), PAGE)
    assert place.current is not kept and before.code == 0


@looped
async def test_a_page_of_before_the_reset_does_not_touch_the_fresh_site(device: BrowserWithSites) -> None:
    await device.reset(0, ResetSpec(f"{HERE}/"), PAGE)
    busy = "setInterval(() => fetch('/add?word=late'), 1)"
    for _ in range(3):
        spec = ResetSpec(f"{HERE}/", script=busy)
        await device.reset(0, spec, PAGE)
        await device.reset(0, ResetSpec(), PAGE)
        assert device._sites.untouched
        assert words(await device.get(DATABASE)) == ["seeded"]


@looped
async def test_a_database_is_read_as_of_one_moment(device: BrowserWithSites) -> None:
    await device.reset(0, ResetSpec(), PAGE)
    await visit(device, "/add?word=whole")
    await visit(device, "/half?word=half")
    read = await device.get(DATABASE)
    assert words(read) == ["seeded", "whole"]
    assert read[18:20] == b"\1\1"  # opens from memory, without a journal beside it
    assert (await visit(device, "/")).title == "2 rows for standin.test"  # and the site runs on


@looped
async def test_a_task_fills_a_site_and_a_check_reads_its_files(device: BrowserWithSites) -> None:
    await device.reset(0, ResetSpec(), PAGE)
    script = "import sqlite3; d = sqlite3.connect('rows.db'); d.execute('DELETE FROM rows'); d.commit()"
    done = await device.exec(["site:standin", "python3", "-c", f"{script}; print('ok')"], 20)
    assert (done.code, done.stdout) == (0, "ok\n"), done.stderr
    await device.put("site:standin/pages/deep/new.txt", b"put")
    with zipfile.ZipFile(io.BytesIO(await device.get("site:standin/pages/"))) as pages:
        assert {name: pages.read(name) for name in pages.namelist()} == {
            "deep/new.txt": b"put",
            "start.txt": b"welcome",
        }
    assert await device.get("site:standin/pages/start.txt") == b"welcome"
    assert (await visit(device, "/")).title == "0 rows for standin.test"
    failed = await device.exec(["site:standin", "python3", "-c", "import sys; sys.exit(5)"], 10)
    assert failed.code == 5
    late = await device.exec(["site:standin", "sleep", "9"], 0.2)
    assert late.code == 124


@looped
@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("site:standin/private.txt", "bad_path"),
        ("site:standin/pages/../private.txt", "bad_path"),
        ("site:standin/pages/none.txt", "missing_file"),
        ("site:standin/pages/link.txt", "missing_file"),
        ("site:other/rows.db", "missing_site"),
    ],
)
async def test_what_is_not_for_checks_is_refused(device: BrowserWithSites, address: str, code: str) -> None:
    await device.reset(0, ResetSpec(), PAGE)
    await visit(device, "/link?to=/etc/passwd")
    with pytest.raises(FaultError) as refused:
        await device.get(address)
    assert (refused.value.fault.origin, refused.value.fault.code) == ("task", code)
    with zipfile.ZipFile(io.BytesIO(await device.get("site:standin/pages/"))) as pages:
        assert pages.namelist() == ["start.txt"]


@looped
async def test_files_are_written_below_the_data_folder_only(device: BrowserWithSites) -> None:
    with pytest.raises(FaultError, match="no path below"):
        await device.put("site:standin/../x", b"")
    with pytest.raises(UsageError, match="site:NAME"):
        await device.exec(["site:standin"], 1)
    with pytest.raises(UsageError, match="runs no programs"):
        await device.exec(["true"], 1)


@looped
async def test_a_site_that_dies_is_a_fault_of_the_device_and_comes_back(device: BrowserWithSites) -> None:
    await device.reset(0, ResetSpec(f"{HERE}/"), PAGE)
    with pytest.raises(FaultError) as died:
        await visit(device, "/die")
        await device.observe(PAGE)  # its end may be noticed after the page's
        await asyncio.wait_for(device._sites._places[NAME].current.result()._process.wait(), 10)
        await device.observe(PAGE)
    assert (died.value.fault.origin, died.value.fault.code) == ("device", "site_died")
    assert died.value.fault.retryable and "had enough" in died.value.fault.message
    assert (await device.reset(0, ResetSpec(f"{HERE}/"), PAGE)).title == "1 rows for standin.test"


def test_a_lease_needs_the_grant_for_a_sites_files_and_programs() -> None:
    def lease(*grants: str) -> Lease:
        return Lease("id", "browser-0", 1, 60.0, frozenset(grants), "", "")

    wishes = (
        GetRequest(1, "site:standin/rows.db"),
        PutRequest(1, "site:standin/x", b""),
        ExecRequest(1, "key", ["site:standin", "true"]),
    )
    for wish in wishes:
        require(lease("sites"), wish)
        with pytest.raises(NotGranted, match="sites"):
            require(lease("files", "shell", "exec"), wish)
    with pytest.raises(NotGranted, match="shell"):
        require(lease("sites"), ExecRequest(1, "key", ["true"]))


def test_sites_are_named_on_the_command_line() -> None:
    (config,) = parse(["browser=2,sites=tracker+wiki"])
    assert isinstance(config, BrowserConfig) and (config.count, config.sites) == (2, ["tracker", "wiki"])
    with pytest.raises(UsageError, match="sites"):
        parse(["desktop,sites=wiki"])


@looped
async def test_what_is_not_there_is_said_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no site 'nowhere'"):
        await browser.start(BrowserConfig(sites=["nowhere"]))
    with installed(tmp_path) as site:
        (tmp_path / "sites" / NAME / "installed").unlink()
        with pytest.raises(MissingProgram, match="scripts/sites standin"):
            await image(site)


@looped
async def test_a_site_is_seeded_once_for_each_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    make = images._make

    async def counted(site: Site, place: Path) -> None:
        made.append(place)
        await make(site, place)

    monkeypatch.setattr(images, "_make", counted)
    with installed(tmp_path) as site:
        first, second = await image(site), await image(site)
        assert made == [first] == [second]
        assert {place.name for place in first.iterdir()} >= {"rows.db", "pages", "private.txt"}
        (tmp_path / "sites" / NAME / "installed").write_text("2")
        assert await image(site) != first


@looped
async def test_a_seed_program_that_fails_leaves_no_image(tmp_path: Path) -> None:
    with installed(tmp_path) as site:
        command = ("/usr/bin/python3", "-c", "raise SystemExit('no rows today')")
        broken = Site(NAME, "broken", lambda _: Program(command), site.command)
        with pytest.raises(FaultError, match="no rows today"):
            await image(broken)
        assert not list((tmp_path / "state/sites").glob(f"{NAME}-*"))


@looped
async def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with installed(tmp_path) as site:
        command = ("/usr/bin/python3", "-c", "raise SystemExit('port of call')")
        broken = Site(NAME, "broken", site.seed, lambda *_: Program(command))
        with pytest.raises(FaultError, match="port of call"):
            await Instance.start(broken, await image(site))


def test_a_killed_owners_site_ends_and_is_swept(tmp_path: Path) -> None:
    program = (
        "import asyncio\nfrom tests.support.standin_site import STANDIN\n"
        "from devices.sites.image import image\nfrom devices.sites.instance import Instance\n"
        "async def main():\n    one = await Instance.start(STANDIN, await image(STANDIN))\n"
        "    print(one.pid, one._folder, flush=True)\n    await asyncio.sleep(600)\nasyncio.run(main())"
    )
    with installed(tmp_path):
        owner = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        assert owner.stdout is not None
        with owner.stdout:
            pid, folder = owner.stdout.readline().split()
        outer = os.pidfd_open(int(pid))
        try:
            owner.send_signal(signal.SIGKILL)
            owner.wait()
            assert Path(folder).is_dir()
            instance.sweep()
            assert not Path(folder).exists()
            ready, _, _ = select.select([outer], [], [], 10)
            assert ready  # it has ended
        finally:
            os.close(outer)
