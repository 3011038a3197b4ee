"""A pool with one canvas that notes where it is clicked, through whichever door, and a task on it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from devices.config import SimConfig
from devices.drivers import Driver
from eval.stepping import SuiteTasks
from eval.suites import SUITES
from eval.suites.suite import Suite
from guiagent.actions import Action, Click
from guiagent.types import Ending, Observation, ObserveSpec, Score
from guiagent.wire import Endpoint
from rewards.catalogue import TASKSETS
from tests.support.canvas_device import CanvasDevice, farm_of
from tests.support.lamp import LampTask
from tests.support.pool_thread import pool_thread

Point = tuple[int, int]
Door = Callable[[Endpoint, Point], Awaitable[None] | None]

WIDTH, HEIGHT = 160, 120
MEANT: list[Point] = [(0, 0), (47, 31), (133, 17), (159, 119)]  # two of them are corners
SUITE, TASK = "pressing", "lamp"


class Pressed(CanvasDevice):
    """A canvas that notes the pixels it is clicked at, whoever holds it."""

    places: ClassVar[list[Point]] = []

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        Pressed.places += [(one.x, one.y) for one in actions if isinstance(one, Click)]
        return await super().act(actions, spec)


class _PressTask(LampTask):
    async def check(self, device: Any, observation: Observation, ending: Ending) -> Score:
        return Score(0.0, reason="where it was clicked is what counts")


class _Pressing:
    names = (TASK,)

    def __init__(self, oracle: bool = False) -> None:
        pass

    def task(self, name: str, seed: int) -> LampTask:
        return _PressTask(name, seed)


async def _start(config: SimConfig) -> Pressed:
    return Pressed(config.width, config.height)


@contextlib.contextmanager
def pressed_pool(folder: Path) -> Iterator[Endpoint]:
    """The pool, whose token is in $GUIAGENT_TOKEN, and the suite of one task on its device."""
    driver = {"sim": Driver(_start)}
    with pool_thread(farm_of(1, folder), driver) as endpoint, pytest.MonkeyPatch.context() as patched:
        suite = Suite(SUITE, SUITE, (TASK,), (), 1, "sim", screen=(WIDTH, HEIGHT))
        patched.setenv("GUIAGENT_TOKEN", endpoint.token)
        patched.setitem(SUITES, SUITE, suite)
        patched.setitem(TASKSETS, SUITE, _Pressing)
        yield endpoint


def row() -> dict[str, Any]:
    """The task, and its first seed to learn from."""
    return {"task": TASK, "seed": SuiteTasks(SUITE).seeds(1)[0]}


def landed(pool: Endpoint, door: Door) -> list[Point]:
    """Click at each place that is meant, each time through the door anew; the pixels that were clicked."""
    Pressed.places.clear()
    for at in MEANT:
        if (made := door(pool, at)) is not None:
            asyncio.run(_until_done(made))
    return list(Pressed.places)


async def _until_done(work: Awaitable[None]) -> None:
    await work
