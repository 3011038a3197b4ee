"""The oracle on every page of MiniWoB++ that has one, on the suite's seeds, by two browsers at once."""

import asyncio
import time
from collections.abc import Iterator

from devices.drivers.browser.device import BrowserDevice
from eval.suites.miniwob import MINIWOB
from guiagent.errors import FaultError
from guiagent.types import ObserveSpec
from rewards.tasksets.miniwob import HEIGHT, WIDTH, MiniWob, SolvedTask
from tests.bench.ours import started
from tests.bench.rows import Arm, Row, at_most

_BROWSERS = 2
_MOST_S = 240.0
_BLIND = ObserveSpec(frame="none")


def rows(_: int) -> Iterator[Row]:
    tasks = MiniWob()
    solved = [name for name in MINIWOB.tasks if isinstance(tasks.task(name, MINIWOB.first_seed), SolvedTask)]
    seconds, missed = asyncio.run(play(solved, MINIWOB.seeds()))
    what = f"{len(solved)} pages of MiniWoB++ x {MINIWOB.episodes} seeds by the oracle"
    yield at_most(f"{what}, {_BROWSERS} browsers", "s", Arm.of(seconds), _MOST_S)
    row = at_most(f"{what}: not solved", "episodes", Arm.of(float(len(missed))), 0)
    row.note = ", ".join(missed[:10])
    yield row


async def play(pages: list[str], seeds: range) -> tuple[float, list[str]]:
    """The seconds that the oracle takes on all seeds of these pages, and the episodes it does not solve."""
    left, missed = iter(pages), list[str]()

    async def on(device: BrowserDevice) -> None:
        for page in left:  # the browsers share what is left
            for seed in seeds:
                if not await _solves(page, seed, device):
                    missed.append(f"{page} {seed}")

    async with started(_BROWSERS, WIDTH, HEIGHT) as devices:
        began = time.perf_counter()
        await asyncio.gather(*map(on, devices))
        return time.perf_counter() - began, missed


async def _solves(page: str, seed: int, device: BrowserDevice) -> bool:
    task = MiniWob().task(page, seed)
    assert isinstance(task, SolvedTask)
    try:
        await task.setup(device, _BLIND)
        ending = await task.oracle(device)
        shown = await device.observe(ObserveSpec(frame="none", probes=dict(task.probes)))
        return (await task.check(device, shown, ending)).value == 1.0
    except FaultError:
        return False
