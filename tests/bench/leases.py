"""Taking and giving back devices over HTTP with durable commits, and what the pool adds to a step."""

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

from devices.config import SimConfig
from devices.drivers.sim import SimDevice
from guiagent.actions import Click
from guiagent.client import FarmClient
from guiagent.embedded import private_pool
from guiagent.protocols import Device
from guiagent.types import Baseline, ObserveSpec
from tests.bench.rows import Arm, Row, at_least, at_most, interleave

_CLIENTS = 32
_SECONDS = 4.0
_STEPS = 400
_SPEC = ObserveSpec(frame="jpeg")
_CLICK = [Click(x=10, y=100)]


def rows(rounds: int) -> Iterator[Row]:
    waits_s: list[float] = []
    pairs = Arm(lambda: asyncio.run(_pairs_per_s(waits_s)))
    interleave(rounds, pairs)
    disk = fsync_ms()
    row = at_least(f"acquire + release, {_CLIENTS} clients, on disk", "pairs/s", pairs, 700)
    row.note = f"wait {_spread(waits_s)}; fsync {_spread(disk, 1)}"
    yield row
    longest = Arm(lambda: max(waits_s))
    interleave(1, longest)
    yield at_most("the longest anybody waited for a lease", "s", longest, 2.0)
    added = Arm(lambda: asyncio.run(_added_ms()))
    interleave(rounds, added)
    yield at_most("what the pool adds to a step, median", "ms", added, 2.0)


async def _pairs_per_s(waits_s: list[float]) -> float:
    with private_pool(f"sim={2 * _CLIENTS}") as pool:
        async with FarmClient(pool.url, pool.token) as farm:
            ends = time.perf_counter() + _SECONDS

            async def churn() -> int:
                pairs = 0
                while (began := time.perf_counter()) < ends:
                    device = await farm.lease("sim")
                    waits_s.append(time.perf_counter() - began)
                    await device.close()
                    pairs += 1
                return pairs

            return sum(await asyncio.gather(*(churn() for _ in range(_CLIENTS)))) / _SECONDS


async def _added_ms() -> float:
    """Median of a step through the pool, less that of the same device in process."""
    here = SimDevice(SimConfig())
    await here.reset(0, Baseline(), _SPEC)
    direct = [await _timed_ms(here) for _ in range(_STEPS)]
    with private_pool("sim") as pool:
        async with FarmClient(pool.url, pool.token) as farm, farm.lease("sim") as device:
            await device.reset(0, Baseline(), _SPEC)
            through = [await _timed_ms(device) for _ in range(_STEPS)]
    return median(through) - median(direct)


async def _timed_ms(device: Device) -> float:
    began = time.perf_counter()
    await device.act(_CLICK, _SPEC)
    return 1000 * (time.perf_counter() - began)


def fsync_ms(writes: int = 200) -> list[float]:
    """What this disk takes to make 4 KiB durable, where pools keep their state."""
    times = []
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "probe").open("wb") as file:
        for _ in range(writes):
            file.write(b"x" * 4096)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            times.append(1000 * (time.perf_counter() - began))
    return times


def _spread(times: list[float], to_ms: float = 1000) -> str:
    """p50, p99 and the longest, in milliseconds."""
    cuts = quantiles(times, n=100)
    return f"p50 {cuts[49] * to_ms:.2f}, p99 {cuts[98] * to_ms:.1f}, max {max(times) * to_ms:.0f} ms"
