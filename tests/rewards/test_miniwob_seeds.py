"""A page and a seed are one problem: two browsers show the same, whatever one of them has shown before."""

import io
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from PIL import Image, ImageChops

from devices.config import BrowserConfig
from devices.drivers import browser
from guiagent.protocols import Device
from guiagent.seeds import REINFORCEMENT
from guiagent.types import ObserveSpec
from rewards.tasksets.miniwob import HEIGHT, WIDTH, MiniWob, SolvedTask

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
SEED = REINFORCEMENT[20]
PAGES = [name for name in MiniWob().names if isinstance(MiniWob().task(name, SEED), SolvedTask)]
# Of what is laid out: the words, and what fields hold. The menu of click-pie still grows when it is shown.
HELD = """[document.querySelector('#wrap').innerText, ...[...document.querySelectorAll(
  '#wrap :is(input, textarea, select)')].map(e => `${e.value} ${e.checked}`)]"""
SPEC = ObserveSpec(frame="png", probes={"held": HELD})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def other_device(browser_device: Device) -> AsyncIterator[Device]:
    """Another browser, with processes of its own."""
    device = await browser.start(BrowserConfig(width=WIDTH, height=HEIGHT))
    yield device
    await device.close()


@pytest.mark.parametrize("page", PAGES)
async def test_two_browsers_show_the_same_problem(
    browser_device: Device, other_device: Device, page: str
) -> None:
    await MiniWob().task(page, SEED + 1).setup(other_device, SPEC)  # so that the next is set up in its place
    (said, one), (said_again, other) = [
        await MiniWob().task(page, SEED).setup(device, SPEC) for device in (browser_device, other_device)
    ]
    assert said == said_again
    assert one.probes["held"] == other.probes["held"]
    assert _most_difference(one.frame, other.frame) <= 1, "pixels"  # of rounded corners


def _most_difference(one: bytes, other: bytes) -> int:
    pictures = [Image.open(io.BytesIO(frame)).convert("RGB") for frame in (one, other)]
    return int(max(high for _, high in ImageChops.difference(*pictures).getextrema()))
