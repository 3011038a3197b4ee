"""The pool service as its clients meet it: a real uvicorn, a real socket, real requests."""

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect

from devices.api import server
from devices.api.server import Running, running, serve
from devices.config import SimConfig
from devices.drivers import Driver
from devices.hosts.local import DeviceHost
from devices.leases import Lease
from guiagent import wire
from guiagent.actions import Click, Open, Shell
from guiagent.client import FarmClient
from guiagent.errors import Fault, FaultError, InfrastructureError, LeaseError, UsageError
from guiagent.types import Observation, ObserveSpec, ResetSpec
from tests.support.canvas_device import DRIVERS, TOKEN, CanvasDevice, farm_of

COUNT = ObserveSpec(frame="none", probes={"clicks": "how many"})
CRASH = Open(target="canvas:crash")
HOLD = Open(target="canvas:hold")


@pytest.fixture
async def farm(tmp_path: Path) -> AsyncIterator[Running]:
    CanvasDevice.let_go = asyncio.Event()
    async with running(farm_of(2, tmp_path), DRIVERS) as farm:
        yield farm
        CanvasDevice.let_go.set()


@pytest.fixture
async def client(farm: Running) -> AsyncIterator[FarmClient]:
    async with FarmClient(farm.endpoint.url, TOKEN) as client:
        yield client


@pytest.fixture
async def http(farm: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with known_to(farm) as http:
        yield http


def known_to(farm: Running) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=farm.endpoint.url, headers={"Authorization": f"Bearer {TOKEN}"})


async def lease_of(http: httpx.AsyncClient, **wish: object) -> wire.LeaseInfo:
    answer = await http.post(wire.LEASES, json={"kind": "sim", "grants": ["exec"], **wish})
    assert answer.status_code == 201, answer.text
    (lease,) = msgspec.json.decode(answer.content, type=wire.Leases).leases
    return lease


async def step(http: httpx.AsyncClient, lease: wire.LeaseInfo, key: str, *actions: object) -> httpx.Response:
    body = {"token": lease.token, "key": key, "actions": actions, "spec": {"probes": {"clicks": "how many"}}}
    return await http.post(f"{wire.LEASES}/{lease.id}/step", json=body)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.01)


CLICK = {"type": "click", "x": 5, "y": 5}


# -- leases and verbs ----------------------------------------------------------------------------------------


async def test_a_step_acts_and_shows_the_result_in_one_round_trip(client: FarmClient) -> None:
    async with client.lease("sim", grants=("exec",)) as device:
        blank = await device.reset(1, ResetSpec(), ObserveSpec())
        marked = await device.act([Click(x=80, y=60)], ObserveSpec(probes={"clicks": ""}, have=blank.hash))
        assert (marked.width, marked.height, marked.media_type) == (160, 120, "image/jpeg")
        assert marked.frame.startswith(b"\xff\xd8")
        assert marked.hash != blank.hash
        assert marked.probes == {"clicks": 1}
        same = await device.observe(ObserveSpec(have=marked.hash))
        assert same.unchanged
        assert same.frame == b""


async def test_a_repeated_key_acts_once(http: httpx.AsyncClient) -> None:
    lease = await lease_of(http)
    answers = await asyncio.gather(*(step(http, lease, "one", CLICK) for _ in range(5)))
    assert {
        msgspec.msgpack.decode(answer.content, type=Observation).probes["clicks"] for answer in answers
    } == {1}
    after = await step(http, lease, "two", CLICK)
    assert wire.StepRequest.decode(after.content).probes == {"clicks": 2}


async def test_a_repeated_acquire_gets_the_same_lease(http: httpx.AsyncClient) -> None:
    one = await lease_of(http, key="k")
    assert (await lease_of(http, key="k")).id == one.id
    assert (await lease_of(http, key="other")).id != one.id


async def test_a_group_is_all_or_nothing_and_the_queue_says_the_place(
    client: FarmClient, http: httpx.AsyncClient
) -> None:
    async with client.lease("sim"):
        answer = await http.post(wire.LEASES, json={"kind": "sim", "n": 2, "wait_s": 0.05})
        problem = msgspec.json.decode(answer.content, type=wire.Problem)
        assert answer.status_code == 503
        assert answer.headers["content-type"] == wire.PROBLEM
        assert (problem.code, problem.retryable, problem.position) == ("no_device", True, 1)
        assert [device.state for device in (await client.devices()).devices].count("leased") == 1
    group = await client.lease_group("sim", 2)
    assert {device.id for device in group} == {"sim-0", "sim-1"}


async def test_whoever_waits_gets_the_device_that_comes_free(client: FarmClient, farm: Running) -> None:
    async with AsyncExitStack() as stack:
        first, _ = [await stack.enter_async_context(client.lease("sim")) for _ in range(2)]
        waiting = asyncio.ensure_future(client.lease("sim")._taken())
        await until(lambda: farm.service.views.farm().queue == 1)
        await first.close()
        assert (await waiting).id == first.id


async def test_a_caller_that_hung_up_leaves_the_queue(client: FarmClient, farm: Running) -> None:
    await client.lease_group("sim", 2)
    waiting = asyncio.ensure_future(client.lease("sim")._taken())
    await until(lambda: farm.service.views.farm().queue == 1)
    waiting.cancel()
    await until(lambda: farm.service.views.farm().queue == 0)


async def test_a_device_is_wiped_between_holders(client: FarmClient) -> None:
    for _ in range(2):
        group = await client.lease_group("sim", 2, grants=("exec",))
        for device in group:
            assert (await device.observe(COUNT)).probes == {"clicks": 0}
            await device.act([Click(x=1, y=1)], ObserveSpec())
            await device.close()


# -- who may act ---------------------------------------------------------------------------------------------


async def test_an_expired_lease_is_reclaimed_and_its_holder_told(
    http: httpx.AsyncClient, farm: Running
) -> None:
    lease = await lease_of(http, ttl_s=0.2)
    await until(lambda: farm.service.views.farm().devices[0].state == "ready")
    late = await step(http, lease, "late", CLICK)
    assert (late.status_code, late.json()["code"]) == (410, "expired")
    again = await lease_of(http)
    assert again.device == lease.device
    assert again.token > lease.token
    assert wire.StepRequest.decode((await step(http, again, "mine")).content).probes == {"clicks": 0}


async def test_an_expired_holders_action_on_its_way_is_fenced_off(
    http: httpx.AsyncClient, farm: Running
) -> None:
    """Both of the zombie's steps were accepted in time; the lease ends while the first holds the device.

    Nothing lets go of it but the end of the lease.
    """
    zombie = await lease_of(http, ttl_s=0.8)
    running_ = asyncio.create_task(step(http, zombie, "a", {"type": "open", "target": "canvas:hold"}, CLICK))
    queued = asyncio.create_task(step(http, zombie, "b", CLICK))
    for late in (await running_, await queued):
        assert (late.status_code, late.json()["fault"]["code"]) == (409, "fenced")
    heir = await lease_of(http, ttl_s=5.0)
    assert heir.device == zombie.device
    assert wire.StepRequest.decode((await step(http, heir, "c")).content).probes == {"clicks": 0}


async def test_a_token_that_is_not_the_leases_own_is_fenced_whichever_way_it_is_off(
    http: httpx.AsyncClient,
) -> None:
    lease = await lease_of(http)
    for token in (lease.token - 1, lease.token + 10**9):
        forged = wire.LeaseInfo(lease.id, token, lease.device, 1.0, lease.capabilities)
        assert (await step(http, forged, "x", CLICK)).status_code == 409
    assert (await step(http, lease, "y", CLICK)).status_code == 200


async def test_the_host_itself_refuses_a_lower_token() -> None:
    slots = {"sim-0": SimConfig()}
    host = DeviceHost(slots, DRIVERS)
    await host.start("sim-0")
    host.open("sim-0", stale=False)
    old, new = (Lease("", "sim-0", token, 1.0, frozenset({"exec"}), "", "") for token in (3, 4))

    def click(lease: Lease, key: str) -> wire.StepRequest:
        return wire.StepRequest(lease.token, key, msgspec.Raw(msgspec.json.encode([CLICK])), COUNT, 1.0)

    await host.call(old, click(old, "a"))
    await host.call(new, click(new, "a"))
    for key in ("a", "b"):  # also a key that was answered once
        with pytest.raises(LeaseError) as refused:
            await host.call(old, click(old, key))
        assert refused.value.fault.code == "fenced"
    assert (await host.call(new, wire.ObserveRequest(new.token, COUNT, 1.0))).probes == {"clicks": 2}
    await host.close()


async def test_a_foreign_lease_does_not_exist(http: httpx.AsyncClient) -> None:
    ghost = f"{wire.LEASES}/{'0' * 32}"
    verb = {"token": 1, "key": "k", "actions": []}
    answers = [
        await http.post(ghost + "/step", json=verb),
        await http.post(ghost + "/reset", json={"token": 1, "key": "k", "seed": 0}),
        await http.post(ghost + "/observe", json={"token": 1}),
        await http.post(ghost + "/renew", json={"ttl_s": 5}),
        await http.delete(ghost),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(404, "unknown")] * 5


async def test_code_and_shell_need_a_grant(client: FarmClient, http: httpx.AsyncClient) -> None:
    async with client.lease("sim") as device:
        with pytest.raises(UsageError, match="exec"):
            await device.observe(COUNT)
        with pytest.raises(UsageError, match="exec"):
            await device.reset(0, ResetSpec(script="1"), ObserveSpec())
        with pytest.raises(UsageError, match="shell"):
            await device.act([Shell(command="ls")], ObserveSpec())
    lease = await lease_of(http, grants=[])
    assert (await step(http, lease, "k")).status_code == 403
    with pytest.raises(UsageError, match="1 sim devices with touch were asked for"):
        await client.lease("sim", needs=("touch",))


async def test_every_path_but_the_door_asks_for_the_token(farm: Running) -> None:
    async with httpx.AsyncClient(base_url=farm.endpoint.url) as stranger:
        schema = await stranger.get("/v1/openapi.json")
        assert schema.status_code == 401
        known = await stranger.get("/v1/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"})
        paths = [*known.json()["paths"], "/v1/live", "/v1/leases/x/step", "/nowhere", "/docs"]
        for path in paths:
            if path in ("/", wire.HEALTH):
                continue
            for authorization in ("", "Bearer wrong", f"Basic {TOKEN}"):
                for method in ("GET", "POST"):
                    answer = await stranger.request(method, path, headers={"Authorization": authorization})
                    assert answer.status_code == 401, (method, path)
        for path in ("/", wire.HEALTH):
            assert (await stranger.get(path)).status_code == 200


# -- what callers get wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("", {"kind": "sim", "n": 0}, "n: "),
        ("", {"kind": "sim", "extra": 1}, "extra: "),
        ("", {"kind": "phone"}, "no 'phone' devices; it has sim"),
        ("", {"kind": "sim", "n": 3}, "this farm has 2"),
        ("/{}/step", {"token": "x", "key": "k", "actions": []}, r"Expected `int`.*\$.token"),
        (
            "/{}/step",
            {"token": 1, "key": "k", "actions": [{"type": "click", "x": -1, "y": 0}]},
            "0.click.x: ",
        ),
        ("/{}/step", {"token": 1, "key": "k", "actions": [{"type": "boom"}]}, "boom"),
        ("/{}/step", {"token": 1, "key": "k", "actions": [], "spec": {"frame": "gif"}}, "Invalid enum value"),
        ("/{}/reset", {"token": 1, "key": "k", "seed": 0, "baseline": {"path": "/"}}, "unknown field `path`"),
    ],
)
async def test_a_bad_request_gets_one_clear_line(
    http: httpx.AsyncClient, path: str, body: dict[str, object], words: str
) -> None:
    lease = await lease_of(http)
    answer = await http.post(wire.LEASES + path.format(lease.id), json=body)
    problem = msgspec.json.decode(answer.content, type=wire.Problem)
    assert (answer.status_code, problem.code, "\n" in problem.detail) == (422, "bad_request", False)
    assert re.search(words, problem.detail), problem.detail


async def test_requests_without_sense_or_bounds_are_refused(http: httpx.AsyncClient) -> None:
    lease = await lease_of(http)
    path = f"{wire.LEASES}/{lease.id}/step"
    assert (await http.post(path, content=b"\xff not json")).status_code == 422
    assert (await http.post(path, content=b"x" * (wire.MAX_BODY + 1))).status_code == 413

    async def endless() -> AsyncIterator[bytes]:
        yield b"x"

    assert (await http.post(path, content=endless())).status_code == 411
    assert (await http.get(path)).json()["code"] == "http_405"
    assert (await http.get("/nowhere")).json()["code"] == "http_404"


async def test_a_websocket_on_a_used_connection_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_KEEP_ALIVE_S", 0.2)
    async with running(farm_of(1, tmp_path), DRIVERS) as farm:
        await farm.service.settled()
        used = socket.create_connection(tuple(farm.endpoint.url.removeprefix("http://").split(":")))
        used.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(used, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"200 OK" in await loop.sock_recv(used, 4096)
        live = farm.endpoint.url.replace("http", "ws") + wire.LIVE
        async with connect(live, sock=used, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as page:
            states = [one async for one in aiter_of(page, 3)]  # one every half second
        assert len(states) == 3


async def aiter_of(page: ClientConnection, count: int) -> AsyncIterator[str]:
    """The first `count` text messages."""
    while count:
        if isinstance(message := await page.recv(), str):
            count -= 1
            yield message


# -- devices that fail ---------------------------------------------------------------------------------------


async def test_a_device_that_breaks_ends_its_lease_with_the_fault_and_is_replaced(client: FarmClient) -> None:
    device = await client.lease("sim")
    with pytest.raises(FaultError) as broke:
        await device.act([CRASH], ObserveSpec())
    assert broke.value.fault == Fault("device", "crashed", "the canvas is torn", retryable=True)
    with pytest.raises(LeaseError, match="the canvas is torn"):
        await device.observe(ObserveSpec())
    group = await client.lease_group("sim", 2)  # both are there again
    shown = {info.id: info for info in (await client.devices()).devices}
    assert (shown[device.id].generation, shown[device.id].faults) == (2, 1)
    assert group[0].token > device.token


async def test_a_verb_has_a_deadline_and_a_device_that_hangs_is_replaced(client: FarmClient) -> None:
    device = await client.lease("sim")
    device.deadline_s = 0.1
    with pytest.raises(FaultError) as hung:
        await device.act([HOLD], ObserveSpec())
    assert (hung.value.fault.origin, hung.value.fault.code) == ("device", "deadline")
    assert len(await client.lease_group("sim", 2)) == 2


async def test_an_idle_device_that_died_is_found_and_replaced(tmp_path: Path) -> None:
    made: list[CanvasDevice] = []

    async def start(config: SimConfig) -> CanvasDevice:
        made.append(CanvasDevice(config.width, config.height))
        return made[-1]

    async with running(farm_of(1, tmp_path), {"sim": Driver(start)}) as farm:
        await farm.service.settled()
        await made[0].close()
        await until(lambda: farm.service.views.farm().devices[0].generation == 2)
        assert farm.service.views.farm().devices[0].faults == 1


async def test_a_machine_that_cannot_run_the_devices_says_so_once(tmp_path: Path) -> None:
    async def start(config: SimConfig) -> CanvasDevice:
        raise InfrastructureError("no canvas here; apt-get install canvas")

    with pytest.raises(InfrastructureError, match=r"^no canvas here; apt-get install canvas$"):
        async with running(farm_of(2, tmp_path), {"sim": Driver(start)}) as farm:
            await asyncio.wait((farm.work,), timeout=10)


async def test_a_kind_without_a_driver_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no driver for 'sim' devices; this host runs: other"):
        async with running(farm_of(2, tmp_path), {"other": DRIVERS["sim"]}):
            pass


# -- views ---------------------------------------------------------------------------------------------------


async def test_frames_have_an_etag_and_metrics_count(client: FarmClient, http: httpx.AsyncClient) -> None:
    async with client.lease("sim", label="me") as device:
        seen = await device.act([Click(x=9, y=9)], ObserveSpec())
        path = f"{wire.DEVICES}/{device.id}/frame"
        shown = await http.get(path)
        assert (shown.content, shown.headers["content-type"]) == (seen.frame, "image/jpeg")
        again = await http.get(path, headers={"If-None-Match": shown.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert (await http.get(f"{wire.DEVICES}/sim-9/frame")).status_code == 404
        info = next(one for one in (await client.devices()).devices if one.id == device.id)
        assert (info.label, info.steps, info.state) == ("me", 1, "leased")
        with contextlib.suppress(FaultError):
            await device.act([CRASH], ObserveSpec())
    figures = (await http.get(wire.METRICS)).text
    assert 'guiagent_faults_total{code="crashed",origin="device"} 1.0' in figures
    assert "guiagent_step_seconds_count 2.0" in figures
    assert "guiagent_lease_wait_seconds_count 1.0" in figures
    assert 'guiagent_devices{kind="sim",state="ready"}' in figures


# -- running it ----------------------------------------------------------------------------------------------


def test_a_busy_port_is_one_line_with_the_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InfrastructureError, match=rf"port {port}: address already in use; .*--port"):
            serve(farm_of(2, tmp_path, port), drivers=DRIVERS)


async def test_two_pools_cannot_share_a_state_directory(farm: Running, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="another pool is using"):
        async with running(farm_of(2, tmp_path), DRIVERS):
            pass


@pytest.mark.parametrize("path", ["", "/help"])
async def test_who_waits_when_the_pool_stops_is_told_to_try_again(
    path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No 500, no traceback: another pool may lead already, or this one come back."""
    async with AsyncExitStack() as stack:
        async with running(farm_of(1, tmp_path), DRIVERS) as farm:
            http = await stack.enter_async_context(known_to(farm))
            lease = await lease_of(http)
            body = {"token": lease.token, "key": "k", "reason": "log in"} if path else {"kind": "sim"}
            where = f"{wire.LEASES}/{lease.id}{path}" if path else wire.LEASES
            waiting = asyncio.create_task(http.post(where, json=body))
            await until(lambda: bool(farm.service.helping.wanted() or farm.service.views.farm().queue))  # type: ignore[union-attr]
        answer = await waiting
    assert (answer.status_code, answer.json()["code"]) == (503, "no_leader")
    assert not [each for each in caplog.records if each.exc_info]
