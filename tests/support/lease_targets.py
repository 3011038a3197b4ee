"""The same farm at four depths, for `tests/devices/test_leases.py`: the lease machine alone, with SQLite,
with PostgreSQL, and whole behind HTTP with devices that count."""

import asyncio
import contextlib
import functools
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import httpx
import msgspec

from devices.api import server
from devices.leases import AdminState, DeviceState, Ended, Event, Granted, Lease, Marked, Request, Slot
from devices.pool.lease_table import Pool
from devices.pool.service import PoolService
from devices.pool.store import Database, Remembered
from guiagent import wire
from guiagent.actions import Action, Type
from guiagent.errors import Fault, FaultError, LeaseError, UsageError
from guiagent.types import Capabilities, Observation, ObserveSpec
from tests.support.canvas_device import TOKEN, CanvasDevice, farm_of
from tests.support.stores import Place

CRASHED = Fault("device", "crashed", "it crashed", retryable=True)
KIND = "sim"


@dataclass(frozen=True, slots=True)
class Given:
    """What the holder of a lease was told."""

    lease: str
    device: str
    token: int


class Target(Protocol):
    """A farm of `count` devices. Verbs return whether the farm obliged; its clock moves only by `wait`."""

    executed: list[tuple[str, int]]  # device and token of each action, in order

    def acquire(self, n: int, ttl: float, key: str) -> list[Given] | None: ...
    def renew(self, given: Given, ttl: float) -> bool: ...
    def release(self, given: Given) -> bool: ...
    def act(self, given: Given) -> bool: ...
    def wait(self, seconds: float) -> None: ...
    def settle(self) -> None:
        """Until every device that can come back has: reset, or started again."""
        ...

    def break_device(self, given: Given) -> None: ...
    def mark(self, device: str, mark: AdminState) -> None: ...
    def restart(self) -> None:
        """Everything in memory goes; what was acknowledged comes back."""
        ...

    def close(self) -> None: ...


# -- in memory, and with a database --------------------------------------------------------------------------


class Memory:
    """A `Database` that is plain dicts: the reference the real ones are compared with."""

    def __init__(self) -> None:
        self.tokens: dict[str, int] = {}
        self.leases: dict[str, Lease] = {}
        self.ends: dict[str, Fault] = {}
        self.marks: dict[str, Marked] = {}

    def write(self, events: Sequence[Event]) -> None:
        for event in events:
            match event:
                case Granted(leases=leases):
                    for one in leases:
                        self.leases.setdefault(one.id, one)
                        self._raise(one.device, one.token)
                case Ended(lease=one, fault=fault, token=token):
                    self.leases.pop(one.id, None)
                    self.ends[one.id] = fault
                    self._raise(one.device, token)
                case Marked(device=device, mark=mark):
                    self.marks.pop(device, None)
                    if mark:
                        self.marks[device] = event

    def _raise(self, device: str, token: int) -> None:
        self.tokens[device] = max(token, self.tokens.get(device, 0))

    def load(self, ends: int = 1024) -> Remembered:
        marks = [self.marks[device] for device in sorted(self.marks)]
        return Remembered(dict(self.tokens), list(self.leases.values()), dict(self.ends), marks)

    def close(self) -> None:
        pass


class Bare:
    """`devices.pool.lease_table` as the service uses it: nothing is acknowledged before it is written."""

    def __init__(self, count: int, place: Place | None = None) -> None:
        self.executed: list[tuple[str, int]] = []
        self._count = count
        self._place = place
        self._memory = Memory()
        self._database: Database | None = place.open() if place is not None else None
        self._now = 0.0
        self._made = 0
        self._pool = self._started()

    def _started(self) -> Pool:
        return Pool.of(Slot(f"{KIND}-{index}", KIND) for index in range(self._count))

    def _save(self, events: Sequence[Event]) -> None:
        self._memory.write(events)
        if self._database is not None:
            self._database.write(events)

    def acquire(self, n: int, ttl: float, key: str) -> list[Given] | None:
        ids = tuple(f"{self._made + index:032x}" for index in range(n))
        self._made += n
        request = Request(ids, KIND, ttl, key=key)
        try:
            self._pool.enqueue(request)
        except (UsageError, FaultError):
            return None
        grants = self._pool.grant_ready(self._now)
        self._save(grants)
        if not grants:
            self._pool.withdraw(request, self._now)
            return None
        return [Given(lease.id, lease.device, lease.token) for lease in grants[0].leases]

    def renew(self, given: Given, ttl: float) -> bool:
        try:
            self._pool.renew(given.lease, self._now, ttl)
        except LeaseError:
            return False
        return True

    def release(self, given: Given) -> bool:
        try:
            self._save(self._pool.release(given.lease, self._now))
        except LeaseError:
            return False
        return True

    def act(self, given: Given) -> bool:
        try:
            self._pool.renew(given.lease, self._now)
        except LeaseError:
            return False
        self.executed.append((given.device, given.token))
        return True

    def wait(self, seconds: float) -> None:
        self._now += seconds
        self._save(self._pool.expire(self._now))

    def settle(self) -> None:
        for slot in self._pool.slots.values():
            rested = slot.state is DeviceState.QUARANTINED and slot.retry_at <= self._now
            if slot.state is DeviceState.DEAD or rested:
                self._pool.device_booting(slot.id)
                self._pool.device_ready(slot.id, Capabilities(KIND, 100, 100))
            elif slot.state is DeviceState.RESETTING:
                self._pool.device_clean(slot.id)

    def break_device(self, given: Given) -> None:
        self._save(self._pool.device_faulted(given.device, CRASHED, self._now))

    def mark(self, device: str, mark: AdminState) -> None:
        self._save(self._pool.mark(device, mark, "because", self._now))

    def restart(self) -> None:
        past = self._memory.load()
        if self._database is not None:
            assert self._place is not None
            self._database.close()
            self._database = self._place.open()
            past, expected = self._database.load(), past
            for lease in (*past.leases, *expected.leases):  # neither is stored
                lease.expires = lease.since = 0.0
            # The epoch, and for how long a former process may go on, are the kind of store's own.
            assert past == replace(expected, epoch=past.epoch, overlap_s=past.overlap_s)
        self._pool = self._started()
        gone = self._pool.restore(past.tokens, past.leases, past.ends, self._now, past.marks, past.overlap_s)
        self._save(gone)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()


# -- the whole thing -----------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    time = monotonic


class Served:
    """A real server on a real port in a thread of its own, with a clock that this one moves."""

    def __init__(self, count: int) -> None:
        self.executed: list[tuple[str, int]] = []
        self._count = count
        self._clock = Clock()
        self._made = 0
        self._folder = tempfile.TemporaryDirectory()
        self._start()

    def _start(self) -> None:
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)))
        self._thread.start()
        assert ready.wait(30), "the farm did not start"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        self._http = httpx.Client(base_url=self._url, headers=headers, timeout=30, trust_env=False)

    async def _serve(self, ready: threading.Event) -> None:
        executed = self.executed

        class Typist(CanvasDevice):
            async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
                for action in actions:
                    if isinstance(action, Type):
                        device, token = action.text.split()
                        executed.append((device, int(token)))
                return await super().act(actions, spec)

        async def start(config: Any) -> Typist:
            return Typist(config.width, config.height)

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        service = functools.partial(PoolService, clock=self._clock)
        with mock.patch.object(server, "PoolService", service):
            farm = server.running(farm_of(self._count, Path(self._folder.name)), {KIND: server.Driver(start)})
            async with farm as running:
                self._url = running.endpoint.url
                await running.service.settled()
                ready.set()
                await self._stop.wait()

    def acquire(self, n: int, ttl: float, key: str) -> list[Given] | None:
        wish = {"kind": KIND, "n": n, "ttl_s": ttl, "key": key, "wait_s": 0.0}
        answer = self._http.post(wire.LEASES, json=wish)
        if answer.status_code != 201:
            return None
        leases = msgspec.json.decode(answer.content, type=wire.Leases).leases
        return [Given(lease.id, lease.device, lease.token) for lease in leases]

    def renew(self, given: Given, ttl: float) -> bool:
        return self._obliged(self._http.post(f"{wire.LEASES}/{given.lease}/renew", json={"ttl_s": ttl}))

    def release(self, given: Given) -> bool:
        return self._obliged(self._http.delete(f"{wire.LEASES}/{given.lease}"))

    def act(self, given: Given) -> bool:
        return self._step(given, {"type": "type", "text": f"{given.device} {given.token}"})

    def _step(self, given: Given, action: dict[str, Any]) -> bool:
        self._made += 1
        ask = {"token": given.token, "key": f"k{self._made}", "spec": {"frame": "none"}}
        path = f"{wire.LEASES}/{given.lease}"
        answer = self._http.post(f"{path}/step", json={**ask, "actions": [action]})
        if answer.status_code == 502 and answer.json()["code"] == "restarted":
            self._obliged(self._http.post(f"{path}/reset", json={**ask, "seed": 0}))
            answer = self._http.post(f"{path}/step", json={**ask, "actions": [action]})
        return self._obliged(answer)

    def _obliged(self, answer: httpx.Response) -> bool:
        assert answer.status_code < 500 or answer.status_code == 502, answer.text
        return answer.is_success

    def wait(self, seconds: float) -> None:
        self._clock.now += seconds

    def settle(self) -> None:
        moving = ("booting", "resetting", "dead")
        while any(one["state"] in moving for one in self._http.get(wire.DEVICES).json()["devices"]):
            threading.Event().wait(0.01)

    def break_device(self, given: Given) -> None:
        self._step(given, {"type": "open", "target": "canvas:crash"})

    def mark(self, device: str, mark: AdminState) -> None:
        answer = self._http.post(f"{wire.DEVICES}/{device}/{mark or 'restore'}", json={"reason": "because"})
        assert answer.is_success, answer.text

    def restart(self) -> None:
        self._end()
        self._start()

    def close(self) -> None:
        self._end()
        self._folder.cleanup()

    def _end(self) -> None:
        self._http.close()
        with contextlib.suppress(RuntimeError):  # the loop ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive()
