"""What the tests of the browser driver share: a started browser, pages to act on, and what they say."""

import contextlib
import io
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from PIL import Image

from devices.config import BrowserConfig
from devices.drivers import browser
from devices.drivers.browser.device import BrowserDevice
from guiagent.actions import Action
from guiagent.errors import MissingProgram
from guiagent.protocols import Device
from guiagent.types import Observation, ObserveSpec, ResetSpec

WIDTH, HEIGHT = 320, 240
CHROMIUM = "/usr/bin/chromium"
# Options of `running` for the ways a browser is driven: by begin frames, a shell with tabs, a full Chromium.
MODES: dict[str, dict[str, Any]] = {
    "frames": {},
    "shell": {"width": 1280, "height": 720},
    "full": {"executable": CHROMIUM},
}
SHELL, FULL = (pytest.param(mode, marks=pytest.mark.drill) for mode in ("shell", "full"))  # slower to reset
PNG = ObserveSpec(frame="png")
BLIND = ObserveSpec(frame="none")
PAGE = ObserveSpec(frame="none", page=True)
RECORDER = """
<body style="margin:0; height:2000px">
<input id=field style="position:absolute; left:10px; top:10px; width:200px; height:30px">
<script>
  log = [];
  for (const type of ['mousedown', 'mouseup', 'mousemove', 'click', 'dblclick', 'contextmenu', 'auxclick'])
    addEventListener(type, e => log.push({type, x: e.clientX, y: e.clientY, detail: e.detail,
      button: e.button, buttons: e.buttons, shift: e.shiftKey, control: e.ctrlKey, alt: e.altKey}));
  for (const type of ['keydown', 'keyup'])
    addEventListener(type, e => log.push({type, key: e.key, code: e.code}));
</script>
"""
REPAINTING = """
<body style="margin:0; height:100vh; background:rgb(0,0,9)"><script>
  clicks = 0;
  addEventListener('mousedown', () => {
    clicks++;
    document.body.style.background = `rgb(${clicks % 250},${Math.floor(clicks / 250)},9)`;
  });
</script>
"""


def members(group: int) -> list[int]:
    """Living processes of a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, pgrp = stat.read_text().rpartition(")")[2].split()[:3]
            if int(pgrp) == group and state != "Z":
                found.append(int(stat.parent.name))
    return found


@contextlib.asynccontextmanager
async def running(width: int = WIDTH, height: int = HEIGHT, **options: Any) -> AsyncIterator[BrowserDevice]:
    """A browser, closed on leaving; where there is none, the test is skipped."""
    if (executable := options.get("executable")) and not shutil.which(executable):
        pytest.skip(f"no {executable}")
    try:
        started = await browser.start(BrowserConfig(width=width, height=height, **options))
    except MissingProgram as missing:
        pytest.skip(str(missing))
    try:
        await started.allow(["127.0.0.0/8"])  # where the tests' sites are
        yield started
    finally:
        await started.close()


WEB = {
    "/link": "<title>one</title><body style='margin:0'><a href=/two><img width=200 height=200></a>",
    "/two": "<title>two</title><a href=/link>back</a>",
    "/new-window": "<title>one</title><body style='margin:0'>"
    "<a href=/two target=_blank><img width=200 height=200></a>",
    "/form": "<title>one</title><body style='margin:0'><form action=/two>"
    "<input type=submit style='width:200px; height:200px'></form>",
    "/remember": "<script>document.cookie = 'secret=1; max-age=999'; localStorage.secret = 1;"
    "sessionStorage.secret = 1; window.name = 'secret'</script>",
    "/count": "<script src=/counted.js></script>",
    "/slow": "<title>slow</title>half a page<img src=/never>",
    "/save": "<body style='margin:0'><a href=/download download=it.bin><img width=200 height=200></a>",
}
PAYLOAD = bytes(range(256)) * 40


class Site(BaseHTTPRequestHandler):
    """A few pages over HTTP. `/never` accepts the request and never answers it."""

    protocol_version = "HTTP/1.1"
    loads = 0
    over = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/never":
            self.over.wait(30)
            self.close_connection = True
            return
        if self.path == "/endless":
            self._send_for_ever()
            return
        body, kind = WEB.get(self.path.partition("?")[0], ""), "text/html"
        if self.path == "/counted.js":
            Site.loads += 1
            body, kind = f"loads = {Site.loads}", "text/javascript"
        if self.path == "/worker.js":
            body, kind = "onfetch = e => {}", "text/javascript"
        data = PAYLOAD if self.path == "/download" else body.encode()
        self.send_response(204 if self.path == "/nothing" else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "max-age=999")
        if self.path == "/download":
            self.send_header("Content-Disposition", "attachment; filename=it.bin")
        if self.path == "/worker.js":
            self.send_header("Service-Worker-Allowed", "/")
        self.end_headers()
        self.wfile.write(data)

    def _send_for_ever(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            while not self.over.wait(0.002):
                self.wfile.write(bytes(1 << 14))

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """The address of a server of those pages."""
    Site.over.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    Site.over.set()
    server.shutdown()


def document(html: str) -> ResetSpec:
    return ResetSpec("data:text/html," + quote(html))


def asking(**probes: str) -> ObserveSpec:
    return ObserveSpec(frame="none", probes=probes)


async def ask(device: Device, expression: str) -> Any:
    return (await device.observe(asking(value=expression))).probes["value"]


async def act(device: Device, *actions: Action, spec: ObserveSpec = PAGE) -> Observation:
    return await device.act(actions, spec)


async def recorded(device: Device, *actions: Action) -> list[dict[str, Any]]:
    """What a page that was just loaded hears of the actions."""
    await device.reset(0, document(RECORDER), BLIND)
    await ask(device, "log.splice(0)")
    observation = await device.act(actions, asking(log="log"))
    assert observation.action_error is None
    return list(observation.probes["log"])


def image(observation: Observation) -> Image.Image:
    return Image.open(io.BytesIO(observation.frame)).convert("RGB")
