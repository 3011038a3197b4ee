"""The browser driver on a real Chromium: its processes, its faults, its frames, and its other modes."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import httpx
import msgspec
import playwright.async_api as playwright
import pytest
import pytest_asyncio

from devices import processes
from devices.chromium import process
from devices.drivers import browser
from devices.drivers.browser import device as driver
from devices.drivers.browser.device import BrowserDevice
from guiagent.actions import (
    Action,
    Click,
    KeyChord,
    MouseDown,
    Move,
    Type,
    Wait,
)
from guiagent.errors import FaultError, InfrastructureError, UsageError
from guiagent.protocols import Device, Services
from guiagent.types import Node, ObserveSpec, ResetSpec
from tests.support.browser_pages import (
    BLIND,
    CHROMIUM,
    HEIGHT,
    PAGE,
    PNG,
    REPAINTING,
    WIDTH,
    act,
    ask,
    asking,
    document,
    image,
    members,
    recorded,
    running,
    serving,
)

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[Device]:
    async with running() as started:
        yield started


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with serving() as url:
        yield url


def profiles() -> list[Path]:
    """Folders of the browsers this process runs."""
    return list(Path(tempfile.gettempdir()).glob(f"guiagent-browser-{os.getpid()}-*"))


def renderers(group: int) -> list[int]:
    found = []
    for pid in members(group):
        with contextlib.suppress(FileNotFoundError):  # it ended meanwhile, as helpers of a start do
            if b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


# -- what is left, and what is missing -----------------------------------------------------------------------


async def test_close_leaves_no_process_and_no_folder() -> None:
    before = profiles()
    async with running() as device:
        assert isinstance(device, Device)
        assert members(device.pid)
        assert len(profiles()) == len(before) + 1
    assert members(device.pid) == []
    assert profiles() == before
    await device.close()  # again is no error
    with pytest.raises(FaultError, match="closed"):
        await device.observe(PNG)


@pytest.mark.parametrize("executable", ["/no/such/browser", None])
async def test_a_missing_browser_is_one_line(
    executable: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.delenv("GUIAGENT_CHROMIUM", raising=False)
    with pytest.raises(InfrastructureError) as caught:
        await BrowserDevice.start(browser.find(executable), WIDTH, HEIGHT)
    assert "\n" not in str(caught.value)
    assert "apt-get install chromium-headless-shell" in str(caught.value)


async def test_what_is_no_browser_does_not_come_up() -> None:
    before = profiles()
    with pytest.raises(FaultError, match="/true did not come up: the browser process ended") as caught:
        await BrowserDevice.start(browser.find("true"), WIDTH, HEIGHT)
    assert caught.value.fault.code == "start_failed"
    assert profiles() == before


# -- faults --------------------------------------------------------------------------------------------------


async def test_a_browser_killed_mid_act_is_a_fault() -> None:
    async with running() as device:
        asyncio.get_running_loop().call_later(0.1, os.killpg, device.pid, signal.SIGKILL)
        with pytest.raises(FaultError) as caught:
            await device.act([Wait(ms=20_000)], PNG)
        assert (caught.value.fault.origin, caught.value.fault.code) == ("device", "crashed")
        assert caught.value.fault.retryable
        assert not (await device.health()).ok
        with pytest.raises(FaultError, match="crashed"):
            await device.reset(0, ResetSpec(), PNG)
    assert members(device.pid) == []


async def test_a_crashed_page_is_a_fault() -> None:
    async with running() as device:
        for renderer in renderers(device.pid):
            asyncio.get_running_loop().call_later(0.1, os.kill, renderer, signal.SIGKILL)
        with pytest.raises(FaultError, match="the page's process crashed"):
            await device.act([Wait(ms=20_000)], PNG)


async def test_a_stopped_browser_runs_into_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_VERB_DEADLINE_S", 0.3)
    monkeypatch.setattr(driver, "_HEALTH_DEADLINE_S", 0.3)
    async with running() as device:
        os.killpg(device.pid, signal.SIGSTOP)
        for verb in (
            device.observe(PNG),
            device.act([Click(x=5, y=5)], PNG),
            device.reset(0, ResetSpec(), PNG),
        ):
            with pytest.raises(FaultError) as caught:
                await verb
            assert (caught.value.fault.origin, caught.value.fault.code) == ("device", "deadline")
        assert not (await device.health()).ok
    assert members(device.pid) == []  # closing ends it all the same


async def test_a_wait_does_not_count_against_the_deadline(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_VERB_DEADLINE_S", 0.5)
    began = time.monotonic()
    observation = await device.act([Wait(ms=400), Wait(ms=400)], PNG)
    assert observation.action_error is None
    assert time.monotonic() - began >= 0.8


async def test_a_script_that_never_ends_costs_one_deadline(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    await device.reset(0, document("<script>onclick = () => { for (;;); }</script>"), PNG)
    monkeypatch.setattr(driver, "_VERB_DEADLINE_S", 0.5)
    with pytest.raises(FaultError, match="did not finish 'act'"):
        await act(device, Click(x=5, y=5))
    monkeypatch.undo()
    await device.reset(0, document("<title>fine</title>"), PNG)
    assert (await device.observe(PAGE)).title == "fine"


async def test_a_script_that_throws_is_a_fault_of_the_task(device: Device) -> None:
    with pytest.raises(FaultError, match="ReferenceError: nonsense is not defined") as caught:
        await device.reset(0, ResetSpec(script="nonsense()"), PNG)
    assert (caught.value.fault.origin, caught.value.fault.code) == ("task", "script_error")
    with pytest.raises(FaultError, match="script_error"):
        await device.observe(asking(value="nonsense"))


async def test_sweep_ends_what_dead_owners_left_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = (
        "import asyncio; from devices.config import BrowserConfig; from devices.drivers import browser\n"
        "async def main():\n"
        "    device = await browser.start(BrowserConfig(width=200, height=200))\n"
        "    print(device.pid, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # leaves alone what others on this machine run
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=subprocess.PIPE, env=environment
    )
    try:
        assert owner.stdout is not None
        orphan = int(await owner.stdout.readline())
        (profile,) = left_in(tmp_path)
        assert browser.sweep() == 0
        assert orphan in members(orphan)
        assert profile.is_dir()
    finally:
        owner.kill()
        await owner.wait()
    with stand_in(profile) as stubborn:  # a browser that does not leave when its pipe closes
        (tmp_path / "guiagent-browser-of-somebody").touch()
        assert browser.sweep() >= 1
        assert stubborn.wait(10) == -signal.SIGKILL
    for _ in range(500):
        if not members(orphan):
            break
        await asyncio.sleep(0.01)
    assert members(orphan) == []
    browser.sweep()
    assert [path.name for path in left_in(tmp_path)] == ["guiagent-browser-of-somebody"]

    async with running():
        (profile,) = profiles()
        with stand_in(profile) as living:
            assert browser.sweep() == 0
            assert living.poll() is None
            assert profile.is_dir()


def left_in(folder: Path) -> list[Path]:
    return list(folder.glob("guiagent-browser-*"))


@contextlib.contextmanager
def stand_in(profile: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the command line of a browser with this profile."""
    options = ["--remote-debugging-pipe", f"--user-data-dir={profile}"]
    script = "import time; print(flush=True); time.sleep(600)"
    process = subprocess.Popen(
        [sys.executable, "-c", script, *options], start_new_session=True, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process
    finally:
        process.kill()
        process.wait()


# -- frames and observations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [Click(x=100, y=100), MouseDown(x=100, y=100)])
async def test_no_frame_is_older_than_the_click_before_it(device: Device, action: Action) -> None:
    first = await device.reset(0, document(REPAINTING), PNG)
    assert image(first).getpixel((WIDTH - 1, HEIGHT - 1)) == (0, 0, 9)
    for clicks in range(1, 101):
        observation = await act(device, action, spec=PNG)
        assert image(observation).getpixel((WIDTH - 1, HEIGHT - 1)) == (clicks % 250, clicks // 250, 9)


async def test_a_frame_has_the_size_of_the_device_in_either_encoding(device: Device) -> None:
    await device.reset(0, document("<body style='background:rgb(10,200,30)'>"), BLIND)
    png = await device.observe(PNG)
    jpeg = await device.observe(ObserveSpec(frame="jpeg", quality=90))
    assert (png.media_type, jpeg.media_type) == ("image/png", "image/jpeg")
    for observation in (png, jpeg):
        assert image(observation).size == (WIDTH, HEIGHT) == (observation.width, observation.height)
    assert image(png).getpixel((99, 99)) == (10, 200, 30)
    assert png.hash != jpeg.hash
    nothing = await device.observe(BLIND)
    assert (nothing.frame, nothing.hash, nothing.media_type) == (b"", "", "")


async def test_an_unchanged_frame_travels_as_its_hash(device: Device) -> None:
    first = await device.reset(0, document(REPAINTING), PNG)
    same = await device.act([Move(x=50, y=50)], ObserveSpec(frame="png", have=first.hash))
    assert (same.unchanged, same.frame, same.hash) == (True, b"", first.hash)
    other = await device.act([Click(x=50, y=50)], ObserveSpec(frame="png", have=first.hash))
    assert not other.unchanged
    assert other.frame
    assert other.hash != first.hash


async def test_probes_and_page_describe_the_moment_of_the_frame(device: Device) -> None:
    await device.reset(0, document("<title>a title</title>" + REPAINTING), BLIND)
    spec = ObserveSpec(
        frame="png", page=True, probes={"clicks": "clicks", "nothing": "undefined", "deep": "[{a: 1}]"}
    )
    observation = await device.act([Click(x=9, y=9), Click(x=9, y=9)], spec)
    assert observation.probes == {"clicks": 2, "nothing": None, "deep": [{"a": 1}]}
    assert image(observation).getpixel((99, 99)) == (2, 0, 9)
    assert observation.title == "a title"
    assert observation.url is not None
    assert observation.url.startswith("data:text/html,")


async def test_the_tree_names_what_is_visible_and_is_capped(device: Device) -> None:
    html = """<style>body * { position:absolute; left:10px; top:20px; width:30px; height:40px }</style>
    <button aria-label=Send></button> <input value=words> <p style='display:none'>hidden</p>
    <p style='visibility:hidden'>hidden</p> <p style='top:5000px'>below</p>"""
    await device.reset(0, document(html), BLIND)
    tree = (await device.observe(ObserveSpec(frame="none", tree=True))).tree
    assert tree is not None
    send, field = tree
    assert send == Node("button", "Send", (10, 20, 30, 40), "0")
    assert (field.role, field.value) == ("textbox", "words")
    await device.reset(0, document("<button style='position:absolute'></button>" * 600), BLIND)
    tree = (await device.observe(ObserveSpec(frame="none", tree=True))).tree
    assert tree is not None
    assert len(tree) == 500


async def test_text_no_encoder_accepts_is_mended(device: Device) -> None:
    await device.reset(0, document("<script>document.title = 'a\\ud800b \\u{1f600}'</script>"), BLIND)
    observation = await device.observe(PAGE)
    assert observation.title == "a?b \U0001f600"
    msgspec.msgpack.encode(observation)


@pytest.mark.parametrize(
    "restless",
    [
        "(function draw() { document.body.textContent = frames++; requestAnimationFrame(draw) })()",
        "setInterval(() => { document.body.textContent = frames++ }, 1)",
        "setTimeout(() => location.reload(), 20); frames = 1",
    ],
)
async def test_a_page_that_never_rests_is_shown_all_the_same(device: Device, restless: str) -> None:
    await device.reset(0, document(f"<body><script>frames = 0; {restless}</script>"), PNG)
    for _ in range(5):
        assert (await act(device, Click(x=5, y=5), spec=PNG)).frame
    assert await ask(device, "frames") >= 1


# -- other browsers and modes --------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height", "executable"), [(1920, 1080, None), (WIDTH, HEIGHT, CHROMIUM)])
async def test_the_other_modes_work_alike(width: int, height: int, executable: str | None, site: str) -> None:
    async with running(width, height, executable=executable) as device:
        capabilities = await device.describe()
        assert (capabilities.kind, capabilities.width, capabilities.height) == ("browser", width, height)
        assert capabilities.features == ["exec", "a11y", "page", "files", "profile"]
        await device.reset(0, document(REPAINTING), PNG)
        for clicks in range(1, 21):
            shown = image(await act(device, Click(x=100, y=100), spec=PNG))
            assert shown.size == (width, height)
            assert shown.getpixel((width - 1, height - 1)) == (clicks, 0, 9)
        await recorded(device, Click(x=50, y=20), Type(text="hé"), KeyChord(keys=("Control", "a")))
        assert await ask(device, "field.value + getSelection().toString()") == "héhé"
        await device.reset(0, document("<script>onclick = () => alert('hey')</script>"), PNG)
        assert "hey" in ((await act(device, Click(x=9, y=9))).action_error or "")
        for path in ("/link", "/new-window", "/form"):
            await device.reset(0, ResetSpec(site + path), PNG)
            assert (await act(device, Click(x=50, y=50))).title == "two"
        assert (await device.health()).ok
    assert members(device.pid) == []


async def relay(device: BrowserDevice, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection of a client's, through the device's service."""
    there_reader, there_writer = await device.connect("cdp")

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()

    await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))


async def test_the_devtools_service_works_through_a_tunnel_on_another_port() -> None:
    async with running(cdp=True) as device:
        assert "cdp" in (await device.describe()).features
        await device.reset(0, document("<title>shared</title><button>press</button>"), PNG)
        server = await asyncio.start_server(partial(relay, device), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with httpx.AsyncClient(trust_env=False) as http:
            version = (await http.get(f"http://127.0.0.1:{port}/json/version")).json()
        assert version["webSocketDebuggerUrl"].startswith(f"ws://127.0.0.1:{port}/devtools/browser/")
        async with playwright.async_playwright() as client:
            tunnelled = await client.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")
            (page,) = [page for context in tunnelled.contexts for page in context.pages]
            assert await page.title() == "shared"
            script = "document.querySelector('button').onclick = () => { document.title = 'pressed' }"
            await page.evaluate(script)
            await page.click("button")
            assert (await device.observe(PAGE)).title == "pressed"
            stranger = await (await tunnelled.new_context()).new_page()
            await stranger.goto("data:text/html,<title>of another context</title>")
            assert (await device.observe(PAGE)).title == "pressed"
        pid = device.pid
        await device.reset(0, ResetSpec(), PNG)
        assert device.pid != pid  # who knows what was changed in it
        assert (await device.health()).ok
        server.close()


async def test_without_cdp_there_is_no_service(device: Device) -> None:
    assert isinstance(device, Services)
    assert "cdp" not in (await device.describe()).features
    with pytest.raises(UsageError, match="cdp = true"):
        await device.connect("cdp")


# Root can be taken for somebody, but only root can start a browser as another user.
@pytest.mark.parametrize("user", [1000, *([0] if os.geteuid() == 0 else [])], ids=str)
@pytest.mark.parametrize("missing", ["", "no namespaces here"], ids=["with", "without"])
async def test_a_browser_has_a_sandbox_where_there_are_namespaces(
    user: int, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chromium ends at once where it is told to have a sandbox without a zygote."""
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr(processes, "why_no_namespace", lambda: missing)
    (tmp_path / "bin").mkdir(mode=0o755)
    program = tmp_path / "bin" / "browser"
    program.write_text('#!/bin/sh\necho "$@" >"$HOME/said"\n')
    program.chmod(0o755)
    executable = process.Executable(str(program), True)
    if missing and user:  # neither that nor another user: its pages would be kept from nothing
        before = profiles()
        with pytest.raises(InfrastructureError, match=r"no namespaces here.*--allow-unisolated"):
            await process.Process.start(executable, 320, 240, [])
        assert profiles() == before
    started = await process.Process.start(executable, 320, 240, [], allow_unisolated=bool(user))
    await asyncio.wait_for(started.reader.read(), 10)  # to its end
    flags = (started.files.parent / "said").read_text().split()
    await started.stop()
    assert ("--no-sandbox" in flags, "--no-zygote" in flags) == (bool(missing), bool(missing))
