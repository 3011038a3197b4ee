"""The same click through the doors to one device lands on the same pixel of a real screen.

A page in Chromium says where it was pressed (in CSS pixels, which are the screen's), by our actions or by
DevTools. The virtual phone's own log says where its screen was touched, by our actions, by adb or by the
interfaces of android_env and AndroidWorld. Doors count in pixels, but for android_env's shares of the screen
(tests/end_to_end/test_one_pixel_of_others.py); an index of AndroidWorld's means the middle of an element, of
two pixels the left or upper one.
"""

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from playwright.sync_api import sync_playwright

from eval.doors.android_env import LIFT, TOUCH, AndroidEnv
from eval.doors.android_world import AndroidWorldEnv
from guiagent.client import LeasedDevice
from guiagent.client.play import DeviceSlot
from guiagent.client.sync import Farm, connect
from guiagent.client.sync_device import SyncDevice
from guiagent.errors import MissingProgram
from tests.support.dm_env_stand_in import without_dm_env
from tests.support.pressed_canvas import Point
from tests.support.pressed_page import leased_with_devtools, pressed_page

pytestmark = pytest.mark.browser

# -- Chromium ------------------------------------------------------------------------------------------------

ON_PAGE: list[Point] = [(0, 0), (47, 31), (133, 417), (799, 599)]


@pytest.fixture(scope="module")
def browser() -> Iterator[tuple[SyncDevice, int]]:
    with pressed_page() as url:
        try:
            with leased_with_devtools(url) as device_and_port:
                yield device_and_port
        except MissingProgram as missing:
            pytest.skip(str(missing))


def by_sdk(device: SyncDevice, port: int, at: Point) -> None:
    device.click(*at)


def by_pyautogui(device: SyncDevice, port: int, at: Point) -> None:
    device.pyautogui.click(*at)


def by_playwrights_page(device: SyncDevice, port: int, at: Point) -> None:
    async def clicked() -> None:
        async with device.asynchronous.page() as page:
            await page.mouse.click(*at)

    device.wait(clicked())


def by_forwarded_devtools(device: SyncDevice, port: int, at: Point) -> None:
    with sync_playwright() as client:
        theirs = client.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")
        theirs.contexts[-1].pages[-1].mouse.click(*at)


@pytest.mark.parametrize("door", [by_sdk, by_pyautogui, by_playwrights_page, by_forwarded_devtools])
def test_a_click_lands_where_it_was_meant_on_a_page(
    browser: tuple[SyncDevice, int], door: Callable[[SyncDevice, int, Point], None]
) -> None:
    device, port = browser
    pressed = list[str]()
    for at in ON_PAGE:
        door(device, port, at)
        pressed.append(str(device.observe(page=True).title))
    assert pressed == [f"{x} and {y}" for x, y in ON_PAGE]


# -- the virtual phone ---------------------------------------------------------------------------------------

WIDTH, HEIGHT = 360, 640
ON_PHONE: list[Point] = [(0, 0), (47, 31), (133, 417), (359, 639)]
TAPS = ("logcat", "-d", "-v", "raw", "-s", "InputDispatcher")


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    try:
        with connect(devices=[f"phone=1@{WIDTH}x{HEIGHT}"]) as farm:
            yield farm
    except MissingProgram as missing:
        pytest.skip(str(missing))


@pytest.fixture
def phone(farm: Farm) -> Iterator[SyncDevice]:
    with farm.lease("phone", grants=("shell", "files"), wait=60) as device:
        yield device


def taps(log: str) -> list[Point]:
    return [(int(x), int(y)) for x, y in re.findall(r"^tap (\d+) (\d+)$", log, re.MULTILINE)]


def by_action(device: SyncDevice) -> None:
    for at in ON_PHONE:
        device.click(*at)


def by_adb(device: SyncDevice) -> None:
    with device.adb() as adb:
        for x, y in ON_PHONE:
            adb.shell(["input", "tap", str(x), str(y)])


def by_android_world(device: SyncDevice) -> None:
    world = AndroidWorldEnv(device)
    for x, y in ON_PHONE:
        world.execute_action({"action_type": "click", "x": x, "y": y})


@pytest.mark.parametrize("door", [by_action, by_adb, by_android_world])
def test_a_touch_lands_where_it_was_meant_on_a_phone(
    phone: SyncDevice, door: Callable[[SyncDevice], None]
) -> None:
    door(phone)
    assert taps(phone.exec(*TAPS).stdout) == ON_PHONE


class _WithAShell(AndroidEnv):
    """android_env's interface over a lease that may also read the phone's log."""

    def _slot(self, kind: str) -> DeviceSlot:
        self.slot = DeviceSlot(lambda: self._farm.client.lease(kind, grants=("shell",), wait=60))
        return self.slot

    def log(self) -> str:
        async def read() -> str:
            device = await self.slot.device()
            assert isinstance(device, LeasedDevice)
            return (await device.exec(TAPS)).stdout

        return self._farm.wait(read())


def test_a_touch_of_android_env_lands_where_it_was_meant(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUIAGENT_TOKEN", farm.endpoint.token)
    with without_dm_env():
        env = _WithAShell(pool=farm.endpoint.url)
        env.reset()
        for x, y in ON_PHONE:
            share = np.array([x / WIDTH, y / HEIGHT], np.float32)
            for kind in (TOUCH, LIFT):
                env.step({"action_type": np.int32(kind), "touch_position": share})
        assert taps(env.log()) == ON_PHONE
        env.close()


def test_an_index_of_android_world_means_the_pixel_in_the_middle(phone: SyncDevice) -> None:
    world = AndroidWorldEnv(phone)
    world.execute_action({"action_type": "open_app", "app_name": "Settings"})
    boxes = [element.bbox_pixels for element in world.get_state().ui_elements]
    odd = [box for box in boxes if any(round(middle) != int(middle) for middle in box.center)]
    assert odd, "no element here has its middle between two pixels, the left one odd"
    index = boxes.index(odd[0])
    world.execute_action({"action_type": "click", "index": index})
    (x_min, x_max, y_min, y_max), (tap,) = odd[0], taps(phone.exec(*TAPS).stdout)
    assert tap == ((x_min + x_max) // 2, (y_min + y_max) // 2)
