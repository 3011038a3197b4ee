"""Desktops whose parts are killed or stopped, whose owner dies, whose disk is full; and one unisolated."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from devices.config import DesktopConfig
from devices.drivers import desktop
from devices.drivers.desktop import device as driver
from devices.drivers.desktop import sandbox
from guiagent.actions import Click, KeyChord, Move, Open, Shell, Type
from guiagent.errors import FaultError, InfrastructureError, UsageError
from guiagent.types import ObserveSpec, ResetSpec
from tests.support.desktops import CONFIG, HEIGHT, NO_FRAME, PNG, WIDTH, act, picture, running, shell

CLICK = [Click(x=50, y=50)]


def part(device: desktop.DesktopDevice, name: str) -> psutil.Process:
    """A process of the desktop, as this machine sees it."""
    for top in (device.session.server, device.session.programs):
        for process in psutil.Process(top.pid).children(recursive=True):
            if process.name() == name:
                return process
    raise AssertionError(f"no {name} runs")


def processes(folder: Path) -> list[int]:
    """Those that belong to a device's folder."""
    return [pid for pid, session in sandbox.marked() if session.is_relative_to(folder)]


@pytest.mark.parametrize("name", ["Xvfb", "openbox"])
async def test_a_killed_part_is_a_typed_fault_and_a_reset_rebuilds(name: str) -> None:
    async with running() as device, running() as neighbour:
        baseline = await device.attest()
        part(device, name).send_signal(signal.SIGKILL)
        with pytest.raises(FaultError) as raised:
            for _ in range(100):
                await device.act(CLICK, NO_FRAME)
        assert (raised.value.fault.origin, raised.value.fault.code) == ("device", "crashed")
        assert raised.value.fault.retryable
        assert not (await device.health()).ok
        await device.reset(0, ResetSpec(), NO_FRAME)
        assert await device.attest() == baseline
        assert (await device.health()).ok
        await act(neighbour, *CLICK)
        assert (await neighbour.health()).ok


async def test_an_x_server_that_stops_answering_runs_into_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as device:
        monkeypatch.setattr(driver, "_VERB_DEADLINE_S", 0.5)
        monkeypatch.setattr(driver, "_HEALTH_DEADLINE_S", 0.5)
        part(device, "Xvfb").send_signal(signal.SIGSTOP)
        with pytest.raises(FaultError) as raised:
            await device.act(CLICK, NO_FRAME)
        assert (raised.value.fault.origin, raised.value.fault.code) == ("device", "deadline")
        assert not (await device.health()).ok
        await device.reset(0, ResetSpec(), NO_FRAME)
        assert (await device.health()).ok


async def test_a_guest_that_ends_its_server_or_redirects_it_is_only_a_fault() -> None:
    async with running() as device:
        await shell(device, "rm /run/guiagent/guest.sock; ln -s /run/other /run/guiagent/guest.sock")
        assert await shell(device, "echo still there") == "still there\n"
        part(device, "python3").send_signal(signal.SIGKILL)
        with pytest.raises(FaultError) as raised:
            await device.exec(["true"], 1.0)
        assert (raised.value.fault.origin, raised.value.fault.code) == ("device", "unreachable")
        await act(device, *CLICK)
        await device.reset(0, ResetSpec(), NO_FRAME)
        assert await shell(device, "echo back") == "back\n"


async def test_a_full_disk_stops_one_device_and_a_reset_empties_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_PROGRAM_DISK", 16 << 20)
    async with running() as device:
        for place in ("~", "/tmp", "/usr", "/dev/shm"):
            assert "No space left" in await shell(device, f"head -c 64M /dev/zero > {place}/big")
            await shell(device, f"rm {place}/big")
        assert "No space left" in await shell(device, "head -c 64M /dev/zero > ~/big")
        await act(device, *CLICK)
        with pytest.raises(FaultError):
            await device.put("/home/user/file", b"x" * 100_000)
        await device.reset(0, ResetSpec(), NO_FRAME)
        await device.put("/home/user/file", b"x" * 100_000)


async def test_close_leaves_no_process_folder_or_descriptor() -> None:
    async with running():  # what is opened once per process
        pass
    descriptors = len(os.listdir("/proc/self/fd"))
    async with running() as device:
        folder = device._folder
        await act(device, Open(target="xterm"), Shell(command="setsid sleep 100 >/dev/null 2>&1 &"))
        inside = psutil.Process(device.session.programs.pid).children(recursive=True)
        assert len(inside) > 4
    assert not folder.exists()
    assert not processes(folder)
    assert not [process for process in inside if process.is_running()]
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_killed_owner_leaves_nothing_that_sweep_does_not_find() -> None:
    script = """
import asyncio
from devices.drivers import desktop
from tests.support.desktops import CONFIG
async def main():
    device = await desktop.start(CONFIG)
    print(device._folder, device.session.server.pid, device.session.programs.pid, flush=True)
    await asyncio.sleep(100)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        line = owner.stdout.readline().split()
        if not line and owner.wait() == 0:
            pytest.skip("some program of a desktop is missing here")
        folder, *pids = line
        inside = [child for pid in pids for child in psutil.Process(int(pid)).children(recursive=True)]
        desktop.sweep()
        assert Path(folder).exists(), "swept a living owner's desktop"
        owner.kill()
    desktop.sweep()
    gone = time.monotonic() + 5
    while any(process.is_running() for process in inside) and time.monotonic() < gone:
        time.sleep(0.02)
    assert not [process for process in inside if process.is_running()]
    assert not processes(Path(folder))
    assert not Path(folder).exists()


async def test_without_sandboxes_it_says_so_and_runs_no_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "why_not_isolated", lambda: "no sandbox for this test")
    async with running(CONFIG.model_copy(update={"allow_unisolated": True}), isolated=False) as device:
        described = await device.describe()
        assert described.features == ["a11y"]
        assert "NOT ISOLATED" in described.software and "no sandbox for this test" in described.software
        refused = await device.act([Shell(command="id")], NO_FRAME)
        assert "not isolated" in (refused.action_error or "")
        with pytest.raises(UsageError, match="not isolated"):
            await device.allow(["example.org"])
        await device.allow(["public"])
        baseline = await device.attest()
        shown = await act(device, Open(target="xterm"), Move(x=5, y=5), spec=PNG)
        assert len(picture(shown).getcolors(WIDTH * HEIGHT) or []) > 3
        await act(device, Type(text="echo x > ~/left; setsid sleep 321 &\n"))
        home = device.session._folder / "home"
        async with asyncio.timeout(5):
            while not (home / "left").exists():
                await device.observe(NO_FRAME)
        folder = device._folder
        await device.reset(0, ResetSpec(), NO_FRAME)
        assert not home.exists()
        assert await device.attest() == baseline
    assert not processes(folder)
    assert not [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", "321"]]


async def test_another_root_takes_the_place_of_this_machines() -> None:
    if os.geteuid() != 0:
        pytest.skip("without root a desktop cannot take / for its root: mounts below it are locked")
    here = Path("/usr/share/guiagent-was-here")
    async with running(CONFIG.model_copy(update={"rootfs": Path("/")})) as device:
        baseline = await device.attest()
        assert await shell(device, f"echo x > {here}; cat {here}; stat -f -c %T /") == "x\noverlayfs\n"
        await act(device, Open(target="xterm"))
        await device.reset(0, ResetSpec(), NO_FRAME)
        assert await device.attest() == baseline
    assert here.name not in os.listdir(here.parent)


async def test_a_root_without_a_desktop_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="no /usr/bin/openbox"):
        await desktop.start(DesktopConfig(rootfs=tmp_path))


async def many_actions(count: int) -> None:
    """Nothing grows: connections to the X server, descriptors, processes."""

    def size(device: desktop.DesktopDevice) -> tuple[int, int, int]:
        clients = len(os.listdir(f"/proc/{part(device, 'Xvfb').pid}/fd"))
        running = len(psutil.Process(device.session.programs.pid).children(recursive=True))
        return clients, len(os.listdir("/proc/self/fd")), running

    async with running() as device:
        await act(device, Open(target="xterm"))
        actions = [Click(x=400, y=300), Type(text="ä x "), KeyChord(keys=("Control", "u")), Move(x=3, y=3)]
        await device.act(actions, ObserveSpec())
        before = size(device)
        for number in range(count // len(actions)):
            observation = await device.act(actions, ObserveSpec(have=""))
            assert observation.frame, number
        assert size(device) == before


async def test_forty_actions_leave_no_trace() -> None:
    await many_actions(40)


@pytest.mark.drill
async def test_a_thousand_actions_leave_no_trace() -> None:
    await many_actions(1000)
