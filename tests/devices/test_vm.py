"""The vm driver without a guest: its pure parts, images, owners, and QEMU with nothing in it."""

import asyncio
import hashlib
import logging
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import uvloop

from devices.drivers import UnsupportedAction
from devices.drivers.vm import folders, gold, image
from devices.drivers.vm.input import AXIS, batches
from devices.drivers.vm.machine import Machine, Memory, arguments
from devices.drivers.vm.network import Network
from devices.drivers.vm.qemu import Qemu
from devices.drivers.vm.tools import layer
from devices.images import build
from guiagent.actions import Drag, KeyChord, Move, PressButton, Scroll, Type
from guiagent.errors import FaultError, InfrastructureError, MissingProgram, UsageError
from tests.support.vm_guests import serve_files

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
        MACHINE, Path("/d,x=1/disk"), Memory(Path("/d,x=1/ram"), shared=False), "n", 3, proxied=True
    )
    told = " ".join(line)
    assert "/d,,x=1/disk" in told and "mem-path=/d,,x=1/ram,share=off" in told


def test_the_guest_has_no_way_out_but_a_proxy() -> None:
    memory = Memory(Path("/ram"), shared=False)
    for proxied in (False, True):
        line = " ".join(arguments(MACHINE, Path("/disk"), memory, "n", 3, proxied=proxied))
        assert ("restrict=on" in line) != proxied, "a namespace with one way out, or no way at all"
        assert "guestfwd" not in line and "spawn=deny" in line and "elevateprivileges=deny" in line


# -- images --------------------------------------------------------------------------------------------------


async def test_a_missing_image_says_how_to_make_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GUIAGENT_HOME", str(tmp_path))
    with pytest.raises(InfrastructureError, match="guiagent image build desktop"):
        await image.find("desktop")
    (tmp_path / "images/desktop").mkdir(parents=True)
    (tmp_path / "images/desktop/manifest.json").write_text("{")
    with pytest.raises(InfrastructureError, match="build the image again"):
        await image.find("desktop")


async def test_a_first_boot_is_announced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine("tcg", 1, 64, 640, 480)
    caplog.set_level(logging.INFO, "devices.drivers")
    with pytest.raises((FaultError, InfrastructureError)):
        await gold.boot(image.Image("none", tmp_path / "none"), gold.Gold("a", tmp_path / "a", machine))
    assert caplog.messages == ["booting the guest image once for this host, about a minute"]


@pytest.mark.vm
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

    port, server = await serve_files(tmp_path)
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


def test_an_image_is_built_again_only_where_it_would_be_another(tmp_path: Path) -> None:
    folder = tmp_path / "desktop"
    assert not build.is_current("desktop", folder, "bookworm", [])
    folder.mkdir()
    (folder / "disk.qcow2").write_bytes(b"disk")
    made = image.Manifest(
        name="desktop",
        suite="bookworm",
        built_at="",
        cmdline="",
        files={"disk.qcow2": image.File("", 4)},
        packages={},
        recipe=build.recipe("bookworm", build.PACKAGES),
    )
    (folder / "manifest.json").write_bytes(msgspec.json.encode(made))
    assert build.is_current("desktop", folder, "bookworm", [])
    command = [sys.executable, "-m", "guiagent.cli", "image", "build", "desktop", "--output", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "nothing to do" in done.stdout, done.stderr
    assert not build.is_current("desktop", folder, "trixie", []) and not build.is_current(
        "desktop", folder, "bookworm", ["gimp"]
    )
    (folder / "disk.qcow2").write_bytes(b"cut")
    assert not build.is_current("desktop", folder, "bookworm", [])


def test_who_cannot_build_an_image_is_told_in_one_line_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "_PATH", "/nonexistent")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingProgram) as said:
        build.build("desktop", "bookworm", [], tmp_path / "desktop", print)
    assert "apt-get install" in str(said.value) and "mmdebstrap" in str(said.value)
    assert "root" in str(said.value) and "\n" not in str(said.value)


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


def private(network: Network) -> Network:
    try:
        network.make("probe")
        network.remove("probe")
    except InfrastructureError:
        pytest.skip("this machine does not allow network namespaces")
    return network


def run_inside(entrance: list[str], program: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([*entrance, sys.executable, "-c", program], stdout=subprocess.PIPE)


def test_the_gate_leads_to_a_loopback_that_nobody_else_has(tmp_path: Path) -> None:
    network = private(Network())
    served = (
        "import socket; s = socket.create_server(('127.0.0.1', 45999)); print(flush=True); "
        "s.accept()[0].send(b'hi')"
    )
    server = run_inside(network.make("one"), served)
    try:
        assert server.stdout is not None and server.stdout.readline()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", 45999), 1)
        network.make("other")
        network.publish("one", 45999, tmp_path / "way")
        network.publish("other", 45999, tmp_path / "nowhere")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "nowhere"))
            assert client.recv(10) == b"", "a sibling's loopback is another one"
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "way"))
            assert client.recv(10) == b"hi"
        with pytest.raises(FaultError, match="cannot open one 45999"):
            network.publish("one", 45999, tmp_path / ("long" * 40))
        with pytest.raises(FaultError, match="no namespace"):
            network.publish("three", 45999, tmp_path / "three")
        network.remove("one")
        with socket.socket(socket.AF_UNIX) as client, pytest.raises(OSError):
            client.connect(str(tmp_path / "way"))
    finally:
        server.kill()
        server.wait()


def test_the_only_way_out_of_a_namespace_is_its_proxy(tmp_path: Path) -> None:
    network = private(Network())
    with socket.socket(socket.AF_UNIX) as proxy:
        proxy.bind(str(tmp_path / "proxy"))
        proxy.listen()
        entrance = network.make("one", tmp_path / "proxy")
        try:
            asked = (
                "import socket; s = socket.create_connection(('127.0.0.1', 3128)); s.sendall(b'out'); "
                "print(s.recv(10).decode()); print(*[name for _, name in socket.if_nameindex()])"
            )
            guest = run_inside(entrance, asked)
            met = proxy.accept()[0]
            assert met.recv(10) == b"out"
            met.sendall(b"back")
            said, _ = guest.communicate(timeout=30)
            met.close()
        finally:
            network.remove("one")
    assert said.split() == [b"back", b"lo"]


# -- QEMU --------------------------------------------------------------------------------------------------


@pytest.mark.vm
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_stopped_machine_is_written_and_goes_on_in_another_qemu(
    loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """Under the event loop of `asyncio.run`, and under the one that the pool's process has."""
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(_write_and_go_on(tmp_path))


async def _write_and_go_on(folder: Path) -> None:
    good, _ = _disks(folder)
    disk, state = folder / "disk.qcow2", folder / "state"
    await layer(disk, good)
    qemu = await Qemu.start(MACHINE, disk, Memory(folder / "ram", shared=True), folder.name)
    try:
        await qemu.execute("cont")
        await qemu.execute("stop")
        await qemu.save(state)
    finally:
        await qemu.stop()
    assert state.stat().st_size > 1000
    with pytest.raises(FaultError, match="QEMU ended"):  # it is gone, and no error of sockets comes through
        await qemu.save(folder / "never")
    heir = await Qemu.start(MACHINE, disk, Memory(folder / "ram", shared=False), folder.name, state=state)
    try:
        await heir.execute("cont")
        assert (await heir.execute("query-status"))["status"] == "running"
    finally:
        await heir.stop()
