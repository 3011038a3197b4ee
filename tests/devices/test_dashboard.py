"""The live page in a real browser: it shows the screens, and nothing a holder says becomes code."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import websockets
from playwright.async_api import ConsoleMessage, Locator, Page, Position, async_playwright, expect

from devices.api.server import Running, announced, running
from guiagent.actions import Click, Open
from guiagent.client import FarmClient
from guiagent.errors import FaultError, LeaseError
from guiagent.types import ObserveSpec, ResetSpec
from guiagent.wire import LIVE, LIVE_PROTOCOL
from tests.support.canvas_device import DRIVERS, TOKEN, farm_of

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
# True once the canvas of a device shows anything but one flat colour.
DRAWN = """id => {
  const canvas = document.querySelector(`[data-device="${id}"] canvas`);
  if (!canvas || canvas.width !== 160) return false;
  const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, 160, 120).data.buffer);
  return pixels.some(pixel => pixel !== pixels[0]);
}"""


@pytest.fixture
async def farm(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(farm_of(3, tmp_path), DRIVERS) as farm:
        yield farm


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield await browser.new_page()
        await browser.close()


async def inside(screen: Locator, x: int, y: int) -> Position:
    """A place in a pixel of the device, right of its middle and below, as the view draws 160 x 120 pixels."""
    box = await screen.bounding_box()
    assert box is not None
    scale = min(box["width"] / 160, box["height"] / 120)
    left, top = (box["width"] - 160 * scale) / 2, (box["height"] - 120 * scale) / 2
    return {"x": left + (x + 0.8) * scale, "y": top + (y + 0.8) * scale}


@pytest.mark.browser
async def test_the_page_shows_every_screen_and_who_holds_it(farm: Running, page: Page) -> None:
    complaints: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    page.on("console", listen)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    async with FarmClient(farm.endpoint.url, TOKEN) as client:
        hostile = "<img src=x onerror=alert(1)>"
        async with client.lease("sim", label=hostile) as device:
            await page.goto(farm.endpoint.live_url)
            await device.act([Click(x=80, y=60)], ObserveSpec())
            await expect(page.locator("article")).to_have_count(3)
            tile = page.locator(f'[data-device="{device.id}"]')
            await expect(tile.locator(".state")).to_have_text("leased")
            await expect(tile.locator(".label")).to_have_text(hostile)
            await expect(tile.locator(".counts")).to_have_text("1 steps · 0 faults")
            await page.wait_for_function(DRAWN, arg=device.id)
            await expect(page.locator("#summary")).to_contain_text("1 leased")
            await expect(page.locator("#summary")).to_contain_text("0 waiting for a device")
            with pytest.raises(FaultError):
                await device.act([Open(target="canvas:crash")], ObserveSpec())
        await expect(tile.locator(".counts")).to_have_text("1 steps · 1 faults")
        await page.goto(f"{farm.endpoint.live_url}&device=sim-1")
        await page.reload()
        await expect(page.locator("article")).to_have_count(1)
    assert await page.evaluate("document.images.length + localStorage.length + sessionStorage.length") == 0
    assert complaints == []


@pytest.mark.browser
async def test_a_file_beside_the_endpoint_opens_the_page(farm: Running, page: Page, tmp_path: Path) -> None:
    with announced(tmp_path, farm.endpoint) as endpoint:
        await page.goto(endpoint.live_page)
        await page.wait_for_url(farm.endpoint.live_url)
        await expect(page.locator("article")).to_have_count(3)


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_page_says_what_is_missing_in_both_schemes(farm: Running, page: Page, scheme: str) -> None:
    await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    await page.goto(farm.endpoint.url)
    await expect(page.locator("#notice")).to_contain_text("#token=")
    ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(246, 247, 249)", "dark": "rgb(14, 17, 22)"}[scheme]
    await page.goto(f"{farm.endpoint.url}/#token=wrong")
    await page.reload()
    await expect(page.locator("#notice")).to_contain_text("not connected")


@pytest.mark.browser
async def test_a_device_is_taken_over_driven_and_given_back(farm: Running, page: Page) -> None:
    async with FarmClient(farm.endpoint.url, TOKEN) as client:
        device = await client.lease("sim", grants=("exec",), label="somebody")
        await page.goto(farm.endpoint.live_url)
        tile = page.locator(f'[data-device="{device.id}"]')
        await expect(tile.locator(".label")).to_have_text("somebody")
        await tile.click()
        await expect(page.locator("#name")).to_have_text(device.id)
        await page.click("#take")
        await expect(page.locator("#take")).to_have_text("give back")
        with pytest.raises(LeaseError) as taken:
            await device.observe(ObserveSpec())
        assert taken.value.fault.code == "taken_over"
        screen = page.locator("#screen")
        await expect(screen).to_have_js_property("width", 160)
        for x, y in ((0, 0), (80, 60), (133, 17), (159, 119)):
            await screen.click(position=await inside(screen, x, y))
            await expect(page.locator("#log")).to_contain_text(f"click x={x} y={y}")
        await page.keyboard.press("Enter")
        await expect(page.locator("#log")).to_contain_text("key keys=('Enter',)")
        await expect(page.locator("#said")).to_have_text("")
        await page.click("#take")
        await expect(page.locator("#take")).to_have_text("take over")
        assert len(await client.lease_group("sim", 3, wait=5.0)) == 3  # nobody holds it any more


@pytest.mark.browser
async def test_a_person_helps_an_agent_that_asks_and_gives_its_device_back(farm: Running, page: Page) -> None:
    async with FarmClient(farm.endpoint.url, TOKEN) as client:
        device = await client.lease("sim", label="agent")
        hostile = "<img src=x onerror=alert(1)> log in"
        asking = asyncio.create_task(device.ask_human(hostile, 60.0))
        await page.goto(farm.endpoint.live_url)
        tile = page.locator(f'[data-device="{device.id}"]')
        await expect(tile.locator(".label")).to_have_text(f"asks for a person: {hostile}")
        await tile.click()
        await expect(page.locator("#asks")).to_have_text(f"asks for a person: {hostile}")
        await expect(page.locator("#take")).to_have_text("help")
        await page.click("#take")
        await expect(page.locator("#take")).to_have_text("give back")
        await page.locator("#screen").click(position=await inside(page.locator("#screen"), 80, 60))
        await expect(page.locator("#log")).to_contain_text("click x=80 y=60")
        await page.click("#take")
        answer = await asking
        assert (answer.state, answer.did) == ("done", ["click x=80 y=60"])
        await expect(page.locator("#take")).to_have_text("take over")
        await device.act([Click(x=1, y=1)], ObserveSpec())  # its lease went on
        asking = asyncio.create_task(device.ask_human("pay", 60.0))
        await expect(page.locator("#refuse")).to_be_visible()
        page.once("dialog", lambda dialog: dialog.accept("too dear"))
        await page.click("#refuse")
        refused = await asking
        assert (refused.state, refused.note) == ("refused", "too dear")
        await expect(page.locator("#refuse")).to_be_hidden()


@pytest.mark.browser
async def test_whatever_hands_do_reaches_the_device(farm: Running, page: Page) -> None:
    """Double clicks, keys that become text on the way, the clipboard, addresses."""
    await page.goto(farm.endpoint.live_url)
    await page.locator('[data-device="sim-0"]').click()
    await expect(page.locator("#go")).to_be_hidden()
    await page.click("#take")
    await expect(page.locator("#take")).to_have_text("give back")
    log = page.locator("#log")
    await page.locator("#screen").dblclick(position=await inside(page.locator("#screen"), 80, 60))
    await expect(log).to_contain_text("click x=80 y=60 count=2")
    assert (await log.inner_text()).count("click ") == 1
    await page.keyboard.insert_text("é🙂")  # as an input method does, without a key
    await expect(log).to_contain_text("type text=2 characters")
    await page.keyboard.press("a")
    await expect(log).to_contain_text("type text=1 characters")
    await page.keyboard.press("Control+a")
    await expect(log).to_contain_text("key keys=('Control', 'a')")
    await page.evaluate("""() => {
      const keys = document.getElementById("keys");
      keys.value = "pasted";
      keys.dispatchEvent(new InputEvent("input", { inputType: "insertFromPaste" }));
    }""")
    await expect(log).to_contain_text("type text=6 characters")
    await page.fill("#address", "somewhere")
    await page.press("#address", "Enter")
    await expect(log).to_contain_text("open target=somewhere")
    await expect(page.locator("#keys")).to_be_focused()


@pytest.mark.browser
async def test_the_large_view_does_not_grow_under_the_pointer(farm: Running, page: Page) -> None:
    await page.goto(farm.endpoint.live_url)
    await page.locator('[data-device="sim-0"]').click()
    size = "document.getElementById('large').getBoundingClientRect().height"
    before = await page.evaluate(size)
    await page.evaluate("document.getElementById('log').textContent = 'a line\\n'.repeat(500)")
    assert await page.evaluate(size) == before
    assert before <= await page.evaluate("innerHeight")


@pytest.mark.browser
async def test_a_device_is_put_out_of_service_and_back_with_a_reason(farm: Running, page: Page) -> None:
    await page.goto(farm.endpoint.live_url)
    tile = page.locator('[data-device="sim-1"]')
    await tile.click()
    page.once("dialog", lambda dialog: dialog.accept("its screen is cracked"))
    await page.click("#quarantine")
    await expect(page.locator("#how")).to_have_text("quarantined")
    await expect(tile.locator(".label")).to_have_text("its screen is cracked")
    await page.click("#restore")
    await expect(page.locator("#how")).to_have_text("ready")


@pytest.mark.browser
async def test_who_waits_is_listed_with_a_place(farm: Running, page: Page) -> None:
    async with FarmClient(farm.endpoint.url, TOKEN) as client:
        held = await client.lease_group("sim", 3)
        waiting = asyncio.ensure_future(client.lease_group("sim", 2, label="me too", wait=30.0))
        await page.goto(farm.endpoint.live_url)
        row = page.locator("#queue tbody tr")
        await expect(row).to_have_count(1)
        await expect(row).to_contain_text("me too")
        for device in held:
            await device.close()
        await waiting
        await expect(page.locator("#queue")).to_be_hidden()


async def test_the_shell_holds_no_secret_and_allows_only_itself(farm: Running) -> None:
    async with httpx.AsyncClient() as stranger:
        shell = await stranger.get(farm.endpoint.url)
    policy = shell.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert policy.count("'sha256-") == 2
    assert TOKEN not in shell.text
    assert "http://" not in shell.text and "https://" not in shell.text


@pytest.mark.parametrize(
    ("protocols", "origin", "allowed"),
    [
        ([LIVE_PROTOCOL, TOKEN], None, True),
        ([LIVE_PROTOCOL, TOKEN], "same", True),
        ([LIVE_PROTOCOL, TOKEN], "https://elsewhere.example", False),
        ([LIVE_PROTOCOL, "not-the-right-token"], None, False),
        ([], None, False),
    ],
)
async def test_the_socket_wants_the_token_and_our_own_page(
    farm: Running, protocols: list[str], origin: str | None, allowed: bool
) -> None:
    url = farm.endpoint.url.replace("http", "ws") + LIVE
    wanted = [websockets.Subprotocol(name) for name in protocols] or None
    here = farm.endpoint.url if origin == "same" else origin
    connecting = websockets.connect(
        url, subprotocols=wanted, origin=websockets.Origin(here) if here else None
    )
    if not allowed:
        with pytest.raises(websockets.InvalidStatus, match="403"):
            await connecting
        return
    async with connecting as socket:
        assert socket.subprotocol == LIVE_PROTOCOL
        kinds = {type(await socket.recv()) for _ in range(4)}
        assert kinds == {str, bytes}


async def test_a_frame_message_names_its_device(farm: Running) -> None:
    url = farm.endpoint.url.replace("http", "ws") + LIVE
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with FarmClient(farm.endpoint.url, TOKEN) as client, client.lease("sim") as device:
        shown = await device.reset(0, ResetSpec(), ObserveSpec())
        name = device.id.encode()
        async with websockets.connect(url, additional_headers=headers) as socket:
            while not isinstance(message := await socket.recv(), bytes) or not message[1:].startswith(name):
                pass
        assert message == bytes((len(name),)) + name + shown.frame
