"""How soon a device is there: from a pool that has one ready, and from nothing."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from devices.config import AnyDeviceConfig, BrowserConfig, DesktopConfig, PhoneConfig
from devices.drivers import DRIVERS
from guiagent.client import FarmClient
from guiagent.embedded import private_pool
from guiagent.types import Baseline, ObserveSpec
from tests.bench.rows import Arm, Row, at_most, interleave

_READY = 4  # devices, of which each is leased once
_GOALS: dict[str, tuple[float, float, AnyDeviceConfig]] = {  # warm ms, cold s
    "browser": (20, 1.1, BrowserConfig(width=320, height=240)),
    "desktop": (50, 2.5, DesktopConfig()),
    "phone": (50, 1.1, PhoneConfig()),
}
_SPEC = ObserveSpec(frame="jpeg")


def rows(rounds: int) -> Iterator[Row]:
    for kind, (warm_ms, cold_s, config) in _GOALS.items():
        warm = Arm(partial(_run, _warm_ms, kind))
        interleave(max(1, rounds // 2), warm)
        yield at_most(f"{kind}: lease of one that is ready", "ms", warm, warm_ms)
        cold = Arm(partial(_run, _cold_s, config))
        interleave(rounds, cold)
        yield at_most(f"{kind}: from nothing to its first frame", "s", cold, cold_s)
    reset = Arm(partial(_run, _reset_ms, PhoneConfig()))
    interleave(rounds, reset)
    yield at_most("phone: reset to its first frame", "ms", reset, 50)


def _run(measure: Callable[[Any], Awaitable[float]], what: Any) -> float:
    async def run() -> float:
        return await measure(what)

    return asyncio.run(run())


async def _warm_ms(kind: str) -> float:
    with private_pool(f"{kind}={_READY}") as pool:
        async with FarmClient(pool.url, pool.token) as farm:
            taken = []
            for _ in range(_READY):
                began = time.perf_counter()
                await farm.lease(kind)
                taken.append(1000 * (time.perf_counter() - began))
            return sorted(taken)[_READY // 2]


async def _cold_s(config: AnyDeviceConfig) -> float:
    began = time.perf_counter()
    device = await DRIVERS[config.kind].start(config)
    try:
        await device.observe(_SPEC)
        return time.perf_counter() - began
    finally:
        await device.close()


async def _reset_ms(config: AnyDeviceConfig) -> float:
    device = await DRIVERS[config.kind].start(config)
    try:
        times = []
        for seed in range(20):
            began = time.perf_counter()
            await device.reset(seed, Baseline(), _SPEC)
            times.append(1000 * (time.perf_counter() - began))
        return sorted(times)[len(times) // 2]
    finally:
        await device.close()
