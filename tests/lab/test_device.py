"""The lab as a device: its pictures, probes, snapshots and errors, and the throughput of none."""

import io
import json

import msgspec
import pytest
from PIL import Image

from devices.config import LabConfig
from devices.drivers import lab
from devices.lab.theme import THEMES, Theme, checked
from guiagent.actions import Click, KeyChord, PressButton, Scroll, Swipe, Type
from guiagent.errors import FaultError, UsageError
from guiagent.lab.goals import Goal, Put, Visit
from guiagent.lab.growth import grow
from guiagent.lab.world import AppSpec
from guiagent.types import Observation, ObserveSpec, ResetSpec

APP = AppSpec(graph=7, screens=14, depth=5)
PNG = ObserveSpec(frame="png", tree=True)
BLIND = ObserveSpec(frame="none", probes={"state": "state"})


def starting(app: AppSpec = APP, **more: object) -> ResetSpec:
    return ResetSpec(state={"app": msgspec.to_builtins(app), **more})


def picture(shown: Observation) -> Image.Image:
    return Image.open(io.BytesIO(shown.frame)).convert("RGB")


@pytest.fixture
async def device() -> lab.LabDevice:
    return await lab.start(LabConfig())


@pytest.mark.parametrize("theme", THEMES)
async def test_every_control_can_be_seen_where_the_tree_says(device: lab.LabDevice, theme: str) -> None:
    """A row differs from an empty one of its theme inside its box, in every theme."""
    app = msgspec.structs.replace(APP, theme=theme)
    for screen in range(APP.screens):
        shown = await device.reset(0, starting(app, screen=screen), PNG)
        image = picture(shown)
        assert image.size == (160, 224)
        for node in shown.tree or []:
            left, top, width, height = node.box
            colours = image.crop((left, top, left + width, top + height)).getcolors()
            assert colours is not None and len(colours) >= 2, (theme, screen, node)


@pytest.mark.parametrize("size", [(96, 96), (160, 224), (240, 320), (1280, 800)])
async def test_boxes_fill_a_display_of_any_size(size: tuple[int, int]) -> None:
    device = await lab.start(LabConfig(width=size[0], height=size[1]))
    shown = await device.reset(0, starting(), PNG)
    assert picture(shown).size == size
    for node in shown.tree or []:
        left, top, width, height = node.box
        assert left >= 0 and top >= 0 and width > 0 and height > 0
        assert left + width <= size[0] and top + height <= size[1]


async def test_a_switch_that_was_pressed_looks_and_reads_otherwise(device: lab.LabDevice) -> None:
    world = grow(APP)
    screen, toggle = next(
        (number, one)
        for number, page in enumerate(world.screens)
        for one in page.rows[:6]
        if one.kind == "toggle"
    )
    before = await device.reset(0, starting(screen=screen), PNG)
    node = next(node for node in before.tree or [] if node.role == "switch" and node.name == toggle.label)
    assert "checked" not in node.states
    left, top, width, height = node.box
    after = await device.act([Click(x=left + width // 2, y=top + height // 2)], PNG)
    assert after.hash != before.hash
    assert [one.states for one in after.tree or [] if one.name == toggle.label] == [("checked",)]


async def test_an_equal_picture_travels_as_its_hash(device: lab.LabDevice) -> None:
    first = await device.reset(0, starting(), PNG)
    again = await device.observe(ObserveSpec(frame="png", have=first.hash))
    assert (again.unchanged, again.frame) == (True, b"")


async def test_a_fork_goes_on_where_its_snapshot_was_taken(device: lab.LabDevice) -> None:
    await device.reset(0, starting(), BLIND)
    link = next(one for one in grow(APP).screens[0].rows if one.kind == "link")
    goal = json.dumps({"wants": [{"type": "Visit", "screen": link.to}]})
    todo = await device.observe(ObserveSpec(frame="none", probes={"todo": f"oracle:{goal}"}))
    kept = await device.snapshot()
    await device.act([Click.model_validate(todo.probes["todo"][0])], BLIND)
    other = await lab.start(LabConfig())
    forked = await other.reset(5, ResetSpec(snapshot=kept), BLIND)
    assert forked.probes["state"].get("screen", 0) == 0
    assert (await device.observe(BLIND)).probes["state"]["screen"] == link.to
    assert len(lab._snapshots[kept]) < 64  # bytes: the graph is not in it
    with pytest.raises(UsageError, match="no snapshot 'lab-0'"):
        await device.reset(0, ResetSpec(snapshot="lab-0"), BLIND)


async def test_scrolling_by_wheel_and_by_finger_moves_half_a_display(device: lab.LabDevice) -> None:
    long = next(n for n in range(64) if len(grow(AppSpec(graph=n)).screens[0].rows) >= 9)
    for down, up in (
        (Scroll(x=80, y=100, dy=112), Scroll(x=80, y=100, dy=-112)),
        (Swipe(x1=80, y1=180, x2=80, y2=60), Swipe(x1=80, y1=60, x2=80, y2=180)),
    ):
        await device.reset(0, starting(AppSpec(graph=long)), BLIND)
        assert (await device.act([down], BLIND)).probes["state"]["top"] == 3
        assert "top" not in (await device.act([up], BLIND)).probes["state"]


async def test_what_it_cannot_do_is_the_agents_error(device: lab.LabDevice) -> None:
    await device.reset(0, starting(), BLIND)
    for action in (KeyChord(keys=("Enter",)), Type(text="x"), PressButton(button="back"), Click(x=159, y=5)):
        assert (await device.act([action], BLIND)).action_error


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"app": {"screens": 3}}, "app.screens"),
        ({"app": {"screens": 9, "depth": 12}}, "cannot be 12 links deep"),
        ({"app": {"theme": "plaid"}}, "no theme 'plaid'; known: paper"),
        ({"app": {"colour": 1}}, "colour"),
        ({"screen": 99}, "no screen 99"),
    ],
)
async def test_a_state_that_cannot_be_made_is_one_line(
    device: lab.LabDevice, state: dict[str, object], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        await device.reset(0, ResetSpec(state=state), BLIND)


@pytest.mark.parametrize(
    "probe",
    [
        "document.title",
        "oracle:{}x",
        "oracle:[1]",
        f"distance:{msgspec.json.encode(Goal((Put('99.0', value=True),))).decode()}",
        f"oracle:{msgspec.json.encode(Goal((Visit(99),))).decode()}",
    ],
)
async def test_a_probe_that_means_nothing_is_the_tasks_fault(device: lab.LabDevice, probe: str) -> None:
    await device.reset(0, starting(), BLIND)
    with pytest.raises(FaultError) as wrong:
        await device.observe(ObserveSpec(frame="none", probes={"x": probe}))
    assert wrong.value.fault.origin == "task"


def test_a_theme_that_hides_its_buttons_is_refused() -> None:
    with pytest.raises(UsageError, match=r"hides the accent on the surface: its contrast is 1\.1"):
        checked(Theme((255, 255, 255), (240, 240, 240), (0, 0, 0), (228, 228, 228), (0, 0, 0)))
