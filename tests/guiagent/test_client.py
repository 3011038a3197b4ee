"""The client against a real pool, and against servers that answer like none."""

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

import guiagent
from guiagent import (
    Click,
    FaultError,
    InfrastructureError,
    LeaseError,
    ObserveSpec,
    UsageError,
)
from guiagent.client import FarmClient
from guiagent.client.http import BadAnswer, Connections
from guiagent.client.local_pool import state_dir
from guiagent.protocols import Device
from guiagent.wire import Endpoint
from tests.support.canvas_device import TOKEN, farm_of
from tests.support.pool_thread import pool_thread

COUNT = ObserveSpec(frame="none", probes={"clicks": "how many"})


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """A pool on a thread of its own, so that the blocking client has somebody to wait for."""
    with pool_thread(farm_of(2, tmp_path_factory.mktemp("pool"))) as endpoint:
        yield endpoint


@pytest.fixture
async def farm(pool: Endpoint) -> AsyncIterator[FarmClient]:
    async with FarmClient(pool.url, pool.token) as farm:
        yield farm


# -- async ---------------------------------------------------------------------------------------------------


async def test_a_leased_device_is_a_device(farm: FarmClient) -> None:
    async with farm.lease("sim", label="me") as device:
        assert isinstance(device, Device)
        assert "exec" in (await device.describe()).features
        assert (await device.health()).ok
        assert (await device.act([Click(x=1, y=2)], ObserveSpec())).frame
    assert not (await device.health()).ok
    with pytest.raises(LeaseError, match="released"):
        await device.observe(ObserveSpec())


async def test_a_lease_can_be_awaited_and_is_given_back_with_the_client(pool: Endpoint) -> None:
    async with FarmClient(pool.url, pool.token) as first:
        device = await first.lease("sim")
        assert {one.label: one.state for one in (await first.devices()).devices}
    async with FarmClient(pool.url, pool.token) as second:
        assert len(await second.lease_group("sim", 2, wait=5.0)) == 2
        assert not (await device.health()).ok


async def test_an_idle_lease_renews_itself_and_a_dead_clients_does_not(farm: FarmClient) -> None:
    device, other = await farm.lease_group("sim", 2, ttl=0.3)
    other._renewal.cancel()  # as if its process were gone
    await asyncio.sleep(0.6)
    assert (await device.health()).ok
    with pytest.raises(LeaseError) as gone:
        await other.observe(ObserveSpec())
    assert gone.value.fault.code == "expired"


async def test_no_device_in_time_is_a_fault_to_try_again(farm: FarmClient) -> None:
    await farm.lease_group("sim", 2)
    with pytest.raises(FaultError) as none:
        await farm.lease("sim", wait=0.0)
    assert (none.value.fault.code, none.value.fault.retryable) == ("no_device", True)


async def test_concurrent_verbs_on_several_devices_do_not_wait_for_one_connection(farm: FarmClient) -> None:
    group = await farm.lease_group("sim", 2, grants=("exec",))
    seen = await asyncio.gather(
        *(device.act([Click(x=1, y=1)], COUNT) for device in group for _ in range(10))
    )
    assert sorted(one.probes["clicks"] for one in seen) == sorted([*range(1, 11)] * 2)


@pytest.mark.parametrize(("ttl", "n"), [(-1.0, 1), (60.0, 0)])
async def test_a_lease_that_makes_no_sense_is_refused_before_it_is_sent(
    farm: FarmClient, ttl: float, n: int
) -> None:
    with pytest.raises(UsageError, match=r"lease: (ttl_s|n): Input should be greater"):
        await farm.lease_group("sim", n, ttl=ttl)


async def test_a_wrong_address_and_a_wrong_token_say_what_to_do(pool: Endpoint) -> None:
    for url in ("localhost:8700", "http://127.0.0.1:99999", "http://127.0.0.1:port", "http://127.0.0.1:0"):
        with pytest.raises(UsageError, match="not the address of a pool"):
            FarmClient(url, TOKEN)
    for token in (f"{TOKEN}\r\nX-Other: 1", "tökén"):
        with pytest.raises(UsageError, match="no token of a pool") as refused:
            FarmClient(pool.url, token)
        assert token not in str(refused.value)
    async with FarmClient("http://127.0.0.1:9", TOKEN) as nobody:
        with pytest.raises(
            InfrastructureError, match=r"no pool answers at http://127.0.0.1:9 .*`guiagent up`"
        ):
            await nobody.lease("sim")
    async with FarmClient(pool.url, "not-the-right-token") as stranger:
        with pytest.raises(UsageError, match="token"):
            await stranger.devices()


# -- the connection ------------------------------------------------------------------------------------------


async def answering(raw: bytes, *, close: bool = False) -> tuple[asyncio.Server, str]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(raw)
            await writer.drain()
            if close:
                writer.close()
                return

    async def quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(quiet, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"x" * (1 << 21),
    ],
)
async def test_an_answer_no_pool_would_give_is_refused(raw: bytes) -> None:
    server, url = await answering(raw)
    async with server:
        connections = Connections(url, TOKEN)
        with pytest.raises(BadAnswer):
            await connections.request("GET", "/", b"", 2.0)


async def test_a_connection_closed_while_idle_is_opened_again() -> None:
    raw = b'HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n{"devices":[],"queue":0}'
    server, url = await answering(raw, close=True)
    async with server, FarmClient(url, TOKEN) as farm:
        for _ in range(3):  # each finds the kept connection dead
            assert (await farm.devices()).queue == 0


async def test_a_refusal_without_a_reason_is_a_fault_of_the_farm() -> None:
    server, url = await answering(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>")
    async with server, FarmClient(url, TOKEN) as farm:
        with pytest.raises(FaultError) as unknown:
            await farm.devices()
        assert (unknown.value.fault.origin, unknown.value.fault.code) == ("farm", "http_502")


@pytest.mark.parametrize("body", [b"<html>", b'{"devices":1}', b'"\xff"', b'{"new":' + b"[" * 10_000])
async def test_an_answer_that_is_no_message_is_a_fault_of_the_farm(body: bytes) -> None:
    server, url = await answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    async with server, FarmClient(url, TOKEN) as farm:
        with pytest.raises(FaultError, match="no pool of this version") as garbled:
            await farm.devices()
        assert (garbled.value.fault.origin, garbled.value.fault.code) == ("farm", "protocol")


# -- blocking ------------------------------------------------------------------------------------------------


def test_a_script_drives_a_device(pool: Endpoint) -> None:
    with guiagent.connect(pool.url, pool.token) as farm, farm.lease("sim", grants=("exec",)) as device:
        device.reset()
        before = device.screenshot()
        device.click(80, 60)
        after = device.screenshot()
        assert (after.size, after.image.size) == ((160, 120), (160, 120))
        assert after.png().startswith(b"\x89PNG")
        assert before.image.getpixel((80, 60)) == (255, 255, 255)
        assert after.image.getpixel((80, 60)) != (255, 255, 255)
        assert device.evaluate("how many") == 1
        assert device.act(Click(x=1, y=1), Click(x=2, y=2)).frame
        device.type("hello")
        device.key("Control", "a")
        device.scroll(5, 5, dy=10)
        device.drag((1, 1), (9, 9))
        assert device.evaluate("how many") == 3
        assert httpx.get(device.live_url).status_code == 200
        assert device.id in device.live_url
        assert [one.state for one in farm.devices().devices].count("leased") == 1
    with pytest.raises(LeaseError), guiagent.connect(pool.url, pool.token) as farm:
        device = farm.lease("sim")
        device.close()
        device.screenshot()


def test_a_script_runs_programs_moves_files_and_forks(pool: Endpoint) -> None:
    with (
        guiagent.connect(pool.url, pool.token) as farm,
        farm.lease("sim", needs=["snapshot"], grants=("exec", "shell", "files")) as device,
    ):
        assert device.exec("echo", "hello").stdout == "echo hello"
        device.put("/a", b"content")
        assert device.get("/a") == b"content"
        device.click(1, 1)
        (sibling,) = device.fork()
        assert sibling.evaluate("how many") == 1
        name = device.snapshot()
        device.click(1, 1)
        device.reset(snapshot=name)
        assert device.evaluate("how many") == 1
        with device.forward("adb") as port, socket.create_connection(("127.0.0.1", port)) as stream:
            stream.sendall(b"through the tunnel")
            assert stream.recv(100) == b"through the tunnel"
        with pytest.raises(UsageError, match="no service"), device.forward("telnet"):
            pass


def test_a_wrong_action_is_one_line(pool: Endpoint) -> None:
    complaint = r"^click: x: Input should be greater than or equal to 0$"
    with (
        guiagent.connect(pool.url, pool.token) as farm,
        farm.lease("sim") as device,
        pytest.raises(UsageError, match=complaint),
    ):
        device.click(-1, 0)


def test_after_the_farm_is_closed_every_verb_says_so_in_one_line(pool: Endpoint) -> None:
    farm = guiagent.connect(pool.url, pool.token)
    with farm.lease("sim", grants=("shell",)) as device, device.forward("adb"):
        farm.close()
        for verb in (lambda: device.click(1, 1), device.screenshot, farm.devices, lambda: farm.lease("sim")):
            with pytest.raises(UsageError, match=r"^this connection to the farm is closed: .*connect\(\)$"):
                verb()
    farm.close()  # as the device's end, and the port's, nothing to be done twice
    assert farm.closed


def test_a_pool_is_named_by_its_state_folder_or_by_address_and_variable(
    pool: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "endpoint.json").write_bytes(msgspec.json.encode(pool))
    with guiagent.connect(str(tmp_path)) as farm:
        assert farm.devices().devices
    monkeypatch.setenv("GUIAGENT_TOKEN", pool.token)
    with guiagent.connect(pool.url) as farm:
        assert farm.devices().devices
    with pytest.raises(UsageError, match=r"no endpoint\.json in .*nowhere"):
        guiagent.connect(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"GUIAGENT_HOME": "/farm", "XDG_STATE_HOME": "/states"}, "/farm"),
        ({"XDG_STATE_HOME": "/states"}, "/states/guiagent"),
        ({"XDG_STATE_HOME": "states"}, "/home/me/.local/state/guiagent"),
        ({}, "/home/me/.local/state/guiagent"),
    ],
)
def test_state_is_kept_where_the_variables_say(
    variables: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GUIAGENT_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **variables}.items():
        monkeypatch.setenv(name, value)
    assert str(state_dir()) == folder


def test_connecting_to_nobody_fails_at_once_and_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(InfrastructureError, match="no pool answers"):
        guiagent.connect("http://127.0.0.1:9", TOKEN)
    with pytest.raises(UsageError, match="token"):
        guiagent.connect("http://127.0.0.1:9")
    assert threading.active_count() == before


def test_a_running_pool_is_found_by_its_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUIAGENT_HOME", str(tmp_path))
    script = Path(__file__).parents[1] / "support" / "canvas_device.py"
    child = subprocess.Popen(
        [sys.executable, script, tmp_path, "0", "1"], stdout=subprocess.PIPE, env={"PYTHONPATH": "."}
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline()  # it is ready
        with guiagent.connect() as farm, farm.lease("sim") as device:
            assert device.reset().width == 160
    finally:
        child.terminate()
        child.communicate(timeout=20)


@pytest.mark.browser
def test_without_a_pool_one_is_started_and_ends_with_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUIAGENT_HOME", str(tmp_path))
    with guiagent.connect() as farm, farm.lease("browser", grants=("exec",)) as device:
        device.open("about:blank")
        device.reset(script="document.body.innerHTML = '<h1>hello ' + SEED + '</h1>'", seed=7)
        assert device.evaluate("document.body.innerText") == "hello 7"
        url = farm.live_url
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_the_reason_why_a_pool_does_not_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUIAGENT_HOME", str(tmp_path))
    monkeypatch.setenv("GUIAGENT_CHROMIUM", str(tmp_path / "nothing"))
    with pytest.raises(
        InfrastructureError, match=r"^the device pool did not start: no executable browser at"
    ):
        guiagent.connect()
