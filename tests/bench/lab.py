"""The lab's steps in process and through the pool, a fresh picture with each, beside MiniWoB++ by Farama.

For scale: Sample Factory (arXiv 2006.11751) publishes over 100,000 frames a second of 3-D games on one
machine, with shared memory instead of pictures that are encoded and sent.
"""

import asyncio
import random
import time
from collections.abc import Iterator

from devices.config import LabConfig
from devices.drivers import lab
from guiagent.actions import Action, Click, PressButton, Scroll
from guiagent.client import FarmClient
from guiagent.client.local_pool import private_pool
from guiagent.lab.world import AppSpec
from guiagent.protocols import Device
from guiagent.types import Observation, ObserveSpec
from rewards.tasksets.lab import Lab
from tests.bench import peers
from tests.bench.limits import request_ms
from tests.bench.rows import Arm, Row, against, at_least, interleave, noted, within

_SIZE = (160, 224)
_STEPS = 3000
_EPISODE = 20  # steps between resets, as in the rows of browsers
_PICTURE = ObserveSpec(frame="png")


def rows(rounds: int) -> Iterator[Row]:
    ours = Arm(lambda: asyncio.run(_in_process()))
    encoding = Arm(lambda: asyncio.run(_encoding()))
    farama = Arm(lambda: peers.pace("farama", 1, 60).steps_per_s)
    interleave(rounds, ours, encoding, farama)
    name = "lab: step in process on one core, a fresh PNG each"
    yield at_least(name, "steps/s", ours, 1500)
    yield within(f"{name} (limit: encoding the picture alone)", "steps/s", ours, encoding, 2.5, less=False)
    yield against("lab: step in process, against farama's MiniWoB++", "steps/s", ours, farama, 60)
    through, empty = Arm.of(), Arm.of()
    for _ in range(rounds):
        step, request = _through_the_pool()
        through.figures.append(step)
        empty.figures.append(request)
    row = within("lab: step through the pool (limit: an empty request)", "ms", through, empty, 3)
    yield noted(row, "one device, one client")


def _actions(seed: int) -> Iterator[Action]:
    """Taps on rows at random, with a scroll or Back now and then: most of them change the picture."""
    rng, (width, height) = random.Random(seed), _SIZE
    while True:
        chance = rng.random()
        if chance < 0.8:
            yield Click(x=width // 2, y=rng.randrange(height // 8, height))
        elif chance < 0.9:
            yield PressButton(button="back")
        else:
            yield Scroll(x=width // 2, y=height // 2, dy=rng.choice((-1, 1)) * height // 2)


async def _play(device: Device, steps: int) -> Observation:
    """Play steps of tasks, which are drawn as for training, and return the last picture."""
    tasks, actions = Lab(), _actions(0)
    for step in range(steps):
        if step % _EPISODE == 0:
            _, shown = await tasks.task("reach-4", 10**6 + step // (8 * _EPISODE)).setup(device, _PICTURE)
        shown = await device.act([next(actions)], _PICTURE)
    return shown


async def _in_process() -> float:
    device = await lab.start(LabConfig())
    await _play(device, _EPISODE)
    began = time.perf_counter()
    await _play(device, _STEPS)
    return _STEPS / (time.perf_counter() - began)


async def _encoding() -> float:
    device = await lab.start(LabConfig())
    await _play(device, _EPISODE)
    picture = lab.picture(device._drawn, None, AppSpec().theme, _SIZE)
    began = time.perf_counter()
    for _ in range(_STEPS):
        lab.encoded(picture, "png", 85)
    return _STEPS / (time.perf_counter() - began)


def _through_the_pool() -> tuple[float, float]:
    """Milliseconds of a step, and of a request that the same pool has nothing to do for."""

    async def run() -> tuple[float, float]:
        async with (
            FarmClient(endpoint.url, endpoint.token) as farm,
            farm.lease("lab", grants=["exec"]) as device,
        ):
            await _play(device, _EPISODE)
            began = time.perf_counter()
            await _play(device, _STEPS // 5)
            step = 1000 * (time.perf_counter() - began) / (_STEPS // 5)
        return step, await request_ms(endpoint)

    with private_pool(f"lab=1@{_SIZE[0]}x{_SIZE[1]}") as endpoint:
        return asyncio.run(run())
