"""Sites at a lease's edge: a reset to a fresh one beside the browser's own reset, and the spare's rebuild.

The site is Datasette, which `scripts/sites data` installs. Over HTTP, as a holder has it: a page of the site
is opened, so that a reset has to bring a fresh site, and time passes until the spare runs, as in an episode.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from statistics import median, quantiles

from devices.sites import SITES
from devices.sites.image import image
from devices.sites.instance import Instance
from devices.sites.site import is_installed
from guiagent.actions import Open
from guiagent.client import FarmClient, LeasedDevice
from guiagent.client.local_pool import private_pool
from guiagent.types import ObserveSpec, ResetSpec
from tests.bench.rows import Arm, Row, at_most, noted, reported

_SITE = "data"
_RESETS = 6  # a round, of each kind
_PAGE = "http://data.test/counters/repairs"
_ELSEWHERE = "data:text/html,<title>elsewhere</title>"
_GOAL_MS = 100.0
_REBUILDS = 2.0  # as many times what a rebuild takes a page stays open
_SPEC = ObserveSpec(frame="jpeg")

_Figures = defaultdict[str, list[float]]


def rows(rounds: int) -> Iterator[Row]:
    if not is_installed(_SITE):
        missing = Arm.of(missing=f"the site {_SITE} is not installed: scripts/sites {_SITE}")
        yield at_most("site: reset to a fresh one, at the lease's edge", "ms", missing, _GOAL_MS)
        return
    found: _Figures = defaultdict(list)
    asyncio.run(_rebuilds(rounds, found))
    with private_pool(f"browser=1,sites={_SITE}") as pool:
        asyncio.run(_resets(pool.url, pool.token, rounds, found))
    own = Arm.of(*found["own"])
    row = at_most("site: reset to a fresh one, at the lease's edge", "ms", Arm.of(*found["fresh"]), _GOAL_MS)
    row.limit = median(own.figures)
    yield noted(row, f"{_spread(found['fresh'])}; limit: the browser's own reset, {_spread(found['own'])}")
    swap = Arm.of(*(mine - theirs for mine, theirs in zip(found["fresh"], found["own"], strict=True)))
    yield noted(reported("site: what of it the site adds", "ms", swap), _spread(swap.figures))
    page = Arm.of(*found["page"])
    yield noted(reported("site: reset to a page of a fresh one", "ms", page), _spread(found["page"]))
    rebuild = Arm.of(*found["rebuild"])
    yield noted(reported("site: rebuild of a spare, behind it", "ms", rebuild), _spread(found["rebuild"]))


async def _rebuilds(rounds: int, figures: _Figures) -> None:
    site = SITES[_SITE]
    made = await image(site)
    for _ in range(2 * rounds):
        began = time.perf_counter()
        async with await Instance.start(site, made):
            figures["rebuild"].append(1000 * (time.perf_counter() - began))


async def _resets(url: str, token: str, rounds: int, figures: _Figures) -> None:
    async with FarmClient(url, token) as farm, await farm.lease(needs=[f"site:{_SITE}"]) as device:
        rest_s = _REBUILDS * max(figures["rebuild"]) / 1000
        for _ in range(rounds * _RESETS):
            await _open(device, _ELSEWHERE, 0.0)
            figures["own"].append(await _reset_ms(device, ResetSpec()))
            await _open(device, _PAGE, rest_s)
            figures["fresh"].append(await _reset_ms(device, ResetSpec()))
            await _open(device, _PAGE, rest_s)
            figures["page"].append(await _reset_ms(device, ResetSpec(_PAGE)))
            await asyncio.sleep(rest_s)
            await device.reset(0, ResetSpec(), _SPEC)


async def _open(device: LeasedDevice, url: str, rest_s: float) -> None:
    await device.act([Open(target=url)], _SPEC)
    await asyncio.sleep(rest_s)


async def _reset_ms(device: LeasedDevice, baseline: ResetSpec) -> float:
    began = time.perf_counter()
    await device.reset(0, baseline, _SPEC)
    return 1000 * (time.perf_counter() - began)


def _spread(figures: list[float]) -> str:
    cuts = quantiles(figures, n=20, method="inclusive")
    return f"p50 {median(figures):.1f}, p95 {cuts[18]:.1f} ms of {len(figures)}"
