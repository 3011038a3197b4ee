"""The vm driver on a booted gold VM: forks, frames, clicks, resets and memory."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.rows import Arm, Row, at_most


def rows(rounds: int) -> Iterator[Row]:
    """Boots the gold VM first where this host has none, which is not measured."""
    arms = asyncio.run(_measured(rounds))
    yield at_most("vm: fork to running guest", "s", arms["running"], 0.2)
    yield at_most("vm: fork to the guest server's first answer", "s", arms["answer"], 0.5)
    yield at_most("vm: fork to first frame", "s", arms["frame"], 0.6)
    yield at_most("vm: reset to the blank desktop", "s", arms["reset"], 0.7)
    yield at_most("vm: frame of a still screen", "ms", arms["still"], 15)
    yield at_most("vm: click to settled frame", "ms", arms["click"], 250)
    yield at_most("vm: memory a fork adds (PSS)", "MiB", arms["memory"], 180)


async def _measured(rounds: int) -> dict[str, Arm]:
    from devices.config import VmConfig
    from devices.drivers import vm
    from devices.drivers.vm import gold, image
    from guiagent.actions import Click
    from guiagent.types import Baseline, ObserveSpec

    config, spec = VmConfig(), ObserveSpec()
    found = await image.find(config.image)
    baseline = await gold.of(found, await vm.machine(config, found))
    await gold.boot(found, baseline)
    figures: dict[str, list[float]] = {
        name: [] for name in ("running", "answer", "frame", "reset", "still", "click", "memory")
    }
    for _ in range(rounds):
        began = time.perf_counter()
        fork = await gold.fork(baseline)
        figures["running"].append(time.perf_counter() - began)
        await fork.guest.wait()
        figures["answer"].append(time.perf_counter() - began)
        await fork.qemu.picture()
        figures["frame"].append(time.perf_counter() - began)
        figures["memory"].append(_pss_mib(fork.qemu.pid))
        await fork.close()
    device = await vm.start(config)
    try:
        for step in range(rounds):
            began = time.perf_counter()
            await device.reset(0, Baseline(), spec)
            figures["reset"].append(time.perf_counter() - began)
            await device.act([Click(x=400, y=300)], spec)
            began = time.perf_counter()
            await device.act([Click(x=500 + step, y=300)], spec)
            figures["click"].append((time.perf_counter() - began) * 1e3)
            began = time.perf_counter()
            await device.observe(spec)
            figures["still"].append((time.perf_counter() - began) * 1e3)
    finally:
        await device.close()
    return {name: Arm(lambda: 0.0, seen) for name, seen in figures.items()}


def _pss_mib(pid: int) -> float:
    fields = Path(f"/proc/{pid}/smaps_rollup").read_text().split("Pss:", 1)[1].split()
    return int(fields[0]) / 1024
