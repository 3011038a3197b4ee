"""Files of a real browser: what is put on the device, what pages are given, and what they send."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from devices.drivers.browser import files as driver_files
from devices.drivers.browser.device import BrowserDevice
from devices.drivers.browser.files import Home
from guiagent.actions import Click, KeyChord, Open, Type
from guiagent.errors import FaultError
from guiagent.protocols import Files
from guiagent.types import ResetSpec
from tests.support.browser_pages import BLIND, FULL, MODES, PAYLOAD, PNG, act, ask, document, running, serving

pytestmark = pytest.mark.browser
in_module = pytest.mark.asyncio(loop_scope="module")
CHOOSER = """<style>input { position:absolute; left:0; top:0; width:200px; height:100px }</style>
<input type=file MULTIPLE onchange="given = Promise.all([...this.files].map(async file =>
  [file.name, await file.text()]))">
<input type=text id=field style="top:150px">"""
ONE, MANY = document(CHOOSER.replace("MULTIPLE", "")), document(CHOOSER)
DOWNLOADED = "/home/user/Downloads/it.bin"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["frames", "shell", FULL])
async def device(request: pytest.FixtureRequest) -> AsyncIterator[BrowserDevice]:
    async with running(**MODES[request.param]) as started:
        yield started


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with serving() as url:
        yield url


@in_module
async def test_a_page_is_given_the_file_whose_path_is_typed(device: BrowserDevice) -> None:
    assert isinstance(device, Files)
    await device.reset(0, ONE, PNG)
    await device.put("/home/user/cv.txt", b"Ada")
    asked = await act(device, Click(x=50, y=50))
    assert asked.action_error == "the page asks for a file: type the path of one, such as /home/user/NAME"
    assert (await act(device, Type(text="/home/user/cv.txt"))).action_error is None
    assert await device._page.run("given") == [["cv.txt", "Ada"]]


@in_module
async def test_a_page_may_ask_for_several_files(device: BrowserDevice) -> None:
    await device.reset(0, MANY, PNG)
    await device.put("/home/user/a.txt", b"1")
    await device.put("/home/user/deep/er/b.txt", b"2")
    typed = Type(text="/home/user/a.txt\n/home/user/deep/er/b.txt\n")
    assert (await act(device, Click(x=50, y=50), typed)).action_error is None
    assert await device._page.run("given") == [["a.txt", "1"], ["b.txt", "2"]]
    await device.reset(0, ONE, PNG)
    await device.put("/home/user/a.txt", b"1")
    refused = await act(device, Click(x=50, y=50), Type(text="/home/user/a.txt\n/home/user/a.txt"))
    assert refused.action_error == "the page asks for one file: type its path"


@in_module
async def test_no_other_file_can_be_given_and_one_can_try_again(device: BrowserDevice) -> None:
    await device.reset(0, ONE, PNG)
    await device.put("/home/user/cv.txt", b"Ada")
    await act(device, Click(x=50, y=50))
    for path in ("/home/user/none.txt", "/etc/passwd", "/home/user/../../etc/passwd", "cv.txt"):
        refused = await act(device, Type(text=path))
        assert "no file" in (refused.action_error or "")
    await act(device, Type(text="/home/user/cv.txt"))
    assert await device._page.run("given") == [["cv.txt", "Ada"]]


@in_module
async def test_a_question_for_files_is_left_by_doing_something_else(device: BrowserDevice) -> None:
    for leave in (KeyChord(keys=("Escape",)), Click(x=50, y=200)):
        await device.reset(0, ONE, PNG)
        await act(device, Click(x=50, y=50), leave, Click(x=50, y=200))
        written = await act(device, Type(text="words"))
        assert written.action_error is None
        assert await ask(device, "field.value") == "words"


@in_module
async def test_a_question_that_comes_late_is_left_as_well(device: BrowserDevice) -> None:
    for leave in (KeyChord(keys=("Escape",)), Click(x=50, y=200)):
        await device.reset(0, ONE, PNG)
        late = partial(asyncio.get_running_loop().call_later, 0.1, device._page._ask_for_files)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(device._page, "_ask_for_files", late)
            left = await act(device, Click(x=50, y=50), leave, Click(x=50, y=200))
        assert left.action_error is None
        assert (await act(device, Type(text="words"))).action_error is None
        assert await ask(device, "field.value") == "words"


@in_module
async def test_a_download_lands_on_the_device_and_leaves_the_page(device: BrowserDevice, site: str) -> None:
    for arrive in (Click(x=50, y=50), Open(target=f"{site}/download")):
        await device.reset(0, ResetSpec(f"{site}/save"), PNG)
        with pytest.raises(FaultError, match="missing_file"):
            await device.get(DOWNLOADED)  # gone with the reset
        shown = await act(device, arrive)
        assert shown.action_error is None
        assert shown.url == f"{site}/save"
        assert await device.get(DOWNLOADED) == PAYLOAD


@in_module
async def test_what_was_downloaded_can_be_uploaded(device: BrowserDevice, site: str) -> None:
    await device.reset(0, ONE, PNG)
    await act(device, Open(target=f"{site}/download"), Click(x=50, y=50), Type(text=DOWNLOADED))
    assert (await device.observe(BLIND)).action_error is None
    assert (await device._page.run("given"))[0][0] == "it.bin"


@in_module
async def test_an_endless_download_is_given_up(
    device: BrowserDevice, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_files, "_MAX_BYTES", 1 << 20)
    await device.reset(0, ResetSpec(f"{site}/two"), PNG)
    shown = await act(device, Open(target=f"{site}/endless"))
    assert shown.action_error == "a download was given up: all files may have 1 MiB"
    left = device._chromium.home.listing()
    assert sum(left.values()) < 64 << 20, left


@in_module
async def test_files_are_bytes_and_are_gone_after_a_reset(device: BrowserDevice) -> None:
    await device.put("/home/user/deep/blob", bytes(range(256)))
    assert await device.get("/home/user/deep/blob") == bytes(range(256))
    await device.reset(0, ResetSpec(), BLIND)
    with pytest.raises(FaultError, match="missing_file"):
        await device.get("/home/user/deep/blob")


@pytest.mark.parametrize(
    "path",
    ["/home/user", "/home/user/", "/home/user/..", "/home/user/../x", "/home/user/a/../../x", "/etc/passwd",
     "", "x", "/home/users/x", "//home/user/../x", "/home/user/a\0b", "/home/user/" + "d/" * 9 + "x",
     "/home/user/" + "x" * 600, "/home/user/Downloads", "/home/user/kept/x"],
)  # fmt: skip
def test_no_path_leads_out_of_the_devices_home(path: str, tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.put("/home/user/kept", b"kept")
    with pytest.raises(FaultError) as caught:
        home.put(path, b"x")
    assert (caught.value.fault.origin, caught.value.fault.code) == ("task", "bad_path")
    with pytest.raises(FaultError) as caught:
        home.get(path)
    assert caught.value.fault.origin == "task"
    assert home.listing() == {"kept": 4}


def test_all_files_together_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_files, "_MAX_BYTES", 100)
    home = Home(tmp_path)
    home.put("/home/user/a", bytes(60))
    with pytest.raises(FaultError, match="no room"):
        home.put("/home/user/Downloads/b", bytes(60))
    home.put("/home/user/a", bytes(90))  # in place of the former
    assert home.listing() == {"a": 90}
