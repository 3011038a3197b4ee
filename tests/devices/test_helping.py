"""An agent asks for a person, who drives its device and gives it back; the lease stays the agent's."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devices.api.server import Running, running
from devices.leases import Lease
from devices.pool.helping import Helping, WithAPerson
from guiagent import wire
from guiagent.actions import Click, Type
from guiagent.client import FarmClient, LeasedDevice
from guiagent.errors import FaultError, LeaseError, UsageError
from guiagent.types import ObserveSpec
from tests.support.canvas_device import DRIVERS, TOKEN, farm_of

COUNT = ObserveSpec(frame="none", probes={"clicks": "how many"})
CLICK = Click(x=5, y=5)


# -- the requests --------------------------------------------------------------------------------------------


class Pool:
    """Helping with a clock of our own, and one lease."""

    def __init__(self) -> None:
        self.time = 0.0
        self.helping = Helping(lambda: self.time)
        self.lease = Lease(
            "one", "sim-0", token=7, ttl=1.0, grants=frozenset(), label="agent", key="", tenant="ann"
        )

    async def ask(self, key: str = "k", wait_s: float = 30.0) -> wire.HelpAnswer:
        request = wire.HelpRequest(token=7, key=key, reason="a login", wait_s=wait_s, poll_s=0.0)
        return await self.helping.ask(self.lease, request)


@pytest.fixture
def pool() -> Pool:
    return Pool()


async def test_from_the_request_to_the_end_of_it_the_agent_may_not_act(pool: Pool) -> None:
    pool.helping.require_undriven(pool.lease)
    assert (await pool.ask()).state == "waiting"
    with pytest.raises(WithAPerson, match=r"sim-0 waits for a person, .*: a login"):
        pool.helping.require_undriven(pool.lease)
    (wanted,) = pool.helping.wanted()
    assert (wanted.device, wanted.token, wanted.tenant, wanted.taken) == ("sim-0", 7, "ann", False)
    assert pool.helping.take(wanted.id, ["click x=1 y=2"]) == (pool.lease, True)
    assert pool.helping.take(wanted.id, []) == (pool.lease, False)
    assert (await pool.ask()) == wire.HelpAnswer("taken")  # what was done is told at the end
    pool.helping.give_back(wanted.id, refuse=False, note="you are logged in")
    pool.helping.require_undriven(pool.lease)
    for gone in (wanted.id, "é", ""):
        with pytest.raises(UsageError, match="nobody asks for a person under this id any more"):
            pool.helping.give_back(gone, refuse=False, note="")
    assert await pool.ask() == wire.HelpAnswer("done", "you are logged in", ["click x=1 y=2"])
    assert pool.helping.wanted() == []


async def test_nobody_comes_in_time(pool: Pool) -> None:
    await pool.ask(wait_s=30.0)
    (wanted,) = pool.helping.wanted()
    pool.time = 29.9
    assert pool.helping.wanted()
    pool.time = 30.0
    assert (await pool.ask()).state == "nobody"
    with pytest.raises(UsageError, match="nobody asks for a person under this id any more"):
        pool.helping.take(wanted.id, [])


async def test_whoever_has_come_has_as_long_as_he_looks(pool: Pool) -> None:
    await pool.ask(wait_s=30.0)
    (wanted,) = pool.helping.wanted()
    for _ in range(20):
        pool.helping.take(wanted.id, [])
        pool.time += 59.0
        assert (await pool.ask()).state == "taken"
    pool.time += 1.0
    assert (await pool.ask()).state == "left"
    pool.helping.require_undriven(pool.lease)


async def test_an_agent_that_is_gone_asks_for_nobody(pool: Pool) -> None:
    await pool.ask(wait_s=1000.0)
    pool.time = 90.0
    assert pool.helping.wanted() == []
    await pool.ask("again", wait_s=1000.0)
    assert pool.helping.wanted()
    pool.helping.forget("one")
    assert pool.helping.wanted() == []
    assert pool.helping.reason("one") == ""


async def test_a_lease_asks_for_one_person_at_a_time(pool: Pool) -> None:
    await pool.ask("a")
    with pytest.raises(UsageError, match="sim-0 has asked for a person already"):
        await pool.ask("b")
    (wanted,) = pool.helping.wanted()
    pool.helping.give_back(wanted.id, refuse=True, note="")
    assert (await pool.ask("b")).state == "waiting"
    assert pool.helping.wanted()[0].id != wanted.id


# -- over the API --------------------------------------------------------------------------------------------


@pytest.fixture
async def farm(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(farm_of(1, tmp_path), DRIVERS) as farm:
        yield farm


@pytest.fixture
async def client(farm: Running) -> AsyncIterator[FarmClient]:
    async with FarmClient(farm.endpoint.url, TOKEN) as client:
        yield client


@pytest.fixture
async def device(client: FarmClient) -> LeasedDevice:
    return await client.lease("sim", grants=["exec", "shell", "files"])


async def wanted_by(client: FarmClient) -> wire.HelpWanted:
    for _ in range(500):
        if found := await client.wanted():
            return found[0]
        await asyncio.sleep(0.01)
    raise AssertionError("nobody asks for a person")


async def act_for(client: FarmClient, wanted: wire.HelpWanted, actions: str) -> None:
    body = f'{{"token": {wanted.token}, "key": "{len(actions)}", "actions": {actions}}}'
    await client.call("POST", f"{wire.HELP}/{wanted.id}/step", body.encode())


async def test_a_person_drives_and_the_agent_goes_on_where_he_left_it(
    client: FarmClient, device: LeasedDevice
) -> None:
    await device.act([CLICK], COUNT)
    asking = asyncio.create_task(device.ask_human("log in", 30.0))
    wanted = await wanted_by(client)
    assert (await client.devices()).devices[0].asks == "log in"
    for verb in (
        device.act([CLICK], COUNT),
        device.exec(["ls"]),
        device.get("/a"),
        device.snapshot(),
        device.connect("adb"),
    ):
        with pytest.raises(FaultError, match="waits for a person") as refused:
            await verb
        assert (refused.value.fault.code, refused.value.fault.retryable) == ("with_a_person", True)
        assert not isinstance(refused.value, LeaseError)
    assert (await device.observe(COUNT)).probes == {"clicks": 1}  # looking is allowed
    await act_for(client, wanted, '[{"type": "click", "x": 9, "y": 9}]')
    await act_for(client, wanted, '[{"type": "type", "text": "hunter2"}]')
    await client.give_back(wanted.id, note="logged in as Ann")
    answer = await asking
    assert (answer.state, answer.note) == ("done", "logged in as Ann")
    assert answer.did == [
        "click x=9 y=9",
        "type text=7 characters",
    ]  # the password is not the agent's to know
    assert (await device.act([CLICK, Type(text="x")], COUNT)).probes == {"clicks": 3}
    assert (await client.devices()).devices[0].asks == ""
    log = (await client.call("GET", f"{wire.DEVICES}/{device.id}/logs")).body.decode()
    for line in ("asks for a person: log in", "a person drives", "click x=9 y=9", "given back by a person"):
        assert line in log, log


async def test_a_person_refuses(client: FarmClient, device: LeasedDevice) -> None:
    asking = asyncio.create_task(device.ask_human("pay", 30.0))
    await client.give_back((await wanted_by(client)).id, refuse=True, note="too dear")
    assert await asking == wire.HelpAnswer("refused", "too dear")
    await device.act([CLICK], COUNT)


async def test_nobody_comes_and_the_lease_is_kept(device: LeasedDevice) -> None:
    assert (await device.ask_human("pay", 0.2)).state == "nobody"
    await device.act([CLICK], COUNT)


async def test_a_request_that_is_taken_back_leaves_the_device_to_the_agent(
    client: FarmClient, device: LeasedDevice
) -> None:
    assert await device.stop_asking()  # it never asked
    asking = asyncio.create_task(device.ask_human("pay", 30.0))
    await wanted_by(client)
    assert await device.stop_asking()
    assert (await asking).state == "nobody"
    await device.act([CLICK], COUNT)
    asking = asyncio.create_task(device.ask_human("pay", 30.0))
    await wanted_by(client)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await client.wanted() == []
    await device.act([CLICK], COUNT)


async def test_a_person_who_has_come_is_not_sent_away(client: FarmClient, device: LeasedDevice) -> None:
    asking = asyncio.create_task(device.ask_human("pay", 30.0))
    wanted = await wanted_by(client)
    await act_for(client, wanted, '[{"type": "click", "x": 9, "y": 9}]')
    assert not await device.stop_asking()
    await client.give_back(wanted.id)
    assert (await asking).state == "done"
    assert await device.stop_asking()


async def test_a_lease_that_ends_meanwhile_is_told_so(client: FarmClient, device: LeasedDevice) -> None:
    asking = asyncio.create_task(device.ask_human("pay", 30.0))
    wanted = await wanted_by(client)
    await client.lease(device=device.id, takeover=True)
    with pytest.raises(UsageError, match="nobody asks for a person under this id any more"):
        await act_for(client, wanted, "[]")
    with pytest.raises(LeaseError) as ended:
        await asking
    assert ended.value.fault.code == "taken_over"
