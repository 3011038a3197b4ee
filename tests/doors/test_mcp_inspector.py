"""The inspector of the Model Context Protocol, unmodified, drives a leased browser, in both eras of it.

Each call is a process and a connection of its own, so that nothing but the handle connects them.
"""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from PIL import Image

from tests.support.doors import ROOT, TOKEN, environment_of, node_of, serving
from tests.support.pressed_page import MIDDLE, PAGE

pytestmark = [pytest.mark.doors, pytest.mark.browser]

LAUNCHER = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
REFUSED, UNKNOWN_CLIENT = 5, 3  # exit codes of the inspector's
PRESSED = {"x": 140, "y": 70}


def inspect(*words: str, home: Path, rc: int = 0) -> Any:
    """What one call of the inspector's came to, or its error; fails unless it ended with `rc`."""
    launcher = environment_of("mcp-inspector") / "node_modules" / LAUNCHER
    command = [str(node_of("mcp-inspector")), str(launcher), "--cli", "--format", "json"]
    done = subprocess.run(
        [*command, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == rc, done.stdout[-2000:] + done.stderr[-2000:]
    answer = json.loads(done.stdout or done.stderr)
    return answer.get("result", answer.get("error"))


@pytest.fixture
def address() -> Iterator[str]:
    environment_of("mcp-inspector")
    words = ("mcp", "browser=1@640x480", "--http", "0", "--pictures", "reference")
    with serving(*words, GUIAGENT_MCP_TOKEN=TOKEN) as url:
        yield url


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_it_drives_a_leased_browser(era: str, address: str, tmp_path: Path) -> None:
    server = ("--server-url", address, "--protocol-era", era, "--header", f"Authorization: Bearer {TOKEN}")
    ask = partial(inspect, *server, home=tmp_path)

    def call(tool: str, *words: str, rc: int = 0, **arguments: Any) -> Any:
        named = ("--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        return ask("--method", "tools/call", *named, *words, rc=rc)

    def said(result: Any) -> str:
        return "\n".join(part["text"] for part in result["content"] if part["type"] == "text")

    tools = ask("--method", "tools/list", "--strict")["tools"]  # no schema that a client could misread
    assert {"lease", "click", "screenshot", "release"} <= {tool["name"] for tool in tools}

    held = {"device": json.loads(said(call("lease", kind="browser")))["device"]}
    call("open", **held, target="data:text/html," + quote(PAGE))
    assert MIDDLE in said(call("click", **held, **PRESSED))
    [link] = [part for part in call("screenshot", **held)["content"] if part["type"] == "resource_link"]
    file = tmp_path / "screen.jpg"
    ask("--method", "resources/read", "--uri", link["uri"], "--output", str(file), "--output-format", "raw")
    assert Image.open(io.BytesIO(file.read_bytes())).size == (640, 480)

    off = said(call("click", **held, x=2000, y=20, rc=REFUSED))
    assert off.endswith("(2000, 20) is off the picture, which is 640 x 480")
    load = ("--load", "--load-requests", "40", "--load-concurrency", "4")
    assert call("screenshot", *load, **held)["ok"] == 40

    call("release", **held)
    assert "you hold no device" in said(call("click", **held, **PRESSED, rc=REFUSED))


def test_without_the_token_it_is_nobody(address: str, tmp_path: Path) -> None:
    words = ("--server-url", address, "--stored-auth-only", "--method", "tools/list")
    assert inspect(*words, home=tmp_path, rc=UNKNOWN_CLIENT)["code"] == "auth_required"


def test_it_starts_a_server_of_its_own(tmp_path: Path) -> None:
    server = (sys.executable, "-m", "guiagent.cli", "mcp", "browser=1@640x480")
    call = ("--method", "tools/call", "--tool-name", "list_devices", "--protocol-era", "modern")
    [part] = inspect(*server, *call, home=tmp_path)["content"]
    assert part["text"].split() == ["browser-0", "browser", "ready", "640x480"]
