"""mobile-mcp, unmodified, on a leased phone: its server finds the phone by `adb connect` and drives it."""

import asyncio
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import CallToolResult

import guiagent
from tests.support.doors import environment_of, node_of

pytestmark = pytest.mark.doors

SERVER = "@mobilenext/mobile-mcp/lib/index.js"


def adb(*words: str) -> str:
    done = subprocess.run(["adb", *words], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@pytest.fixture
def phone() -> Iterator[str]:
    """The serial of a leased phone that adb knows."""
    environment_of("mobile-mcp")
    with (
        guiagent.connect(devices=["phone=1"]) as farm,
        farm.lease("phone", grants=["shell"]) as device,
        device.forward("adb") as port,
    ):
        serial = f"127.0.0.1:{port}"
        assert "connected to" in adb("connect", serial)
        try:
            yield serial
        finally:
            adb("disconnect", serial)


def said(result: CallToolResult) -> str:
    assert not result.is_error, result
    return "".join(getattr(part, "text", "") for part in result.content)


def middle(elements: str, text: str) -> dict[str, int]:
    """The middle of the element with this text, in a list of mobile-mcp's."""
    found = re.search(rf'text="{text}".* at=(\d+),(\d+) size=(\d+)x(\d+)', elements)
    assert found is not None, elements
    left, top, width, height = map(int, found.groups())
    return {"x": left + width // 2, "y": top + height // 2}


async def switched_off(serial: str, own_robot: bool, home: Path) -> str:
    """Open the settings' page of Bluetooth, turn it off, and return what the server says of its apps."""
    server = environment_of("mobile-mcp") / "node_modules" / SERVER
    own = {"MOBILEMCP_DISABLE_TELEMETRY": "1", "MOBILEMCP_LEGACY_ROBOT": str(int(own_robot))}
    started = StdioServerParameters(
        command=str(node_of("mobile-mcp")), args=[str(server)], env={**os.environ, **own, "HOME": str(home)}
    )
    async with Client(stdio_client(started)) as client:

        async def call(tool: str, **arguments: object) -> CallToolResult:
            return await client.call_tool(f"mobile_{tool}", {"device": serial, **arguments})

        assert serial in said(await client.call_tool("mobile_list_available_devices", {}))
        assert said(await call("get_screen_size")) == "Screen size is 720x1280 pixels"
        said(await call("launch_app", packageName="com.android.settings"))
        for page in ("Bluetooth", "Use Bluetooth"):
            elements = said(await call("list_elements_on_screen"))
            said(await call("click_on_screen_at_coordinates", **middle(elements, page)))
        picture = await call("take_screenshot")
        assert [part.type for part in picture.content].count("image") == 1
        said(await call("press_button", button="HOME"))
        return said(await call("list_apps")) if own_robot else ""


@pytest.mark.parametrize("own_robot", [True, False], ids=["by adb alone", "by mobilecli"])
def test_it_turns_bluetooth_off(own_robot: bool, phone: str, tmp_path: Path) -> None:
    state = ("-s", phone, "shell", "settings", "get", "global", "bluetooth_on")
    assert adb(*state) == "1"
    apps = asyncio.run(switched_off(phone, own_robot, tmp_path))
    assert adb(*state) == "0"
    assert not own_robot or "com.android.contacts" in apps
