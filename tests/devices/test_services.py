"""What a device can do beside showing itself: programs, files, forks, and services of its own."""

import asyncio
import io
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import playwright.async_api
import pytest
import websockets
from PIL import Image

from devices.api.server import Running, running
from devices.config import BrowserConfig, PoolConfig
from devices.drivers import Driver
from guiagent import wire
from guiagent.actions import Click
from guiagent.client import FarmClient, LeasedDevice
from guiagent.errors import Fault, FaultError, LeaseError, MissingProgram, UsageError
from guiagent.protocols import Files, Services, Snapshots
from guiagent.protocols import Shell as HasShell
from guiagent.types import CommandResult, ObserveSpec, ResetSpec
from tests.support.browser_pages import serving
from tests.support.canvas_device import DRIVERS, TOKEN, CanvasDevice, farm_of

COUNT = ObserveSpec(frame="none", probes={"clicks": "how many"})
CLICK = Click(x=5, y=5)
TORN = Fault("device", "crashed", "the canvas is torn", retryable=True)
ALL: tuple[wire.Grant, ...] = ("exec", "shell", "files")


@pytest.fixture
async def farm(tmp_path: Path) -> AsyncIterator[Running]:
    CanvasDevice.let_go = asyncio.Event()
    async with running(farm_of(3, tmp_path), DRIVERS) as farm:
        yield farm


@pytest.fixture
async def client(farm: Running) -> AsyncIterator[FarmClient]:
    async with FarmClient(farm.endpoint.url, TOKEN) as client:
        yield client


@pytest.fixture
async def device(client: FarmClient) -> LeasedDevice:
    return await client.lease("sim", grants=ALL)


async def test_a_leased_device_has_the_verbs_of_its_features(device: LeasedDevice) -> None:
    assert isinstance(device, HasShell) and isinstance(device, Files)
    assert isinstance(device, Snapshots) and isinstance(device, Services)
    assert await device.exec(["echo", "two words"]) == CommandResult(2, "echo two words")


async def test_files_travel_as_they_are_and_within_bounds(device: LeasedDevice) -> None:
    content = (
        bytes(range(256)) * (40 << 10) + b"\r\n\r\nend"
    )  # 10 MiB, more than a request otherwise may have
    await device.put("/home/ä file?&.bin", content)
    assert await device.get("/home/ä file?&.bin") == content
    with pytest.raises(FaultError) as missing:
        await device.get("/nowhere")
    assert (missing.value.fault.origin, missing.value.fault.code) == ("task", "missing_file")
    assert not isinstance(missing.value, LeaseError)
    with pytest.raises(UsageError, match="at most"):
        await device.put("/big", bytes(wire.MAX_FILE + 1))
    assert (await device.health()).ok  # none of it ended the lease


async def test_each_verb_needs_its_grant_and_a_device_that_has_it(client: FarmClient) -> None:
    bare = await client.lease("sim")
    for verb in (bare.exec(["ls"]), bare.put("/a", b""), bare.get("/a"), bare.connect("adb")):
        with pytest.raises(UsageError, match=r'lease with grants=\["(shell|files)"\]'):
            await verb
    with pytest.raises(UsageError, match="no service 'telnet'; there are cdp, adb, osworld"):
        await bare.connect("telnet")
    with pytest.raises(UsageError, match="canvas has no cdp"):
        await (await client.lease("sim", grants=("exec",))).connect("cdp")


async def test_a_service_is_a_byte_stream_both_ways(device: LeasedDevice) -> None:
    reader, writer = await device.connect("adb")
    blob = bytes(range(256)) * 4096
    writer.write(blob)
    assert await reader.readexactly(len(blob)) == blob
    writer.write(b"hang up")
    assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize("how", ["released", "taken_over", "crashed"])
async def test_the_end_of_a_lease_cuts_its_connections(client: FarmClient, farm: Running, how: str) -> None:
    device = await client.lease("sim", grants=ALL)
    url = f"ws{farm.endpoint.url.removeprefix('http')}{device._path}/connect/adb?token={device.token}"
    async with websockets.connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as stream:
        await stream.send(b"hello")
        assert await stream.recv() == b"hello"
        if how == "released":
            await farm.service.release("", device._lease)
        elif how == "taken_over":
            await client.lease(device=device.id, takeover=True)
        else:
            farm.service._device_faulted(device.id, FaultError(TORN))
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await stream.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == wire.CLOSED + 410
    assert closed.value.rcvd.reason


async def test_a_refused_connection_is_no_error_of_the_pool(
    client: FarmClient, device: LeasedDevice, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UsageError, match="no service"):
        await device.connect("telnet")
    logging.getLogger("uvicorn.error").error("something else")
    assert [each.message for each in caplog.records if each.levelname == "ERROR"] == ["something else"]


async def test_a_refused_connection_says_why(client: FarmClient, device: LeasedDevice) -> None:
    await client.call("DELETE", device._path)
    with pytest.raises(LeaseError, match="released"):
        await device.connect("adb")
    device.token += 1
    device._tunnels.clear()
    with pytest.raises(LeaseError):
        await device.connect("adb")


async def test_a_text_message_is_not_bytes(client: FarmClient, farm: Running, device: LeasedDevice) -> None:
    url = f"ws{farm.endpoint.url.removeprefix('http')}{device._path}/connect/adb?token={device.token}"
    async with websockets.connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as stream:
        await stream.send("words")
        with pytest.raises(websockets.ConnectionClosedError, match="1003"):
            await stream.recv()


async def test_a_forwarded_port_takes_several_connections_and_is_gone_after(device: LeasedDevice) -> None:
    async with device.forward("adb") as port:
        for text in (b"one", b"two"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(text)
            assert await reader.readexactly(3) == text
            writer.close()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass
    with pytest.raises(UsageError, match="no service"):
        async with device.forward("telnet"):
            pass


async def test_forks_are_in_the_state_of_their_origin(device: LeasedDevice) -> None:
    await device.act([CLICK, CLICK], COUNT)
    siblings = await device.fork(2)
    for sibling in siblings:
        assert (await sibling.observe(COUNT)).probes == {"clicks": 2}  # with the rights of the origin, too
        await sibling.act([CLICK], COUNT)
    assert (await device.observe(COUNT)).probes == {"clicks": 2}
    assert (await device.reset(0, ResetSpec(snapshot="clicks-2"), COUNT)).probes == {"clicks": 2}


async def test_a_fork_that_cannot_be_whole_leaves_nothing(
    client: FarmClient, device: LeasedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"4 sim devices .*this farm has 3"):
        await device.fork(4)
    monkeypatch.setattr(CanvasDevice, "snapshots", {})
    monkeypatch.setattr(CanvasDevice, "snapshot", _forgets)
    with pytest.raises(FaultError, match="missing_snapshot"):
        await device.fork(2)
    assert len(await client.lease_group("sim", 2)) == 2  # its siblings were given back


async def _forgets(self: CanvasDevice) -> str:
    return "nothing"


async def test_egress_is_set_before_the_first_verb_of_each_lease_and_checked_at_once(
    tmp_path: Path,
) -> None:
    made: list[CanvasDevice] = []

    async def start(config: object) -> CanvasDevice:
        made.append(CanvasDevice(160, 120))
        return made[-1]

    async with (
        running(farm_of(1, tmp_path), {"sim": Driver(start)}) as farm,
        FarmClient(farm.endpoint.url, TOKEN) as client,
    ):
        async with client.lease("sim", egress=["*.example.org", "10.0.0.0/8"]) as device:
            await device.observe(ObserveSpec())
            await device.act([CLICK], ObserveSpec())
        async with client.lease("sim") as device:
            await device.act([CLICK], ObserveSpec())
        assert made[0].egress == [("*.example.org", "10.0.0.0/8"), ("public",)]
        with pytest.raises(UsageError):
            await client.lease("sim", egress=["not a host/99"])


# -- a real browser ------------------------------------------------------------------------------------------


@pytest.fixture
async def browsers(tmp_path: Path) -> AsyncIterator[FarmClient]:
    devices = [BrowserConfig(width=320, height=240, cdp=True)]
    try:
        async with (
            running(PoolConfig(state_dir=tmp_path, port=0, token=TOKEN, devices=devices)) as farm,
            FarmClient(farm.endpoint.url, TOKEN) as client,
        ):
            yield client
    except MissingProgram as missing:
        pytest.skip(str(missing))


@pytest.mark.browser
async def test_playwright_drives_a_leased_browser(browsers: FarmClient) -> None:
    async with browsers.lease("browser", needs=("cdp",), grants=("exec",)) as device:
        await device.reset(0, ResetSpec("data:text/html,<title>before</title>"), ObserveSpec())
        async with device.page() as page:
            assert await page.title() == "before"
            await page.evaluate("document.title = 'after'")
        assert (await device.observe(ObserveSpec(page=True))).title == "after"


@pytest.mark.browser
async def test_the_live_page_sees_what_a_devtools_client_does(browsers: FarmClient) -> None:
    async with browsers.lease("browser", needs=("cdp",), grants=("exec",)) as device:
        await device.reset(0, ResetSpec("data:text/html,<title>before</title>"), ObserveSpec())
        async with device.page() as page:
            for colour in ((255, 0, 0), (0, 0, 255)):
                await page.evaluate(f"document.documentElement.style.background = 'rgb{colour}'")
                await _until_shown(browsers, device.id, colour)


async def _until_shown(client: FarmClient, device: str, colour: tuple[int, int, int]) -> None:
    for _ in range(200):
        if _shows(await client.frame(device), colour):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"the last frame of {device} never showed {colour}")


def _shows(frame: tuple[bytes, str], colour: tuple[int, int, int]) -> bool:
    pixel = Image.open(io.BytesIO(frame[0])).convert("RGB").getpixel((160, 120))
    assert isinstance(pixel, tuple)
    return all(abs(one - other) < 9 for one, other in zip(pixel, colour, strict=True))


@pytest.mark.browser
async def test_pages_and_contexts_of_a_devtools_client_load_what_the_lease_may_reach(
    browsers: FarmClient,
) -> None:
    with serving() as site, serving() as other:
        lease = browsers.lease(
            "browser", needs=("cdp",), grants=("exec",), egress=[site.removeprefix("http://")]
        )
        async with lease as device, device.page() as first:
            browser = first.context.browser
            assert browser is not None
            second = await first.context.new_page()
            third = await (await browser.new_context()).new_page()
            for page in (first, second, third, second):
                assert await page.goto(f"{site}/two") is not None
                assert await page.title() == "two"
                refused = await page.goto(f"{other}/two")
                assert refused is not None and refused.status == 403  # the proxy's word
                with pytest.raises(playwright.async_api.Error, match="ERR_ACCESS_DENIED"):
                    await page.goto("file:///etc/hostname")
