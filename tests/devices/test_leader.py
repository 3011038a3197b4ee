"""Several pools on one database: one leads, the others forward to it, and one of them takes over."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psycopg
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from devices.api import leader
from devices.api.server import Running, running
from devices.leases import Event
from devices.pool.store import postgres
from devices.pool.store.postgres import Postgres
from guiagent import wire
from guiagent.actions import Click
from guiagent.client import FarmClient
from guiagent.errors import FaultError, InfrastructureError
from guiagent.types import ObserveSpec, ResetSpec
from tests.support.canvas_device import DRIVERS, TOKEN, farm_of
from tests.support.postgres import Server
from tests.support.stores import Place

HEADERS = {"Authorization": f"Bearer {TOKEN}"}
COUNT = ObserveSpec(frame="none", probes={"clicks": "how many"})

Start = Callable[[str], contextlib.AbstractAsyncContextManager[Running]]


@pytest.fixture
def instance(database: str, tmp_path: Path) -> Start:
    """Starts a pool of two devices on the database; it has a leader, itself or another."""

    @contextlib.asynccontextmanager
    async def start(name: str) -> AsyncIterator[Running]:
        alone = farm_of(2, tmp_path / name)
        config = type(alone)(**{**alone.model_dump(), "token": TOKEN, "database": database})
        async with running(config, DRIVERS) as farm:
            await farm.service.settled()
            yield farm

    return start


async def health(farm: Running) -> dict[str, Any]:
    async with httpx.AsyncClient(trust_env=False) as http:
        answer: dict[str, Any] = (await http.get(farm.endpoint.url + wire.HEALTH)).json()
        return answer


async def until_it_is(farm: Running, role: str) -> None:
    async with asyncio.timeout(20):
        while (await health(farm))["role"] != role:  # noqa: ASYNC110 - it is another process's business
            await asyncio.sleep(0.02)


async def test_a_follower_passes_on_all_that_it_is_asked(instance: Start) -> None:
    async with instance("a") as first, instance("b") as second:
        assert (await health(first))["role"] == "leader"
        said = await health(second)
        assert said["role"] == "follower"
        assert said["leader"]["url"] == first.endpoint.url
        async with FarmClient(second.endpoint.url, TOKEN) as client:
            device = await client.lease("sim", grants=("exec",))
            shown = await device.act([Click(x=80, y=60)], ObserveSpec(probes={"clicks": "how many"}))
            assert shown.frame.startswith(b"\xff\xd8")
            assert shown.probes == {"clicks": 1}
            with pytest.raises(FaultError) as none:  # a refusal comes through as the leader said it
                await client.lease_group("sim", 2, wait=0.05)
            assert none.value.fault.code == "no_device"
        async with FarmClient(first.endpoint.url, TOKEN) as client:  # the client gave its lease back
            assert len(await client.lease_group("sim", 2)) == 2


async def test_a_follower_passes_files_on_and_asks_the_leader_before_it_takes_one(instance: Start) -> None:
    async with instance("a"), instance("b") as second, FarmClient(second.endpoint.url, TOKEN) as client:
        device = await client.lease("sim", grants=("files",))
        for data in (b"", b"short", bytes(range(256)) * (5 << 12)):
            await device.put("/x", data)
            assert await device.get("/x") == data
        host, port = second.endpoint.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"PUT {wire.LEASES}/none/files?path=/x&token=1 HTTP/1.1\r\nHost: a\r\n"
        writer.write(f"{head}Authorization: Bearer {TOKEN}\r\nContent-Length: {5 << 20}\r\n\r\n".encode())
        assert b" 404 " in await asyncio.wait_for(reader.readline(), 20)  # and not a byte of it was sent
        writer.close()


async def test_a_follower_is_as_closed_as_the_leader_and_shows_the_page(instance: Start) -> None:
    async with instance("a"), instance("b") as second:
        async with httpx.AsyncClient(base_url=second.endpoint.url, trust_env=False) as http:
            assert (await http.get(wire.DEVICES)).status_code == 401
            odd = "/v1/devices/%2e%2e%2f\xe9/frame?x=%20"
            known = {"Authorization": f"Bearer {TOKEN}"}
            assert (await http.get(odd, headers=known)).status_code == 404
            page = await http.get("/")
            assert page.status_code == 200
            assert "Content-Security-Policy" in page.headers
        live = second.endpoint.url.replace("http", "ws") + wire.LIVE
        async with connect(live, subprotocols=[wire.LIVE_PROTOCOL, TOKEN], proxy=None) as page_socket:  # type: ignore[list-item]
            assert page_socket.subprotocol == wire.LIVE_PROTOCOL
            farm = msgspec.json.decode(await page_socket.recv(), type=wire.FarmInfo)
            assert [one.id for one in farm.devices] == ["sim-0", "sim-1"]
        for wrong in ({"subprotocols": ["wrong"]}, {"origin": "http://evil.example"}):
            with pytest.raises(InvalidStatus):
                await connect(live, proxy=None, **{"subprotocols": [wire.LIVE_PROTOCOL, TOKEN], **wrong})


async def test_a_follower_takes_over_with_every_lease_and_rising_tokens(instance: Start) -> None:
    async with instance("b_is_started_last") as _:
        pass  # so that the next leadership is not the first one
    async with contextlib.AsyncExitStack() as stack:
        old = await stack.enter_async_context(instance("a"))
        async with instance("b") as heir, FarmClient(heir.endpoint.url, TOKEN) as client:
            kept = await client.lease("sim", grants=("exec",))
            passing = await client.lease("sim")
            await passing.close()
            await stack.aclose()
            await until_it_is(heir, "leader")
            assert old.endpoint.url != heir.endpoint.url
            assert (await kept.health()).ok
            with pytest.raises(FaultError) as gone:  # its screen went with the former leader's process
                await kept.act([Click(x=1, y=1)], COUNT)
            assert gone.value.fault.code == "restarted"
            await kept.reset(0, ResetSpec(), COUNT)
            assert (await kept.act([Click(x=1, y=1)], COUNT)).probes == {"clicks": 1}
            again = await client.lease("sim")
            assert again.id == passing.id
            assert again.token > passing.token


async def test_a_deposed_leader_acknowledges_nothing_and_stands_again(instance: Start, database: str) -> None:
    async with instance("a") as farm, FarmClient(farm.endpoint.url, TOKEN) as client:
        kept = await client.lease("sim")
        epoch = (await health(farm))["epoch"]
        Place(dsn=database).rows("UPDATE leader SET epoch = epoch + 1, url = 'http://127.0.0.1:1'")
        async with httpx.AsyncClient(base_url=farm.endpoint.url, headers=HEADERS) as http:
            refused = await http.post(wire.LEASES, json={"kind": "sim", "wait_s": 0.0})
        assert (refused.status_code, refused.json()["code"], refused.json()["retryable"]) == (
            503,
            "no_leader",
            True,
        )
        async with client.lease("sim", wait=0.0):  # a client asks again until somebody leads
            pass
        await until_it_is(farm, "leader")
        assert (await health(farm))["epoch"] == epoch + 2
        assert (await kept.health()).ok
        await kept.close()
        assert len(await client.lease_group("sim", 2, wait=5.0)) == 2  # the refused grant never existed


async def test_the_leader_outlasts_a_crash_of_the_database(instance: Start, postgres_server: Server) -> None:
    async with instance("a") as farm, FarmClient(farm.endpoint.url, TOKEN) as client:
        kept = await client.lease("sim", grants=("exec",))
        epoch = (await health(farm))["epoch"]
        await kept.act([Click(x=1, y=1)], COUNT)
        with postgres_server.crashed():
            asking = asyncio.ensure_future(client.lease("sim"))  # is stored when the database is back
            await asyncio.sleep(0.2)
            assert not asking.done()
        assert (await asking).id != kept.id
        assert (await health(farm))["epoch"] == epoch
        assert (await kept.act([Click(x=1, y=1)], COUNT)).probes == {"clicks": 2}  # its device ran on


async def test_what_a_leader_renews_that_has_been_replaced_unnoticed_is_not_dropped(
    instance: Start, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends the leader's session, which frees the lock; another leads before the leader notices."""
    for module in (leader, postgres):
        monkeypatch.setattr(module, "ANSWERS_FOR_S", 30.0)  # as long as the test takes on a busy machine
    sees = threading.Event()
    write = Postgres.write

    def blind(self: Postgres, events: Sequence[Event]) -> None:
        if self.epoch == replaced:
            sees.wait(20)
        write(self, events)

    async with (
        instance("a") as first,
        instance("b") as second,
        httpx.AsyncClient(headers=HEADERS, trust_env=False) as http,
    ):
        wish = {"kind": "sim", "ttl_s": 2.0, "wait_s": 5.0}
        (lease,) = (await http.post(first.endpoint.url + wire.LEASES, json=wish)).json()["leases"]
        renew, body = f"{wire.LEASES}/{lease['id']}/renew", {"ttl_s": 2.0}
        replaced = (await health(first))["epoch"]
        monkeypatch.setattr(Postgres, "write", blind)
        try:
            Place(dsn=database).rows(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
            await until_it_is(second, "leader")
            until = asyncio.get_running_loop().time() + 2.5
            while asyncio.get_running_loop().time() < until:
                renewed = await http.post(first.endpoint.url + renew, json=body)
                assert renewed.status_code == 200, renewed.text
                await asyncio.sleep(0.05)
            kept = await http.post(second.endpoint.url + renew, json=body)
            assert kept.status_code == 200, kept.text
        finally:
            sees.set()


async def test_without_a_leader_the_answer_is_to_ask_again(
    instance: Start, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "_PATIENCE_S", 0.3)
    async with instance("a") as farm:
        with psycopg.connect(database, autocommit=True) as other:
            shown = Postgres(database, "")
            before = shown.leader()
            assert before is not None
            shown.evict(before)
            shown.close()
            async with asyncio.timeout(10):  # somebody else has the lock, and is never heard of
                lock = "SELECT pg_advisory_lock(%s::int8)"
                await asyncio.to_thread(other.execute, lock, (int.from_bytes(b"guiagent"),))
            Place(dsn=database).rows("UPDATE leader SET epoch = epoch + 1, url = 'http://127.0.0.1:1'")
            await until_it_is(farm, "follower")
            async with httpx.AsyncClient(base_url=farm.endpoint.url, headers=HEADERS) as http:
                answer = await http.get(wire.DEVICES)
            problem = msgspec.json.decode(answer.content, type=wire.Problem)
            assert (answer.status_code, problem.code, problem.retryable) == (503, "no_leader", True)
            assert answer.headers["content-type"] == wire.PROBLEM
        await until_it_is(farm, "leader")


async def test_a_database_that_is_not_there_ends_the_pool_with_one_line(tmp_path: Path) -> None:
    alone = farm_of(1, tmp_path)
    config = type(alone)(**{**alone.model_dump(), "token": TOKEN, "database": "postgresql://127.0.0.1:1/x"})
    with pytest.raises(InfrastructureError, match="cannot keep the pool's state in PostgreSQL"):
        async with running(config, DRIVERS) as farm:
            await farm.work


def test_an_instance_that_listens_everywhere_is_named_by_its_own_address() -> None:
    assert leader.reachable("http://192.0.2.7:8700") == "http://192.0.2.7:8700"
    address = leader.reachable("http://0.0.0.0:8700")
    assert address == f"http://{socket.gethostbyname(socket.gethostname())}:8700"
    assert leader.reachable("http://[::]:8700") == address
