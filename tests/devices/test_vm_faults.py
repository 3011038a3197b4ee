"""Boots, snapshots and the faults a VM must survive: long drills on a real guest, run with `-m drill`."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from devices.drivers import vm
from devices.drivers.vm import accel, image
from devices.drivers.vm import device as driver
from guiagent.actions import Click, Open
from guiagent.errors import FaultError
from guiagent.types import ObserveSpec, ResetSpec
from tests.support.vm_guests import CONFIG, folders_of, qemus, started

SEEN = ObserveSpec()
pytestmark = [pytest.mark.drill, pytest.mark.vm, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def neighbour() -> AsyncIterator[vm.VmDevice]:
    """Another VM of the same process, which must not notice."""
    running = await started()
    await running.exec(["touch", "/home/user/mine"], 20)
    yield running
    await running.close()


@pytest_asyncio.fixture(loop_scope="module")
async def device(neighbour: vm.VmDevice) -> AsyncIterator[vm.VmDevice]:
    running = await started()
    yield running
    await running.close()
    assert (await neighbour.exec(["ls", "/home/user/mine"], 20)).code == 0
    assert (await neighbour.health()).ok


@pytest.mark.parametrize("moment", ["before", "during"])
async def test_a_killed_qemu_is_a_fault_and_a_reset_mends_it(device: vm.VmDevice, moment: str) -> None:
    ended = device.pid
    if moment == "before":
        os.kill(ended, signal.SIGKILL)
        step = asyncio.ensure_future(device.act([Click(x=5, y=5)], SEEN))
    else:
        step = asyncio.ensure_future(device.exec(["sleep", "30"], 60))
        await asyncio.sleep(0.5)
        os.kill(ended, signal.SIGKILL)
    async with asyncio.timeout(5):
        with pytest.raises(FaultError) as caught:
            await step
    assert caught.value.fault.origin == "device" and caught.value.fault.code == "crashed"
    assert caught.value.fault.retryable
    assert not (await device.health()).ok
    await device.reset(0, ResetSpec(), SEEN)
    assert (await device.health()).ok and device.pid != ended


async def test_a_stopped_qemu_is_a_fault_by_its_deadline(
    device: vm.VmDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_VERB_DEADLINE_S", 1.0)
    monkeypatch.setattr(driver, "_HEALTH_DEADLINE_S", 1.0)
    os.kill(device.pid, signal.SIGSTOP)
    with pytest.raises(FaultError) as caught:
        await device.act([Click(x=5, y=5)], SEEN)
    assert caught.value.fault.code == "deadline"
    assert not (await device.health()).ok
    await device.reset(0, ResetSpec(), SEEN)
    monkeypatch.undo()
    assert (await device.health()).ok


async def test_a_guest_that_goes_off_is_a_fault(device: vm.VmDevice) -> None:
    async with asyncio.timeout(30):
        with pytest.raises(FaultError) as caught:
            while True:
                await device.exec(["sudo", "sh", "-c", "echo o > /proc/sysrq-trigger"], 5)
    assert caught.value.fault.code == "crashed", caught.value


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "guiagent-test", str(tmp_path)])
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def fill_up(folder: Path) -> None:
    (folder / "all").write_bytes(bytes(os.statvfs(folder).f_bavail * 4096))


async def test_a_full_disk_is_a_fault_of_one_vm(
    neighbour: vm.VmDevice, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(small_disk))
        device = await vm.start(CONFIG)
    try:
        fill = ["sh", "-c", "head -c 100M /dev/urandom > /home/user/fill; sync"]
        async with asyncio.timeout(60):
            with pytest.raises(FaultError) as caught:
                await device.exec(fill, 50)
        assert caught.value.fault.code == "disk_full", caught.value
    finally:
        await device.close()
    assert not os.listdir(small_disk)
    fill_up(small_disk)
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    with pytest.raises(FaultError) as caught:
        await vm.start(CONFIG)
    assert caught.value.fault.code == "disk_full"
    monkeypatch.undo()
    assert (await neighbour.health()).ok


async def test_siblings_fork_from_a_snapshot_of_a_running_guest(
    device: vm.VmDevice, neighbour: vm.VmDevice
) -> None:
    await device.act([Open(target="xterm")], SEEN)
    await device.put("/home/user/before", b"1")
    name = await device.snapshot()
    await device.put("/home/user/after", b"2")  # the source goes on
    sibling = await vm.start(CONFIG)
    try:
        for fork in (sibling, device):
            await fork.reset(0, ResetSpec(snapshot=name), SEEN)
            assert await fork.get("/home/user/before") == b"1"
            assert (await fork.exec(["ls", "/home/user/after"], 10)).code != 0
            await fork.put("/home/user/own", b"3")  # and siblings do not share what they do
        await sibling.reset(0, ResetSpec(), SEEN)
        assert (await sibling.exec(["ls", "/home/user/before"], 10)).code != 0
    finally:
        await sibling.close()


async def test_the_accessibility_tree_is_of_the_frame(device: vm.VmDevice) -> None:
    await device.act([Open(target="mousepad")], SEEN)
    async with asyncio.timeout(150):
        while True:
            seen = await device.observe(ObserveSpec(tree=True))
            assert seen.tree is not None
            menus = [node for node in seen.tree if node.name == "File" and node.box[2] > 0]
            if menus:
                break
            await asyncio.sleep(0.5)
    assert not any("Save" in node.name for node in seen.tree), "the menu is closed"
    x, y, width, height = menus[0].box
    await device.act([Click(x=x + width // 2, y=y + height // 2)], SEEN)
    async with asyncio.timeout(30):
        while not any("Save" in node.name for node in seen.tree or []):
            await asyncio.sleep(0.5)
            seen = await device.observe(ObserveSpec(tree=True))


async def test_vms_of_a_killed_owner_are_gone(neighbour: vm.VmDevice) -> None:
    owner, pid = await asyncio.to_thread(start_owner)
    running = qemus(owner.pid)
    owner.kill()
    owner.wait()
    assert pid in running
    async with asyncio.timeout(10):
        while qemus(owner.pid):  # noqa: ASYNC110  # they die by themselves
            await asyncio.sleep(0.05)
    assert folders_of(owner.pid), "a killed owner cannot clear up"
    vm.sweep()
    assert not folders_of(owner.pid)


def start_owner() -> tuple["subprocess.Popen[str]", int]:
    """Another process with a VM and a snapshot of it; and its QEMU's process id."""
    script = (
        "import asyncio\nfrom devices.config import VmConfig\nfrom devices.drivers import vm\n"
        "async def main():\n    device = await vm.start(VmConfig())\n    await device.snapshot()\n"
        "    print(device.pid, flush=True)\n    await asyncio.sleep(600)\n"
        "asyncio.run(main())"
    )
    owner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    return owner, int(owner.stdout.readline())


async def test_the_accelerator_is_one_that_boots(neighbour: vm.VmDevice) -> None:
    kernel = image.built(CONFIG.image).kernel
    assert kernel is not None
    assert await accel.boots(kernel, "tcg", 60.0)
    if (chosen := await accel.accelerator(kernel)) == "kvm":
        assert await accel.boots(kernel, "kvm", 30.0)
    assert await accel.accelerator(kernel) == chosen
