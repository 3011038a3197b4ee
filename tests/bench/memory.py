"""Memory of a device with four running, as proportional set size: shared pages count in equal parts."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

from guiagent.cli.memory import pss_kb
from tests.bench.ours import SCREENSHOT, pace, started
from tests.bench.pace import HEIGHT, WIDTH
from tests.bench.rows import Arm, Row, at_most, interleave

_DEVICES = 4


def rows(rounds: int) -> Iterator[Row]:
    ours = Arm(lambda: asyncio.run(_per_device()))
    interleave(rounds, ours)
    yield at_most(f"memory of a device, {_DEVICES} running", "MB PSS", ours, 120)


async def _per_device() -> float:
    async with started(_DEVICES, WIDTH, HEIGHT) as devices:
        await pace(devices, 40, SCREENSHOT)
        groups = {device.pid for device in devices}
        return sum(pss_kb(pid) for pid in _processes() if _group(pid) in groups) / 1000 / _DEVICES


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0
