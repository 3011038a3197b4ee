"""Drill of a pool whose disk, descriptors or memory are used up, one after the other, and come back."""

import asyncio
import contextlib
import functools
import os
import resource
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec

from guiagent import wire
from guiagent.client.http import Answer, Connections
from tests.drills.farm import TOKEN, Instance
from tests.drills.tally import Tally

_TIMEOUT_S = 10.0
_CALLS = 40
_SPARE_FILES = 24
_SPARE_MB = 24
_CLEAR = (503, 507)  # what says that there is no room
_BROKEN = 500  # the answer to a request for which there was no memory


async def exhausts(folder: Path, n: int) -> Tally:
    """`n` rounds. A full disk is told with a problem that says so; once there is more, all goes on."""
    tally = Tally.looking_for("exhaustions", "ended", "unclear answers", "did not recover")
    for number in range(n):
        for name, exhausted in _WAYS.items():
            place = folder / f"{name} {number}".replace(" ", "-")
            place.mkdir()
            await exhausted(place, tally)
            tally.did("exhaustions")
            tally.did(name)
    return tally


@contextlib.asynccontextmanager
async def _held(folder: Path) -> AsyncIterator[tuple[Instance, wire.LeaseInfo]]:
    """A running pool, and a lease of it."""
    pool = Instance(folder, 4)
    try:
        await asyncio.to_thread(pool.wait_until, "leader")
        yield pool, await _take(pool.url)
    finally:
        pool.stop()


async def _disk(folder: Path, tally: Tally) -> None:
    """No file of the pool takes another byte."""
    async with _held(folder) as (pool, before):
        most = resource.prlimit(pool.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(pool.pid, resource.RLIMIT_FSIZE, (1, most))
        await _try(pool, tally, _wish)
        resource.prlimit(pool.pid, resource.RLIMIT_FSIZE, (most, most))
        await _recovered(pool, tally, before)


async def _descriptors(folder: Path, tally: Tally) -> None:
    async with _held(folder) as (pool, before):
        limit = len(os.listdir(f"/proc/{pool.pid}/fd")) + _SPARE_FILES
        resource.prlimit(
            pool.pid, resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )
        port = int(pool.url.rpartition(":")[2])
        lines = []
        for _ in range(2 * _SPARE_FILES):
            lines.append(socket.create_connection(("127.0.0.1", port), _TIMEOUT_S))
        await asyncio.sleep(1.0)
        for line in lines:
            line.close()
        await _recovered(pool, tally, before)


async def _memory(folder: Path, tally: Tally) -> None:
    """More requests at once, each as large as one may be, than it has room for."""
    async with _held(folder) as (pool, before):
        size = _mapped(pool.pid) + (_SPARE_MB << 20)
        resource.prlimit(pool.pid, resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
        send = functools.partial(_step, before, b" " * (wire.MAX_BODY - 200))
        await _try(pool, tally, send, times=100, together=True, clear=(*_CLEAR, _BROKEN))
        resource.prlimit(pool.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await _recovered(pool, tally, before)


_WAYS = {"disk": _disk, "descriptors": _descriptors, "memory": _memory}


async def _try(
    pool: Instance,
    tally: Tally,
    send: Callable[[Connections], Coroutine[Any, Any, Answer]],
    times: int = _CALLS,
    together: bool = False,
    clear: Sequence[int] = _CLEAR,
) -> None:
    async def one() -> None:
        way = Connections(pool.url, TOKEN)
        tally.did("calls")
        with contextlib.suppress(OSError):  # it may hang up
            answer = await send(way)
            tally.did(f"{answer.status}")
            if answer.status >= 500 and answer.status not in clear:
                tally.fail("unclear answers", f"{answer.status} {answer.body[:160]!r}")
        way.close()

    if together:
        await asyncio.gather(*(one() for _ in range(times)))
    else:
        for _ in range(times):
            await one()


async def _recovered(pool: Instance, tally: Tally, before: wire.LeaseInfo) -> None:
    """The same process goes on: the lease from before holds, and another can be had."""
    if not pool.runs:
        tally.fail("ended")
        return
    for _ in range(20):
        try:
            await _renewed(pool.url, before)
            await _take(pool.url)
            return
        except (OSError, AssertionError) as error:
            last = error
            await asyncio.sleep(0.5)
    tally.fail("did not recover", repr(last))


def _mapped(pid: int) -> int:
    """Bytes of address space."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


async def _renewed(url: str, lease: wire.LeaseInfo) -> None:
    way = Connections(url, TOKEN)
    try:
        answer = await way.request("POST", f"{wire.LEASES}/{lease.id}/renew", b'{"ttl_s":600}', _TIMEOUT_S)
    finally:
        way.close()
    assert answer.status == 200, answer


async def _step(lease: wire.LeaseInfo, padding: bytes, way: Connections) -> Answer:
    ask = {"token": lease.token, "key": secrets.token_hex(8), "actions": [], "spec": {"frame": "none"}}
    path = f"{wire.LEASES}/{lease.id}/step"
    return await way.request("POST", path, padding + msgspec.json.encode(ask), _TIMEOUT_S)


async def _wish(way: Connections) -> Answer:
    return await way.request("POST", wire.LEASES, b'{"kind":"sim","ttl_s":0.5,"wait_s":5}', _TIMEOUT_S)


async def _take(url: str) -> wire.LeaseInfo:
    way = Connections(url, TOKEN)
    wish = msgspec.json.encode({"kind": "sim", "ttl_s": 600.0, "grants": []})
    try:
        answer = await way.request("POST", wire.LEASES, wish, 4 * _TIMEOUT_S)
    finally:
        way.close()
    assert answer.status == 201, answer
    return msgspec.json.decode(answer.body, type=wire.Leases).leases[0]
