"""A leader whose database falls silent lets go of the hosts, so that the next leader has devices."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.types import ASGIApp
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from devices.api import leader
from devices.api.server import Running, running
from devices.config import PoolConfig
from devices.hosts import messages
from devices.hosts.host import SlotInfo
from devices.pool.store import Deposed
from devices.pool.store.postgres import Postgres
from guiagent import wire
from guiagent.client import FarmClient
from tests.support.canvas_device import DRIVERS, TOKEN
from tests.support.joined_hosts import host as agent
from tests.support.joined_hosts import ready, until

LONG_S = 20.0


@contextlib.asynccontextmanager
async def pool(database: str, folder: Path) -> AsyncIterator[Running]:
    config = PoolConfig(state_dir=folder, port=0, token=TOKEN, devices=[], database=database)
    async with running(config, DRIVERS) as farm:
        await farm.service.settled()
        yield farm


@contextlib.asynccontextmanager
async def joined(database: str, folder: Path) -> AsyncIterator[ClientConnection]:
    """A host of a pool that leads."""
    async with pool(database, folder) as farm:
        url = farm.endpoint.url.replace("http", "ws") + wire.HOSTS + "/join"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with connect(url, additional_headers=headers, proxy=None) as host:
            slots = [SlotInfo("there.sim-0", "sim", 100, 100)]
            hello = messages.Hello("there", "a session", slots, messages.PROTOCOL)
            await host.send(messages.encode(hello))
            assert isinstance(messages.decode_to_host(await host.recv()), messages.Welcome)
            yield host


@pytest.mark.parametrize("asks", ["the leader in doubt", "its follower"])
async def test_a_host_that_asks_while_nobody_leads_asks_again(
    asks: str,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(leader, "_PATIENCE_S", 0.2)
    in_doubt: set[object] = set()
    leading = leader.Member._leading

    def confirmed(self: leader.Member) -> ASGIApp | None:
        return None if self in in_doubt else leading(self)

    monkeypatch.setattr(leader.Member, "_leading", confirmed)
    async with pool(database, tmp_path / "first") as first, pool(database, tmp_path / "second") as second:
        in_doubt.add(first.service)
        asked = first if asks == "the leader in doubt" else second
        async with agent(asked.endpoint.url, "far", 1), FarmClient(asked.endpoint.url, TOKEN) as operator:
            await until(lambda: "cannot reach the pool" in caplog.text, 10.0)
            in_doubt.clear()
            await ready(operator, 1, 10.0)


async def sent_away(host: ClientConnection) -> bool:
    """Whether the pool ends the connection of a host that goes on saying that it lives."""
    with pytest.raises(ConnectionClosed):
        async with asyncio.timeout(LONG_S):
            while True:
                await host.recv()
                await host.send(messages.encode(messages.Alive()))
    return host.close_code == wire.TRY_LATER


async def test_hosts_are_dismissed_when_the_leadership_is_in_doubt(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "ANSWERS_FOR_S", 1.0)
    silent = threading.Event()
    answers = threading.Event()
    write = Postgres.write

    def held_up(self: Postgres, events: object) -> None:
        if silent.is_set():
            answers.wait(LONG_S)
        write(self, events)  # type: ignore[arg-type]

    monkeypatch.setattr(Postgres, "write", held_up)
    try:
        async with joined(database, tmp_path) as host:
            silent.set()
            assert await sent_away(host)
            answers.set()
    finally:
        answers.set()


async def test_hosts_are_dismissed_by_a_leader_that_is_replaced_before_it_is_in_doubt(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database crashes, and another instance has the lock before this one has noticed."""
    replaced = threading.Event()
    write = Postgres.write

    def deposed_once(self: Postgres, events: object) -> None:
        if replaced.is_set():
            replaced.clear()
            raise Deposed
        write(self, events)  # type: ignore[arg-type]

    monkeypatch.setattr(Postgres, "write", deposed_once)
    async with joined(database, tmp_path) as host:
        replaced.set()
        assert await sent_away(host)
