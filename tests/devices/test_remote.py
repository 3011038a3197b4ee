"""Devices elsewhere: another pool's, and a desktop behind OSWorld's interface."""

import ast
import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from PIL import Image
from pydantic import SecretStr

from devices.api.server import Running, running
from devices.config import PoolConfig, RemoteConfig, SimConfig
from devices.drivers import DRIVERS
from devices.drivers.remote import osworld as driver
from devices.drivers.remote.pyautogui import Unsupported, script
from devices.drivers.remote.xml_tree import told
from guiagent.actions import (
    ACTION,
    Action,
    Answer,
    Click,
    Drag,
    KeyChord,
    Open,
    Pinch,
    Scroll,
    Shell,
    Type,
    Wait,
)
from guiagent.client import FarmClient
from guiagent.errors import FaultError, UsageError
from guiagent.types import ObserveSpec, ResetSpec
from tests.support.guest_session import HEIGHT, WIDTH, session

TOKEN = "a-token-for-the-tests"
NOTHING = ObserveSpec(frame="none")


# -- another pool --------------------------------------------------------------------------------------------


@pytest.fixture
async def far(tmp_path: Path) -> AsyncIterator[Running]:
    config = PoolConfig(state_dir=tmp_path / "far", port=0, token=TOKEN, devices=[SimConfig(count=2)])
    async with running(config) as farm:
        await farm.service.settled()
        yield farm


def near_config(far: Running, tmp_path: Path) -> PoolConfig:
    remote = RemoteConfig(url=far.endpoint.url, token=SecretStr(TOKEN), of="sim")
    return PoolConfig(state_dir=tmp_path / "near", port=0, token=TOKEN, devices=[remote])


async def test_a_device_of_another_pool_is_leased_on(far: Running, tmp_path: Path) -> None:
    async with running(near_config(far, tmp_path)) as near, FarmClient(near.endpoint.url, TOKEN) as farm:
        device = await farm.lease("sim", grants=["exec", "shell", "files"])
        await device.reset(1, ResetSpec(), NOTHING)
        await device.put("/a", b"kept")
        name = await device.snapshot()
        spec = ObserveSpec(frame="png", probes={"text": "text"})
        assert (await device.act([Type(text="hello")], spec)).probes["text"] == "hello"
        assert (await device.exec(["cat", "/a"])).stdout == "kept"
        assert (await device.reset(0, ResetSpec(snapshot=name), spec)).probes["text"] == ""
        await device.close()
        async with farm.lease("sim", grants=["files"]) as heir:
            with pytest.raises(FaultError, match="there is no /a on the device"):
                await heir.get("/a")


async def test_a_pool_without_a_token_is_a_usage_error(far: Running) -> None:
    with pytest.raises(UsageError, match="asks for its token"):
        await DRIVERS["remote"].start(RemoteConfig(url=far.endpoint.url, of="sim"))


# -- actions as code -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "statements"),
    [
        (Click(x=3, y=4), ["pyautogui.click(3, 4, clicks=1, button='left')"]),
        (
            Click(x=3, y=4, button="right", count=2, modifiers=("Control", "Shift")),
            [
                "pyautogui.keyDown('ctrl')",
                "pyautogui.keyDown('shift')",
                "pyautogui.click(3, 4, clicks=2, button='right')",
                "pyautogui.keyUp('shift')",
                "pyautogui.keyUp('ctrl')",
            ],
        ),
        (Scroll(x=1, y=2, dy=300), ["pyautogui.moveTo(1, 2)", "pyautogui.vscroll(-3)"]),
        (Scroll(x=1, y=2, dx=-10), ["pyautogui.moveTo(1, 2)", "pyautogui.hscroll(-1)"]),
        (KeyChord(keys=("Control", "ArrowLeft")), ["pyautogui.hotkey('ctrl', 'left')"]),
        (
            Drag(path=((1, 2), (3, 4))),
            [
                "pyautogui.mouseDown(1, 2, button='left')",
                "pyautogui.moveTo(3, 4)",
                "pyautogui.mouseUp(3, 4, button='left')",
            ],
        ),
        (
            Type(text="it's", clear=True, submit=True),
            [
                "pyautogui.hotkey('ctrl', 'a')",
                "pyautogui.press('delete')",
                'pyautogui.write("it\'s")',
                "pyautogui.press('enter')",
            ],
        ),
        (Answer(text="42"), []),
    ],
)
def test_an_action_is_written_as_pyautogui(action: Action, statements: list[str]) -> None:
    assert script(action).split("; ")[4:] == statements


@pytest.mark.parametrize("text", ["'); import os; os.remove('/')", "\\", "\n\"'''", '"""', "\x00"])
def test_text_stays_text_whatever_it_says(text: str) -> None:
    calls = [node for node in ast.walk(ast.parse(script(Type(text=text)))) if isinstance(node, ast.Call)]
    (call,) = calls
    assert ast.literal_eval(call.args[0]) == text


@pytest.mark.parametrize(
    "action", [Pinch(x=1, y=1, scale=2), Open(target="x"), Type(text="é"), Click(x=1, y=1, button="back")]
)
def test_what_pyautogui_cannot_do_is_said(action: Action) -> None:
    with pytest.raises(Unsupported):
        script(action)


def test_a_tree_that_is_no_xml_is_a_fault() -> None:
    with pytest.raises(FaultError, match="not XML"):
        told("<a><b></a>")


# -- an OSWorld server ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def osworld(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with session(tmp_path_factory.mktemp("osworld")) as started, started.client() as client:
        yield f"osworld://{client.base_url.host}:{client.base_url.port}"


async def test_an_osworld_server_is_a_device_like_any_other(osworld: str, tmp_path: Path) -> None:
    device = await DRIVERS["remote"].start(RemoteConfig(url=osworld, of="desktop", unlimited_egress=True))
    try:
        capabilities = await device.describe()
        assert (capabilities.kind, capabilities.width, capabilities.height) == ("desktop", WIDTH, HEIGHT)
        shown = await device.reset(0, ResetSpec(), ObserveSpec(frame="jpeg"))
        assert Image.open(io.BytesIO(shown.frame)).size == (WIDTH, HEIGHT)
        after = await device.act([ACTION.validate_python({"type": "move", "x": 400, "y": 300})], NOTHING)
        assert after.action_error is None
        said = await device.act([Shell(command="echo there")], NOTHING)
        assert said.output == "there\n"
        await device.put(f"{tmp_path}/a", b"\x00data")  # type: ignore[attr-defined]
        assert await device.get(f"{tmp_path}/a") == b"\x00data"  # type: ignore[attr-defined]
        assert (await device.act([Pinch(x=1, y=1, scale=2.0)], NOTHING)).action_error
        with pytest.raises(UsageError, match="cannot be set to a baseline"):
            await device.reset(0, ResetSpec(url="https://example.org"), NOTHING)
        assert (await device.observe(ObserveSpec(frame="none", tree=True))).tree is not None
        assert (await device.health()).ok
    finally:
        await device.close()


async def test_a_wait_may_be_longer_than_other_actions(osworld: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = await DRIVERS["remote"].start(RemoteConfig(url=osworld, of="desktop", unlimited_egress=True))
    monkeypatch.setattr(driver, "_ACTION_S", 0.0)  # leaves the 5 s that every command has for its answer
    try:
        assert (await device.act([Wait(ms=5500)], NOTHING)).action_error is None
    finally:
        await device.close()


async def test_what_is_no_osworld_server_is_a_fault() -> None:
    with pytest.raises(FaultError) as nobody:
        await DRIVERS["remote"].start(
            RemoteConfig(url="osworld://127.0.0.1:9", of="desktop", unlimited_egress=True)
        )
    assert nobody.value.fault.origin == "device"
