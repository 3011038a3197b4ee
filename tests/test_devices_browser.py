"""The browser driver on a real Chromium: what actions do, what frames show, what goes wrong, what is left."""

import asyncio
import contextlib
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
import pytest_asyncio
from PIL import Image
from playwright.async_api import async_playwright

from devices.drivers import browser
from devices.drivers.browser import device as driver
from devices.drivers.browser import page as driver_page
from guiagent.actions import (
    Action,
    Answer,
    Click,
    Drag,
    KeyChord,
    KeyDown,
    KeyUp,
    LongPress,
    MouseDown,
    MouseUp,
    Move,
    Open,
    Pinch,
    PressButton,
    Scroll,
    Swipe,
    Type,
    Wait,
)
from guiagent.errors import FaultError, InfrastructureError
from guiagent.protocols import Device
from guiagent.types import Baseline, Observation, ObserveSpec
from rewards.tasksets.miniwob import MiniWob

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

WIDTH, HEIGHT = 320, 240
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


CORNER = "<style>select, input { position:absolute; left:0; top:0; width:100px; height:30px }</style>"


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    try:
        browser.find()
    except InfrastructureError as error:
        pytest.skip(str(error))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[Device]:
    started = await browser.start(WIDTH, HEIGHT)
    yield started
    await started.close()


@contextlib.asynccontextmanager
async def running(
    width: int = WIDTH, height: int = HEIGHT, **options: Any
) -> AsyncIterator[browser.BrowserDevice]:
    started = await browser.start(width, height, **options)
    try:
        yield started
    finally:
        await started.close()


WEB = {
    "/link": "<title>one</title><body style='margin:0'><a href=/two><img width=200 height=200></a>",
    "/two": "<title>two</title><a href=/link>back</a>",
    "/new-window": "<title>one</title><body style='margin:0'>"
    "<a href=/two target=_blank><img width=200 height=200></a>",
    "/remember": "<script>document.cookie = 'secret=1; max-age=999'; localStorage.secret = 1;"
    "sessionStorage.secret = 1; window.name = 'secret'</script>",
    "/count": "<script src=/counted.js></script>",
    "/slow": "<title>slow</title>half a page<img src=/never>",
}


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
        body, kind = WEB.get(self.path, ""), "text/html"
        if self.path == "/counted.js":
            Site.loads += 1
            body, kind = f"loads = {Site.loads}", "text/javascript"
        self.send_response(204 if self.path == "/nothing" else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=999")
        if self.path == "/download":
            self.send_header("Content-Disposition", "attachment; filename=it.bin")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    Site.over.set()
    server.shutdown()


def document(html: str) -> Baseline:
    return Baseline("data:text/html," + quote(html))


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


def members(group: int) -> list[int]:
    """Living processes of a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, pgrp = stat.read_text().rpartition(")")[2].split()[:3]
            if int(pgrp) == group and state != "Z":
                found.append(int(stat.parent.name))
    return found


def profiles() -> list[Path]:
    """Folders of the browsers this process runs."""
    return list(Path(tempfile.gettempdir()).glob(f"guiagent-browser-{os.getpid()}-*"))


def renderers(group: int) -> list[int]:
    return [pid for pid in members(group) if b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes()]


# -- what is left, and what is missing -----------------------------------------------------------------------


async def test_close_leaves_no_process_and_no_folder() -> None:
    before = profiles()
    async with running() as device:
        assert isinstance(device, Device)
        assert members(device.pid)
        assert len(profiles()) == len(before) + 1
    assert members(device.pid) == []
    assert profiles() == before
    await device.close()  # again is no error
    with pytest.raises(FaultError, match="closed"):
        await device.observe(PNG)


@pytest.mark.parametrize("executable", ["/no/such/browser", None])
async def test_a_missing_browser_is_one_line(
    executable: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.delenv("GUIAGENT_CHROMIUM", raising=False)
    with pytest.raises(InfrastructureError) as caught:
        await browser.start(WIDTH, HEIGHT, executable=executable)
    assert "\n" not in str(caught.value)
    assert "apt-get install chromium-headless-shell" in str(caught.value)


async def test_what_is_no_browser_does_not_come_up() -> None:
    before = profiles()
    with pytest.raises(FaultError, match="/true did not come up: the browser process ended") as caught:
        await browser.start(WIDTH, HEIGHT, executable="true")
    assert caught.value.fault.code == "start_failed"
    assert profiles() == before


# -- faults --------------------------------------------------------------------------------------------------


async def test_a_browser_killed_mid_act_is_a_fault() -> None:
    async with running() as device:
        asyncio.get_running_loop().call_later(0.1, os.killpg, device.pid, signal.SIGKILL)
        with pytest.raises(FaultError) as caught:
            await device.act([Wait(ms=20_000)], PNG)
        assert (caught.value.fault.origin, caught.value.fault.code) == ("device", "crashed")
        assert caught.value.fault.retryable
        assert not (await device.health()).ok
        with pytest.raises(FaultError, match="crashed"):
            await device.reset(0, Baseline(), PNG)
    assert members(device.pid) == []


async def test_a_crashed_page_is_a_fault() -> None:
    async with running() as device:
        for renderer in renderers(device.pid):
            asyncio.get_running_loop().call_later(0.1, os.kill, renderer, signal.SIGKILL)
        with pytest.raises(FaultError, match="the page's process crashed"):
            await device.act([Wait(ms=20_000)], PNG)


async def test_a_stopped_browser_runs_into_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_VERB_DEADLINE_S", 0.3)
    monkeypatch.setattr(driver, "_HEALTH_DEADLINE_S", 0.3)
    async with running() as device:
        os.killpg(device.pid, signal.SIGSTOP)
        for verb in (
            device.observe(PNG),
            device.act([Click(x=5, y=5)], PNG),
            device.reset(0, Baseline(), PNG),
        ):
            with pytest.raises(FaultError) as caught:
                await verb
            assert (caught.value.fault.origin, caught.value.fault.code) == ("device", "deadline")
        assert not (await device.health()).ok
    assert members(device.pid) == []  # closing ends it all the same


async def test_a_wait_does_not_count_against_the_deadline(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_VERB_DEADLINE_S", 0.5)
    began = time.monotonic()
    observation = await device.act([Wait(ms=400), Wait(ms=400)], PNG)
    assert observation.action_error is None
    assert time.monotonic() - began >= 0.8


async def test_a_script_that_never_ends_costs_one_deadline(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    await device.reset(0, document("<script>onclick = () => { for (;;); }</script>"), PNG)
    monkeypatch.setattr(driver, "_VERB_DEADLINE_S", 0.5)
    with pytest.raises(FaultError, match="did not finish 'act'"):
        await act(device, Click(x=5, y=5))
    monkeypatch.undo()
    await device.reset(0, document("<title>fine</title>"), PNG)
    assert (await device.observe(PAGE)).title == "fine"


async def test_a_script_that_throws_is_a_fault_of_the_task(device: Device) -> None:
    with pytest.raises(FaultError, match="ReferenceError: nonsense is not defined") as caught:
        await device.reset(0, Baseline(script="nonsense()"), PNG)
    assert (caught.value.fault.origin, caught.value.fault.code) == ("task", "script_error")
    with pytest.raises(FaultError, match="script_error"):
        await device.observe(asking(value="nonsense"))


async def test_sweep_ends_what_dead_owners_left_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = (
        "import asyncio; from devices.drivers import browser\n"
        "async def main():\n"
        "    device = await browser.start(200, 200)\n"
        "    print(device.pid, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=subprocess.PIPE, env=environment
    )
    assert owner.stdout is not None
    orphan = int(await owner.stdout.readline())
    (profile,) = left_in(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # leaves alone what others on this machine run
    owned = members(orphan)
    assert browser.sweep() == 0
    assert members(orphan) == owned

    owner.kill()
    await owner.wait()
    with stand_in(profile) as stubborn:  # a browser that does not leave when its pipe closes
        (tmp_path / "guiagent-browser-of-somebody").touch()
        assert browser.sweep() >= 1
        assert stubborn.wait(10) == -signal.SIGKILL
    for _ in range(500):
        if not members(orphan):
            break
        await asyncio.sleep(0.01)
    assert members(orphan) == []
    browser.sweep()
    assert [path.name for path in left_in(tmp_path)] == ["guiagent-browser-of-somebody"]

    async with running():
        (profile,) = profiles()
        with stand_in(profile) as living:
            assert browser.sweep() == 0
            assert living.poll() is None
            assert profile.is_dir()


def left_in(folder: Path) -> list[Path]:
    return list(folder.glob("guiagent-browser-*"))


@contextlib.contextmanager
def stand_in(profile: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the command line of a browser with this profile."""
    options = ["--remote-debugging-pipe", f"--user-data-dir={profile}"]
    script = "import time; print(flush=True); time.sleep(600)"
    process = subprocess.Popen(
        [sys.executable, "-c", script, *options], start_new_session=True, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process
    finally:
        process.kill()
        process.wait()


# -- frames and observations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [Click(x=100, y=100), MouseDown(x=100, y=100)])
async def test_no_frame_is_older_than_the_click_before_it(device: Device, action: Action) -> None:
    first = await device.reset(0, document(REPAINTING), PNG)
    assert image(first).getpixel((WIDTH - 1, HEIGHT - 1)) == (0, 0, 9)
    for clicks in range(1, 101):
        observation = await act(device, action, spec=PNG)
        assert image(observation).getpixel((WIDTH - 1, HEIGHT - 1)) == (clicks % 250, clicks // 250, 9)


async def test_a_frame_has_the_size_of_the_device_in_either_encoding(device: Device) -> None:
    await device.reset(0, document("<body style='background:rgb(10,200,30)'>"), BLIND)
    png = await device.observe(PNG)
    jpeg = await device.observe(ObserveSpec(frame="jpeg", quality=90))
    assert (png.media_type, jpeg.media_type) == ("image/png", "image/jpeg")
    for observation in (png, jpeg):
        assert image(observation).size == (WIDTH, HEIGHT) == (observation.width, observation.height)
    assert image(png).getpixel((99, 99)) == (10, 200, 30)
    assert png.hash != jpeg.hash
    nothing = await device.observe(BLIND)
    assert (nothing.frame, nothing.hash, nothing.media_type) == (b"", "", "")


async def test_an_unchanged_frame_travels_as_its_hash(device: Device) -> None:
    first = await device.reset(0, document(REPAINTING), PNG)
    same = await device.act([Move(x=50, y=50)], ObserveSpec(frame="png", have=first.hash))
    assert (same.unchanged, same.frame, same.hash) == (True, b"", first.hash)
    other = await device.act([Click(x=50, y=50)], ObserveSpec(frame="png", have=first.hash))
    assert not other.unchanged
    assert other.frame
    assert other.hash != first.hash


async def test_probes_and_page_describe_the_moment_of_the_frame(device: Device) -> None:
    await device.reset(0, document("<title>a title</title>" + REPAINTING), BLIND)
    spec = ObserveSpec(
        frame="png", page=True, probes={"clicks": "clicks", "nothing": "undefined", "deep": "[{a: 1}]"}
    )
    observation = await device.act([Click(x=9, y=9), Click(x=9, y=9)], spec)
    assert observation.probes == {"clicks": 2, "nothing": None, "deep": [{"a": 1}]}
    assert image(observation).getpixel((99, 99)) == (2, 0, 9)
    assert observation.title == "a title"
    assert observation.url is not None
    assert observation.url.startswith("data:text/html,")


async def test_the_tree_names_what_is_visible_and_is_capped(device: Device) -> None:
    html = """<style>body * { position:absolute; left:10px; top:20px; width:30px; height:40px }</style>
    <button aria-label=Send></button> <input value=words> <p style='display:none'>hidden</p>
    <p style='visibility:hidden'>hidden</p> <p style='top:5000px'>below</p>"""
    await device.reset(0, document(html), BLIND)
    tree = (await device.observe(ObserveSpec(frame="none", tree=True))).tree
    assert tree is not None
    send, field = tree
    assert send == {"role": "button", "name": "Send", "value": "", "box": [10, 20, 30, 40]}
    assert (field["role"], field["value"]) == ("input", "words")
    await device.reset(0, document("<button style='position:absolute'></button>" * 600), BLIND)
    tree = (await device.observe(ObserveSpec(frame="none", tree=True))).tree
    assert tree is not None
    assert len(tree) == 500


async def test_text_no_encoder_accepts_is_mended(device: Device) -> None:
    await device.reset(0, document("<script>document.title = 'a\\ud800b \\u{1f600}'</script>"), BLIND)
    observation = await device.observe(PAGE)
    assert observation.title == "a?b \U0001f600"
    msgspec.msgpack.encode(observation)


@pytest.mark.parametrize(
    "restless",
    [
        "(function draw() { document.body.textContent = frames++; requestAnimationFrame(draw) })()",
        "setInterval(() => { document.body.textContent = frames++ }, 1)",
        "setTimeout(() => location.reload(), 20); frames = 1",
    ],
)
async def test_a_page_that_never_rests_is_shown_all_the_same(device: Device, restless: str) -> None:
    await device.reset(0, document(f"<body><script>frames = 0; {restless}</script>"), PNG)
    for _ in range(5):
        assert (await act(device, Click(x=5, y=5), spec=PNG)).frame
    assert await ask(device, "frames") >= 1


# -- actions -------------------------------------------------------------------------------------------------


async def test_a_click_is_where_it_should_be_and_nothing_else(device: Device) -> None:
    log = await recorded(device, Click(x=123, y=45))
    assert [event["type"] for event in log] == ["mousemove", "mousedown", "mouseup", "click"]
    assert all((event["x"], event["y"], event["button"]) == (123, 45, 0) for event in log)


@pytest.mark.parametrize(("button", "number"), [("left", 0), ("middle", 1), ("right", 2)])
async def test_buttons(device: Device, button: Any, number: int) -> None:
    log = await recorded(device, Click(x=99, y=99, button=button))
    assert {event["button"] for event in log if event["type"] in ("mousedown", "mouseup")} == {number}
    assert {"left": "click", "middle": "auxclick", "right": "contextmenu"}[button] in [e["type"] for e in log]


async def test_modifiers_are_held_during_the_click_only(device: Device) -> None:
    log = await recorded(device, Click(x=99, y=99, modifiers=("Shift", "Control")), Click(x=99, y=99))
    first, second = [event for event in log if event["type"] == "click"]
    assert (first["shift"], first["control"], first["alt"]) == (True, True, False)
    assert (second["shift"], second["control"]) == (False, False)


async def test_double_and_triple_clicks(device: Device) -> None:
    log = await recorded(device, Click(x=99, y=99, count=2))
    assert [event["detail"] for event in log if event["type"] == "click"] == [1, 2]
    assert log[-1]["type"] == "dblclick"
    await act(device, Click(x=20, y=20), Type(text="three words here"), Click(x=20, y=20, count=3))
    assert await ask(device, "getSelection().toString()") == "three words here"


async def test_a_drag_moves_with_the_button_down(device: Device) -> None:
    log = await recorded(device, Drag(path=((50, 60), (80, 90), (110, 120))))
    heard = [(event["type"], event["x"], event["buttons"]) for event in log]
    assert heard[:5] == [
        ("mousemove", 50, 0),
        ("mousedown", 50, 1),
        ("mousemove", 80, 1),
        ("mousemove", 110, 1),
        ("mouseup", 110, 0),
    ]


async def test_a_drag_can_be_done_by_hand(device: Device) -> None:
    log = await recorded(device, MouseDown(x=50, y=60), Move(x=80, y=90), MouseUp(x=80, y=90), Move(x=9, y=9))
    heard = [(e["type"], e["x"], e["buttons"]) for e in log if e["type"] != "click"]
    assert heard == [("mousedown", 50, 1), ("mousemove", 80, 1), ("mouseup", 80, 0), ("mousemove", 9, 0)]


async def test_a_key_held_down_modifies_what_follows(device: Device) -> None:
    log = await recorded(
        device, KeyDown(key="Shift"), Click(x=99, y=99), KeyUp(key="Shift"), Click(x=99, y=99)
    )
    assert [event["shift"] for event in log if event["type"] == "click"] == [True, False]


async def test_scrolling_down_moves_the_content_up(device: Device) -> None:
    await device.reset(0, document(RECORDER), PNG)
    await act(device, Scroll(x=100, y=100, dy=300))
    assert await ask(device, "scrollY") == 300
    await act(device, Scroll(x=100, y=100, dy=-100))
    assert await ask(device, "scrollY") == 200


@pytest.mark.parametrize(
    ("start", "actions", "value"),
    [
        ("", [Type(text="Hello, World! 100% ~ok")], "Hello, World! 100% ~ok"),
        ("", [Type(text="żółć 汉字 😀")], "żółć 汉字 😀"),
        ("old", [Type(text="er")], "older"),
        ("old", [Type(text="new", clear=True)], "new"),
        ("old", [Type(text="", clear=True)], ""),
        ("abc", [KeyChord(keys=("ArrowLeft",)), KeyChord(keys=("Backspace",))], "ac"),
        ("abc", [KeyChord(keys=("Home",)), KeyChord(keys=("Delete",))], "bc"),
        ("abc", [KeyChord(keys=("Control", "a")), KeyChord(keys=("x",))], "x"),
        ("ab", [KeyChord(keys=("Control", k)) for k in "acvv"], "abab"),
        ("ab", [KeyChord(keys=("Shift", "c")), KeyChord(keys=("Shift", "1"))], "abC!"),
        ("abc", [KeyChord(keys=("Shift", "ArrowLeft")), KeyChord(keys=("Delete",))], "ab"),
        ("", [KeyDown(key="Shift"), Type(text="a"), KeyUp(key="Shift"), Type(text="a")], "Aa"),
        ("", [Type(text="a" * 1000)], "a" * 1000),
    ],
)
async def test_typing(device: Device, start: str, actions: Sequence[Action], value: str) -> None:
    await device.reset(0, document(RECORDER), BLIND)
    await ask(device, f"field.value = {start!r}, field.focus(), field.setSelectionRange(99, 99)")
    observation = await device.act(actions, asking(value="field.value"))
    assert observation.probes["value"] == value
    assert observation.action_error is None


async def test_newlines_tabs_and_submit_are_keys(device: Device) -> None:
    html = """<form onsubmit="sent = a.value + '|' + b.value; return false">
    <textarea id=a autofocus></textarea><input id=b><input type=submit></form>"""
    await device.reset(0, document(html), BLIND)
    await ask(device, "a.focus()")
    await act(device, Type(text="one\r\ntwo\tthree", submit=True))
    assert await ask(device, "sent") == "one\ntwo|three"


async def test_keys_have_their_names_and_codes(device: Device) -> None:
    log = await recorded(device, KeyChord(keys=("Control", "Shift", "k")), PressButton(button="enter"))
    assert [(event["type"], event["key"], event["code"]) for event in log] == [
        ("keydown", "Control", "ControlLeft"),
        ("keydown", "Shift", "ShiftLeft"),
        ("keydown", "K", "KeyK"),
        ("keyup", "K", "KeyK"),
        ("keyup", "Shift", "ShiftLeft"),
        ("keyup", "Control", "ControlLeft"),
        ("keydown", "Enter", "Enter"),
        ("keyup", "Enter", "Enter"),
    ]


async def test_a_long_press_lasts(device: Device) -> None:
    await device.reset(
        0, document("<script>onmousedown = onmouseup = e => { window[e.type] = e.timeStamp }</script>"), BLIND
    )
    await act(device, LongPress(x=99, y=99, ms=300))
    assert await ask(device, "mouseup - mousedown") >= 250


async def test_words_to_the_user_move_nothing(device: Device) -> None:
    assert await recorded(device, Answer(text="42")) == []


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (Pinch(x=5, y=5, scale=2.0), "no 'pinch' action"),
        (Swipe(x1=5, y1=5, x2=50, y2=50), "no 'swipe' action"),
        (PressButton(button="home"), "no 'press_button' action"),
        (KeyChord(keys=("Hyper",)), "no key named 'Hyper'"),
        (PressButton(button="forward"), "no page to go forward to"),
    ],
)
async def test_what_cannot_be_done_says_so_and_ends_the_batch(
    device: Device, action: Action, error: str
) -> None:
    await device.reset(0, document(RECORDER), BLIND)
    await ask(device, "log.splice(0)")
    observation = await device.act([action, Type(text="x"), Click(x=9, y=9)], asking(log="log"))
    assert error in (observation.action_error or "")
    assert observation.probes["log"] == []
    assert (await device.act([], BLIND)).action_error is None


async def test_a_dropdown_is_on_the_screen_and_can_be_clicked(device: Device) -> None:
    html = CORNER + "<select id=s style='appearance:none'><option>red<option>green<option>blue"
    closed = await device.reset(0, document(html), PNG)
    opened = await act(device, Click(x=50, y=15), spec=ObserveSpec(tree=True))
    assert opened.hash != closed.hash
    assert opened.tree is not None
    (blue,) = [node for node in opened.tree if node["name"] == "blue"]
    left, top, width, height = blue["box"]
    await act(device, Click(x=left + width // 2, y=top + height // 2))
    assert await ask(device, "s.value") == "blue"


@pytest.mark.parametrize("kind", ["date", "time", "color", "file", "datetime-local"])
async def test_pickers_do_not_hold_the_browser(device: Device, kind: str) -> None:
    await device.reset(0, document(f"{CORNER}<input type={kind}>"), PNG)
    observation = await act(device, Click(x=88, y=15), Click(x=20, y=15), spec=PNG)
    assert observation.action_error is None


async def test_a_popup_that_gets_through_is_closed(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_page, "_POPUP_S", 0.3)
    inner = CORNER + "<select><option>a<option>b</select>"
    html = f'<div id=host></div><script>host.attachShadow({{mode: "open"}}).innerHTML = "{inner}"</script>'
    await device.reset(0, document(html), PNG)
    observation = await act(device, Click(x=50, y=15), spec=PNG)
    assert observation.action_error == "a popup that cannot be shown was closed"
    assert observation.frame


@pytest.mark.parametrize(
    ("call", "answer"), [("alert('hey')", None), ("confirm('hey')", False), ("prompt('hey', 'x')", None)]
)
async def test_dialogs_are_dismissed_and_noted(device: Device, call: str, answer: object) -> None:
    await device.reset(
        0, document(f"<script>onclick = () => {{ answer = {call}; done = true }}</script>"), PNG
    )
    observation = await device.act([Click(x=9, y=9)], asking(done="done", answer="answer"))
    assert observation.action_error == f"the page showed a dialog ({call.partition('(')[0]}): 'hey'"
    assert observation.probes == {"done": True, "answer": answer}
    assert (await act(device, Move(x=5, y=5))).action_error is None


async def test_a_page_that_wants_to_be_kept_can_be_left(device: Device) -> None:
    await device.reset(
        0, document("<input autofocus><script>onbeforeunload = e => e.preventDefault()</script>"), PNG
    )
    observation = await act(device, Click(x=20, y=15), Type(text="x"), Open(target="about:blank"))
    assert (observation.url, observation.action_error) == ("about:blank", None)


# -- pages ---------------------------------------------------------------------------------------------------


async def test_links_back_and_forward(device: Device, site: str) -> None:
    await device.reset(0, Baseline(f"{site}/link"), PNG)
    assert (await act(device, Click(x=50, y=50))).title == "two"
    assert (await act(device, PressButton(button="back"))).title == "one"
    assert (await act(device, PressButton(button="forward"))).title == "two"
    await act(device, PressButton(button="back"))
    at_start = await act(device, PressButton(button="back"))
    assert at_start.title == "one"
    assert at_start.action_error == "there is no page to go back to"


async def test_what_opens_in_a_new_window_opens_here(device: Device, site: str) -> None:
    await device.reset(0, Baseline(f"{site}/new-window"), PNG)
    assert (await act(device, Click(x=50, y=50))).title == "two"
    await device.reset(
        0, document("<script>onclick = () => { opened = window.open('about:blank') }</script>"), PNG
    )
    observation = await device.act([Click(x=9, y=9)], asking(opened="opened"))
    assert observation.probes == {"opened": None}


@pytest.mark.parametrize(
    "target", ["/link", "about:blank", "data:text/html,<title>one</title>", "miniwob:click-test"]
)
async def test_open_takes_pages(device: Device, site: str, target: str) -> None:
    await device.reset(0, Baseline(), PNG)
    observation = await act(device, Open(target=site + target if target.startswith("/") else target))
    assert observation.action_error is None
    assert observation.title == {"about:blank": "", "miniwob:click-test": "Click Test Task"}.get(
        target, "one"
    )


@pytest.mark.parametrize(
    "target",
    ["file:///etc/passwd", "FILE:///etc/passwd", "chrome://version", "javascript:alert(1)", "view-source:http://x/",
     "data:application/json,1", "miniwob:../../../../etc/passwd", "ftp://x/", "example.org"],
)  # fmt: skip
async def test_open_refuses_everything_else(device: Device, target: str) -> None:
    await device.reset(0, document("<title>home</title>"), PNG)
    observation = await act(device, Open(target=target))
    assert "refused to open" in (observation.action_error or "")
    assert observation.title == "home"
    with pytest.raises(FaultError, match="refused_url"):
        await device.reset(0, Baseline(target), PNG)
    assert (await device.observe(PAGE)).title == "home"


async def test_no_script_reaches_the_hosts_files(device: Device, tmp_path: Path) -> None:
    secret = tmp_path / "secret.html"
    secret.write_text("<title>secret</title>secret")
    task = MiniWob().task("click-test-2", 0)
    await task.setup(device, BLIND)
    await ask(device, f"document.body.innerHTML = '<iframe src={secret.as_uri()}></iframe>'")
    await ask(device, f"void (location = '{secret.as_uri()}')")
    observation = await act(
        device,
        Wait(ms=200),
        spec=ObserveSpec(frame="none", page=True, probes={"text": "document.body.innerText"}),
    )
    assert "secret" not in str(observation.title) + str(observation.probes["text"])


async def test_a_page_that_cannot_be_reached(device: Device) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        observation = await act(device, Open(target=url))
        assert observation.action_error == f"cannot open {url}: net::ERR_CONNECTION_REFUSED"
        with pytest.raises(FaultError) as caught:
            await device.reset(0, Baseline(url), PNG)
    assert (caught.value.fault.origin, caught.value.fault.code) == ("task", "unreachable")


@pytest.mark.parametrize("path", ["/nothing", "/download"])
async def test_what_is_no_page_leaves_the_page(device: Device, site: str, path: str) -> None:
    await device.reset(0, Baseline(f"{site}/two"), PNG)
    observation = await act(device, Open(target=site + path))
    assert "net::ERR_ABORTED" in (observation.action_error or "")
    assert observation.title == "two"


async def test_a_page_that_never_finishes_loading(
    device: Device, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_page, "_LOAD_CAP_S", 0.3)
    half = await device.reset(0, Baseline(f"{site}/slow"), PAGE)
    assert (half.title, half.action_error) == ("slow", "the page was still loading after 0.3 s")
    assert (await act(device, Click(x=5, y=5), spec=PNG)).action_error is None
    never = await act(device, Open(target=f"{site}/never"))
    assert never.action_error == f"cannot open {site}/never: no answer within 0.3 s"
    assert (await act(device, Open(target=f"{site}/two"))).title == "two"


async def test_a_baseline_sees_nothing_of_the_one_before(device: Device, site: str) -> None:
    secrets = asking(value="[document.cookie, localStorage.secret, sessionStorage.secret, window.name]")
    observation = await device.reset(0, Baseline(f"{site}/remember"), secrets)
    assert observation.probes["value"] == ["secret=1", "1", "1", "secret"]
    for baseline in (Baseline(f"{site}/two"), Baseline(f"{site}/remember?")):
        observation = await device.reset(0, baseline, secrets)
        assert observation.probes["value"] == ["", None, None, ""]
    first = (await device.reset(0, Baseline(f"{site}/count"), asking(loads="loads"))).probes["loads"]
    again = (await device.reset(0, Baseline(f"{site}/count"), asking(loads="loads"))).probes["loads"]
    assert again == first + 1  # not from a cache


async def test_a_package_page_is_set_up_again_in_place_and_alike(device: Device) -> None:
    task = MiniWob().task("click-test-2", 7)
    instruction, first = await task.setup(device, PNG)
    await ask(device, "kept = true")
    again = await task.setup(device, PNG)
    assert again[0] == instruction
    assert again[1].hash == first.hash
    assert await ask(device, "kept")
    for away in ("about:blank", "miniwob:click-test", "miniwob:click-test-2"):
        await act(device, Open(target=away))
        assert (await task.setup(device, PNG))[1].hash == first.hash
        assert await ask(device, "typeof kept") == "undefined"
        await ask(device, "kept = true")


async def test_the_baselines_script_gets_the_seed(device: Device) -> None:
    observation = await device.reset(41, Baseline(script="document.title = SEED + 1"), PAGE)
    assert observation.title == "42"


# -- other browsers and modes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "height", "executable"), [(1920, 1080, None), (WIDTH, HEIGHT, "/usr/bin/chromium")]
)
async def test_the_other_modes_work_alike(width: int, height: int, executable: str | None, site: str) -> None:
    if executable and not shutil.which(executable):
        pytest.skip(f"no {executable}")
    async with running(width, height, executable=executable) as device:
        capabilities = await device.describe()
        assert (capabilities.kind, capabilities.width, capabilities.height) == ("browser", width, height)
        await device.reset(0, document(REPAINTING), PNG)
        for clicks in range(1, 21):
            shown = image(await act(device, Click(x=100, y=100), spec=PNG))
            assert shown.size == (width, height)
            assert shown.getpixel((width - 1, height - 1)) == (clicks, 0, 9)
        await recorded(device, Click(x=50, y=20), Type(text="hé"), KeyChord(keys=("Control", "a")))
        assert await ask(device, "field.value + getSelection().toString()") == "héhé"
        await device.reset(0, document("<script>onclick = () => alert('hey')</script>"), PNG)
        assert "hey" in ((await act(device, Click(x=9, y=9))).action_error or "")
        await device.reset(0, Baseline(f"{site}/new-window"), PNG)
        assert (await act(device, Click(x=50, y=50))).title == "two"
        assert (await device.health()).ok
    assert members(device.pid) == []


async def test_playwright_connects_to_the_same_page_where_asked_for(device: Device) -> None:
    assert isinstance(device, browser.BrowserDevice)
    assert device.cdp_url is None
    async with running(expose_cdp=True) as exposed, async_playwright() as playwright:
        assert exposed.cdp_url is not None
        await exposed.reset(0, document("<title>shared</title><button>press</button>"), PNG)
        client = await playwright.chromium.connect_over_cdp(exposed.cdp_url)
        (page,) = client.contexts[0].pages
        assert await page.title() == "shared"
        await page.evaluate("document.querySelector('button').onclick = () => { document.title = 'pressed' }")
        await page.click("button")
        assert (await exposed.observe(PAGE)).title == "pressed"
        await client.close()
        assert (await exposed.health()).ok
