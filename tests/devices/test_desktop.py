"""The desktop driver on a real X server with real programs: frames, input, settling, what a guest may see."""

import asyncio
import contextlib
import http.server
import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from devices.drivers import desktop
from guiagent.actions import (
    Action,
    Answer,
    Click,
    Done,
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
    Shell,
    Swipe,
    Type,
    Wait,
    Zoom,
)
from guiagent.errors import FaultError, UsageError
from guiagent.protocols import Device, Files, Networked, Services
from guiagent.protocols import Shell as HasShell
from guiagent.types import Node, ObserveSpec, ResetSpec
from tests.support.desktops import HEIGHT, NO_FRAME, PNG, WIDTH, act, picture, running, shell

pytestmark = pytest.mark.asyncio(loop_scope="module")

INSIDE = (300, 250)  # of the window of `recorded`


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[desktop.DesktopDevice]:
    async with running() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def fresh(device: desktop.DesktopDevice) -> desktop.DesktopDevice:
    await device.reset(0, ResetSpec(), NO_FRAME)
    return device


async def recorded(device: desktop.DesktopDevice, *actions: Action) -> list[str]:
    """The events that a window under the pointer got from these actions, as "name detail"."""
    if not await shell(device, "pgrep -x xev"):
        before = set(await device.session.display.windows())
        watch = (
            "exec stdbuf -oL xev -geometry 600x400+100+100 -event mouse -event keyboard > /home/user/events"
        )
        await device.session.guest.launch(["/bin/sh", "-c", watch])
        await device.session.display.opened(before, None, 5.0)
        await act(device, Move(x=INSIDE[0], y=INSIDE[1]))
    await shell(device, ": > /home/user/events")
    await act(device, *actions)
    await device.session.display.processed()
    events = []
    for block in (await shell(device, "cat /home/user/events")).replace("\0", "").split("\n\n"):
        name = block.strip().split(" ")[0]
        for key in ("button", "keysym 0x"):
            if key in block:
                detail = block.split(key, 1)[1].split(",")[1 if key != "button" else 0]
                events.append(f"{name} {detail.strip(' )').split(' ')[0]}")
    return events


async def test_it_is_a_device_with_its_capabilities(device: desktop.DesktopDevice) -> None:
    for protocol in (Device, HasShell, Files, Services, Networked):
        assert isinstance(device, protocol)
    described = await device.describe()
    assert (described.kind, described.width, described.height) == ("desktop", WIDTH, HEIGHT)
    assert set(described.features) == {"a11y", "shell", "files", "osworld"}
    assert (await device.health()).ok


async def test_a_frame_shows_the_screen_and_the_pointer(fresh: desktop.DesktopDevice) -> None:
    await act(fresh, Move(x=200, y=150))
    observation = await fresh.observe(PNG)
    image = picture(observation)
    assert image.size == (WIDTH, HEIGHT) == (observation.width, observation.height)
    background = image.getpixel((10, 10))
    pointer = image.crop((190, 140, 220, 175))
    assert len(pointer.getcolors() or []) > 2, "no pointer is drawn"
    image.paste(background, (190, 140, 220, 175))
    assert image.getcolors() == [(WIDTH * HEIGHT, background)]
    jpeg = await fresh.observe(ObserveSpec(frame="jpeg"))
    assert jpeg.media_type == "image/jpeg"
    assert picture(jpeg).size == (WIDTH, HEIGHT)


async def test_an_unchanged_frame_travels_as_its_hash(device: desktop.DesktopDevice) -> None:
    first = await act(device, Move(x=WIDTH // 2, y=HEIGHT // 2), spec=ObserveSpec())
    again = await device.observe(ObserveSpec(have=first.hash))
    assert again.unchanged
    assert not again.frame
    assert again.hash == first.hash
    moved = await device.act([Move(x=70, y=70)], ObserveSpec(have=first.hash))
    assert not moved.unchanged
    assert moved.hash != first.hash
    back = await device.act([Move(x=WIDTH // 2, y=HEIGHT // 2)], ObserveSpec(have=first.hash))
    assert back.unchanged, "the same picture again"


async def test_the_mouse_does_what_it_is_told(device: desktop.DesktopDevice) -> None:
    x, y = INSIDE
    assert await recorded(device, Click(x=x, y=y)) == ["ButtonPress 1", "ButtonRelease 1"]
    twice = ["ButtonPress 3", "ButtonRelease 3"] * 2
    assert await recorded(device, Click(x=x, y=y, button="right", count=2)) == twice
    held = await recorded(device, Click(x=x, y=y, modifiers=("Control",), button="middle"))
    assert held == ["KeyPress Control_L", "ButtonPress 2", "ButtonRelease 2", "KeyRelease Control_L"]
    assert await recorded(device, MouseDown(x=x, y=y, button="back")) == ["ButtonPress 8"]
    assert await recorded(device, MouseUp(x=x, y=y, button="back")) == ["ButtonRelease 8"]
    drag = Drag(path=((x, y), (x + 40, y), (x + 40, y + 40)))
    assert await recorded(device, drag) == ["ButtonPress 1", "ButtonRelease 1"]
    swipe = Swipe(x1=x, y1=y, x2=x + 60, y2=y, ms=60)
    assert (
        await recorded(device, swipe, LongPress(x=x, y=y, ms=50)) == ["ButtonPress 1", "ButtonRelease 1"] * 2
    )


async def test_a_scroll_turns_the_wheel_by_its_pixels(device: desktop.DesktopDevice) -> None:
    x, y = INSIDE
    assert await recorded(device, Scroll(x=x, y=y, dy=106)) == ["ButtonPress 5", "ButtonRelease 5"] * 2
    assert await recorded(device, Scroll(x=x, y=y, dy=-1)) == ["ButtonPress 4", "ButtonRelease 4"]
    sideways = await recorded(device, Scroll(x=x, y=y, dx=53))
    assert sideways == ["ButtonPress 7", "ButtonRelease 7"]
    assert await recorded(device, Scroll(x=x, y=y)) == []


async def test_keys_go_down_and_up_by_their_w3c_names(device: desktop.DesktopDevice) -> None:
    await recorded(device, Click(x=INSIDE[0], y=INSIDE[1]))
    chord = await recorded(device, KeyChord(keys=("Control", "Shift", "ArrowLeft")))
    names = ["Control_L", "Shift_L", "Left"]
    assert chord == [f"KeyPress {one}" for one in names] + [f"KeyRelease {one}" for one in reversed(names)]
    assert await recorded(device, KeyDown(key="F5"), KeyUp(key="F5")) == ["KeyPress F5", "KeyRelease F5"]
    assert await recorded(device, KeyChord(keys=("€",))) == ["KeyPress U20AC", "KeyRelease U20AC"]
    assert await recorded(device, PressButton(button="enter")) == ["KeyPress Return", "KeyRelease Return"]
    back = await recorded(device, PressButton(button="back"))
    assert back == ["KeyPress Alt_L", "KeyPress Left", "KeyRelease Left", "KeyRelease Alt_L"]


async def test_any_text_can_be_typed(device: desktop.DesktopDevice) -> None:
    await act(device, Open(target="xterm"), Type(text="cat > typed; echo -n done > end\n"))
    lines = [
        "The 'quick' \"brown\" fox: ~!@#$%^&*()_+{}|<>?`-=[]\\;,./",
        "Zwölf Boxkämpfer, ñandú, façade, 你好, Привет, Ελλάδα, € ∑ ≠ 😀",
        "".join(chr(code) for code in range(0x4E00, 0x4E00 + 40)),  # more than there are spare keys
    ]
    text = "\n".join(lines)
    await act(device, Type(text=text, submit=True), KeyChord(keys=("Control", "d")))
    await shell(device, "until grep -q done end; do sleep 0.02; done")
    assert (await device.get("/home/user/typed")).decode() == text + "\n"


async def test_what_cannot_be_done_is_the_agents_error(device: desktop.DesktopDevice) -> None:
    async def error(action: Action) -> str:
        return (await device.act([action], NO_FRAME)).action_error or ""

    assert "pinch" in await error(Pinch(x=1, y=1, scale=2.0))
    assert "zoom" in await error(Zoom(region=(0, 0, 9, 9)))
    assert "volume_up" in await error(PressButton(button="volume_up"))
    assert "no key named 'Fn'" in await error(KeyChord(keys=("Control", "Fn")))
    assert "no application 'photoshop'" in await error(Open(target="photoshop"))
    assert "no application" in await error(Open(target="../../bin/sh"))
    assert "\\x07" in await error(Type(text="a\x07"))
    assert not await error(Wait(ms=1)) and not await error(Done()) and not await error(Answer(text="42"))
    before = await device.session.display.windows()
    stopped = await device.act([Pinch(x=1, y=1, scale=2.0), Open(target="xterm")], NO_FRAME)
    assert stopped.action_error
    assert await device.session.display.windows() == before, "went on after the failure"


async def test_a_shell_action_prints_into_the_observation(device: desktop.DesktopDevice) -> None:
    observation = await act(device, Shell(command="echo out; echo err >&2; id -un"))
    assert observation.output == "out\nuser\nerr\n"
    failed = await device.act([Shell(command="exit 3")], NO_FRAME)
    assert failed.action_error == "the command ended with status 3"
    with pytest.raises(FaultError) as raised:
        await device.exec(["sleep", "9"], 0.2)
    assert raised.value.fault.origin == "task"


async def test_files_go_in_and_out(device: desktop.DesktopDevice) -> None:
    data = os.urandom(300_000)
    await device.put("/home/user/new folder/data.bin", data)
    assert await device.get("/home/user/new folder/data.bin") == data
    with pytest.raises(FaultError) as raised:
        await device.get("/home/user/nothing")
    assert raised.value.fault.origin == "task"


async def test_a_guest_sees_nothing_of_this_machine(device: desktop.DesktopDevice, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    for path in (secret, Path(__file__), Path.home() / ".ssh", "/etc/shadow", "/etc/ssl/private/x"):
        assert not await shell(device, f"cat '{path}' 2>/dev/null"), path
        await shell(device, f"ln -sf '{path}' /home/user/link")
        with contextlib.suppress(FaultError):  # it may be there, and empty
            assert await device.get("/home/user/link") == b""
    assert (await shell(device, "ls /home; ls /tmp | grep -v -e ^dbus -e ^guiagent-guest")).split() == [
        "user"
    ]
    assert str(os.getpid()) not in (await shell(device, "ls /proc")).split()
    assert "lo:" in (devices := await shell(device, "cat /proc/net/dev"))
    assert devices.count(":") == 1, "another network interface than lo"
    assert "of the host" not in await shell(device, "env")
    await device.put("/home/user/x", b"")
    assert "Permission denied" in await shell(device, "echo x > /proc/sys/kernel/core_pattern")


async def test_two_desktops_do_not_see_each_other(device: desktop.DesktopDevice) -> None:
    async with running() as other:
        await shell(
            other,
            "sleep 77 > /dev/null 2>&1 & echo there > /tmp/mark; printf clip | xclip -selection clipboard",
        )
        assert await shell(other, "pgrep -x sleep")
        assert not await shell(device, "pgrep -x sleep")
        assert "No such file" in await shell(device, "cat /tmp/mark")
        assert "clip" not in await shell(device, "timeout 2 xclip -o -selection clipboard")
        before = await device.session.display.windows()
        await act(other, Open(target="xterm"))
        assert await device.session.display.windows() == before


async def test_nothing_that_was_left_behind_survives_a_reset(fresh: desktop.DesktopDevice) -> None:
    baseline, nothing = await fresh.attest(), await fresh.session.residue()
    leave = """
        for place in ~ /usr/bin /tmp /opt /dev/shm; do echo x > $place/left; done
        mkdir -p /var/spool/cron; echo '* * * * * x' > /var/spool/cron/user
        echo left >> /etc/hosts; rm /usr/bin/xev
        setsid sleep 1234 > /dev/null 2>&1 &
        printf left | xclip -selection clipboard"""
    await shell(fresh, leave)
    await act(fresh, MouseDown(x=5, y=5), KeyDown(key="Shift"), Open(target="xterm"))
    assert await fresh.attest() != baseline
    assert await shell(fresh, "cat /opt/left; pgrep -x sleep"), "could not leave anything"
    await fresh.reset(0, ResetSpec(), NO_FRAME)
    assert await fresh.session.residue() == nothing
    assert await fresh.attest() == baseline
    found = """
        ls ~/left /usr/bin/left /tmp/left /opt/left /dev/shm/left /var/spool/cron/user 2>/dev/null
        grep left /etc/hosts; pgrep -x sleep; ls /usr/bin/xev
        timeout 2 xclip -o -selection clipboard 2>/dev/null"""
    assert (await shell(fresh, found)).split() == ["/usr/bin/xev"]
    assert await fresh.session.display.windows() == []


async def test_each_kind_of_residue_is_attested(device: desktop.DesktopDevice) -> None:
    # Without root nobody inside owns what is in the system's folders: they cannot be changed.
    system = "touch /usr/share/x"
    if os.geteuid() != 0:
        assert await shell(device, f"{system} 2>/dev/null || echo refused") == "refused\n"
    for trace in (
        *((system,) if os.geteuid() == 0 else ()),
        "rm /etc/issue",
        "touch ~/x",
        "setsid sleep 99 >/dev/null 2>&1 &",
        "echo x | xclip -selection clipboard",
        "setsid xterm >/dev/null 2>&1 & sleep 0.5",
    ):
        before = await device.attest()
        await shell(device, trace)
        assert await device.attest() != before, trace


async def test_a_page_as_baseline_is_opened(device: desktop.DesktopDevice) -> None:
    for baseline in (
        ResetSpec(script="1"),
        ResetSpec(snapshot="x"),
        ResetSpec(profile="x"),
        ResetSpec(state={}),
    ):
        with pytest.raises(UsageError, match="reset to `url` alone"):
            await device.reset(0, baseline, NO_FRAME)
    if "no" in await shell(device, "command -v chromium || echo no"):
        pytest.skip("there is no chromium")
    page = "data:text/html,<title>Hello</title><button>Press me</button>"
    await device.reset(0, ResetSpec(url=page), NO_FRAME)
    buttons: list[Node] = []
    async with asyncio.timeout(60):
        while not buttons:
            tree = (await device.observe(ObserveSpec("none", tree=True))).tree or []
            buttons = [node for node in tree if (node.role, node.name) == ("button", "Press me")]
    [button] = buttons
    x, y, width, height = button.box
    assert 0 < x < x + width < WIDTH and 0 < y < y + height < HEIGHT
    assert ((await device.observe(ObserveSpec("none", page=True))).title or "").startswith("Hello")


async def test_a_screen_that_never_rests_holds_nobody_up(fresh: desktop.DesktopDevice) -> None:
    await act(fresh, Open(target="xterm"), Type(text="while :; do date +%N; done\n"))
    await act(fresh, Wait(ms=900))  # until it counts as playing by itself
    settle = fresh.session.display.settle
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(10):
        for _ in range(10):
            await settle()
    assert asyncio.get_running_loop().time() - began < 5, "each settle ran into its cap"


async def test_osworld_is_spoken_on_a_connection(device: desktop.DesktopDevice) -> None:
    reader, writer = await device.connect("osworld")
    writer.write(b"GET /platform HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"Linux")
    with pytest.raises(UsageError):
        await device.connect("adb")


@pytest.fixture(scope="module")
def web_server() -> Iterator[int]:
    """A server on this machine's loopback that says hello; its port."""

    class Hello(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


async def test_the_way_out_is_what_is_allowed(device: desktop.DesktopDevice, web_server: int) -> None:
    url = f"http://127.0.0.1:{web_server}/"
    ask = f"no_proxy= NO_PROXY= wget -q -O - -t 1 -T 5 {url} || echo refused"
    direct = f"wget -q --no-proxy -O - -t 1 -T 2 {url} || echo refused"
    assert await shell(device, direct) == "refused\n"
    assert await shell(device, ask) == "refused\n"
    await device.allow([f"127.0.0.1:{web_server}"])
    assert await shell(device, ask) == "hello"
    assert await shell(device, direct) == "refused\n"
    await device.reset(0, ResetSpec(), NO_FRAME)
    assert await shell(device, ask) == "hello", "a reset took the holder's way out away"
    await device.allow([])
    assert await shell(device, ask) == "refused\n"
