"""Task files in OSWorld's schema, end to end on a real desktop: the oracle earns 1, near-misses less."""

import base64
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
import xxhash

from devices.drivers import desktop
from eval.run import Agent, Benchmark, run_suite
from eval.suites import find_suite
from guiagent.actions import Action, Done, Shell
from guiagent.client import FarmClient
from guiagent.client.local_pool import private_pool
from guiagent.episode import run_episode
from guiagent.errors import FaultError, UsageError
from guiagent.policies import ScriptedPolicy
from guiagent.protocols import Device
from guiagent.types import ObserveSpec, Trajectory
from rewards.catalogue import find_taskset
from rewards.tasksets.osworld import Osworld, OsworldTask
from rewards.tasksets.osworld.steps import Execute
from tests.support.desktops import NO_FRAME, running
from tests.support.osworld_assets import TASKS, assets, workbook

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORKBOOK = "/home/user/Desktop/sales.xlsx"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[desktop.DesktopDevice]:
    async with running() as started:
        yield started


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Osworld:
    return Osworld(TASKS, assets(tmp_path_factory.mktemp("assets")))


async def play(device: Device, task: OsworldTask, actions: Sequence[Action]) -> Trajectory:
    keep = xxhash.xxh3_128_hexdigest
    episode = await run_episode(task, device, ScriptedPolicy(actions), keep_frame=keep, spec=NO_FRAME)
    assert episode.fault is None
    assert episode.score is not None and episode.score.source == "check"
    return episode


async def value(device: Device, task: OsworldTask, *actions: Action) -> float | None:
    score = (await play(device, task, actions)).score
    assert score is not None
    return score.value


def writing(data: bytes) -> list[Action]:
    """Commands short enough for a shell action that leave `data` in the workbook's file."""
    text = base64.b64encode(data).decode()
    parts = [text[start : start + 3000] for start in range(0, len(text), 3000)]
    return [
        *(Shell(command=f"echo {part} >> /tmp/workbook") for part in parts),
        Shell(command=f"base64 -d /tmp/workbook > {WORKBOOK}"),
    ]


async def test_a_workbook_that_is_open_in_calc(device: desktop.DesktopDevice, tasks: Osworld) -> None:
    """`open` waits for the window, `activate_window` finds it, and the document is saved once more."""
    episode = await play(device, tasks.task("calc-total", 0), writing(workbook(60)))
    assert episode.score is not None and episode.score.value == 1.0
    assert episode.score.evidence == {"metrics": ["compare_table = 1"], "conjunction": "and"}


async def test_near_misses_in_a_workbook(device: desktop.DesktopDevice, tasks: Osworld) -> None:
    """Without Calc, which takes seconds to start: what the postconfig cannot do is noted, and no fault."""
    task = tasks.task("calc-total", 0)
    closed = replace(task, file=msgspec.structs.replace(task.file, config=task.file.config[:1]))
    assert await value(device, closed, *writing(workbook(60))) == 1.0
    assert await value(device, closed, *writing(workbook(61))) == 0.0
    assert await value(device, closed, Shell(command=f"echo no workbook > {WORKBOOK}")) == 0.0
    assert await value(device, closed, Shell(command=f"rm {WORKBOOK}; mkdir {WORKBOOK}")) == 0.0
    nothing = (await play(device, closed, [])).score
    assert nothing is not None and nothing.value == 0.0
    assert nothing.evidence["notes"][0].startswith(
        "postconfig step 1 (activate_window): the guest answered 404"
    )


MOVED = "cd /home/user/work && mkdir logs && mv *.log logs"


async def test_files_in_folders(device: desktop.DesktopDevice, tasks: Osworld) -> None:
    task = tasks.task("os-folder", 0)
    assert await value(device, task, Shell(command=MOVED)) == 1.0
    assert await value(device, task, Shell(command=f"{MOVED} && mv notes.txt logs")) == 0.0
    assert await value(device, task, Shell(command=f"{MOVED} && echo more > notes.txt")) == 0.0
    assert await value(device, task) == 0.0
    assert await value(device, task, Shell(command=MOVED), Done(status="infeasible")) == 0.0


async def test_what_cannot_be_done(device: desktop.DesktopDevice, tasks: Osworld) -> None:
    task = tasks.task("os-infeasible", 0)
    assert await value(device, task, Done(status="infeasible")) == 1.0
    assert await value(device, task, Done(status="failure")) == 0.0
    assert await value(device, task) == 0.0


async def test_tabs_of_a_real_chromium(device: desktop.DesktopDevice, tasks: Osworld) -> None:
    task = tasks.task("chrome-page", 0)
    opening = "chromium --user-data-dir=/home/user/profile file:///home/user/{}.html > /dev/null 2>&1 &"
    episode = await play(device, task, [Shell(command=opening.format("orders")), Shell(command="sleep 2")])
    assert episode.score is not None and episode.score.value == 1.0, episode.score


async def test_a_set_up_that_cannot_be_done_is_a_fault(device: desktop.DesktopDevice, tasks: Osworld) -> None:
    """What a shell cannot find or run is no start of an episode; a `diff` that ends with 1 is."""
    task = tasks.task("os-folder", 0)

    def beginning(command: str) -> OsworldTask:
        step = Execute(command=command, shell=True)
        return replace(task, file=msgspec.structs.replace(task.file, config=(step, *task.file.config)))

    for broken in ("no-such-program", "no-such-program; true", "echo apt fails >&2; exit 100"):
        with pytest.raises(FaultError) as said:
            await beginning(broken).setup(device, NO_FRAME)
        assert said.value.fault.code == "setup_failed" and "set-up step 1" in said.value.fault.message
    episode = await play(device, beginning("diff /etc/passwd /etc/group"), [Shell(command=MOVED)])
    assert episode.score is not None and episode.score.value == 1.0
    assert "ended with 1" in episode.score.evidence["notes"][0]


async def test_a_task_leaves_nothing_on_the_host(device: desktop.DesktopDevice, tasks: Osworld) -> None:
    task = tasks.task("os-folder", 0)
    instruction, _ = await task.setup(device, NO_FRAME)
    assert instruction.startswith("Move every .log file") and task._workspace is not None
    folder = task._workspace.folder
    assert (folder / "result" / "before.out").read_text() == "3\n"
    await task.teardown(device)
    assert not folder.exists()


async def test_a_device_that_is_no_desktop_is_refused(tasks: Osworld) -> None:
    from devices.config import SimConfig
    from devices.drivers import sim

    phone = await sim.start(SimConfig())
    with pytest.raises(UsageError, match="feature 'osworld'"):
        await tasks.task("os-folder", 0).setup(phone, ObserveSpec(frame="none"))


async def test_a_suite_on_leased_desktops(device: desktop.DesktopDevice, tmp_path: Path) -> None:
    """The guest server by the lease's tunnel; what was committed is not run again."""
    where = TASKS / "os_folder.json"
    suite = find_suite(f"osworld:{where}")
    assert suite.tasks == ("os-folder",) and suite.grants == ("shell",)
    policy = ScriptedPolicy([Shell(command=MOVED)])
    with private_pool("desktop@800x600") as endpoint:
        async with FarmClient(endpoint.url, endpoint.token) as farm:
            benchmark = Benchmark(suite, find_taskset(suite.taskset), episodes=1)
            agent = Agent(policy, "moves", NO_FRAME)
            first = await run_suite(benchmark, agent, farm, tmp_path)
            again = await run_suite(benchmark, agent, farm, tmp_path)
    assert [episode.outcome for episode in first.episodes] == ["success"]
    assert again.episodes == first.episodes
