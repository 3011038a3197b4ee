"""The suite `desktop`: its task files load and repeat; one proof on a real desktop, all with `-m drill`."""

import io
import zipfile
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path

import pytest
import pytest_asyncio

from devices.config import DesktopConfig
from devices.drivers import desktop
from devices.drivers.desktop.applications import command_for
from eval.suites import find_suite
from guiagent.errors import UsageError
from guiagent.policies import ScriptedPolicy
from rewards.audit import audit
from rewards.catalogue import find_taskset
from rewards.tasksets.desktop import PROGRAMS, TEMPLATES, DesktopTasks, export
from rewards.tasksets.desktop.task import DesktopTask
from rewards.tasksets.osworld import Osworld
from rewards.tasksets.osworld.support import lacking
from tests.support.desktops import running

SEED = 1_000_000_000
SWITCHES = {  # with nothing to draw
    "chromium-do-not-track",
    "vlc-end-after-playing",
    "vlc-minimal-interface",
    "vlc-no-cone",
    "vlc-several-windows",
}
IDLE = {"does nothing": lambda: ScriptedPolicy([])}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[desktop.DesktopDevice]:
    async with running(DesktopConfig(width=1280, height=800)) as started:
        yield started


async def prove(device: desktop.DesktopDevice, name: str, seed: int) -> list[str]:
    """What is wrong with a task's proof: its solution, its near-misses, an agent that does nothing."""
    program = PROGRAMS[TEMPLATES[name].apps[0]]
    if command_for(program, Path("/")) is None:
        pytest.skip(f"{program} is not installed: scripts/farm applications")
    proof = await audit(lambda: DesktopTasks().task(name, seed), device, IDLE)
    assert len(proof.mutants) >= 2
    return proof.failures


@cache
def drawn(name: str) -> DesktopTask:
    """The task of the first seed: files are made in tens of milliseconds, and several tests look at them."""
    return DesktopTasks().task(name, SEED)


def test_the_suite_has_what_it_promises() -> None:
    suite = find_suite("desktop")
    assert len(suite.tasks) >= 25 and len(set(suite.groups["app"].values())) >= 6
    assert 3 * sum(one.screen for one in TEMPLATES.values()) >= len(TEMPLATES)
    taskset = find_taskset("desktop")
    for name in suite.tasks:
        assert not lacking(drawn(name).file)
    with pytest.raises(UsageError):
        taskset.task("no-such-task", SEED)


def said(task: DesktopTask) -> object:
    """All that a seed has a say in."""
    files = {name: content(data) for name, data in task.scenario.files.items()}
    return task.file, task.scenario.solution, task.scenario.misses, files


def content(data: bytes) -> object:
    """The bytes of a file; of an office document its parts, without those that hold its time."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as parts:
        return {one.filename: one.CRC for one in parts.infolist() if not one.filename.startswith("docProps")}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_seed_says_all_of_a_task_and_another_seed_another(name: str) -> None:
    tasks = DesktopTasks()
    one = said(drawn(name))
    assert said(tasks.task(name, SEED)) == one
    if name not in SWITCHES:
        assert any(said(tasks.task(name, SEED + n)) != one for n in range(1, 6))


def test_exported_files_load_as_those_of_osworld(tmp_path: Path) -> None:
    written = export(tmp_path, SEED)
    tasks = Osworld(tmp_path)
    assert sorted(tasks.names) == sorted(TEMPLATES) and len(written) == len(TEMPLATES)
    assert (tmp_path / "assets/desktop.invalid/calc-total/gold.xlsx").is_file()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_file_task_is_solved_through_the_terminal(device: desktop.DesktopDevice) -> None:
    assert await prove(device, "os-permissions", SEED) == []


@pytest.mark.drill
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("seed", [SEED, SEED + 1])
@pytest.mark.parametrize("name", TEMPLATES)
async def test_every_task_proves_its_check(device: desktop.DesktopDevice, name: str, seed: int) -> None:
    assert await prove(device, name, seed) == []
