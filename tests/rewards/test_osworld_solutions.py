"""Solutions of OSWorld's tasks: ours and a folder's are read, carried out, and prove checks on a desktop."""

import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from devices.config import DesktopConfig
from devices.drivers import desktop
from guiagent.errors import FaultError, UsageError
from guiagent.policies import ScriptedPolicy
from guiagent.protocols import Provable
from rewards.audit import audit
from rewards.tasksets.osworld import Osworld, setup, steps
from rewards.tasksets.osworld.solved import SolvedOsworldTask, solutions
from tests.support.desktops import running
from tests.support.osworld_assets import TASKS
from tests.support.osworld_guest import guest_server, workspace

PUBLIC = Path(__file__).parents[3] / "shared" / "data" / "osworld"
needs_public = pytest.mark.skipif(not PUBLIC.is_dir(), reason="OSWorld's public task files are not here")
IDLE = {"does nothing": lambda: ScriptedPolicy([])}
MOVED = {
    "type": "execute",
    "parameters": {"command": "cd ~/work && mkdir logs && mv *.log logs", "shell": True},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[desktop.DesktopDevice]:
    async with running(DesktopConfig(width=1280, height=800)) as started:
        yield started


def tasks(folder: Path, known: object) -> Osworld:
    """The task "os-folder" of ours in a folder, beside these solutions."""
    (folder / "os_folder.json").write_bytes((TASKS / "os_folder.json").read_bytes())
    (folder / "solutions.json").write_text(known if isinstance(known, str) else json.dumps(known))
    return Osworld(folder)


def test_a_folder_adds_solutions_and_replaces_ours(tmp_path: Path) -> None:
    ours = solutions(tmp_path)
    known = next(iter(ours))
    loaded = tasks(tmp_path, {"os-folder": [MOVED], known: []})
    assert loaded.names == ("os-folder",)  # the file of solutions is no task
    assert isinstance(loaded.task("os-folder", 1), SolvedOsworldTask)
    both = solutions(tmp_path)
    assert set(both) == {*ours, "os-folder"} and both[known] == [] != ours[known]


def test_a_task_without_a_solution_proves_nothing_and_one_that_cannot_be_done_needs_none() -> None:
    loaded = Osworld(TASKS)
    assert not isinstance(loaded.task("os-folder", 1), Provable)
    assert isinstance(loaded.task("os-infeasible", 1), Provable)


@pytest.mark.parametrize(
    ("known", "line"),
    [
        ("{", "solutions.json: Input data was truncated"),
        ({"os-folder": MOVED}, "solutions.json: Expected `array`"),
        ({"os-folder": [{"type": "fly"}]}, "solutions.json: os-folder[0]: step 'fly': unknown"),
        ({"os-folder": [MOVED, {"type": "sleep"}]}, "solutions.json: os-folder[1]: Object missing required"),
    ],
)
def test_a_bad_file_of_solutions_is_one_line(tmp_path: Path, known: object, line: str) -> None:
    with pytest.raises(UsageError) as bad:
        tasks(tmp_path, known)
    assert line in str(bad.value) and "\n" not in str(bad.value)


@needs_public
def test_ours_are_of_public_tasks_that_can_be_done() -> None:
    public = Osworld(PUBLIC)
    ours = solutions(PUBLIC)
    assert set(ours) <= set(public.names) and len(ours) >= 30
    for name, solution in ours.items():
        task = public.task(name, 1)
        assert solution and not task.file.infeasible
        assert not any(isinstance(step, steps.Download) for step in task.file.config)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_solution_proves_the_check_and_half_of_it_does_not(
    device: desktop.DesktopDevice, tmp_path: Path
) -> None:
    whole = tasks(tmp_path, {"os-folder": [MOVED]})
    proof = await audit(lambda: whole.task("os-folder", 1), device, IDLE)
    assert (proof.provable, proof.oracle, proof.null, proof.failures) == (True, 1, {"does nothing": 0}, [])
    half = tasks(
        tmp_path, {"os-folder": [MOVED, {"type": "execute", "parameters": {"command": "rm -r work"}}]}
    )
    proof = await audit(lambda: half.task("os-folder", 1), device, IDLE)
    assert proof.failures == ["the oracle scored 0.0"]
    wrong = tasks(
        tmp_path, {"os-folder": [{"type": "execute", "parameters": {"command": ["no-such-program"]}}]}
    )
    with pytest.raises(FaultError, match="no-such-program"):
        await audit(lambda: wrong.task("os-folder", 1), device, IDLE)


@pytest.mark.asyncio(loop_scope="module")
async def test_saying_so_solves_what_cannot_be_done(device: desktop.DesktopDevice) -> None:
    proof = await audit(lambda: Osworld(TASKS).task("os-infeasible", 1), device, IDLE)
    assert (proof.oracle, proof.failures) == (1, [])


@pytest.mark.drill
@needs_public
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", sorted(solutions(PUBLIC)))
async def test_each_of_ours_solves_its_public_task(device: desktop.DesktopDevice, name: str) -> None:
    """It needs `scripts/farm applications`. A task that pays for doing nothing is reported as that."""
    proof = await audit(lambda: Osworld(PUBLIC).task(name, 1), device, IDLE)
    assert proof.oracle == 1 and proof.failures in ([], ["the null agent 'does nothing' scored 1.0"])


VISITS: list[dict[str, Any]] = [
    {"url": "https://one.example/", "title": "One", "visit_time_from_now_in_seconds": 60},
    {"url": "https://two.example/", "title": "Two", "visit_time_from_now_in_seconds": 5},
]


async def test_visits_are_written_into_a_history_that_the_guests_browser_makes(tmp_path: Path) -> None:
    program = tmp_path / "bin/google-chrome"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nexec chromium --no-sandbox "$@"\n')
    program.chmod(0o755)
    step = steps.UpdateBrowseHistory([steps.Visit(**visit) for visit in VISITS])
    with guest_server(tmp_path) as guest:
        await setup.prepare(workspace(guest, tmp_path), [step])
        history = sqlite3.connect(tmp_path / ".config/google-chrome/Default/History")
        visited = "SELECT urls.url, title, visit_time FROM urls JOIN visits ON visits.url = urls.id"
        rows = history.execute(visited).fetchall()
        history.close()
        assert [row[:2] for row in rows] == [(one["url"], one["title"]) for one in VISITS]
        assert rows[1][2] - rows[0][2] == 55_000_000
        program.write_text("#!/bin/sh\nexit 1\n")
        with pytest.raises(FaultError, match="the guest's browser made no history"):
            await setup.prepare(workspace(guest, tmp_path), [step])
