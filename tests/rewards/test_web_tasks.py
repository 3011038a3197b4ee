"""Web tasks prove their checks on the real tracker: the oracle scores 1, near-misses and nothing done 0."""

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
import pytest_asyncio

from devices.config import BrowserConfig
from devices.drivers import browser
from devices.drivers.browser.with_sites import BrowserWithSites
from devices.sites import SITES
from devices.sites.image import image
from devices.sites.site import is_installed
from guiagent.errors import FaultError
from guiagent.types import CommandResult, Ending, ObserveSpec
from rewards.tasksets.web import TEMPLATES, WebTasks
from rewards.tasksets.web.goal import Goal, differences, near_misses
from rewards.tasksets.web.store import SiteDevice

_ROWS = {
    "issue/1": {"title": "one", "status": "open"},
    "issue/2": {"title": "two", "status": "open"},
    "issue/3": {"title": "three", "status": "closed"},
}
_CLOSE = Goal({"issue/1": {"status": "closed"}})
needs_tracker = pytest.mark.skipif(
    not is_installed("tracker"), reason="the site tracker is not installed: scripts/sites tracker"
)


def after(goal: Goal) -> dict[str, dict[str, Any]]:
    rows = {key: {**row, **goal.changed.get(key, {})} for key, row in _ROWS.items()}
    return rows | {f"{table}/9{n}": dict(row) for n, (table, row) in enumerate(goal.added)}


def test_a_goal_is_met_by_its_changes_alone() -> None:
    assert differences(_ROWS, after(_CLOSE), _CLOSE) == ([], [])
    assert differences(_ROWS, _ROWS, _CLOSE) == (["issue/1/status"], [])
    spoiled = after(_CLOSE) | {"issue/2": {"title": "two!", "status": "open"}, "issue/4": {"title": "new"}}
    assert differences(_ROWS, spoiled, _CLOSE) == ([], ["issue/2/title", "issue/4"])
    without = {key: row for key, row in after(_CLOSE).items() if key != "issue/3"}
    assert differences(_ROWS, without, _CLOSE) == ([], ["issue/3"])


def test_new_rows_are_matched_one_to_one() -> None:
    goal = Goal(added=[("issue", {"title": "new"}), ("issue", {"title": "new", "status": "open"})])
    assert differences(_ROWS, after(goal), goal) == ([], [])
    once = Goal(added=goal.added[:1])
    assert differences(_ROWS, after(once), goal)[0] == ["issue: no new row title=new, status=open"]


@pytest.mark.parametrize("goal", [_CLOSE, Goal(added=[("issue", {"title": "new", "status": "open"})])])
def test_no_near_miss_meets_the_goal(goal: Goal) -> None:
    found = near_misses(_ROWS, goal)
    assert {"nothing done"} < found.keys()
    for name, other in found.items():
        unmet, beside = differences(_ROWS, after(other), goal)
        assert unmet or beside, name


class Copy:
    """A copy of the tracker's seeded data, in which near-misses are written without a sandbox."""

    def __init__(self, data: bytes, folder: Path) -> None:
        self.path = folder / "copy.db"
        self.path.write_bytes(
            data[:18] + b"\1\1" + data[20:]
        )  # without a journal beside it, as checks get it

    async def get(self, path: str) -> bytes:
        return self.path.read_bytes()

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        _, _, flag, script, _, told = command
        argv = [sys.executable, flag, script, str(self.path), told]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)  # noqa: ASYNC221
        return CommandResult(done.returncode, done.stdout, done.stderr)


@needs_tracker
@pytest.mark.parametrize("seed", [1_000_000_000, 1_000_000_001])
async def test_every_near_miss_of_every_template_is_told_from_its_goal(seed: int, tmp_path: Path) -> None:
    seeded = (await image(SITES["tracker"]) / "tracker/db/db").read_bytes()
    for name, template in TEMPLATES.items():
        pristine = cast(SiteDevice, Copy(seeded, tmp_path))
        before = await template.store.read(pristine)
        scenario = template.make(Random(f"{name}/{seed}"), before)
        again = template.make(Random(f"{name}/{seed}"), before)
        assert (scenario.instruction, scenario.goal) == (again.instruction, again.goal)
        if scenario.goal.parts:
            done = cast(SiteDevice, Copy(seeded, tmp_path))
            await template.store.write(done, scenario.goal)
            assert differences(before, await template.store.read(done), scenario.goal) == ([], []), name
            assert near_misses(before, scenario.goal), name
        for miss, goal in {**near_misses(before, scenario.goal), **scenario.near_misses}.items():
            copy = cast(SiteDevice, Copy(seeded, tmp_path))
            await template.store.write(copy, goal)
            unmet, beside = differences(before, await template.store.read(copy), scenario.goal)
            assert unmet or beside, (name, miss)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[BrowserWithSites]:
    started = await browser.start(BrowserConfig(width=1280, height=800, sites=["tracker"]))
    assert isinstance(started, BrowserWithSites)
    yield started
    await started.close()


async def proved(name: str, seed: int, device: BrowserWithSites) -> None:
    task = WebTasks().task(name, seed)
    _, shown = await task.setup(device, ObserveSpec(frame="none"))
    for ending in (Ending(), Ending(claim="success"), Ending(claim="failure")):
        assert (await task.check(device, shown, ending)).value == 0, ending
    score = await task.check(device, shown, await task.oracle(device))
    assert (score.value, score.side_effects) == (1, []), score.reason


@needs_tracker
@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ["tracker-triage", "tracker-resolve-with-note"])
async def test_the_oracle_solves_it_through_the_interface(name: str, device: BrowserWithSites) -> None:
    await proved(name, 1_000_000_000, device)


@needs_tracker
@pytest.mark.browser
@pytest.mark.drill
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("seed", [1_000_000_000, 1_000_000_001, 1_000_000_002])
@pytest.mark.parametrize("name", TEMPLATES)
async def test_every_oracle_solves_its_task(name: str, seed: int, device: BrowserWithSites) -> None:
    await proved(name, seed, device)


async def test_reading_what_is_no_database_is_a_fault(tmp_path: Path) -> None:
    for data in (b"", b"garbage" * 1000):
        with pytest.raises(FaultError, match="the database of the site tracker"):
            await TEMPLATES["tracker-resolve"].store.read(cast(SiteDevice, Copy(data, tmp_path)))
