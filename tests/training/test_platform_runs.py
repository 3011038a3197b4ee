"""Runs on several platforms: real browsers and lab devices, one policy, one replay; lost, killed, resumed."""

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eval.report.platforms import platform_section
from guiagent import config as configuration
from guiagent.cli.common.farm import named_devices
from guiagent.cli.train.command import train
from guiagent.client import FarmClient
from guiagent.client.local_pool import private_pool
from guiagent.errors import GuiAgentError, MissingProgram, StoppedError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Trajectory
from guiagent.wire import Endpoint
from training.checkpoints import checkpoint
from training.checkpoints.mirror import RunFolder
from training.config import TrainConfig
from training.launch.launcher import OneProcess
from training.launch.wiring import train as train_on
from training.metrics import writer
from training.metrics.observer import Progress

RECIPE = """
steps = 4
checkpoint_minutes = 0.0001
[rollout]
group_size = 2
max_steps = 2
max_new_tokens = 24
[update]
algorithm = "rloo"
groups = 2
flat_groups = "keep"
[[platforms]]
taskset = "miniwob"
tasks = ["click-test-2"]
devices = 1
[[platforms]]
taskset = "lab"
tasks = ["reach-2"]
devices = 2
device = { kind = "lab" }
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "two.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    path = tmp_path / "endless.toml"
    path.write_text(RECIPE.replace("steps = 4", "steps = 100000"))
    return path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("share", "0"), r"platforms\.1\.share: .* greater than 0"),
        (("taskset", '"lob"'), "no taskset 'lob'; did you mean 'lab'?"),
        (("tasks", '["reech-2"]'), "there is no task 'reech-2'; did you mean"),
        (("device", '{ kind = "browser" }'), "2 platforms have devices of kind browser"),
        (("device", '{ kind = "lab", farm = "x" }'), "name it by device.farm"),
        (("taskset", '"proposed"'), "proposed tasks and books need a run of their own"),
    ],
)
def test_a_platform_that_cannot_be_is_told_in_a_line(
    recipe: Path, tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    head, _, last = recipe.read_text().rpartition("[[platforms]]")
    key, value = change
    kept = [line for line in last.splitlines() if not line.startswith(f"{key} =")]
    recipe.write_text("\n".join([head, "[[platforms]]", *kept, f"{key} = {value}"]))
    refused(recipe, tmp_path / "run", [], said)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("taskset=phone", "taskset and .*platforms.* both say"),
        ("rollout.devices=3", "rollout.devices and .*platforms.* both say"),
        ("device.kind=lab", "device and .*platforms.* both say"),
        ("update.groups=1", "a batch of 1 groups has no place for each of 2 platforms: raise update.groups"),
        ("evaluation.suite=phone", "needs devices of kind phone, and no platform has them"),
    ],
)
def test_what_does_not_go_with_platforms_is_told_in_a_line(
    recipe: Path, tmp_path: Path, override: str, said: str
) -> None:
    refused(recipe, tmp_path / "run", [override], said)


def test_tasks_of_one_name_and_a_cluster_are_refused(recipe: Path, tmp_path: Path) -> None:
    refused(recipe, tmp_path / "run", [], "--launch ray has one kind of device", launch="ray")
    recipe.write_text(
        recipe.read_text().replace('"miniwob"', '"lab-steps"').replace("click-test-2", "reach-2")
    )
    refused(recipe, tmp_path / "run", [], "browser and lab both have a task 'reach-2'")


def refused(recipe: Path, run: Path, overrides: list[str], said: str, **more: Any) -> None:
    with pytest.raises(GuiAgentError, match=said) as error:
        train(str(recipe), str(run), overrides, **more)
    assert "\n" not in str(error.value) and not run.exists()


def test_a_run_may_go_on_with_other_numbers_of_devices_and_with_nothing_else(
    recipe: Path, tmp_path: Path
) -> None:
    from training.identity import claim, require_same

    config = configuration.load(TrainConfig, recipe)
    assert named_devices(config) == "1 of kind browser and 2 of kind lab"
    claim(tmp_path, config)
    recipe.write_text(RECIPE.replace("devices = 2", "devices = 5"))
    require_same(tmp_path, configuration.load(TrainConfig, recipe))
    recipe.write_text(RECIPE.replace("devices = 2", "share = 3"))
    with pytest.raises(GuiAgentError, match=r"platforms\.1\.share was 1\.0, now 3\.0;"):
        require_same(tmp_path, configuration.load(TrainConfig, recipe))


# -- on devices ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pool() -> Iterator[Endpoint]:
    try:
        with private_pool("browser=1@160x224", "lab=2@160x224") as endpoint:
            yield endpoint
    except MissingProgram as missing:
        pytest.skip(str(missing))


def stored(run: Path) -> list[Trajectory]:
    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        return list(store)


async def trained(
    pool: Endpoint,
    recipe: Path,
    run: Path,
    on_progress: Callable[[Progress], None],
    stop: Callable[[], bool] = lambda: False,
) -> list[dict[str, Any]]:
    config = configuration.load(TrainConfig, recipe)
    async with FarmClient(pool.url, pool.token) as farm:
        await train_on(config, RunFolder(run), OneProcess(config, farm), on_progress, stop=stop)
    return writer.read(run)


@pytest.mark.browser
async def test_one_policy_learns_on_browsers_and_lab_devices_at_once(
    pool: Endpoint, recipe: Path, tmp_path: Path
) -> None:
    seen: list[Progress] = []
    lines = await trained(pool, recipe, tmp_path / "run", seen.append)
    episodes = stored(tmp_path / "run")
    assert {(t.platform, t.task) for t in episodes} == {("browser", "click-test-2"), ("lab", "reach-2")}
    assert not any(t.fault for t in episodes)
    taken = Counter(
        {name: sum(line["platforms"][name]["groups"] for line in lines) for name in ("browser", "lab")}
    )
    assert taken.total() == 8 and min(taken.values()) > 0
    counted = sum(one["episodes"] for line in lines for one in line["platforms"].values())
    assert counted == lines[-1]["episodes"]
    assert set(seen[-1].platforms) == {"browser", "lab"} and not any(
        p.lost for p in seen[-1].platforms.values()
    )
    section = platform_section(lines, episodes)
    assert section.count("<svg") == section.count('<polyline class="line"') == 2  # a curve for each
    assert '<th scope="row">browser</th>' in section and '<th scope="row">lab</th>' in section


@pytest.mark.browser
async def test_a_platform_without_devices_is_lost_and_the_others_go_on_until_it_is_back(
    pool: Endpoint, endless: Path, tmp_path: Path
) -> None:
    seen: list[Progress] = []
    done = False

    async def until(found: Callable[[Progress], bool]) -> int:
        """Wait for such an update; return how many there were before it."""
        async with asyncio.timeout(60):
            while True:
                for number in range(known, len(seen)):
                    if found(seen[number]):
                        return number
                await asyncio.sleep(0.02)

    known = 0
    running = asyncio.create_task(trained(pool, endless, tmp_path / "run", seen.append, lambda: done))
    async with FarmClient(pool.url, pool.token) as farm:
        lab = [device.id for device in (await farm.devices()).devices if device.kind == "lab"]
        try:
            await until(lambda p: p.platforms["lab"].groups > 0)
            for device in lab:
                await farm.quarantine(device, "taken out by hand")
            known = lost = await until(lambda p: p.platforms["lab"].lost != "")
            known = await until(lambda p: p.step > seen[lost].step + 3)
            assert all(p.platforms["browser"].groups == 2 for p in seen[lost + 2 : known])
        finally:
            for device in lab:
                await farm.restore(device)
        back = await until(lambda p: p.platforms["lab"].lost == "")
        await until(lambda p: p.step > seen[back].step and p.platforms["lab"].groups > 0)
    done = True
    with pytest.raises(StoppedError):
        await running
    said = [line for p in seen for line in p.warnings if "platform lab" in line]
    assert len(said) == 2 and said[1] == "the platform lab has devices again"
    assert "2 of 2 lab devices are out of service: taken out by hand" in said[0]
    assert "of its groups were withdrawn; the others go on" in said[0]
    lines = writer.read(tmp_path / "run")
    assert any(line["platforms"]["lab"]["lost"] for line in lines)
    assert "taken out by hand" in platform_section(lines, [])


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.usefixtures("pool")  # if no browser is here, this is skipped
def test_a_run_that_is_killed_goes_on_with_all_its_platforms(recipe: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [*(sys.executable, "-m", "guiagent.cli", "train"), "--recipe", str(recipe), "--run", str(run)]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*command, "--set", "steps=100000"], stdout=log, stderr=log)
        give_up = time.monotonic() + 90
        while len(done := updates(run)) < 3 or not list((run / "checkpoints").glob("step-*")):
            assert process.poll() is None and time.monotonic() < give_up, (tmp_path / "log").read_text()
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = stored(run)
    again = [*command, "--set", f"steps={len(updates(run)) + 3}"]
    finished = subprocess.run(again, capture_output=True, text=True, timeout=120)
    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert "resume    from step" in finished.stdout and len(updates(run)) > len(done)
    after = stored(run)
    assert [t.id for t in after[: len(before)]] == [t.id for t in before] and len(after) > len(before)
    places = Counter((t.group, t.group_index) for t in after)
    assert max(places.values()) == 1
    of_group = {(t.group, t.platform, t.task, t.seed) for t in after}
    assert len(of_group) == len({t.group for t in after})
    assert {t.platform for t in after[len(before) :]} == {"browser", "lab"}
    loaded = checkpoint.load(run / "checkpoints")
    assert loaded is not None and set(loaded.state["curricula"]) == {"browser", "lab"}
    assert list(loaded.state["curricula"]["lab"]["tasks"]) == ["reach-2"]


def updates(run: Path) -> list[dict[str, Any]]:
    return writer.read(run) if run.is_dir() else []
