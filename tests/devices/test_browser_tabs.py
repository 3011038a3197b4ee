"""Tabs of a real browser: windows that pages open, and how an agent goes from one to another."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from devices.drivers.browser import tabs as driver_tabs
from guiagent.actions import Action, Click, KeyChord, Open, Type, Wait
from guiagent.protocols import Device
from guiagent.types import Observation, ObserveSpec, ResetSpec
from tests.support.browser_pages import FULL, MODES, PAGE, PNG, act, ask, document, running, serving

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
SHOWN = ObserveSpec(frame="png", page=True, tree=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["shell", FULL])
async def device(request: pytest.FixtureRequest) -> AsyncIterator[Device]:
    async with running(**MODES[request.param]) as started:
        yield started


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with serving() as url:
        yield url


def tabs(observation: Observation) -> list[tuple[str, bool]]:
    """The titles of the tabs, and which is in front."""
    assert observation.tree is not None
    listed = [node for node in observation.tree if node.role == "tab"]
    assert observation.tree[: len(listed)] == listed
    assert [node.id for node in listed] == [f"tab:{number}" for number in range(1, len(listed) + 1)]
    return [(node.name, node.states == ("selected",)) for node in listed]


def key(*keys: str) -> Action:
    return KeyChord(keys=keys)


async def test_a_link_to_a_new_window_opens_a_tab_in_front(device: Device, site: str) -> None:
    first = await device.reset(0, ResetSpec(f"{site}/new-window"), SHOWN)
    assert tabs(first) == [("one", True)]
    second = await act(device, Click(x=50, y=50), spec=SHOWN)
    assert (second.title, second.action_error) == ("two", None)
    assert tabs(second) == [("one", False), ("two", True)]
    assert second.hash != first.hash
    assert second.tree is not None
    assert second.tree[1].value == f"{site}/two"
    back = await act(device, key("Control", "1"), spec=SHOWN)
    assert tabs(back) == [("one", True), ("two", False)]
    assert (back.title, back.hash) == ("one", first.hash)
    await act(device, Click(x=50, y=50))
    closed = await act(device, key("Control", "w"), spec=SHOWN)
    assert tabs(closed) == [("one", False), ("two", True)]


@pytest.mark.parametrize(
    ("opened", "title"),
    [
        ("open('about:blank')", ""),
        ("w = open('about:blank'), w.document.title = 'written', w.document.close()", "written"),
        ("open('SITE/two', 'name', 'popup,width=200,height=100')", "two"),
        ("open('SITE/two', '', 'noopener')", "two"),
        ("fetch('SITE/two').catch(() => open('SITE/link'))", "one"),
    ],
)
async def test_a_script_opens_tabs_of_the_same_size(
    device: Device, site: str, opened: str, title: str
) -> None:
    script = opened.replace("SITE", site)
    html = f"<title>home</title><script>onclick = () => {{ {script} }}</script>"
    await device.reset(0, document(html), PNG)
    await act(device, Click(x=9, y=9))
    if "fetch" in opened:
        await act(device, Wait(ms=500))
    shown = await device.observe(SHOWN)
    assert (shown.title, len(tabs(shown))) == (title, 2)
    assert await ask(device, "[innerWidth, innerHeight]") == [shown.width, shown.height]


async def test_the_keys_of_a_browser_window(device: Device) -> None:
    await device.reset(0, document("<title>a</title>"), PNG)
    for title in "bc":
        shown = await act(device, key("Control", "t"), Open(target=f"data:text/html,<title>{title}</title>"))
        assert shown.title == title
    for keys, title in [
        (("Control", "Tab"), "a"),
        (("Control", "Tab"), "b"),
        (("Control", "Shift", "Tab"), "a"),
        (("Control", "Shift", "Tab"), "c"),
        (("Control", "PageUp"), "b"),
        (("Control", "PageDown"), "c"),
        (("Control", "1"), "a"),
        (("Control", "9"), "c"),
        (("Control", "2"), "b"),
        (("Control", "w"), "a"),
        (("Control", "w"), "c"),
        (("Control", "w"), ""),
    ]:
        assert (await act(device, key(*keys))).title == title, keys
    assert tabs(await device.observe(SHOWN)) == [("about:blank", True)]


async def test_tabs_can_be_opened_by_name(device: Device) -> None:
    await device.reset(0, document("<title>a</title><input autofocus>"), PNG)
    shown = await act(device, Open(target="tab:new"), Open(target="data:text/html,<title>b</title>"))
    assert shown.title == "b"
    assert (await act(device, Open(target="tab:1"), Type(text="typed here"))).title == "a"
    assert await ask(device, "document.querySelector('input').value") == "typed here"
    assert (await act(device, Open(target="tab:next"))).title == "b"
    for wrong in ("tab:3", "tab:0", "tab:", "tab:٣", "tab:0010", "tab:999999999999"):
        shown = await act(device, Open(target=wrong))
        assert "there are 1 to 2, new, close" in (shown.action_error or "")
        assert shown.title == "b"
    assert (await act(device, Open(target="tab:close"))).title == "a"


async def test_a_tab_that_closes_itself_leaves_the_one_before(device: Device) -> None:
    html = "<title>home</title><script>onclick = () => { w = open('about:blank'); n = 0;"
    html += " w.onclick = () => w.close() }</script>"
    await device.reset(0, document(html), PNG)
    assert (await act(device, Click(x=9, y=9))).title == ""
    shown = await act(device, Click(x=9, y=9), spec=SHOWN)
    assert (shown.title, shown.action_error) == ("home", None)
    assert tabs(shown) == [("home", True)]


async def test_the_last_tab_may_close_itself(device: Device) -> None:
    html = "<script>onclick = () => { open('about:blank').onclick = e => e.view.close() }</script>"
    await device.reset(0, document(html), PNG)
    await act(device, Click(x=9, y=9), Open(target="tab:1"), Open(target="tab:close"))
    shown = await act(device, Click(x=9, y=9), spec=SHOWN)
    assert tabs(shown) == [("about:blank", True)]
    assert (await device.health()).ok


async def test_there_are_only_so_many_tabs(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_tabs, "MAX_TABS", 3)
    html = "<title>home</title><script>onclick = () => { open('about:blank') }</script>"
    await device.reset(0, document(html), PNG)
    for _ in range(2):
        await act(device, Click(x=9, y=9), Open(target="tab:1"))
    assert len(tabs(await device.observe(SHOWN))) == 3
    shown = await act(device, Click(x=9, y=9), spec=SHOWN)
    assert shown.action_error == "a window was closed at once: there are 3 tabs already"
    assert len(tabs(shown)) == 3
    assert "tabs already" in ((await act(device, key("Control", "t"))).action_error or "")
    assert tabs(await device.reset(0, document("<title>new</title>"), SHOWN)) == [("new", True)]


async def test_where_frames_are_asked_for_there_is_one_page() -> None:
    async with running() as device:
        await device.reset(0, document("<title>only</title><input autofocus>"), PNG)
        shown = await act(device, Open(target="tab:new"), spec=SHOWN)
        assert "one page at a time" in (shown.action_error or "")
        assert tabs(shown) == []
        heard = "addEventListener('keydown', e => { heard = e.key })"
        await ask(device, heard)
        await act(device, key("Control", "t"), spec=PAGE)
        assert await ask(device, "heard") == "t"
