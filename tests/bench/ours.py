"""Our devices doing the steps of the peers: click, reward, utterance, RGB screenshot, the DOM if asked."""

import asyncio
import io
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median

import msgspec
import numpy as np
from PIL import Image

from devices.config import BrowserConfig
from devices.drivers import browser
from devices.drivers.browser.device import BrowserDevice
from guiagent.actions import Click
from guiagent.protocols import Device
from guiagent.types import ObserveSpec
from rewards.tasksets.miniwob import MiniWobTask
from tests.bench.pace import EPISODE_STEPS, POINT, TASK, Pace, together

_PROBES = {
    "verdict": "[WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL]",
    "utterance": "core.getUtterance()",
}
SCREENSHOT = ObserveSpec(frame="png", probes=_PROBES)
WITH_DOM = ObserveSpec(frame="png", probes={**_PROBES, "dom": "JSON.stringify(core.getDOMInfo())"})


async def pace(devices: Sequence[Device], steps: int, spec: ObserveSpec) -> Pace:
    """Of all devices stepping at once."""
    return together(await asyncio.gather(*(_pace(device, steps, spec) for device in devices)))


async def _pace(device: Device, steps: int, spec: ObserveSpec) -> Pace:
    click = [Click(x=POINT[0], y=POINT[1])]

    async def reset(seed: int) -> None:
        await MiniWobTask(TASK, TASK, seed, EPISODE_STEPS).setup(device, spec)

    async def step() -> None:
        observation = await device.act(click, spec)
        done, _ = observation.probes["verdict"]
        assert not done
        assert isinstance(observation.probes["utterance"], str)
        if "dom" in spec.probes:
            assert msgspec.json.decode(observation.probes["dom"])["tag"] == "BODY"
        pixels = np.asarray(Image.open(io.BytesIO(observation.frame)).convert("RGB"))
        assert pixels.shape == (observation.height, observation.width, 3)

    await reset(0)
    await step()
    resets_s, steps_s = [], []
    for number in range(steps):
        if number % EPISODE_STEPS == 0:
            began = time.perf_counter()
            await reset(number)
            resets_s.append(time.perf_counter() - began)
        began = time.perf_counter()
        await step()
        steps_s.append(time.perf_counter() - began)
    return Pace(steps / sum(steps_s), 1000 * median(resets_s))


@asynccontextmanager
async def started(count: int, width: int, height: int) -> AsyncIterator[list[BrowserDevice]]:
    """That many browsers in this process."""
    async with AsyncExitStack() as stack:
        devices = []
        for _ in range(count):
            device = await browser.start(BrowserConfig(width=width, height=height))
            stack.push_async_callback(device.close)
            devices.append(device)
        yield devices


def pace_in_process(count: int, steps: int, spec: ObserveSpec, width: int, height: int) -> Pace:
    """Of `count` browsers started for it, and stopped after."""

    async def run() -> Pace:
        async with started(count, width, height) as devices:
            return await pace(devices, steps, spec)

    return asyncio.run(run())
