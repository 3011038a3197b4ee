"""Web tasks prove their checks on the real sites: the oracle scores 1, near-misses and nothing done 0."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
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
from rewards.tasksets.web.forum.rows import FORUM
from rewards.tasksets.web.forum.topics import visit
from rewards.tasksets.web.goal import Goal, Row, State, differences, id_of, near_misses
from rewards.tasksets.web.hands import Hands
from rewards.tasksets.web.store import SiteDevice
from rewards.tasksets.web.template import Template
from rewards.tasksets.web.tracker.rows import TRACKER

_ROWS = {
    "issue/1": {"title": "one", "status": "open"},
    "issue/2": {"title": "two", "status": "open"},
    "issue/3": {"title": "three", "status": "closed"},
}
_CLOSE = Goal({"issue/1": {"status": "closed"}})


def needs(template: Template) -> None:
    """Skip the test where a site of the template is not installed."""
    if missing := [site for site in template.sites if not is_installed(site)]:
        pytest.skip(f"not installed: scripts/sites {' '.join(missing)}")


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


def test_a_row_that_goes_is_part_of_the_goal_and_any_other_beside_it() -> None:
    goal = Goal(removed=["issue/2"])
    without = {key: row for key, row in _ROWS.items() if key != "issue/2"}
    assert differences(_ROWS, without, goal) == ([], [])
    assert differences(_ROWS, _ROWS, goal) == (["issue/2 is still there"], [])
    assert differences(_ROWS, {"issue/1": _ROWS["issue/1"]}, goal) == ([], ["issue/3"])
    assert near_misses(_ROWS, goal) == {
        "nothing done": Goal(),
        "removed another": Goal(removed=["issue/1"]),
        "removed one too many": Goal(removed=["issue/2", "issue/1"]),
    }


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


class Copies:
    """Copies of the sites' seeded databases, in which near-misses are written without a sandbox."""

    def __init__(self, seeded: Mapping[str, bytes], folder: Path) -> None:
        self.folder = folder
        for place, data in seeded.items():
            # Its header says that there is no journal beside it, as checks get it.
            self._path(place).write_bytes(data[:18] + b"\1\1" + data[20:])

    def _path(self, place: str) -> Path:
        return self.folder / place.replace("/", "_")

    async def get(self, path: str) -> bytes:
        return self._path(path).read_bytes()

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        site, _, flag, script, database, told = command
        argv = [sys.executable, "-I", "-S", flag, script, str(self._path(f"{site}/{database}")), told]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)  # noqa: ASYNC221
        return CommandResult(done.returncode, done.stdout, done.stderr)


async def rows(template: Template, device: SiteDevice) -> dict[str, Row]:
    return {key: row for store in template.stores for key, row in (await store.read(device)).items()}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seeded() -> dict[str, bytes]:
    """The seeded databases of the sites that are installed, by "site:NAME/PATH"."""
    return {
        f"{site.feature}/{path}": (await image(site) / path).read_bytes()
        for site in SITES.values()
        if is_installed(site.name)
        for path in site.databases
    }


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("seed", [1_000_000_000, pytest.param(1_000_000_001, marks=pytest.mark.drill)])
@pytest.mark.parametrize("name", TEMPLATES)
async def test_every_near_miss_is_told_from_the_goal(
    name: str, seed: int, seeded: dict[str, bytes], tmp_path: Path
) -> None:
    template = TEMPLATES[name]
    needs(template)

    async def after(goal: Goal) -> State:
        copies = cast(SiteDevice, Copies(seeded, tmp_path))
        for store in template.stores:
            await store.write(copies, goal)
        return await rows(template, copies)

    before = await after(Goal())
    scenario = template.make(Random(f"{name}/{seed}"), before)
    again = template.make(Random(f"{name}/{seed}"), before)
    assert (scenario.instruction, scenario.goal) == (again.instruction, again.goal)
    assert scenario.goal.parts or scenario.answer or scenario.infeasible
    if scenario.goal.parts:
        assert differences(before, await after(scenario.goal), scenario.goal) == ([], [])
        assert near_misses(before, scenario.goal)
    for miss, goal in {**near_misses(before, scenario.goal), **scenario.near_misses}.items():
        unmet, beside = differences(before, await after(goal), scenario.goal)
        assert unmet or beside, miss


@pytest.mark.asyncio(loop_scope="module")
async def test_the_page_on_suites_counts_the_templates(seeded: dict[str, bytes], tmp_path: Path) -> None:
    for template in TEMPLATES.values():
        needs(template)
    copies = cast(SiteDevice, Copies(seeded, tmp_path))
    stores = {store.site: store for template in TEMPLATES.values() for store in template.stores}
    state = {key: row for store in stores.values() for key, row in (await store.read(copies)).items()}
    kinds = Counter(
        "change" if drawn.goal.parts else "cannot" if drawn.infeasible else "ask"
        for drawn in (template.make(Random(name), state) for name, template in TEMPLATES.items())
    )
    parts = Counter(name.partition("-")[0] for name in TEMPLATES)
    page = " ".join((Path(__file__).parents[2] / "docs/evaluation.md").read_text().split())
    told = page.partition("The suite `web` has ")[2].partition("Seeds draw")[0]
    assert told.startswith(f"{len(TEMPLATES)} templates on six [sites]") and len(stores) == 6
    order = [parts[name] for name in ("tracker", "data", "shop", "money", "wiki", "forum", "across")]
    assert re.findall(r"(?:: |, |and )(\d+) (?:on|in|across) ", told) == [str(count) for count in order]
    kinds_told = (
        f"{kinds['change']} of them change, add or remove rows, {kinds['ask']} ask something "
        f"and {kinds['cannot']} cannot be done."
    )
    assert kinds_told in told


def test_no_two_sites_have_a_table_of_the_same_name() -> None:
    stores = {store.site: store for template in TEMPLATES.values() for store in template.stores}
    tables = [table for store in stores.values() for table in store.tables]
    assert len(set(tables)) == len(tables)


def test_a_store_names_the_application_that_its_site_runs() -> None:
    for store in {store.site: store for template in TEMPLATES.values() for store in template.stores}.values():
        assert store.application == SITES[store.site].title


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[BrowserWithSites]:
    sites = [name for name in SITES if is_installed(name)]
    started = await browser.start(BrowserConfig(width=1280, height=800, sites=sites))
    assert isinstance(started, BrowserWithSites)
    yield started
    await started.close()


async def proved(name: str, seed: int, device: BrowserWithSites) -> None:
    needs(TEMPLATES[name])
    task = WebTasks().task(name, seed)
    _, shown = await task.setup(device, ObserveSpec(frame="none"))
    for ending in (Ending(), Ending(claim="success"), Ending(claim="failure")):
        assert (await task.check(device, shown, ending)).value == 0, ending
    score = await task.check(device, shown, await task.oracle(device))
    assert (score.value, score.side_effects) == (1, []), score.reason


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "name", ["tracker-triage", "data-discard", "shop-save", "across-cancel", "across-bought", "forum-split"]
)
async def test_the_oracle_solves_it_through_the_interface(name: str, device: BrowserWithSites) -> None:
    await proved(name, 1_000_000_000, device)


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_a_like_that_is_still_being_sent_counts(device: BrowserWithSites) -> None:
    needs(TEMPLATES["forum-like"])
    task = WebTasks().task("forum-like", 1_000_000_000)
    _, shown = await task.setup(device, ObserveSpec(frame="none"))
    ((_, like),) = task.scenario.goal.added
    post = str(like["post"])
    (topic,) = {row["topic"] for key, row in (await FORUM.read(device)).items() if key == post}
    hands = Hands(device)
    await visit(hands, topic)
    after_a_while = "(...told) => new Promise(go => setTimeout(go, 1500)).then(() => send(...told))"
    late = f"window.fetch = (send => {after_a_while})(window.fetch)"
    await device.observe(ObserveSpec(frame="none", probes={"late": late}))
    await hands.click(f".js-comment[data-pk='{id_of(post)}'] .js-like")
    assert (await task.check(device, shown, Ending(claim="success"))).value == 1


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
            await TRACKER.read(cast(SiteDevice, Copies({"site:tracker/tracker/db/db": data}, tmp_path)))
