"""`python -m tests.bench.soak [--minutes 10] [KIND=COUNT ...]`: a farm under lease churn, watched for leaks.

Every worker takes a device, resets it, clicks and types, now and then plants a file, and gives it back. Each
ten seconds a line with processes, open files, private memory (of all, and of the pool's own process) and
episodes; at the end what is left over once the farm has stopped. Exits with 1 where something leaked or
memory grew by over 1 % in ten minutes, beyond what the samples scatter.
"""

import argparse
import asyncio
import contextlib
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from guiagent.actions import Click, Type
from guiagent.cli.memory import descendants
from guiagent.client import FarmClient
from guiagent.embedded import private_pool
from guiagent.errors import FaultError
from guiagent.types import Baseline, ObserveSpec

_DEFAULT = ("browser=3@640x480", "desktop=2@1024x768", "phone=3")
_EVERY_S = 10.0
_STEPS = 12
_WARM_UP = 0.25  # share of the samples that say nothing about growth yet
_MAX_GROWTH = 0.01  # of the memory after warm-up, in ten minutes
_SPEC = ObserveSpec(frame="jpeg")


class Sample(NamedTuple):
    at: float
    processes: int
    files: int
    private_mb: float  # not shared with anything: what else runs here does not change it
    pool_mb: float  # of that, the pool's process


class Left(NamedTuple):
    """What is of the farm, on this machine."""

    temporary: frozenset[str]
    listening: frozenset[str]
    mounts: int


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.soak", description="A farm watched for leaks."
    )
    parser.add_argument("devices", nargs="*", default=_DEFAULT, help="such as browser=3 desktop=2 phone=3")
    parser.add_argument("--minutes", type=float, default=10.0)
    options = parser.parse_args()
    before = _left()
    samples, episodes, steps, faults = asyncio.run(_soak(options.devices, options.minutes * 60))
    after = _left()
    growth, error = growth_in_ten_minutes(samples)
    print(f"{episodes} episodes, {steps} steps, {faults} faults", end="; ")
    print(f"memory {growth:+.1%} ± {error:.1%} in ten minutes")
    leaks = [
        *(f"left in the temporary folder: {name}" for name in sorted(after.temporary - before.temporary)),
        *(f"still listening: {port}" for port in sorted(after.listening - before.listening)),
        *([f"{after.mounts - before.mounts} mounts"] if after.mounts > before.mounts else []),
        *(f"process {pid} is left" for pid in descendants(os.getpid())[1:]),
    ]
    print("\n".join(leaks) or "nothing is left: no process, port, mount or file")
    return 1 if leaks or growth - error > _MAX_GROWTH else 0


async def _soak(devices: Sequence[str], seconds: float) -> tuple[list[Sample], int, int, int]:
    counts = {"episodes": 0, "steps": 0, "faults": 0}
    with private_pool(*devices) as pool:
        async with FarmClient(pool.url, pool.token) as farm:
            ends = time.monotonic() + seconds
            kinds = [device.kind for device in (await farm.devices()).devices]
            workers = [
                asyncio.create_task(_work(farm, kind, n, ends, counts)) for n, kind in enumerate(kinds)
            ]
            samples = await _watch(pool.pid, ends, counts)
            await asyncio.gather(*workers)
            farm_state = await farm.devices()
            held = [device.id for device in farm_state.devices if device.state == "leased"]
            if held:
                print(f"leases that did not end: {', '.join(held)}")
    return samples, counts["episodes"], counts["steps"], counts["faults"]


async def _work(farm: FarmClient, kind: str, seed: int, ends: float, counts: dict[str, int]) -> None:
    chance = random.Random(seed)
    while time.monotonic() < ends:
        try:
            async with farm.lease(kind, grants=["files"], label=f"soak {seed}") as device:
                shown = await device.reset(chance.randrange(1000), Baseline(), _SPEC)
                if "files" in (await device.describe()).features and chance.random() < 0.3:
                    folder = "/sdcard" if kind == "phone" else "/home/user"
                    await device.put(f"{folder}/soak.bin", chance.randbytes(10_000))
                for _ in range(_STEPS):
                    x, y = chance.randrange(shown.width), chance.randrange(shown.height)
                    await device.act([Click(x=x, y=y), Type(text="soak")], _SPEC)
                    counts["steps"] += 1
            counts["episodes"] += 1
        except FaultError as error:
            counts["faults"] += 1
            print(f"{kind}: {error}", flush=True)


async def _watch(pid: int, ends: float, counts: dict[str, int]) -> list[Sample]:
    samples = []
    print(" seconds processes  files  private MB  pool MB episodes faults  load")
    began = time.monotonic()
    while time.monotonic() < ends:
        await asyncio.sleep(_EVERY_S)
        sample = await asyncio.to_thread(_sample, pid, time.monotonic() - began)
        samples.append(sample)
        print(
            f"{sample.at:8.0f} {sample.processes:9} {sample.files:6} {sample.private_mb:11.1f}"
            f" {sample.pool_mb:8.1f} {counts['episodes']:8} {counts['faults']:6} {os.getloadavg()[0]:5.1f}",
            flush=True,
        )
    return samples


def _sample(pid: int, at: float) -> Sample:
    processes = descendants(pid)
    private = {one: _private_kb(one) / 1000 for one in processes}
    return Sample(at, len(processes), _open_files(pid), sum(private.values()), private[pid])


def _private_kb(pid: int) -> int:
    with contextlib.suppress(OSError):  # it ended meanwhile
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
    return 0


def _open_files(pid: int) -> int:
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def _left() -> Left:
    return Left(
        frozenset(entry.name for entry in Path(tempfile.gettempdir()).glob("guiagent-*")),
        frozenset(_listening()),
        sum("guiagent" in line for line in Path("/proc/self/mounts").read_text().splitlines()),
    )


def _listening() -> set[str]:
    """Local TCP addresses in state LISTEN (0A), as the kernel writes them."""
    found = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                local, state = line.split()[1], line.split()[3]
                if state == "0A":
                    found.add(local)
    return found


def growth_in_ten_minutes(samples: Sequence[Sample]) -> tuple[float, float]:
    """Slope of memory over time by least squares after warm-up, as a share of the mean for 600 s, and twice
    its standard error: devices that are being reset make the samples scatter."""
    steady = samples[int(len(samples) * _WARM_UP) :]
    if len(steady) < 3:
        return 0.0, math.inf
    mean_at = sum(sample.at for sample in steady) / len(steady)
    mean_mb = sum(sample.private_mb for sample in steady) / len(steady)
    spread = sum((sample.at - mean_at) ** 2 for sample in steady)
    slope = sum((sample.at - mean_at) * (sample.private_mb - mean_mb) for sample in steady) / spread
    off = sum((sample.private_mb - mean_mb - slope * (sample.at - mean_at)) ** 2 for sample in steady)
    error = math.sqrt(off / (len(steady) - 2) / spread)
    return slope * 600 / mean_mb, 2 * error * 600 / mean_mb


if __name__ == "__main__":
    sys.exit(main())
