"""The verbs of a person at a screen, on a real browser, phone and desktop, and on a device of pure Python."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Sequence
from shutil import which

import pytest
import pytest_asyncio

from devices.config import SimConfig
from devices.drivers import sim
from guiagent.actions import Action, Scroll
from guiagent.client.device import LeasedDevice
from guiagent.client.sync_device import SyncDevice
from guiagent.client.verbs import Verbs
from guiagent.errors import NotFoundError, UsageError, WaitTimeoutError
from guiagent.protocols import Device
from guiagent.types import Node, Observation, ObserveSpec, ResetSpec
from tests.support.browser_pages import document, running
from tests.support.desktops import running as desktop_running
from tests.support.phones import started

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Driven(Verbs):
    """A driver's device with the verbs that a leased device has."""

    def __init__(self, device: Device, features: Sequence[str]) -> None:
        self.id, self.features, self.device = "device-0", frozenset(features), device

    async def observe(self, spec: ObserveSpec) -> Observation:
        return await self.device.observe(spec)

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        return await self.device.act(actions, spec)

    async def show(self, html: str) -> None:
        await self.device.reset(0, document(html), ObserveSpec("none"))


async def driven(device: Device) -> Driven:
    return Driven(device, (await device.describe()).features)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Driven]:
    async with running(width=480, height=320) as device:
        yield await driven(device)


FORM = """<title>form</title><body style="margin:0; height:3000px"><label>Name <input id=n></label>
<label>PIN <input type=password></label> <button onclick="document.title='sent ' + n.value">Send</button>
<button>Cancel</button><button>Cancel</button><a href="#second">Second part</a>
<div style="position:absolute; left:460px; top:200px; width:200px; height:20px"
  onclick="document.title='edge'">edge</div>
<button style="position:absolute; top:1000px" onclick="document.title='far'">Far away</button>"""


async def test_a_form_is_filled_by_names(browser: Driven) -> None:
    await browser.show(FORM)
    typed = await browser.type_into("name", "bob", clear=True)
    assert (typed.title, typed.url is not None) == ("form", True)
    assert (await browser.find("name", role="textbox")).value == "bob"
    sent = await browser.click_on("Send")
    assert sent.title == "sent bob"
    assert sent.frame
    await browser.type_into("PIN", "1234")
    assert "1234" not in await browser.text()


async def test_elements_are_found_by_text_role_and_number(browser: Driven) -> None:
    await browser.show(FORM)
    first, second = await browser.find_all("Cancel")
    assert await browser.find("Cancel", nth=1) == second != first
    assert (await browser.find(role="link")).name == "Second part"
    with pytest.raises(NotFoundError, match=r"no element 'Sent'.*button 'Send'"):
        await browser.find("Sent")
    with pytest.raises(NotFoundError, match=r"no checkbox 'Send'.*button 'Send'"):
        await browser.click_on("Send", role="checkbox")
    with pytest.raises(NotFoundError, match="no element 'Send'"):
        await browser.type_into("Send", "not a field")


async def test_what_only_partly_shows_is_clicked_where_it_does(browser: Driven) -> None:
    await browser.show(FORM)
    assert (await browser.click_on("edge")).title == "edge"


async def test_what_lies_further_down_is_scrolled_to(browser: Driven) -> None:
    await browser.show(FORM)
    with pytest.raises(NotFoundError):
        await browser.find("Far away")
    node = await browser.scroll_to("Far away")
    assert (await browser.click_on(node)).title == "far"
    with pytest.raises(NotFoundError, match="no element 'Nowhere'"):
        await browser.scroll_to("Nowhere")


async def test_the_text_of_a_page(browser: Driven) -> None:
    await browser.show("<h1>Hello</h1><p>one <b>two</b></p><button>go <i>on</i></button><input value=field>")
    assert await browser.text() == "Hello\none\ntwo\ngo on\nfield"


async def test_waiting_for_a_text_an_address_and_stillness(browser: Driven) -> None:
    await browser.show(
        "<b id=b>not yet</b><script>setTimeout(() => { b.textContent = 'ready' }, 300)</script>"
    )
    seen = await browser.wait_for("ready", url="data:text/html", stillness=0.2, timeout_s=20)
    assert [node.name for node in seen.tree or []] == ["ready"]


async def test_what_does_not_come_is_a_timeout_that_says_what_is_missing(browser: Driven) -> None:
    await browser.show("<b>here</b>")
    with pytest.raises(WaitTimeoutError) as late:
        await browser.wait_for("there", url="example", timeout_s=0.1)
    assert str(late.value).startswith(
        "device-0: after 0.1 s, no element 'there' shows and the address is 'data:"
    )
    with pytest.raises(UsageError, match="wait_for what"):
        await browser.wait_for()
    await browser.show("<b id=b></b><script>setInterval(() => { b.textContent = Math.random() }, 5)</script>")
    with pytest.raises(WaitTimeoutError, match="the screen still changes"):
        await browser.wait_for(stillness=60, timeout_s=0.5)


async def test_back_and_forward(browser: Driven) -> None:
    await browser.show("<title>one</title>")
    await browser.open("data:text/html,<title>two</title>")
    assert (await browser.press_button("back")).title == "one"
    assert (await browser.press_button("forward")).title == "two"
    with pytest.raises(UsageError, match="press_button: there is no page to go forward to"):
        await browser.press_button("forward")


async def test_bad_arguments_are_one_line(browser: Driven) -> None:
    for bad in (browser.click(-1, 5), browser.key("Nonsense"), browser.press_button("eject"), browser.drag()):
        with pytest.raises(UsageError) as raised:
            await bad
        assert "\n" not in str(raised.value)
    with pytest.raises(UsageError, match="no role 'buton'; did you mean 'button'"):
        await browser.find(role="buton")


async def test_a_picture_is_shown_in_notebooks(browser: Driven) -> None:
    shot = await browser.screenshot()
    assert shot._repr_png_() == shot.png() != b""
    assert shot.size == (480, 320)
    clicked = await browser.click(1, 1)
    assert (clicked._repr_jpeg_(), clicked._repr_png_()) == (clicked.frame, None)
    assert (await browser.observe(ObserveSpec("none")))._repr_jpeg_() is None


async def test_the_same_verbs_on_a_phone() -> None:
    device = await started(720, 1280)
    try:
        phone = await driven(device)
        await device.reset(0, ResetSpec(), ObserveSpec("none"))
        await phone.open("Contacts")
        await phone.click_on("Create contact")
        await phone.type_into("First name", "Zoe")
        assert "Zoe" in await phone.text()
        with pytest.raises(UsageError, match="no pages"):
            await phone.wait_for(url="x")
    finally:
        await device.close()


async def test_the_same_verbs_on_a_desktop() -> None:
    if which("mousepad") is None:
        pytest.skip("there is no mousepad: scripts/farm installs it")
    async with desktop_running() as device:
        await device.reset(0, ResetSpec(), ObserveSpec("none"))
        desktop = await driven(device)
        await desktop.open("mousepad")
        await desktop.wait_for("File", role="menuitem", timeout_s=30)
        await desktop.type_into(await desktop.find(role="textbox"), "words of mine")
        assert "words of mine" in await desktop.text()
        await desktop.click_on("File", role="menuitem")
        await desktop.wait_for("Save As...", role="menuitem", timeout_s=30)


async def test_the_same_verbs_on_a_device_of_pure_python() -> None:
    device = await sim.start(SimConfig())
    await device.reset(0, ResetSpec(), ObserveSpec("none"))
    keypad = await driven(device)
    assert (await keypad.click_on("A")).title == "keypad"
    await keypad.click_on("B", role="button")
    assert (await keypad.find("line")).value == "AB"
    waiting = asyncio.create_task(keypad.wait_for("ABC"))
    await asyncio.sleep(0)
    await keypad.click_on("C")
    await waiting


class Beside(Driven):
    """A device whose button lies below its screen, and moves up as it is scrolled, if it can be."""

    def __init__(self, scrolls: bool) -> None:
        self.id, self.features, self.top, self.scrolls = "device-0", frozenset({"a11y"}), 1000, scrolls
        self.clicks: list[Action] = []

    async def observe(self, spec: ObserveSpec) -> Observation:
        return Observation(100, 100, tree=[Node("button", "Low", (10, self.top, 20, 20)), Node("tab", "Tab")])

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        match actions[0]:
            case Scroll(dy=dy) if self.scrolls:
                self.top -= dy
            case action:
                self.clicks.append(action)
        return await self.observe(spec)


async def test_a_node_beside_the_screen_is_scrolled_to_where_that_helps() -> None:
    moves = Beside(scrolls=True)
    await moves.click_on("Low")
    assert [(one.x, one.y) for one in moves.clicks] == [(20, 50)]  # type: ignore[union-attr]
    stays = Beside(scrolls=False)
    with pytest.raises(
        NotFoundError, match=r"button 'Low' lies at \(10, 1000\), beside the screen of 100x100"
    ):
        await stays.click_on("Low")
    with pytest.raises(NotFoundError, match="tab 'Tab' has no place on the screen of device-0"):
        await stays.click_on("Tab")


async def test_a_device_without_a_tree_says_what_to_do() -> None:
    blind = Beside(scrolls=False)
    blind.features = frozenset()
    for verb in (blind.find("x"), blind.click_on("x"), blind.text(), blind.wait_for("x")):
        with pytest.raises(UsageError, match='device-0 tells no elements: lease with needs=\\["a11y"\\]'):
            await verb


async def test_both_clients_have_the_same_verbs() -> None:
    names = {name for name in vars(Verbs) if not name.startswith("_")} - {"act", "observe"}
    assert len(names) >= 15
    for name in names:
        ours, theirs = (
            inspect.signature(getattr(LeasedDevice, name)),
            inspect.signature(getattr(SyncDevice, name)),
        )
        assert ours == theirs, name
