"""Drill of late and repeated calls, over every verb and over streams: none is executed, each is refused.

Every round leases a device, does each verb once on time, and ends the lease in one of the ways there are.
Then the former holder sends every verb again: under its own lease, under its successor's lease with its own
token, repeated with the keys it has used, and past the pool straight to the device's host, as a packet that
was delayed on its way would arrive. Streams that were open are written to. Devices are the pool's own, and
those of a host that joined it.
"""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from devices.api.server import Running, running
from devices.config import PoolConfig, SimConfig
from devices.drivers import Driver
from devices.hosts.agent import Agent
from devices.leases import Lease
from guiagent import wire
from guiagent.client.http import Answer, Connections
from guiagent.errors import GuiAgentError
from guiagent.types import ObserveSpec, ResetSpec
from tests.drills.farm import TOKEN
from tests.drills.tally import Tally
from tests.drills.witness import Witness

_GRANTS = ["exec", "shell", "files"]
_LATE = "late"
_SHORT_S = 1.0  # of leases that run out
_TIMEOUT_S = 20.0
_UNDER_WAY_MS = 300
_NOTHING = ObserveSpec(frame="none")
_PROBLEMS = ("executed late", "executed under way", "answered", "executed twice", "other answers", "failed")
Held = wire.LeaseInfo


async def calls(folder: Path, n: int) -> Tally:
    """At least `n` calls that must be refused or must not be done again."""
    tally = Tally.looking_for("calls", *_PROBLEMS)
    seen: Counter[tuple[str, str]] = Counter()
    async with _farm(folder, seen) as (farm, devices):
        caller = _Caller(farm, tally)
        rounds = itertools.count()

        async def on(device: str) -> None:
            while tally.trials < n:
                number = next(rounds)
                try:
                    await _round(caller, device, number)
                except (OSError, GuiAgentError) as error:
                    tally.fail("failed", f"round {number} on {device}: {error!r}")
                    if tally.lost["failed"] > 3:
                        return

        await asyncio.gather(*(on(device) for device in devices))
        caller.http.close()
    for (verb, mark), count in seen.items():
        if mark.startswith(_LATE):
            tally.lost["executed under way" if "under-way" in mark else "executed late"] += count
            tally.said.append(f"{verb} {mark}")
        elif mark and count > 1 and verb not in ("get", "observe"):
            tally.fail("executed twice", f"{verb} {mark}")
    if (more := seen["snapshot", ""] - caller.on_time) > 0:
        tally.lost["executed late"] += more
    return tally


@contextlib.asynccontextmanager
async def _farm(folder: Path, seen: Counter[tuple[str, str]]) -> AsyncIterator[tuple[Running, list[str]]]:
    async def start(_: SimConfig) -> Witness:
        return Witness(seen)

    drivers = {"sim": Driver(start)}
    own = SimConfig(count=2, width=64, height=64)
    config = PoolConfig(state_dir=folder, port=0, token=TOKEN, devices=[own])
    async with running(config, drivers) as farm:
        far = Agent([farm.endpoint.url], TOKEN, "far", {"sim-0": own, "sim-1": own}, drivers)
        work = asyncio.create_task(far.run())
        try:
            way = Connections(farm.endpoint.url, TOKEN)
            devices: list[str] = []
            while len(devices) < 4:
                await asyncio.sleep(0.05)
                answer = await way.request("GET", wire.DEVICES, b"", _TIMEOUT_S)
                found = msgspec.json.decode(answer.body, type=wire.FarmInfo).devices
                devices = [one.id for one in found if one.state == "ready"]
            way.close()
            yield farm, devices
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work


class _Caller:
    """Sends calls and judges what becomes of them."""

    def __init__(self, farm: Running, tally: Tally) -> None:
        self.http = Connections(farm.endpoint.url, TOKEN)
        self.tally = tally
        self.on_time = 0  # snapshots
        self._farm = farm

    async def take(self, device: str, ttl: float, takeover: bool = False) -> Held:
        wish = {"kind": "sim", "device": device, "ttl_s": ttl, "grants": _GRANTS, "takeover": takeover}
        answer = await self._send("POST", wire.LEASES, wish)
        (lease,) = msgspec.json.decode(_ok(answer).body, type=wire.Leases).leases
        return lease

    async def end(self, lease: Held) -> None:
        _ok(await self._send("DELETE", f"{wire.LEASES}/{lease.id}"))

    async def mark(self, device: str, mark: str) -> None:
        _ok(await self._send("POST", f"{wire.DEVICES}/{device}/{mark}", {"reason": "drill"}))

    async def verb(self, verb: str, lease: str, token: int, key: str, mark: str) -> Answer:
        """One verb under a lease; its mark says who sent it."""
        path = f"{wire.LEASES}/{lease}"
        if verb in ("put", "get"):
            query = urlencode({"path": f"/{mark}", "token": token})
            method = "PUT" if verb == "put" else "GET"
            return await self.http.request(
                method, f"{path}/files?{query}", b"content"[: 7 * (verb == "put")], 20
            )
        return await self._send("POST", f"{path}/{verb}", {"token": token, **_body(verb, key, mark)})

    async def control(self, what: str, lease: str) -> Answer:
        path = f"{wire.LEASES}/{lease}"
        if what == "renew":
            return await self._send("POST", f"{path}/renew", {"ttl_s": 60.0})
        return await self._send("DELETE", path)

    def tunnel(self, lease: str, token: int) -> connect:
        base = self._farm.endpoint.url.replace("http", "ws", 1)
        url = f"{base}{wire.LEASES}/{lease}/connect/adb?token={token}"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return connect(url, additional_headers=headers, proxy=None, compression=None, ping_interval=None)

    async def refused(self, what: str, sending: Any) -> None:
        """Count a call that must be refused."""
        self.tally.did("calls")
        self.tally.did(what)
        answer = await sending
        if answer.status < 400:
            self.tally.fail("answered", f"{what}: {answer.status}")
        elif answer.status >= 500 and b'"retryable":true' not in answer.body:
            self.tally.fail("failed", f"{what}: {answer.status} {answer.body[:200]!r}")

    async def refused_by_host(self, what: str, held: Held, message: wire.Verb[Any]) -> None:
        """The same for a call that comes to the device's host past the pool."""
        self.tally.did("calls")
        self.tally.did(f"{what}, past the pool")
        host = self._farm.service.hosts["far" if held.device.startswith("far.") else "local"]  # type: ignore[union-attr]
        stale = Lease(held.id, held.device, held.token, 60.0, frozenset(_GRANTS), "", "")
        try:
            await host.call(stale, message)
        except GuiAgentError:
            return
        self.tally.fail("answered", f"{what}, past the pool")

    async def _send(self, method: str, path: str, body: object = None) -> Answer:
        data = b"" if body is None else msgspec.json.encode(body)
        return await self.http.request(method, path, data, _TIMEOUT_S)


VERBS = ("step", "observe", "reset", "exec", "snapshot", "put", "get")
KEYED = ("step", "reset", "exec", "snapshot")


def _body(verb: str, key: str, mark: str) -> dict[str, Any]:
    match verb:
        case "step":
            return {"key": key, "actions": [{"type": "type", "text": mark}], "spec": {"frame": "none"}}
        case "observe":
            return {"spec": {"frame": "none", "probes": {mark: "0"}}}
        case "reset":
            return {"key": key, "seed": 0, "baseline": {"script": mark}, "spec": {"frame": "none"}}
        case "exec":
            return {"key": key, "command": [mark]}
        case _:
            return {"key": key}


def _message(verb: str, token: int, key: str, mark: str) -> wire.Verb[Any]:
    match verb:
        case "step":
            return wire.StepRequest(
                token, key, msgspec.Raw(msgspec.json.encode([{"type": "type", "text": mark}]))
            )
        case "observe":
            return wire.ObserveRequest(token, ObserveSpec(frame="none", probes={mark: "0"}))
        case "reset":
            return wire.ResetRequest(token, key, 0, ResetSpec(script=mark), _NOTHING)
        case "exec":
            return wire.ExecRequest(token, key, [mark])
        case "put":
            return wire.PutRequest(token, f"/{mark}", b"content")
        case "get":
            return wire.GetRequest(token, f"/{mark}")
        case _:
            return wire.SnapshotRequest(token, key)


async def _round(caller: _Caller, device: str, number: int) -> None:
    way = _ENDS[number % len(_ENDS)]
    name = f"{device}-{number}"
    held = await caller.take(device, _SHORT_S if way is _expired else 60.0)
    keys: dict[str, str] = {}
    for verb in VERBS:
        keys[verb] = f"k-{number}-{verb}"
        first = _ok(await caller.verb(verb, held.id, held.token, keys[verb], f"on-time-{name}-{verb}"))
        caller.on_time += verb == "snapshot"
        if verb in KEYED:  # sent twice, as after an answer that was lost
            again = await caller.verb(verb, held.id, held.token, keys[verb], f"on-time-{name}-{verb}")
            caller.tally.did("calls")
            caller.tally.did("repeated on time")
            if again.body != first.body:
                caller.tally.fail("other answers", f"{verb}: {first.body[:80]!r}, then {again.body[:80]!r}")
    async with caller.tunnel(held.id, held.token) as stream:
        await stream.send(f"on-time-{name}\n".encode())
        under_way = asyncio.create_task(_under_way(caller, held, name)) if way is not _expired else None
        if under_way is not None:
            await asyncio.sleep(_UNDER_WAY_MS / 2000)
        await way(caller, held)
        await _write_late(caller, stream, name)
        if under_way is not None:
            await under_way
    await _late(caller, held, held.id, keys, name)
    heir = await caller.take(device, 60.0)
    await _late(caller, held, heir.id, keys, f"{name}-heir")
    await caller.refused("renew", caller.control("renew", held.id))
    await caller.refused("release", caller.control("release", held.id))
    _ok(await caller.verb("step", heir.id, heir.token, "heir", f"heir-{name}"))
    await caller.end(heir)


async def _late(caller: _Caller, held: Held, lease: str, keys: dict[str, str], name: str) -> None:
    """Every verb with the token of a holder that is no longer one, with fresh keys and with used ones."""
    for verb in VERBS:
        for key in dict.fromkeys((f"late-{name}-{verb}", keys[verb])):
            await caller.refused(verb, caller.verb(verb, lease, held.token, key, f"{_LATE}-{name}-{verb}"))
        message = _message(verb, held.token, f"past-{name}-{verb}", f"{_LATE}-{name}-{verb}")
        await caller.refused_by_host(verb, held, message)
    caller.tally.did("calls")
    caller.tally.did("connect")
    try:
        async with caller.tunnel(lease, held.token) as stream:
            await stream.send(f"{_LATE}-{name}\n".encode())
            await stream.recv()
            caller.tally.fail("answered", "connect")
    except (OSError, WebSocketException):
        pass


async def _write_late(caller: _Caller, stream: ClientConnection, name: str) -> None:
    """Bytes on a stream that was open when the lease ended; the pool has to close it."""
    caller.tally.did("calls")
    caller.tally.did("stream")
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await stream.send(f"{_LATE}-{name}\n".encode())
            while True:
                await stream.recv()
    except WebSocketException:
        pass
    except TimeoutError:
        caller.tally.fail("answered", "a stream that stays open")


async def _under_way(caller: _Caller, held: Held, name: str) -> None:
    """A step whose lease ends in its middle: what comes after must not be done."""
    actions = [
        {"type": "type", "text": f"on-time-{name}-first"},
        {"type": "wait", "ms": _UNDER_WAY_MS},
        {"type": "type", "text": f"{_LATE}-under-way-{name}"},
    ]
    body = {"token": held.token, "key": f"under-way-{name}", "actions": actions, "spec": {"frame": "none"}}
    await caller.refused("under way", caller._send("POST", f"{wire.LEASES}/{held.id}/step", body))


async def _released(caller: _Caller, held: Held) -> None:
    await caller.end(held)


async def _expired(caller: _Caller, held: Held) -> None:
    await asyncio.sleep(_SHORT_S + 0.3)


async def _taken_over(caller: _Caller, held: Held) -> None:
    heir = await caller.take(held.device, 60.0, takeover=True)
    await caller.end(heir)


async def _quarantined(caller: _Caller, held: Held) -> None:
    await caller.mark(held.device, "quarantine")
    await caller.mark(held.device, "restore")


_ENDS: tuple[Callable[[_Caller, Held], Any], ...] = (_released, _expired, _taken_over, _quarantined)


def _ok(answer: Answer) -> Answer:
    if answer.status >= 400:
        raise wire.error_of(answer.status, answer.body)
    return answer
