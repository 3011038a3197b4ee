"""Drill of clients that are slow, stay half open, or flood: the calls of a neighbour go on.

The clients need no token where one would not be asked for before they do harm; the others are another tenant.
"""

import asyncio
import contextlib
import resource
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from guiagent import wire
from guiagent.cli.common.memory import descendants
from guiagent.client.http import Answer, Connections
from tests.drills.farm import NEIGHBOUR, STRANGER, Instance
from tests.drills.tally import Tally

_SECONDS = 6.0  # of each attack
_NEIGHBOUR_S = 30.0  # what a call may take at most, on a machine that is busy with other things too
_AUTH = f"Authorization: Bearer {STRANGER}\r\n"
_IDLE, _WAITERS, _LISTERS = 300, 1000, 20
_Attack = Callable[[str, int, asyncio.Event, Tally], Awaitable[None]]


async def clients(folder: Path, n: int) -> Tally:
    """Every attack `n` times; the neighbour holds a lease and steps all the time."""
    tally = Tally.looking_for("neighbour's calls", "calls that failed", "calls that took too long", "5xx")
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    pool = Instance(folder, 8)
    port = int(pool.url.rpartition(":")[2])
    took: list[float] = []
    try:
        await asyncio.to_thread(pool.wait_until, "leader")
        before = _rss_mb(pool.pid)
        neighbour = _Neighbour(pool.url, tally, took)
        await neighbour.begin()
        work = asyncio.create_task(neighbour.step())
        for _ in range(n):
            for name, attack in _ATTACKS.items():
                tally.did(f"attacks: {name}")
                neighbour.during = name
                over = asyncio.Event()
                running = asyncio.create_task(attack(pool.url, port, over, tally))
                await asyncio.sleep(_SECONDS)
                over.set()
                await running
        neighbour.over = True
        await work
        if not pool.runs:
            tally.fail("calls that failed", "the pool ended")
        tally.figures["memory taken, MB"] = _rss_mb(pool.pid) - before
    finally:
        pool.stop()
    tally.spread("neighbour's call, s", took)
    return tally


class _Neighbour:
    """Holds a lease and steps, one call after the other, each on time."""

    def __init__(self, url: str, tally: Tally, took: list[float]) -> None:
        self.over = False
        self.during = ""  # the attack under way
        self._way = Connections(url, NEIGHBOUR)
        self._url, self._tally, self._took = url, tally, took

    async def begin(self) -> None:
        wish = msgspec.json.encode({"kind": "sim", "ttl_s": 60.0})
        answer = await self._way.request("POST", wire.LEASES, wish, _NEIGHBOUR_S)
        (self._lease,) = msgspec.json.decode(answer.body, type=wire.Leases).leases

    async def step(self) -> None:
        number = 0
        while not self.over:
            number += 1
            text = f"{self._lease.device} {self._lease.token} n{number}"
            await self._call("step", {"key": f"n{number}", "actions": [{"type": "type", "text": text}]})
            if number % 20 == 0:
                await self._health()

    async def _call(self, verb: str, ask: dict[str, object]) -> None:
        body = {"token": self._lease.token, "spec": {"frame": "none"}, **ask}
        path = f"{wire.LEASES}/{self._lease.id}/{verb}"
        await self._timed(self._way.request("POST", path, msgspec.json.encode(body), 2 * _NEIGHBOUR_S))

    async def _health(self) -> None:
        """On a new connection, as somebody who comes now."""
        way = Connections(self._url, NEIGHBOUR)
        await self._timed(way.request("GET", wire.HEALTH, b"", 2 * _NEIGHBOUR_S))
        way.close()

    async def _timed(self, call: Awaitable[Answer]) -> None:
        self._tally.did(self._tally.unit)
        began = time.monotonic()
        try:
            answer = await call
        except OSError as error:
            self._tally.fail("calls that failed", f"{self.during}: {error!r}")
            return
        self._took.append(time.monotonic() - began)
        if answer.status >= 400:
            self._tally.fail("calls that failed", f"{self.during}: {answer.status} {answer.body[:120]!r}")
        if self._took[-1] > _NEIGHBOUR_S:
            self._tally.fail("calls that took too long", f"{self.during}: {self._took[-1]:.1f} s")


# -- attacks -------------------------------------------------------------------------------------------------


async def _dripping_headers(url: str, port: int, over: asyncio.Event, tally: Tally) -> None:
    await _many(100, port, over, b"GET /healthz HTTP/1.1\r\nHost: a\r\n", b"X-Drip: a\r\n")


async def _endless_header(url: str, port: int, over: asyncio.Event, tally: Tally) -> None:
    await _many(
        8, port, over, b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Long: ", b"a" * (1 << 20), pause_s=0.05
    )


async def _dripping_bodies(url: str, port: int, over: asyncio.Event, tally: Tally) -> None:
    head = f"POST {wire.LEASES} HTTP/1.1\r\nHost: a\r\n{_AUTH}Content-Length: 100000\r\n\r\n".encode()
    await _many(100, port, over, head, b" ")


async def _large_bodies(url: str, port: int, over: asyncio.Event, tally: Tally) -> None:
    """To a lease that there is not."""
    path = f"{wire.LEASES}/{'0' * 32}/files?path=/a&token=1"
    head = f"PUT {path} HTTP/1.1\r\nHost: a\r\n{_AUTH}Content-Length: {wire.MAX_FILE}\r\n\r\n".encode()
    await _many(8, port, over, head, b"a" * (1 << 20), pause_s=0.02)


async def _idle(url: str, port: int, over: asyncio.Event, tally: Tally) -> None:
    await _many(_IDLE, port, over, b"", b"")


async def _half_open(url: str, port: int, over: asyncio.Event, tally: Tally) -> None:
    """A request, then no reading of the answer: page after page is asked for."""
    await _many(50, port, over, b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 20)


async def _waiters(url: str, port: int, over: asyncio.Event, tally: Tally) -> None:
    """A thousand requests for devices that there are not."""
    wish = msgspec.json.encode({"kind": "sim", "n": 8, "wait_s": 60.0})

    async def wait() -> None:
        way = Connections(url, STRANGER)
        with contextlib.suppress(OSError):
            _judge(await way.request("POST", wire.LEASES, wish, _SECONDS), tally)
        way.close()

    tasks = [asyncio.create_task(wait()) for _ in range(_WAITERS)]
    await over.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _lists(url: str, port: int, over: asyncio.Event, tally: Tally) -> None:
    """The most expensive answers there are, as fast as they come."""

    async def ask() -> None:
        way = Connections(url, STRANGER)
        paths = (wire.DEVICES, wire.LEASES, wire.METRICS, wire.HOSTS, wire.OPENAPI)
        while not over.is_set():
            for path in paths:
                with contextlib.suppress(OSError):
                    _judge(await way.request("GET", path, b"", _NEIGHBOUR_S), tally)
                    tally.did("lists asked for")
        way.close()

    await asyncio.gather(*(ask() for _ in range(_LISTERS)))


def _judge(answer: Answer, tally: Tally) -> None:
    """To have no device, or too many requests, is an answer; to break is not."""
    if answer.status >= 500 and b'"retryable":true' not in answer.body and answer.status != 503:
        tally.fail("5xx", f"{answer.status} {answer.body[:120]!r}")


async def _many(
    count: int, port: int, over: asyncio.Event, first: bytes, then: bytes, pause_s: float = 0.2
) -> None:
    """`count` connections that send `first` once and `then` for ever, until they are closed or it is over."""

    async def one() -> None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return
        with contextlib.suppress(OSError):
            writer.write(first)
            while not over.is_set() and not writer.is_closing():
                if then:
                    writer.write(then)
                    with contextlib.suppress(TimeoutError):  # nobody takes it
                        async with asyncio.timeout(1.0):
                            await writer.drain()
                await asyncio.sleep(pause_s)
        writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(count)), return_exceptions=True)


_ATTACKS: dict[str, _Attack] = {
    "dripping headers": _dripping_headers,
    "an endless header": _endless_header,
    "dripping bodies": _dripping_bodies,
    "large bodies": _large_bodies,
    "idle connections": _idle,
    "answers nobody reads": _half_open,
    "waiters": _waiters,
    "lists": _lists,
}


def _rss_mb(pid: int) -> float:
    pages = sum(int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in descendants(pid))
    return pages * 4096 / 1e6
