"""What a step of a browser costs: frames, loads and commands; and that no frame is saved that is needed."""

from collections import Counter
from collections.abc import AsyncIterator
from statistics import median

import pytest
import pytest_asyncio

from devices.chromium.process import headless_shell
from devices.drivers.browser.device import BrowserDevice
from guiagent.actions import Click, KeyChord, Scroll
from guiagent.errors import MissingProgram
from guiagent.types import ObserveSpec, ResetSpec
from rewards.tasksets.miniwob import MiniWob
from tests.support.browser_pages import PNG, document

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
FRAME = "HeadlessExperimental.beginFrame"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[BrowserDevice]:
    try:
        shell = headless_shell()
    except MissingProgram as missing:
        pytest.skip(str(missing))
    started = await BrowserDevice.start(shell, 160, 224, allow_unisolated=True)
    yield started
    await started.close()


class Spent:
    """Commands sent to the browser since it was last asked."""

    def __init__(self, device: BrowserDevice) -> None:
        self._device = device
        self.since()

    def since(self) -> Counter[str]:
        before = getattr(self, "_before", Counter())
        self._before = self._device.connection.sent.copy()
        return self._before - before


@pytest.mark.parametrize("page", ["click-widget", "grid-coordinate", "click-collapsible", "circle-center"])
async def test_an_episode_draws_what_it_needs(device: BrowserDevice, page: str) -> None:
    """Three frames a reset and one a click: a busy machine may add frames to most of seven, not to all."""
    await MiniWob().task(page, 0).setup(device, PNG)
    spent, resets, clicks = Spent(device), [], []
    for seed in range(1, 8):
        await MiniWob().task(page, seed).setup(device, PNG)
        resets.append(spent.since())
        await device.act([Click(x=158, y=222)], ObserveSpec(probes={"done": "WOB_DONE_GLOBAL"}))
        await device.act([Click(x=80, y=120)], ObserveSpec(probes={"done": "WOB_DONE_GLOBAL"}))
        clicks.append(spent.since())
    assert not any(count["Page.navigate"] for count in resets)
    assert min(count[FRAME] for count in resets) <= 3
    assert min(count.total() for count in resets) <= 8
    assert min(count[FRAME] for count in clicks) <= 3  # of two clicks; one that starts a timer draws more
    assert min(count.total() for count in clicks) <= 14


LATE = {
    "frames": "let n = 4; (function step() { late(n); if (n--) requestAnimationFrame(step) })()",
    "a timer": "setTimeout(() => late(0), 0)",
    "a transition": "late(0)",
}
STYLES = {"a transition": "body { transition: background-color 30ms }"}


@pytest.mark.parametrize("how", LATE)
@pytest.mark.parametrize("action", [Click(x=9, y=9), KeyChord(keys=("a",))], ids=["click", "key"])
async def test_a_page_that_goes_on_by_itself_is_waited_for(
    device: BrowserDevice, how: str, action: Click | KeyChord
) -> None:
    """More than one frame is drawn, and the picture is the one of its last state, as a later one is."""
    page = f"<style>{STYLES.get(how, '')}</style><script>late = n => {{ document.body.style.backgroundColor ="
    page += f" `rgb(0, ${{n + 1}}0, 0)` }}; onclick = onkeydown = () => {{ {LATE[how]} }}</script><body>"
    await device.reset(0, document(page), PNG)
    await device.act([Click(x=150, y=200)], ObserveSpec(frame="none"))
    await device.reset(0, document(page), PNG)
    spent = Spent(device)
    shown = await device.act([action], PNG)
    assert spent.since()[FRAME] > 1
    if how == "frames":
        assert shown.frame == (await device.observe(PNG)).frame


async def test_a_click_is_in_the_only_frame_that_is_drawn_after_it(device: BrowserDevice) -> None:
    page = "<canvas width=160 height=224></canvas><script>let n = 0; onmousedown = () => { const c ="
    page += " document.querySelector('canvas').getContext('2d'); c.fillStyle = `rgb(${n += 5}, 0, 0)`;"
    page += " c.fillRect(0, 0, 160, 224) }</script>"
    await device.reset(0, document(page), PNG)
    await device.act([Click(x=9, y=9)], PNG)
    spent, frames, drawn = Spent(device), set(), []
    for _ in range(30):
        frames.add((await device.act([Click(x=9, y=9)], PNG)).frame)
        drawn.append(spent.since()[FRAME])
    assert len(frames) == 30 and median(drawn) == 1


async def test_the_count_of_frames_begins_anew_with_each_document(device: BrowserDevice) -> None:
    for _ in range(3):
        await device.reset(0, document("<body onclick='document.body.style.background = `lime`'>"), PNG)
        spent = Spent(device)
        shown = await device.act([Click(x=9, y=9)], PNG)
        assert shown.frame == (await device.observe(PNG)).frame
        assert spent.since()["Page.navigate"] == 0
    assert (await device.reset(0, ResetSpec(), PNG)).frame != shown.frame


async def test_scripts_see_where_a_scroll_went_as_the_picture_does(device: BrowserDevice) -> None:
    page = "<div id=list style='height: 150px; overflow: auto'><div style='height: 3000px'>a</div></div>"
    spec = ObserveSpec(probes={"top": "list.scrollTop"})
    for _ in range(5):
        await device.reset(0, document(page), PNG)
        shown = await device.act([Scroll(x=80, y=80, dx=0, dy=300)], spec)
        assert shown.probes["top"] == 300
