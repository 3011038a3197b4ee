"""The one contract of all drivers, held against the real thing; a kind this machine lacks is skipped."""

import io
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from PIL import Image

from devices.config import (
    AnyDeviceConfig,
    BrowserConfig,
    DesktopConfig,
    LabConfig,
    PhoneConfig,
    SimConfig,
    VmConfig,
)
from devices.drivers import DRIVERS, HostedDevice
from guiagent.actions import Answer, Click, Done, Pinch, Type, Wait
from guiagent.errors import FaultError, MissingProgram, UsageError
from guiagent.nodes import ROLES
from guiagent.protocols import Files, Services, Shell, Snapshots
from guiagent.types import Observation, ObserveSpec, ResetSpec

KINDS: dict[str, Callable[[], AnyDeviceConfig]] = {
    "sim": lambda: SimConfig(),
    "lab": lambda: LabConfig(),
    "browser": lambda: BrowserConfig(width=320, height=240),
    "desktop": lambda: DesktopConfig(width=800, height=600),
    "phone": lambda: PhoneConfig(),
    "vm": lambda: VmConfig(),
}
PNG = ObserveSpec(frame="png")
NOTHING = ObserveSpec(frame="none")
BLANK = ResetSpec()

pytestmark = pytest.mark.asyncio(loop_scope="module")


MARKED = [pytest.param(kind, marks=pytest.mark.vm) if kind == "vm" else kind for kind in KINDS]


@pytest_asyncio.fixture(params=MARKED, scope="module", loop_scope="module")
async def device(request: pytest.FixtureRequest) -> AsyncIterator[HostedDevice]:
    config = KINDS[request.param]()
    try:
        started = await DRIVERS[config.kind].start(config)
    except MissingProgram as missing:
        pytest.skip(str(missing))
    yield started
    await started.close()


def picture_size(observation: Observation) -> tuple[int, int]:
    with Image.open(io.BytesIO(observation.frame)) as image:
        image.load()
        return image.size


async def has(device: HostedDevice, feature: str) -> None:
    if feature not in (await device.describe()).features:
        pytest.skip(f"this kind has no {feature!r}")


async def test_says_what_it_is(device: HostedDevice) -> None:
    capabilities = await device.describe()
    assert capabilities.kind in KINDS
    assert capabilities.software
    promised = {"shell": Shell, "files": Files, "snapshot": Snapshots, "osworld": Services, "adb": Services}
    for feature, protocol in promised.items():
        if feature in capabilities.features:
            assert isinstance(device, protocol), feature


@pytest.mark.parametrize("format", ["png", "jpeg"])
async def test_a_frame_is_a_picture_of_the_size_it_says(device: HostedDevice, format: str) -> None:
    capabilities = await device.describe()
    shown = await device.reset(1, BLANK, ObserveSpec(frame=format))  # type: ignore[arg-type]
    assert picture_size(shown) == (shown.width, shown.height) == (capabilities.width, capabilities.height)
    assert shown.media_type == f"image/{format}"
    assert len(shown.hash) == 32


async def test_an_unchanged_frame_travels_as_its_hash(device: HostedDevice) -> None:
    first = await device.reset(1, BLANK, PNG)
    for _ in range(10):  # a clock or a cursor may change once
        again = await device.observe(ObserveSpec(frame="png", have=first.hash))
        if again.unchanged:
            break
        first = again
    assert (again.unchanged, again.frame, again.hash) == (True, b"", first.hash)


async def test_no_frame_is_made_where_none_is_asked_for(device: HostedDevice) -> None:
    observation = await device.observe(NOTHING)
    assert (observation.frame, observation.hash) == (b"", "")


async def test_acts_and_shows_in_one_call(device: HostedDevice) -> None:
    await device.reset(1, BLANK, NOTHING)
    observation = await device.act([Click(x=50, y=150), Type(text="a"), Wait(ms=1)], PNG)
    assert observation.frame


async def test_words_to_the_user_move_nothing(device: HostedDevice) -> None:
    await device.reset(1, BLANK, NOTHING)
    observation = await device.act([Answer(text="42"), Done()], NOTHING)
    assert observation.action_error is None


async def test_what_it_cannot_do_is_the_agents_error_and_no_fault(device: HostedDevice) -> None:
    if (await device.describe()).kind == "sim":
        pytest.skip("does everything")
    observation = await device.act([Pinch(x=50, y=50, scale=2.0)], NOTHING)
    assert observation.action_error


async def test_the_tree_has_boxes_on_the_screen(device: HostedDevice) -> None:
    await has(device, "a11y")
    page = ResetSpec(url="data:text/html,<button>press me</button>")
    is_browser = (await device.describe()).kind == "browser"
    shown = await device.reset(1, page if is_browser else BLANK, ObserveSpec(frame="none", tree=True))
    assert shown.tree is not None
    if (await device.describe()).kind not in ("desktop", "vm"):  # theirs begins empty
        assert shown.tree
    for node in shown.tree:
        assert node.role in ROLES
        left, top, width, height = node.box
        assert width > 0 and height > 0 and left < shown.width and top < shown.height


async def test_a_reset_attests_the_baseline(device: HostedDevice) -> None:
    await device.reset(0, BLANK, NOTHING)
    baseline = await device.attest()
    await device.act([Click(x=50, y=150), Type(text="residue")], NOTHING)
    await device.reset(0, BLANK, NOTHING)
    assert await device.attest() == baseline


async def test_files_come_back_and_leave_with_a_reset(device: HostedDevice) -> None:
    await has(device, "files")
    assert isinstance(device, Files)
    await device.reset(0, BLANK, NOTHING)
    kind = (await device.describe()).kind
    path = "/sdcard/Download/planted.bin" if kind == "phone" else "/home/user/planted.bin"
    data = bytes(range(256)) * 40
    await device.put(path, data)
    assert await device.get(path) == data
    await device.reset(0, BLANK, NOTHING)
    with pytest.raises(FaultError) as missing:
        await device.get(path)
    assert missing.value.fault.origin == "task"


async def test_a_command_gives_its_output_and_its_code(device: HostedDevice) -> None:
    await has(device, "shell")
    assert isinstance(device, Shell)
    said = await device.exec(["echo", "a b", "c"], 10.0)
    assert (said.code, said.stdout) == (0, "a b c\n")
    assert (await device.exec(["false"], 10.0)).code == 1


async def test_a_snapshot_brings_back_what_was(device: HostedDevice) -> None:
    await has(device, "snapshot")
    await has(device, "files")  # without them: `tests/lab`
    assert isinstance(device, Snapshots) and isinstance(device, Files)
    kind = (await device.describe()).kind
    path = "/sdcard/Download/kept.txt" if kind == "phone" else "/home/user/kept.txt"
    await device.reset(0, BLANK, NOTHING)
    await device.put(path, b"kept")
    name = await device.snapshot()
    await device.put(path, b"changed")
    await device.reset(0, ResetSpec(snapshot=name), NOTHING)
    assert await device.get(path) == b"kept"
    with pytest.raises(UsageError, match="no snapshot"):
        await device.reset(0, ResetSpec(snapshot="never-taken"), NOTHING)


async def test_it_says_that_it_is_well(device: HostedDevice) -> None:
    await device.reset(0, BLANK, NOTHING)
    assert (await device.health()).ok
