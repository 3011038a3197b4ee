"""What the tests of the desktop driver share: starting one, or saying why this machine cannot."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from PIL import Image

from devices.config import DesktopConfig
from devices.drivers import desktop
from devices.drivers.desktop import sandbox
from guiagent.actions import Action
from guiagent.errors import MissingProgram
from guiagent.types import Observation, ObserveSpec

WIDTH, HEIGHT = 800, 600
CONFIG = DesktopConfig(width=WIDTH, height=HEIGHT)
PNG = ObserveSpec(frame="png")
NO_FRAME = ObserveSpec(frame="none")


@asynccontextmanager
async def running(
    config: DesktopConfig = CONFIG, *, isolated: bool = True
) -> AsyncIterator[desktop.DesktopDevice]:
    """A desktop for the length of a block; skips the test where this machine has none, or no sandboxes."""
    if isolated and (why := sandbox.why_not_isolated()):
        pytest.skip(why)
    try:
        device = await desktop.start(config)
    except MissingProgram as missing:
        pytest.skip(str(missing))
    try:
        yield device
    finally:
        await device.close()


async def act(device: desktop.DesktopDevice, *actions: Action, spec: ObserveSpec = NO_FRAME) -> Observation:
    """Do them, and see that none of them was refused."""
    observation = await device.act(actions, spec)
    assert observation.action_error is None, observation.action_error
    return observation


async def shell(device: desktop.DesktopDevice, script: str) -> str:
    """What a script prints on the device, its errors with it."""
    result = await device.exec(["/bin/sh", "-c", script], 10.0)
    return result.stdout + result.stderr


def picture(observation: Observation) -> Image.Image:
    return Image.open(io.BytesIO(observation.frame)).convert("RGB")
