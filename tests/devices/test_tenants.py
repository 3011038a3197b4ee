"""Tenants of one farm: none sees, drives or names what another holds, and each gets its share and no more."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import websockets

from devices.api.server import Running, running
from devices.config import PoolConfig, TenantConfig
from devices.pool.service import of_tenant
from guiagent import wire
from guiagent.actions import Click
from guiagent.client import FarmClient, LeasedDevice
from guiagent.errors import FaultError, UsageError
from guiagent.types import ObserveSpec, ResetSpec
from tests.support.canvas_device import DRIVERS, TOKEN, CanvasDevice, farm_of

ANN, BOB = "a-token-that-is-anns", "a-token-that-is-bobs"
COUNT = ObserveSpec(frame="none", probes={"clicks": "how many"})
TENANTS = [
    TenantConfig(name="ann", token=ANN),
    TenantConfig(name="bob", token=BOB, max_devices=2),
]


@pytest.fixture
async def farm(tmp_path: Path) -> AsyncIterator[Running]:
    CanvasDevice.let_go = asyncio.Event()
    async with running(farm_of(4, tmp_path, tenants=TENANTS), DRIVERS) as farm:
        await farm.service.settled()
        yield farm


@pytest.fixture
async def ann(farm: Running) -> AsyncIterator[FarmClient]:
    async with FarmClient(farm.endpoint.url, ANN) as client:
        yield client


@pytest.fixture
async def bob(farm: Running) -> AsyncIterator[FarmClient]:
    async with FarmClient(farm.endpoint.url, BOB) as client:
        yield client


@pytest.fixture
async def operator(farm: Running) -> AsyncIterator[FarmClient]:
    async with FarmClient(farm.endpoint.url, TOKEN) as client:
        yield client


@pytest.fixture
async def device(ann: FarmClient) -> LeasedDevice:
    return await ann.lease("sim", grants=("exec", "shell", "files"), label="secret plans")


# -- every endpoint with an id that is not one's own ---------------------------------------------------------

VERB = {"token": 1, "key": "k"}
WHY = {"reason": "mine now"}
QUERY = "?token=1&path=/etc/passwd"
# How each operation is called, so that nothing but the id is wrong with the call. None: it takes no id; what
# it shows to whom is tested below.
CALLS: dict[tuple[str, str], dict[str, Any] | str | None] = {
    ("get", "/"): None,
    ("get", "/healthz"): None,
    ("get", "/metrics"): None,
    ("get", "/v1/approvals"): None,
    ("post", "/v1/approvals/{approval}"): {"allow": True},
    ("get", "/v1/devices"): None,
    ("get", "/v1/help"): None,
    ("post", "/v1/help/{help}/step"): {**VERB, "actions": []},
    ("post", "/v1/help/{help}/observe"): {"token": 1},
    ("post", "/v1/help/{help}/give-back"): {},
    ("post", "/v1/leases/{lease}/help"): {**VERB, "reason": "a login"},
    ("get", "/v1/hosts"): None,
    ("get", "/v1/leases"): None,
    ("post", "/v1/leases"): {"device": "{device}"},
    ("delete", "/v1/leases/{lease}"): {},
    ("post", "/v1/leases/{lease}/renew"): {"ttl_s": 5},
    ("post", "/v1/leases/{lease}/step"): {**VERB, "actions": [{"type": "click", "x": 1, "y": 1}]},
    ("post", "/v1/leases/{lease}/observe"): {"token": 1},
    ("post", "/v1/leases/{lease}/reset"): {**VERB, "seed": 0},
    ("post", "/v1/leases/{lease}/exec"): {**VERB, "command": ["ls"]},
    ("post", "/v1/leases/{lease}/snapshot"): VERB,
    ("put", "/v1/leases/{lease}/files"): QUERY,
    ("get", "/v1/leases/{lease}/files"): QUERY,
    ("get", "/v1/devices/{device}/frame"): {},
    ("get", "/v1/devices/{device}/logs"): {},
    ("post", "/v1/devices/{device}/drain"): WHY,
    ("post", "/v1/devices/{device}/quarantine"): WHY,
    ("post", "/v1/devices/{device}/restore"): WHY,
    ("post", "/v1/hosts/{host}/drain"): WHY,
    ("post", "/v1/hosts/{host}/quarantine"): WHY,
    ("post", "/v1/hosts/{host}/restore"): WHY,
}
SOCKETS = {"/v1/live", "/v1/leases/{lease}/connect/{service}", "/v1/hosts/join"}


async def test_a_foreign_id_is_answered_as_one_that_never_was_on_every_endpoint(
    farm: Running, bob: FarmClient, device: LeasedDevice
) -> None:
    foreign = {"lease": device._lease, "device": device.id, "host": "local", "approval": "a", "help": "a"}
    unknown = {"lease": "0" * 32, "device": "sim-99", "host": "nowhere", "approval": "b", "help": "b"}
    headers = {"Authorization": f"Bearer {BOB}"}
    before = await device.act([Click(x=1, y=1)], COUNT)
    async with httpx.AsyncClient(base_url=farm.endpoint.url, headers=headers) as http:
        document = (await http.get(wire.OPENAPI)).json()
        offered = {(method, path) for path, item in document["paths"].items() for method in item}
        assert offered == set(CALLS), "a new endpoint belongs into this table"
        assert set(document["x-websockets"]) == SOCKETS, "a new WebSocket belongs into this test"

        async def call(method: str, path: str, ids: dict[str, str]) -> tuple[int, bytes]:
            given = CALLS[method, path]
            query = given if isinstance(given, str) else ""
            body = None
            if isinstance(given, dict) and method == "post":
                body = msgspec.json.encode(given).replace(b"{device}", ids["device"].encode())
            kind = {"Content-Type": wire.JSON}
            answer = await http.request(
                method.upper(), path.format(**ids) + query, content=body, headers=kind
            )
            return answer.status_code, answer.content

        for method, path in sorted(key for key, given in CALLS.items() if given is not None):
            theirs, nobodys = await call(method, path, foreign), await call(method, path, unknown)
            assert theirs == nobodys, (method, path)
            assert theirs[0] in (403, 404), (method, path, theirs)
            assert (theirs[0] == 403) == (b"operator" in theirs[1]), (method, path, theirs)
        wish = {"kind": "sim", "n": 1, "wait_s": 0, "near": device._lease}
        refused = [
            await http.post(wire.LEASES, json={**wish, "near": near})
            for near in (device._lease, unknown["lease"])
        ]
        assert {answer.status_code for answer in refused} == {404}
        assert refused[0].content == refused[1].content

    for ids in (foreign, unknown):
        path = f"{wire.LEASES}/{ids['lease']}/connect/adb?token={device.token}"
        with pytest.raises(websockets.InvalidStatus) as denied:
            await websockets.connect(f"ws{farm.endpoint.url[4:]}{path}", additional_headers=headers)
        assert denied.value.response.status_code == 404
    with pytest.raises(websockets.InvalidStatus) as denied:
        await websockets.connect(f"ws{farm.endpoint.url[4:]}{wire.HOSTS}/join", additional_headers=headers)
    assert denied.value.response.status_code == 403
    assert (await device.observe(COUNT)).probes == before.probes  # nothing of it had any effect
    info = farm.service.views.farm().devices[0]
    assert (info.mark, info.state) == ("", "leased")


async def test_lists_show_each_what_it_holds_and_the_operator_everything(
    farm: Running, ann: FarmClient, bob: FarmClient, operator: FarmClient, device: LeasedDevice
) -> None:
    mine = await bob.lease("sim", label="bob's")
    assert [one.id for one in (await ann.devices()).devices] == [device.id]
    shown = await bob.devices()
    assert [(one.id, one.label, one.tenant) for one in shown.devices] == [(mine.id, "bob's", "bob")]
    assert shown.free == {"sim": 2}
    everything = await operator.devices()
    assert {one.label for one in everything.devices} == {"secret plans", "bob's", ""}
    for client, leases in (
        (ann, {device._lease}),
        (bob, {mine._lease}),
        (operator, {device._lease, mine._lease}),
    ):
        answer = await client.call("GET", wire.LEASES)
        held = msgspec.json.decode(answer.body, type=wire.HeldLeases).leases
        assert {one.id for one in held} == leases
    for path in (wire.HOSTS, wire.METRICS):
        await operator.call("GET", path)
        with pytest.raises(UsageError, match="the operator's"):
            await bob.call("GET", path)
    url = f"ws{farm.endpoint.url[4:]}{wire.LIVE}"
    async with websockets.connect(url, subprotocols=[wire.LIVE_PROTOCOL, BOB]) as live:  # type: ignore[list-item]
        state = msgspec.json.decode(await live.recv(), type=wire.FarmInfo)
        assert [one.id for one in state.devices] == [mine.id]
        frame = await live.recv()
        assert isinstance(frame, bytes) and frame[1 : 1 + frame[0]] == mine.id.encode()


async def test_a_tenant_sees_the_log_of_its_own_time_only(
    farm: Running, ann: FarmClient, operator: FarmClient, device: LeasedDevice
) -> None:
    await operator.lease_group("sim", 3)
    await device.exec(["anns-program"])
    name = device.id
    await device.close()
    async with FarmClient(farm.endpoint.url, BOB) as bob:
        heir = await bob.lease("sim", grants=("shell",))
        assert heir.id == name
        await heir.exec(["bobs-program"])
        log = await bob.logs(name)
        assert "bobs-program" in log and "anns-program" not in log
        with pytest.raises(UsageError, match="no such device"):
            await ann.logs(name)
        log = await operator.logs(name)
        assert "bobs-program" in log and "anns-program" in log


async def test_only_the_operator_takes_over(
    bob: FarmClient, operator: FarmClient, device: LeasedDevice
) -> None:
    with pytest.raises(UsageError, match="the operator's"):
        await bob.lease(device=device.id, takeover=True)
    await device.act([Click(x=1, y=1)], COUNT)
    taken = await operator.lease(device=device.id, takeover=True, grants=("exec",))
    assert (await taken.observe(COUNT)).probes == {"clicks": 1}  # as its holder left it
    with pytest.raises(FaultError) as over:
        await device.observe(COUNT)
    assert (over.value.fault.code, over.value.fault.retryable) == ("taken_over", True)


# -- quotas --------------------------------------------------------------------------------------------------


async def test_over_its_quota_a_tenant_is_told_what_to_do(farm: Running, bob: FarmClient) -> None:
    held = await bob.lease_group("sim", 2)
    with pytest.raises(FaultError, match="release some or ask for fewer") as over:
        await bob.lease("sim")
    assert (over.value.fault.code, over.value.fault.retryable) == ("quota", True)
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {BOB}"}) as http:
        answer = await http.post(farm.endpoint.url + wire.LEASES, json={"kind": "sim"})
    assert (answer.status_code, answer.json()["retryable"]) == (429, True)
    await held[0].close()
    assert (await bob.lease("sim")).id
    with pytest.raises(UsageError, match="3 devices were asked for; this tenant may hold 2"):
        await bob.lease_group("sim", 3)


async def test_device_seconds_run_out_and_come_back(tmp_path: Path) -> None:
    thrifty = TenantConfig(name="thrifty", token=BOB, device_seconds_per_hour=0.2)
    async with (
        running(farm_of(1, tmp_path, tenants=[thrifty]), DRIVERS) as farm,
        FarmClient(farm.endpoint.url, BOB) as client,
    ):
        async with client.lease("sim"):
            await asyncio.sleep(0.25)
        with pytest.raises(FaultError, match=r"0\.2 device-seconds an hour are used up: try again in"):
            await client.lease("sim")
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {BOB}"}) as http:
            answer = await http.post(farm.endpoint.url + wire.LEASES, json={"kind": "sim"})
        assert int(answer.headers["retry-after"]) >= 1


def test_tenants_are_told_apart(tmp_path: Path) -> None:
    twice = TenantConfig(name="ann", token=BOB)
    with pytest.raises(ValueError, match="the same name"):
        PoolConfig(state_dir=tmp_path, tenants=[TENANTS[0], twice])
    with pytest.raises(ValueError, match="the same token"):
        PoolConfig(state_dir=tmp_path, tenants=[TENANTS[1], twice.model_copy(update={"name": "cid"})])
    with pytest.raises(ValueError, match="the same token"):
        PoolConfig(state_dir=tmp_path, token=ANN, tenants=[TENANTS[0]])


async def test_a_wait_ends_with_the_place_and_an_estimate(
    farm: Running, ann: FarmClient, operator: FarmClient
) -> None:
    for _ in range(2):
        async with ann.lease("sim"):
            await asyncio.sleep(0.1)
    await operator.lease_group("sim", 4)
    first = asyncio.ensure_future(ann.lease("sim", label="first")._taken())
    async with asyncio.timeout(5):
        while not (waiting := (await operator.devices()).waiting):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert [(one.tenant, one.label, one.place) for one in waiting] == [("ann", "first", 1)]
    assert waiting[0].eta_s is not None and 0 < waiting[0].eta_s < 1
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {ANN}"}) as http:
        answer = await http.post(farm.endpoint.url + wire.LEASES, json={"kind": "sim", "wait_s": 0.05})
    problem = msgspec.json.decode(answer.content, type=wire.Problem)
    assert (answer.status_code, problem.position) == (503, 2)
    assert problem.eta_s is not None and problem.eta_s > waiting[0].eta_s
    first.cancel()


# -- what outlives a lease, and what lies beyond a device ----------------------------------------------------


async def test_a_tenant_reaches_private_addresses_only_where_the_operator_said_so(
    farm: Running, ann: FarmClient, operator: FarmClient, tmp_path: Path
) -> None:
    for rule in ("127.0.0.1", "10.0.0.0/8", "169.254.169.254:80"):
        with pytest.raises(UsageError, match="has not allowed you to reach"):
            await ann.lease("sim", egress=["public", rule])
    await (await ann.lease("sim", egress=["example.org", "*.example.com:443"])).close()
    inside = TenantConfig(name="inside", token=BOB, private_egress=["10.0.0.0/8"])
    async with (
        running(farm_of(1, tmp_path / "other", tenants=[inside]), DRIVERS) as other,
        FarmClient(other.endpoint.url, BOB) as client,
    ):
        await client.lease("sim", egress=["10.0.0.0/8"])
        with pytest.raises(UsageError, match="has not allowed you"):
            await client.lease("sim", egress=["10.0.0.1"])


def test_profiles_of_tenants_have_names_of_their_own() -> None:
    work = ResetSpec(profile="work")
    assert of_tenant("", work).profile == "work"
    assert of_tenant("ann", work).profile == "ann.work"
    assert of_tenant("ann", ResetSpec()) == ResetSpec()
    with pytest.raises(UsageError, match="a profile's name has"):
        of_tenant("", ResetSpec(profile="ann.work"))
