"""A client of OpenEnv's server wants devices kept: once a pool takes none back, or by a call under way."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from eval.doors import openenv
from eval.doors.openenv import Session, Sessions
from guiagent.errors import InfrastructureError


class Kept:
    """An episode on a device that cannot be given back."""

    closed = 0

    async def close(self) -> None:
        Kept.closed += 1
        raise InfrastructureError("the pool knows nothing of this lease")


class Tasks:
    """Tasks whose devices are `Kept`."""

    def slot(self, client: Any, label: str) -> Kept:
        return Kept()


@contextlib.asynccontextmanager
async def swept(sessions: Sessions) -> AsyncIterator[asyncio.Task[None]]:
    sweeping = asyncio.create_task(sessions.sweep())
    try:
        yield sweeping
    finally:
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)


def opened(sessions: Sessions, name: str) -> Session:
    session = sessions._by_episode[name] = sessions._new()
    return session


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    monkeypatch.setattr(openenv, "_SWEEP_S", 0.01)
    monkeypatch.setattr(Kept, "closed", 0)
    return Sessions(Tasks(), None, 3, None, idle_s=0.0)  # type: ignore[arg-type]


async def test_a_device_that_is_not_taken_back_stops_no_sweep(sessions: Sessions) -> None:
    async with swept(sessions) as sweeping, asyncio.timeout(10):
        for name in ("one", "two"):  # the second comes after the first was not taken back
            opened(sessions, name)
            while sessions._open and not sweeping.done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not sweeping.done() and not sessions._open and Kept.closed == 2


async def test_a_device_that_is_not_taken_back_keeps_no_other_at_the_end(sessions: Sessions) -> None:
    for name in ("one", "two", "three"):
        opened(sessions, name)
    await sessions.close()
    assert Kept.closed == 3


async def test_a_call_under_way_keeps_no_idle_session(sessions: Sessions) -> None:
    busy, idle = opened(sessions, "busy"), opened(sessions, "idle")
    async with busy._turn, swept(sessions), asyncio.timeout(10):
        while idle in sessions._open:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert busy in sessions._open and sessions.of("busy") is busy
