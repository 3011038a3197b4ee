"""Clients of DevTools, unmodified, on a leased browser: Selenium, Playwright's MCP server, browser-use."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import CallToolResult

from guiagent.client.sync_device import SyncDevice
from tests.support.doors import ROOT, environment_of, run_in
from tests.support.model_stand_in import Body, stand_in
from tests.support.pressed_page import MIDDLE, leased_with_devtools, pressed_page

pytestmark = [pytest.mark.doors, pytest.mark.browser]


@pytest.fixture
def url() -> Iterator[str]:
    with pressed_page() as address:
        yield address


@pytest.fixture
def leased(url: str) -> Iterator[tuple[SyncDevice, int]]:
    with leased_with_devtools(url) as device_and_port:
        yield device_and_port


@pytest.mark.skipif(shutil.which("chromedriver") is None, reason="no chromedriver: scripts/farm doors")
def test_selenium_fills_a_form_and_opens_a_tab(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "doors" / "selenium_client.py")]
    own = os.environ | {"GUIAGENT_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=own, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the farm sees: written by Selenium\nin its own tab: a second tab of 2\n"


@pytest.mark.skipif(shutil.which("chromedriver") is None, reason="no chromedriver: scripts/farm doors")
def test_selenium_is_told_that_the_lease_ended(leased: tuple[SyncDevice, int], url: str) -> None:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException

    device, port = leased
    options = webdriver.ChromeOptions()
    options.debugger_address = f"127.0.0.1:{port}"
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        driver.get(url)
        assert driver.title == "not yet"
        device.close()
        with pytest.raises(WebDriverException, match=r"disconnected|not reachable|no such window"):
            driver.get(url)
    finally:
        driver.quit()


def said(result: CallToolResult) -> str:
    assert not result.is_error, result
    return "".join(getattr(part, "text", "") for part in result.content)


async def pressed(url: str, port: int, folder: Path) -> list[str]:
    """The tabs in the end, as Playwright's server names them."""
    server = environment_of("playwright-mcp") / "node_modules" / "@playwright" / "mcp" / "cli.js"
    words = [str(server), "--cdp-endpoint", f"http://127.0.0.1:{port}"]
    started = StdioServerParameters(command="node", args=words, cwd=str(folder))
    async with Client(stdio_client(started)) as client:
        said(await client.call_tool("browser_navigate", {"url": url}))
        snapshot = said(await client.call_tool("browser_snapshot", {}))
        found = re.search(r'button "b" .*?\[?ref=(\w+)\]', snapshot)
        assert found is not None, snapshot
        said(await client.call_tool("browser_click", {"element": "b", "target": found[1]}))
        said(await client.call_tool("browser_tabs", {"action": "new"}))
        second = {"url": "data:text/html,<title>second</title>"}
        said(await client.call_tool("browser_navigate", second))
        tabs = said(await client.call_tool("browser_tabs", {"action": "list"}))
        return re.findall(r"^- \d: (?:\(current\) )?\[([^\]]*)\]", tabs, re.MULTILINE)


def test_playwrights_server_presses_a_button_and_opens_a_tab(
    leased: tuple[SyncDevice, int], url: str, tmp_path: Path
) -> None:
    device, port = leased
    assert asyncio.run(pressed(url, port, tmp_path)) == [MIDDLE, "second"]
    assert device.observe(page=True).title in (MIDDLE, "second")


def parts_of(body: Body) -> list[dict[str, Any]]:
    """All parts of what a model is shown."""
    contents = [message["content"] for message in body["messages"] if message["role"] == "user"]
    return [
        part
        for content in contents
        for part in ([{"type": "text", "text": content}] if isinstance(content, str) else content)
    ]


def decided(body: Body) -> str:
    """What a model says that presses the button it finds among the elements, once."""
    shown = " ".join(part.get("text", "") for part in parts_of(body))
    name, button = re.search(r"\b\d+ and \d+\b", shown), re.search(r"\[(\d+)\]<button", shown)
    action: dict[str, Any] = {"done": {"text": f"it is called {name[0]}", "success": True}} if name else {}
    if not action:
        assert button is not None, shown
        action = {"click": {"index": int(button[1])}}
    thought = dict.fromkeys(("thinking", "evaluation_previous_goal", "memory", "next_goal"), "-")
    return json.dumps(thought | {"action": [action]})


def test_browser_use_presses_a_button(leased: tuple[SyncDevice, int], tmp_path: Path) -> None:
    device, port = leased
    with stand_in(decided) as model:
        own = {"CDP": f"127.0.0.1:{port}", "OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "k"}
        own |= {"ANONYMIZED_TELEMETRY": "false", "BROWSER_USE_CLOUD_SYNC": "false", "HOME": str(tmp_path)}
        own |= {"BROWSER_USE_VERSION_CHECK": "false", "BROWSER_USE_LOGGING_LEVEL": "result"}
        told = run_in("browser-use", ROOT / "examples" / "doors" / "browser_use_agent.py", **own)
        pictures = [part for body in model.bodies for part in parts_of(body) if part["type"] == "image_url"]
    assert f"the agent says: it is called {MIDDLE}\n" in told and "errors: []" in told
    assert device.observe(page=True).title == MIDDLE
    assert pictures  # it was shown the screen
