"""The vm driver: its pure parts, and one real guest where a built image has booted before."""

import asyncio
import hashlib
import io
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import PIL.Image
import pytest
import pytest_asyncio

from devices.drivers import vm
from devices.drivers.vm import folders, image
from devices.drivers.vm.input import AXIS, UnsupportedAction, batches
from devices.drivers.vm.machine import Machine, Memory, arguments
from devices.drivers.vm.network import Network
from guiagent.actions import Drag, KeyChord, Move, Open, PressButton, Scroll, Shell, Type
from guiagent.errors import FaultError, InfrastructureError, UsageError
from guiagent.types import Baseline, ObserveSpec
from tests.vm_guests import CONFIG, folders_of, qemus, require_guest

SEEN = ObserveSpec()
ASYNC = pytest.mark.asyncio(loop_scope="module")
MACHINE = Machine("tcg", 1, 256, 1280, 800)


# -- pure parts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pixels", [64, 800, 1080, 1280, 1920, 4096])
def test_every_pixel_is_hit_however_the_guest_rounds(pixels: int) -> None:
    for pixel in range(pixels):
        (event, _), *_ = batches(Move(x=pixel, y=0), pixels, 800)
        value = event["data"]["value"]
        assert 0 <= value <= AXIS
        assert value * pixels // (AXIS + 1) == pixel  # as a device of 32768 steps
        assert value * pixels // AXIS == pixel  # as X's evdev driver scales


def keys(*actions: Type | KeyChord) -> list[tuple[str, bool]]:
    events = [event for action in actions for batch in batches(action, 100, 100) for event in batch]
    return [(event["data"]["key"]["data"], event["data"]["down"]) for event in events]


def test_text_becomes_keys_of_a_us_keyboard() -> None:
    assert keys(Type(text="a")) == [("a", True), ("a", False)]
    assert keys(Type(text="A?")) == [
        *[("shift", True), ("a", True), ("a", False), ("shift", False)],
        *[("shift", True), ("slash", True), ("slash", False), ("shift", False)],
    ]
    assert keys(KeyChord(keys=("Control", "c"))) == [
        *[("ctrl", True), ("c", True), ("c", False), ("ctrl", False)],
    ]
    assert keys(Type(text="", clear=True, submit=True))[-2:] == [("ret", True), ("ret", False)]


def test_what_a_pc_has_no_key_or_gesture_for_is_refused() -> None:
    for action in (Type(text="é"), KeyChord(keys=("Hyper",)), PressButton(button="recents")):
        with pytest.raises(UnsupportedAction):
            batches(action, 100, 100)


def test_a_drag_moves_while_held_and_a_wheel_turns_at_least_once() -> None:
    kinds = [batch[0]["type"] for batch in batches(Drag(path=((0, 0), (50, 50))), 100, 100)]
    assert kinds[:2] == ["abs", "btn"] and kinds[-1] == "btn" and kinds.count("abs") > 4
    turned = [
        event["data"].get("button") for batch in batches(Scroll(x=1, y=1, dy=3), 100, 100) for event in batch
    ]
    assert turned.count("wheel-down") == 2


def test_a_path_with_a_comma_cannot_add_an_option() -> None:
    line = arguments(
        MACHINE, Path("/d,x=1/disk"), Memory(Path("/d,x=1/ram"), shared=False), "n", 3, Path("/p,q/s")
    )
    told = " ".join(line)
    assert "/d,,x=1/disk" in told and "mem-path=/d,,x=1/ram,share=off" in told and "/p,,q/s" in told


def test_the_guest_has_no_way_out_but_a_proxy() -> None:
    memory = Memory(Path("/ram"), shared=False)
    alone = " ".join(arguments(MACHINE, Path("/disk"), memory, "n", 3, None))
    assert "restrict=on" in alone and "guestfwd" not in alone and "spawn=deny" in alone
    assert "restrict=on" in " ".join(arguments(MACHINE, Path("/disk"), memory, "n", 3, Path("/proxy")))


# -- images --------------------------------------------------------------------------------------------------


async def test_a_missing_image_says_how_to_make_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GUIAGENT_HOME", str(tmp_path))
    with pytest.raises(InfrastructureError, match="guiagent image build desktop"):
        await image.find("desktop")
    (tmp_path / "images/desktop").mkdir(parents=True)
    (tmp_path / "images/desktop/manifest.json").write_text("{")
    with pytest.raises(InfrastructureError, match="build the image again"):
        await image.find("desktop")


async def test_only_a_whole_qcow2_with_the_right_digest_is_an_image(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GUIAGENT_HOME", str(tmp_path / "home"))
    good, layered = _disks(tmp_path)
    assert (await image.find(str(good))).disk == good
    with pytest.raises(UsageError, match="sha256"):
        await image.find(str(good), "0" * 64)
    (tmp_path / "text.qcow2").write_text("hello")
    with pytest.raises(UsageError, match="not a qcow2"):
        await image.find(str(tmp_path / "text.qcow2"))

    port, server = await _serve_files(tmp_path)
    async with server:
        url = f"http://127.0.0.1:{port}"
        with pytest.raises(UsageError, match="sha256"):
            await image.find(f"{url}/good.qcow2")
        with pytest.raises(InfrastructureError, match="not the one"):
            await image.find(f"{url}/good.qcow2", "0" * 64)
        fetched = await image.find(f"{url}/good.qcow2", _sha256(good))
        assert fetched.disk.read_bytes() == good.read_bytes()
        with pytest.raises(UsageError, match="other files of its host"):
            await image.find(f"{url}/layered.qcow2", _sha256(layered))
        with pytest.raises(InfrastructureError, match="404"):
            await image.find(f"{url}/nowhere.qcow2", "0" * 64)
    assert (
        await image.find(f"{url}/good.qcow2", _sha256(good))
    ).disk == fetched.disk  # kept; nobody serves it
    kept = sorted(path.name for path in (tmp_path / "home/images").rglob("*") if path.is_file())
    assert kept == ["disk.qcow2"], "what was refused must not be left"


def _disks(folder: Path) -> tuple[Path, Path]:
    """An empty qcow2 image, and one that is a layer over it."""
    if shutil.which("qemu-img") is None:
        pytest.skip("no qemu-img")
    good, layered = folder / "good.qcow2", folder / "layered.qcow2"
    create = ["qemu-img", "create", "-q", "-f", "qcow2"]
    subprocess.run([*create, good, "1M"], check=True)
    subprocess.run([*create, "-F", "qcow2", "-b", good, layered], check=True)
    return good, layered


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


async def _serve_files(folder: Path) -> tuple[int, asyncio.Server]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        file = folder / target.lstrip("/")
        body = file.read_bytes() if file.exists() else b""
        head = "HTTP/1.1 200 OK" if file.exists() else "HTTP/1.1 404 Not Found"
        writer.write(f"{head}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    return server.sockets[0].getsockname()[1], server


# -- owners and the network ----------------------------------------------------------------------------------


def test_sweep_removes_folders_of_dead_owners_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine = folders.create()
    dead = tmp_path / "guiagent-vm-1-999999999-gone"
    other = tmp_path / "guiagent-vm-notes"
    dead.mkdir()
    other.mkdir()
    assert stat.S_IMODE(mine.stat().st_mode) == 0o700
    folders.sweep()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([mine.name, other.name])


def test_the_gate_leads_to_a_loopback_that_nobody_else_has(tmp_path: Path) -> None:
    network = Network()
    entrance = network.entrance()
    if not network.private:
        pytest.skip("this machine does not allow network namespaces")
    served = (
        "import socket; s = socket.create_server(('127.0.0.1', 45999)); print(flush=True); "
        "s.accept()[0].send(b'hi')"
    )
    server = subprocess.Popen([*entrance, sys.executable, "-c", served], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None and server.stdout.readline()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", 45999), 1)
        network.publish(45999, tmp_path / "way")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "way"))
            assert client.recv(10) == b"hi"
        network.withdraw(tmp_path / "way")
        with pytest.raises(FaultError, match="cannot listen"):
            network.publish(45999, tmp_path / ("long" * 40))
        with socket.socket(socket.AF_UNIX) as client, pytest.raises(OSError):
            client.connect(str(tmp_path / "way"))
    finally:
        server.kill()
        server.wait()


# -- one guest -----------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[vm.VmDevice]:
    await require_guest()
    before, others = qemus(), set(folders_of(os.getpid()))
    started = await vm.start(CONFIG)
    yield started
    await started.close()
    assert qemus() == before
    assert set(folders_of(os.getpid())) <= others


async def until_printed(device: vm.VmDevice, command: list[str], text: str) -> None:
    async with asyncio.timeout(20):
        while text not in (await device.exec(command, 10)).stdout:  # noqa: ASYNC110  # only asking tells
            await asyncio.sleep(0.1)


@ASYNC
async def test_a_fork_shows_a_desktop_and_an_equal_frame_travels_as_its_hash(device: vm.VmDevice) -> None:
    capabilities, health = await device.describe(), await device.health()
    assert capabilities.kind == "vm" and {"shell", "files", "snapshot", "osworld"} <= set(
        capabilities.features
    )
    assert health.ok, health.detail
    await device.act([Move(x=640, y=400)], SEEN)
    shown = await device.observe(ObserveSpec(frame="png"))
    picture = PIL.Image.open(io.BytesIO(shown.frame))
    assert picture.size == (shown.width, shown.height) == (CONFIG.width, CONFIG.height)
    colours = picture.getcolors(1 << 20)
    assert colours is not None and len(colours) > 50, "a wallpaper, a panel, icons, and a pointer"
    again = await device.observe(ObserveSpec(frame="png", have=shown.hash))
    assert again.unchanged and not again.frame
    moved = await device.act([Move(x=300, y=300)], ObserveSpec(frame="png", have=shown.hash))
    assert not moved.unchanged, "the pointer is part of the frame"


@ASYNC
async def test_input_arrives_whole_in_a_program(device: vm.VmDevice) -> None:
    await device.reset(0, Baseline(), SEEN)
    opened = await device.act([Open(target="xterm")], SEEN)
    assert opened.action_error is None
    await until_printed(device, ["wmctrl", "-lx"], "XTerm")
    text = "The quick brown fox, 0123456789 ~!@#$%^&*()_+{}|:\"<>?`-=[]\\;',./ " * 5
    typed = [Type(text="cat > typed\n"), Type(text=text, submit=True), KeyChord(keys=("Control", "d"))]
    await device.act(typed, SEEN)
    await until_printed(device, ["sh", "-c", "wc -c < /home/user/typed"], str(len(text) + 1))
    assert (await device.get("/home/user/typed")).decode() == text + "\n"
    await device.act([Move(x=777, y=333)], SEEN)
    assert "x:777 y:333 " in (await device.exec(["xdotool", "getmouselocation"], 5)).stdout
    refused = await device.act([PressButton(button="recents"), Type(text="never")], SEEN)
    assert refused.action_error is not None and "press_button" in refused.action_error
    ran = await device.act([Shell(command="echo $((6 * 7)); echo bad >&2")], SEEN)
    assert ran.output is not None and "42" in ran.output and "bad" in ran.output


@ASYNC
async def test_programs_run_and_files_travel(device: vm.VmDevice) -> None:
    result = await device.exec(["sh", "-c", "echo out; echo err >&2; exit 3"], 10)
    assert (result.code, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert (await device.exec(["sleep", "30"], 0.5)).code == 124
    data = bytes(range(256)) * 1000
    await device.put("/home/user/data.bin", data)
    assert await device.get("/home/user/data.bin") == data
    for path in ("/home/user/nowhere", "/etc/shadow"):
        with pytest.raises(FaultError) as caught:
            await device.get(path)
        assert caught.value.fault.origin == "task"


@ASYNC
async def test_a_reset_leaves_nothing_behind(device: vm.VmDevice) -> None:
    await device.reset(0, Baseline(), SEEN)
    clean = await device.attest()
    await device.put("/home/user/residue", b"secret")
    await device.exec(["sh", "-c", "echo residue | xclip -selection clipboard; setsid sleep 999 &"], 10)
    await device.act([Open(target="xterm")], SEEN)
    await until_printed(device, ["wmctrl", "-lx"], "XTerm")
    assert await device.attest() != clean
    await device.reset(0, Baseline(), SEEN)
    assert await device.attest() == clean
    with pytest.raises(FaultError):
        await device.get("/home/user/residue")
    assert "999" not in (await device.exec(["pgrep", "-a", "sleep"], 10)).stdout
    assert (
        "residue"
        not in (await device.exec(["timeout", "2", "xclip", "-o", "-selection", "clipboard"], 10)).stdout
    )


@ASYNC
async def test_the_guests_server_is_a_service_and_its_way_out_is_the_leases(device: vm.VmDevice) -> None:
    reader, writer = await device.connect("osworld")
    writer.write(b"GET /platform HTTP/1.0\r\n\r\n")
    assert (await reader.read()).endswith(b"Linux")
    writer.close()
    with pytest.raises(UsageError, match="osworld"):
        await device.connect("adb")
    direct = await device.exec(["curl", "-sS", "-m", "3", "--noproxy", "*", "http://10.0.2.2:22"], 10)
    assert direct.code != 0 and not direct.stdout
    port, server = await _serve_files(Path(__file__).parent)
    async with server:
        url = f"http://127.0.0.1:{port}/vm_guests.py"
        fetch = ["curl", "-sS", "-m", "5", "--noproxy", "", url]
        await device.allow([])
        assert "is not among what this lease may reach" in (await device.exec(fetch, 10)).stdout
        await device.allow(["127.0.0.0/8"])
        allowed = await device.exec(fetch, 10)
    assert "What the tests of the vm driver share" in allowed.stdout, allowed


@ASYNC
async def test_a_vm_has_no_pages_and_no_snapshots_of_others(device: vm.VmDevice) -> None:
    with pytest.raises(UsageError, match="no pages"):
        await device.reset(0, Baseline(url="https://example.com"), SEEN)
    with pytest.raises(UsageError, match="no snapshot"):
        await device.reset(0, Baseline(snapshot="0" * 32), SEEN)
    assert (await device.health()).ok, "what was refused changed nothing"
