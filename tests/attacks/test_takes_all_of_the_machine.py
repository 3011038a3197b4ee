"""A page that allocates without end, alone or in many processes, or fills the disk."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from devices import processes, watch
from devices.drivers.browser.device import BrowserDevice
from guiagent.errors import FaultError
from guiagent.types import ResetSpec
from tests.support.browser_pages import BLIND, members, running

# Two gigabytes each.
ALLOCATE = "held = []; for (let k = 0; k < 128; k++) held.push(new Uint8Array(16 << 20).fill(1)); 1"
OBJECTS = "held = []; for (let n = 0; n < 700; n++) held.push([...Array(1e5).keys()].map(k => ({k}))); 1"


def oom_score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


async def end_of(device: BrowserDevice) -> str:
    """What a device says once it has ended."""
    async with asyncio.timeout(30):
        while (health := await device.health()).ok:  # noqa: ASYNC110 - a device has no event of its end
            await asyncio.sleep(0.05)
    return health.detail


@pytest.mark.slow
@pytest.mark.parametrize("script", [ALLOCATE, OBJECTS], ids=["buffers", "objects"])
async def test_a_page_ends_before_the_machine_does(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MEMORY", 512 << 20)
    async with running() as device:
        await device.reset(0, ResetSpec("about:blank"), BLIND)
        with pytest.raises(FaultError) as caught:
            await device._page.run(script)
        # The page is refused the memory, or ends for want of it: both before it has the machine's.
        assert caught.value.fault.code in ("crashed", "script_error")
        assert watch.memory([device.pid])[device.pid] < 1 << 30
    async with running() as device:
        assert (await device.health()).ok


async def test_all_its_processes_together_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as device, running() as neighbour:
        await device.reset(0, ResetSpec("about:blank"), BLIND)
        taken = watch.memory([device.pid])[device.pid]
        assert taken > 10 << 20
        monkeypatch.setattr(
            watch, "MEMORY", max(taken, watch.memory([neighbour.pid])[neighbour.pid]) + (64 << 20)
        )
        with contextlib.suppress(FaultError):  # if it is ended at once
            await device._page.run("held = new Uint8Array(256 << 20).fill(1); 1")
        assert "ended" in await end_of(device)
        assert (await neighbour.health()).ok


async def test_so_has_its_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "DISK", 64 << 20)
    async with running() as device:
        with (device._chromium.process.profile / "filled").open("wb") as file:
            file.truncate(65 << 20)
        assert "ended" in await end_of(device)


async def test_where_memory_runs_out_devices_are_ended_before_the_pool() -> None:
    async with running() as device:
        own, *scores = [oom_score(pid) for pid in (os.getpid(), *members(device.pid))]
        assert min(scores) > own


def test_a_folder_that_goes_while_it_is_measured_has_no_size(tmp_path: Path) -> None:
    (tmp_path / "some").write_bytes(b"1234")
    (tmp_path / "link").symlink_to("/")
    assert watch.disk(tmp_path) == 4
    assert watch.disk(tmp_path / "gone") == 0
