"""Weights on their way to an engine while the learner goes on, and an engine that refuses them."""

import asyncio
import gc
import logging
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
import torch

from guiagent.errors import InfrastructureError
from training.engine.publisher import Publisher


class Engine:
    """Takes versions below `full`."""

    def __init__(self, full: int = 1000) -> None:
        self.loaded: list[tuple[int, float]] = []
        self._full = full

    def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        if version >= self._full:
            raise InfrastructureError(f"the weights of version {version} could not be written; make room")
        self.loaded.append((version, float(weights["w"])))


def copy(weight: torch.Tensor) -> Mapping[str, torch.Tensor]:
    return {"w": weight.clone()}


async def test_versions_arrive_in_order_as_they_were_when_they_were_published() -> None:
    engine, told = Engine(), list[int]()
    publisher = Publisher(engine, told.append)  # type: ignore[arg-type]
    weight = torch.zeros(())
    for version in (1, 2, 3):
        weight.add_(1)
        await publisher.publish(partial(copy, weight), version)
    weight.add_(1)
    await publisher.settle()
    assert engine.loaded == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert told == [1, 2, 3]


async def test_a_slow_gather_stops_no_heartbeat() -> None:
    """Leases are renewed on the event loop: here the gather ends only after so many beats."""
    engine, beats = Engine(), 0
    enough = threading.Event()

    async def renew() -> None:
        nonlocal beats
        while True:
            beats += 1
            if beats == 100:
                enough.set()
            await asyncio.sleep(0)

    def gather() -> Mapping[str, torch.Tensor]:
        assert enough.wait(30), "the event loop stood still while the weights were gathered"
        return {"w": torch.ones(())}

    heartbeats = asyncio.create_task(renew())
    publisher = Publisher(engine, lambda version: None)  # type: ignore[arg-type]
    await publisher.publish(gather, 1)
    await publisher.settle()
    heartbeats.cancel()
    assert engine.loaded == [(1, 1.0)]


async def test_a_version_that_does_not_arrive_is_raised_by_whoever_waits_for_it() -> None:
    publisher = Publisher(Engine(full=1), lambda version: None)  # type: ignore[arg-type]
    await publisher.publish(lambda: {"w": torch.zeros(())}, 1)
    with pytest.raises(InfrastructureError, match="version 1"):
        await publisher.publish(lambda: {"w": torch.zeros(())}, 2)
    await publisher.settle()  # told once


def test_nobody_waits_for_it_where_the_run_ends_by_something_else(caplog: pytest.LogCaptureFixture) -> None:
    """asyncio would print a traceback of an error that was never looked at."""

    async def run() -> None:
        publisher = Publisher(Engine(full=1), lambda version: None)  # type: ignore[arg-type]
        await publisher.publish(lambda: {"w": torch.zeros(())}, 1)
        task: Any = publisher._running
        await asyncio.wait([task])

    with caplog.at_level(logging.ERROR, "asyncio"):
        asyncio.run(run())
        gc.collect()
    assert caplog.messages == []
