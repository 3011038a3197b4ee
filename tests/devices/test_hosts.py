"""Device hosts that join a pool: the same verbs, over connections that break and come back."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import websockets

from devices.api.server import Running, running
from devices.config import PoolConfig, SimConfig, named
from devices.drivers import Driver
from devices.hosts import agent as agents
from devices.hosts import messages
from devices.hosts.agent import Agent
from devices.hosts.host import SlotInfo
from devices.hosts.remote import RemoteHost
from devices.leases import OPERATOR, Event, Granted
from devices.pool.service import PoolService
from devices.pool.store import Sqlite
from guiagent import wire
from guiagent.actions import Click, Type, Wait
from guiagent.client import FarmClient
from guiagent.errors import FaultError, InfrastructureError, LeaseError, UsageError
from guiagent.protocols import Clock
from guiagent.types import ObserveSpec, ResetSpec
from guiagent.wire import HOSTS, TRY_LATER
from tests.support import joined_hosts
from tests.support.joined_hosts import NOTHING, TENANT, TOKEN, client_of, farm_of, ready, start_echo, until

SLOTS = [SlotInfo("far.sim-0", "sim", 9, 9)]


class Line:
    """A TCP relay in front of the pool at port `to` that can be cut, and mended."""

    def __init__(self, port: int) -> None:
        self.to = port
        self._open = True
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> "Line":
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        self._server.close()

    def cut(self) -> None:
        self._open = False
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def mend(self) -> None:
        self._open = True

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not self._open:
                raise ConnectionError
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    target.write(data)
                    await target.drain()
            target.close()

        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))


@pytest.fixture
async def farm(tmp_path: Path) -> AsyncIterator[Running]:
    async with farm_of(tmp_path) as farm:
        yield farm


class Later:
    """A clock that can be put forward."""

    ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def time(self) -> float:
        return time.time() + self.ahead


def host(
    url: str, name: str, count: int = 2, token: str = TOKEN, clock: Clock = time
) -> contextlib.AbstractAsyncContextManager[Agent]:
    return joined_hosts.host(url, name, count, token, clock, start_echo)


def port_of(farm: Running) -> int:
    return int(farm.endpoint.url.rpartition(":")[2])


async def test_the_devices_of_hosts_are_one_farm(farm: Running) -> None:
    url = farm.endpoint.url
    async with client_of(farm) as client, host(url, "left"), host(url, "right"):
        await ready(client, 4)
        group = await client.lease_group("sim", 4, grants=["exec"])
        assert {device.id for device in group} == {
            f"{name}.sim-{number}" for name in ("left", "right") for number in (0, 1)
        }
        for device in group:
            await device.act([Type(text=device.id)], NOTHING)
        spec = ObserveSpec(frame="png", probes={"text": "text"})
        assert [(await device.observe(spec)).probes["text"] for device in group] == [one.id for one in group]


async def test_a_request_waits_for_the_first_host(farm: Running) -> None:
    """As after a restart of the pool, whose hosts come back a moment after the clients."""
    async with client_of(farm) as client:
        lease = asyncio.ensure_future(client.lease("sim", wait=60.0))
        while not (await client.devices()).queue:  # noqa: ASYNC110 - a server knows it, no event of ours
            await asyncio.sleep(0.01)
        async with host(farm.endpoint.url, "far"):
            assert (await lease).id.startswith("far.")
        with pytest.raises(UsageError, match="this farm has no 'desktop' devices; it has sim"):
            await client.lease("desktop")


async def test_every_verb_reaches_a_joined_host(farm: Running) -> None:
    async with client_of(farm) as client, host(farm.endpoint.url, "far", 3):
        await ready(client, 3)
        device = await client.lease("sim", grants=["exec", "shell", "files"])
        shown = await device.reset(
            3, ResetSpec(url="https://example.org"), ObserveSpec(frame="png", page=True)
        )
        assert (shown.url, shown.frame[:4]) == ("https://example.org", b"\x89PNG")
        await device.put("/a", b"\x00\xff" * 50_000)
        assert await device.get("/a") == b"\x00\xff" * 50_000
        assert (await device.exec(["echo", "there"])).stdout == "there\n"
        with pytest.raises(FaultError, match="there is no /b on the device"):
            await device.get("/b")
        with pytest.raises(UsageError, match="greater than or equal to 0"):
            await device.act([Click.model_construct(type="click", x=-1, y=1)], NOTHING)
        siblings = await device.fork(2)
        assert [await one.get("/a") for one in siblings] == [b"\x00\xff" * 50_000] * 2
        async with device.forward("adb") as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"HELLO"
            writer.close()


async def test_what_is_done_on_a_far_device_is_in_its_log_once(farm: Running) -> None:
    port = port_of(farm)
    async with Line(port) as line, client_of(farm) as client, host(line.url, "far", 1):
        await ready(client, 1)
        device = await client.lease("sim")
        for number in range(260):  # more than a log holds
            await device.act([Click(x=10, y=100 + number % 7)], NOTHING)
        line.cut()
        line.mend()
        await device.act([Click(x=11, y=111)], NOTHING)
        give_up = time.monotonic() + 10.0
        while "click x=11 y=111" not in (log := await client.logs("far.sim-0")):
            assert time.monotonic() < give_up
            await asyncio.sleep(0.1)
        assert log.count("click x=11 y=111") == 1
        assert 100 < log.count("click x=10") < 260


async def test_a_brief_cut_is_waited_out_and_nothing_is_done_twice(farm: Running) -> None:
    port = port_of(farm)
    async with Line(port) as line, client_of(farm) as client, host(line.url, "far", 1):
        await ready(client, 1)
        device = await client.lease("sim", grants=["exec"])
        await device.reset(0, ResetSpec(), NOTHING)
        spec = ObserveSpec(frame="none", probes={"text": "text"})
        step = asyncio.create_task(device.act([Type(text="once"), Wait(ms=300)], spec))
        await asyncio.sleep(0.1)
        line.cut()  # the step is under way on the host; its answer has nowhere to go
        await asyncio.sleep(0.3)
        line.mend()
        assert (await step).probes["text"] == "once"
        assert (await device.act([Type(text="!")], spec)).probes["text"] == "once!"


async def test_a_host_that_stays_away_loses_its_leases_and_stops_its_devices(
    farm: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "GRACE_S", 0.4)
    monkeypatch.setattr(agents, "_PAUSE_S", 0.1)
    port = port_of(farm)
    async with Line(port) as line, client_of(farm) as client, host(line.url, "far", 1) as agent:
        await ready(client, 1)
        device = await client.lease("sim")
        session = agent._session
        line.cut()
        await until(lambda: agent._session != session)  # it gave up, and what it ran is closed
        assert agent._host.records["far.sim-0"].driver is None
        with pytest.raises(LeaseError) as lost:
            await device.observe(NOTHING)
        assert lost.value.fault.code == "host_lost"
        line.mend()
        await ready(client, 1)
        heir = await client.lease("sim")
        assert heir.token > device.token


async def test_the_time_a_host_was_silent_unnoticed_counts(
    farm: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose silence shows after six seconds has four more, and not ten."""
    monkeypatch.setattr(messages, "GRACE_S", 3600.0)
    monkeypatch.setattr(agents, "_PAUSE_S", 0.1)
    clock = Later()
    port = port_of(farm)
    async with Line(port) as line, client_of(farm) as client, host(line.url, "far", 1, clock=clock) as agent:
        await ready(client, 1)
        device = await client.lease("sim")
        session = agent._session
        ago = asyncio.get_running_loop().time() - 3600.0
        monkeypatch.setattr(RemoteHost, "heard", property(lambda self: ago, lambda self, when: None), False)
        clock.ahead = 3600.0
        line.cut()
        await until(lambda: agent._session != session)  # the host gave up
        with pytest.raises(LeaseError) as lost:  # and so did the pool
            await device.observe(NOTHING)
        assert lost.value.fault.code == "host_lost"


async def test_a_pool_that_says_nothing_is_told_of(
    farm: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(messages, "SILENCE_S", 0.3)
    caplog.set_level("INFO", "devices.hosts.agent")

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with await asyncio.start_server(mute, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with host(f"http://127.0.0.1:{port}", "far", 1):
            await until(lambda: "cannot reach the pool at" in caplog.text)
            assert f"ws://127.0.0.1:{port}{HOSTS}/join: it says nothing" in caplog.text


async def test_a_host_that_says_nothing_is_told_why_it_is_cut_off(
    farm: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "SILENCE_S", 0.3)
    url = farm.endpoint.url.replace("http", "ws") + HOSTS + "/join"
    async with websockets.connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as socket:
        await socket.send(messages.encode(messages.Hello("far", "s", SLOTS, messages.PROTOCOL)))
        with pytest.raises(websockets.ConnectionClosed) as closed:
            async for _ in socket:
                pass
            await socket.recv()
    assert agents._why(closed.value) == "this host was not heard of for 0.3 s"


async def test_a_host_that_was_started_anew_takes_the_place_of_its_former_self(farm: Running) -> None:
    async with client_of(farm) as client:
        async with host(farm.endpoint.url, "far", 1):
            await ready(client, 1)
            device = await client.lease("sim")
        async with host(farm.endpoint.url, "far", 1):
            await ready(client, 1)
            with pytest.raises(LeaseError):
                await device.observe(NOTHING)
            assert (await client.lease("sim")).token > device.token


async def test_a_lease_whose_end_was_not_stored_lives_on_in_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that could not store the end had fenced the device; the next one takes the fence back."""
    async with Line(0) as line, host(line.url, "far", 1) as agent, FarmClient(line.url, TOKEN) as client:
        async with farm_of(tmp_path) as before:
            line.to = port_of(before)
            await ready(client, 1)
            device = await client.lease("sim")
            with monkeypatch.context() as dying:
                dying.setattr(Sqlite, "write", lambda *_: None)
                assert isinstance(before.service, PoolService)
                await before.service.release(OPERATOR, device._lease)
                await until(lambda: agent._host.records[device.id].fence > device.token)
        async with farm_of(tmp_path) as after:
            line.to = port_of(after)
            service = after.service
            assert isinstance(service, PoolService)
            await until(lambda: "far" in service.hosts)
            await device.reset(3, ResetSpec(), NOTHING)


async def test_a_host_serves_a_pool_whose_state_was_removed(tmp_path: Path) -> None:
    """The new pool counts its tokens from one again, below those that the host has seen."""
    async with Line(0) as line, host(line.url, "far", 1), FarmClient(line.url, TOKEN) as client:
        async with farm_of(tmp_path / "before") as before:
            line.to = port_of(before)
            await ready(client, 1)
            for _ in range(3):
                async with client.lease("sim") as last:
                    await last.observe(NOTHING)
        async with farm_of(tmp_path / "after") as after:
            line.to = port_of(after)
            await ready(client, 1)
            device = await client.lease("sim")
            assert device.token < last.token
            await device.observe(NOTHING)


async def test_a_grant_of_which_nobody_knew_whether_it_is_stored_is_the_next_processs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection to the database broke before the answer; the client asks again with its key."""
    ask = wire.LeaseRequest(kind="sim", key="one")
    write = Sqlite.write

    def breaks(database: Sqlite, events: Sequence[Event]) -> None:
        if any(isinstance(one, Granted) for one in events):
            write(database, events)
        raise InfrastructureError("the connection broke")

    async with Line(0) as line, host(line.url, "far", 1) as agent, FarmClient(line.url, TOKEN) as client:
        async with farm_of(tmp_path) as before:
            line.to = port_of(before)
            await ready(client, 1)
            assert isinstance(before.service, PoolService)
            with monkeypatch.context() as dying:
                dying.setattr(Sqlite, "write", breaks)
                with pytest.raises(InfrastructureError):
                    await before.service.acquire(OPERATOR, ask, asyncio.Event().wait)
                (record,) = agent._host.records.values()
                await until(lambda: record.fence > 0)
                before.service._store._owed.clear()  # as the process that is killed does
        async with farm_of(tmp_path) as after:
            line.to = port_of(after)
            assert isinstance(after.service, PoolService)
            (lease,) = await after.service.acquire(OPERATOR, ask, asyncio.Event().wait)
            await until(lambda: record.fence <= lease.token)


async def test_a_host_is_sent_away_for_now_while_its_former_self_cannot_be_struck_off(
    farm: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool has just lost its database, or the lead."""

    async def remove_host(*_: object) -> None:
        raise InfrastructureError("another instance leads now")

    url = farm.endpoint.url.replace("http", "ws") + HOSTS + "/join"
    operator = {"Authorization": f"Bearer {TOKEN}"}
    async with websockets.connect(url, additional_headers=operator) as socket:
        await socket.send(messages.encode(messages.Hello("far", "former", SLOTS, messages.PROTOCOL)))
        await socket.recv()
    monkeypatch.setattr(PoolService, "remove_host", remove_host)
    async with websockets.connect(url, additional_headers=operator) as socket:
        await socket.send(messages.encode(messages.Hello("far", "anew", SLOTS, messages.PROTOCOL)))
        await socket.wait_closed()
    assert socket.close_code == TRY_LATER
    monkeypatch.undo()
    async with client_of(farm) as client, host(farm.endpoint.url, "other", 1):
        await ready(client, 1)  # the pool serves on


@pytest.mark.parametrize(("token", "why"), [("not-the-right-token", "403"), (TENANT, "403")])
async def test_only_the_operator_brings_hosts(farm: Running, token: str, why: str) -> None:
    agent = Agent([farm.endpoint.url], token, "far", named([SimConfig()]), {"sim": Driver(start_echo)})
    with pytest.raises(UsageError, match=f"refuses this host: .*{why}"):
        await asyncio.wait_for(agent.run(), 5.0)


async def test_two_hosts_cannot_have_one_name(farm: Running) -> None:
    async with client_of(farm) as client, host(farm.endpoint.url, "twin", 1):
        await ready(client, 1)
        other = Agent([farm.endpoint.url], TOKEN, "twin", named([SimConfig()]), {"sim": Driver(start_echo)})
        with pytest.raises(UsageError, match="a host named twin is connected already; choose another --name"):
            await asyncio.wait_for(other.run(), 5.0)
        assert [one.state for one in (await client.devices()).devices] == ["ready"]


HELLO: dict[str, Any] = {"id": "bad.sim-0", "kind": "sim", "width": 9, "height": 9}


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xc1",
        b"\x81" * 10_000,
        b"\x92\xa5\xffence\x01",  # a name that is no UTF-8
        "text",
        msgspec.msgpack.encode(["Answer", 1, b""]),
        msgspec.msgpack.encode(["Hello", "../../etc", "s", [HELLO], messages.PROTOCOL]),
        msgspec.msgpack.encode(["Hello", "bad", "s", [], messages.PROTOCOL]),
        msgspec.msgpack.encode(["Hello", "bad", "s", [HELLO, HELLO], messages.PROTOCOL]),
        msgspec.msgpack.encode(["Hello", "bad", "s", [HELLO | {"id": "other.sim-0"}], messages.PROTOCOL]),
        msgspec.msgpack.encode(["Hello", "bad", "s", [HELLO]]),  # the version before
        msgspec.msgpack.encode(["Hello", "bad", "s", [HELLO], messages.PROTOCOL + 1]),
    ],
)
async def test_what_is_no_host_is_shown_the_door(farm: Running, message: bytes | str) -> None:
    url = farm.endpoint.url.replace("http", "ws") + HOSTS + "/join"
    async with websockets.connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as socket:
        await socket.send(message)
        refused = messages.decode_to_host(await asyncio.wait_for(socket.recv(decode=False), 5.0))
        assert isinstance(refused, messages.Refused) and refused.reason
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await asyncio.wait_for(socket.recv(decode=False), 5.0)
    assert agents._why(closed.value) == refused.reason
    assert "bad" not in farm.service.hosts


def test_every_error_keeps_its_kind_on_the_way() -> None:
    from guiagent.errors import Fault, InfrastructureError

    fault = Fault("device", "crashed", "gone", True)
    for error in (FaultError(fault), LeaseError(fault), UsageError("no"), InfrastructureError("none")):
        message = messages.encode(messages.failure(7, error))
        sent = messages.decode_to_pool(message)
        assert isinstance(sent, messages.Failure)
        back = messages.error_of(sent)
        assert (type(back), str(back)) == (type(error), str(error))


# -- across network namespaces -------------------------------------------------------------------------------

_NAMES = ("gua1", "gua2", "gua3")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def network() -> Iterator[str]:
    """A bridge at the address that is returned, and three namespaces on it."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and iproute2")
    try:
        _ip("link", "add", "gua-br", "type", "bridge")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no bridge can be made here: {error.stderr.decode().strip()}")
    try:
        _ip("addr", "add", "10.77.0.1/24", "dev", "gua-br")
        _ip("link", "set", "gua-br", "up")
        for number, name in enumerate(_NAMES, 2):
            _ip("netns", "add", name)
            _ip("link", "add", f"{name}-o", "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", f"{name}-o", "master", "gua-br")
            _ip("link", "set", f"{name}-o", "up")
            _ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield "10.77.0.1"
    finally:
        for name in _NAMES:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["ip", "link", "del", "gua-br"], capture_output=True)


@contextlib.contextmanager
def host_process(namespace: str, url: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "guiagent.cli", "host", "sim=2", "--pool", url, "--name", namespace]
    process = subprocess.Popen(
        ["ip", "netns", "exec", namespace, *command], env=os.environ | {"GUIAGENT_TOKEN": TOKEN}
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


@pytest.mark.drill
async def test_a_farm_of_three_hosts_loses_one_and_gets_it_back(network: str, tmp_path: Path) -> None:
    """Across network namespaces on one kernel, not on three machines."""
    config = PoolConfig(state_dir=tmp_path, host=network, port=0, token=TOKEN, devices=[])
    async with running(config) as farm, contextlib.AsyncExitStack() as stack:
        for name in _NAMES:
            stack.enter_context(host_process(name, farm.endpoint.url))
        async with FarmClient(farm.endpoint.url, TOKEN) as client:
            await ready(client, 6)
            group = await client.lease_group("sim", 6, grants=["exec"])
            spec = ObserveSpec(frame="none", probes={"text": "text"})
            for device in group:
                await device.act([Type(text="x")], spec)
            _ip("link", "set", "gua2-o", "down")  # silent: packets vanish, nobody is told
            lost = [device for device in group if device.id.startswith("gua2.")]
            kept = [device for device in group if not device.id.startswith("gua2.")]
            began = time.monotonic()
            for device in lost:
                with pytest.raises(FaultError) as gone:
                    await device.act([Type(text="late")], spec)
                assert gone.value.fault.code in ("host_lost", "host_away")
            assert time.monotonic() - began < 60
            for device in kept:  # the neighbours noticed nothing
                assert (await device.act([Type(text="y")], spec)).probes["text"] == "xy"
            _ip("link", "set", "gua2-o", "up")
            await ready(client, 2)
            for heir in await client.lease_group("sim", 2, grants=["exec"]):
                assert heir.id.startswith("gua2.")
                assert (await heir.observe(spec)).probes["text"] == ""  # nothing late was typed there


@pytest.mark.drill
async def test_the_calls_of_a_stopped_host_end_after_ten_seconds(tmp_path: Path) -> None:
    """A process that is really stopped, at the real times."""
    config = PoolConfig(state_dir=tmp_path, port=0, token=TOKEN, devices=[])
    async with running(config) as farm, client_of(farm) as client:
        command = [sys.executable, "-m", "guiagent.cli", "host", "sim", "--pool", farm.endpoint.url]
        process = subprocess.Popen(  # noqa: ASYNC220 - at once
            [*command, "--name", "far"], env=os.environ | {"GUIAGENT_TOKEN": TOKEN}, stderr=subprocess.PIPE
        )
        try:
            await ready(client, 1)
            device = await client.lease("sim", ttl=600.0)
            process.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            with pytest.raises(FaultError) as lost:
                await device.act([Type(text="late")], NOTHING)
            assert lost.value.fault.code == "host_lost"
            assert (
                messages.GRACE_S - messages.ALIVE_S - 1.0 < time.monotonic() - began < messages.GRACE_S + 1.0
            )
            process.send_signal(signal.SIGCONT)
            await ready(client, 1)
            assert (await (await client.lease("sim")).observe(NOTHING)).action_error is None
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            _, said = process.communicate(timeout=20)
        assert b"not heard of for 6 s" in said and b"1008" not in said, said.decode()
