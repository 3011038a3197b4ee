"""Drills of requests to the pool's API: by its own document, too deep and too large, and no HTTP at all."""

import contextlib
import json
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx

from guiagent import wire
from tests.drills.tally import Tally
from tests.support.api_requests import HEADERS, Service, visit
from tests.support.canvas_device import TOKEN, farm_of
from tests.support.pool_thread import pool_thread

_TIMEOUT_S = 20.0


def api(folder: Path, n: int) -> Tally:
    """About `n` requests that the OpenAPI document describes, or forbids; answers are held against it."""
    tally = Tally.looking_for("calls", "5xx", "not as documented")
    with pool_thread(farm_of(4, folder)) as endpoint:
        service = Service(endpoint.url)
        operations = sum(len(item) for item in service.http.get(wire.OPENAPI).json()["paths"].values())

        def failed(operation: str, error: Exception) -> None:
            tally.fail("not as documented", f"{operation}: {' '.join(str(error).split())[:300]}")

        seen = visit(service, max(1, n // (2 * operations)), failed)
        service.http.close()
    tally.did("calls", seen.total())
    tally.did("operations", operations)
    for status, count in sorted(seen.items()):
        tally.did(f"{status // 100}xx", count)
        if status >= 500 and status not in (502, 503):  # a device that failed, and none that is free
            tally.lost["5xx"] += count
    return tally


def deep(folder: Path, n: int) -> Tally:
    """Bodies that are nested too deep, too long, or hold what no parser likes, `n` of them at every route."""
    tally = Tally.looking_for("calls", "5xx", "no answer", "pool ended")
    with pool_thread(farm_of(2, folder)) as endpoint:
        service = Service(endpoint.url)
        dice = random.Random(0)
        lease = service.lease()
        for path in _routes(lease["id"]):
            for body in _bodies(dice, n):
                tally.did("calls")
                try:
                    answer = service.http.post(path, content=body, headers={"Content-Type": wire.JSON})
                except httpx.TransportError as error:
                    if len(body) <= wire.MAX_BODY:  # of a larger one the server may end the connection
                        tally.fail("no answer", f"{path} {body[:40]!r}: {error!r}")
                    continue
                tally.did(f"{answer.status_code // 100}xx")
                if answer.status_code >= 500:
                    tally.fail("5xx", f"{path} {body[:40]!r}... {len(body)} bytes: {answer.status_code}")
        if service.http.get(wire.HEALTH).status_code != 200:
            tally.fail("pool ended")
        service.http.close()
    return tally


def raw(folder: Path, n: int) -> Tally:
    """`n` times bytes on the pool's port that are nearly HTTP; it answers 4xx or hangs up, and goes on."""
    tally = Tally.looking_for("requests", "5xx", "pool ended", "kept waiting")
    dice = random.Random(0)
    with pool_thread(farm_of(1, folder)) as endpoint:
        port = int(endpoint.url.rpartition(":")[2])
        for _ in range(n):
            tally.did("requests")
            data = _nearly_http(dice)
            answer = _sent(port, data)
            if answer is None:
                tally.fail("kept waiting", repr(data[:200]))
                continue
            status = answer[9:10].decode("latin-1") if answer.startswith(b"HTTP/1.1 ") else "hung up"
            tally.did(f"{status}xx" if status.isdigit() else status)
            if status == "5":
                tally.fail("5xx", repr(data[:200]))
        if httpx.get(f"{endpoint.url}{wire.HEALTH}", headers=HEADERS).status_code != 200:
            tally.fail("pool ended")
    return tally


def _routes(lease: str) -> list[str]:
    verbs = [f"{wire.LEASES}/{lease}/{verb.verb}" for verb in wire.VERBS]
    return [wire.LEASES, f"{wire.LEASES}/{lease}/renew", *verbs, f"{wire.DEVICES}/sim-1/drain"]


def _bodies(dice: random.Random, n: int) -> Iterator[bytes]:
    """Hardly any of them is what a route asks for."""
    for number in range(n):
        depth = dice.choice((50, 200, 1000, 2000, 10_000, 100_000))
        match number % 10:
            case 0:
                yield b"[" * depth + b"]" * depth
            case 1:
                yield b'{"a":' * depth + b"1" + b"}" * depth
            case 2:
                nested = b"[" * depth + b"]" * depth
                yield b'{"token":1,"key":"k","seed":0,"actions":' + nested + b"}"
            case 3:
                nested = b'{"a":' * depth + b"1" + b"}" * depth
                yield b'{"token":1,"key":"k","seed":0,"baseline":{"state":' + nested + b"}}"
            case 4:
                digits = b"9" * dice.choice((20, 400, 5000, 100_000))
                yield b'{"token":' + digits + b',"ttl_s":' + digits + b',"quality":' + digits + b"}"
            case 5:
                yield json.dumps({"token": 1, "key": "k" * dice.choice((65, 10_000, 2_000_000))}).encode()
            case 6:
                yield b'{"token":1,"ttl_s":NaN,"wait_s":Infinity}'
            case 7:
                yield dice.choice(
                    (b'{"a":"\xff\xfe\x00\xed\xa0\x80"}', b'{"\xff":1}', b"\xff", b"\xef\xbb\xbf{}")
                )
            case 8:
                yield b'{"token":1,' + b'"token":2,' * depth + b'"token":3}'
            case _:
                spec = b'{"quality":' + str(10 ** dice.randrange(2, 300)).encode() + b"}"
                yield b'{"token":1,"key":"k","seed":0,"actions":[],"spec":' + spec + b"}"


_HEADS = (
    b"GET /healthz HTTP/1.1\r\nHost: a\r\n",
    b"POST /v1/leases HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n",
    b"GET /v1/live HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
)
_LINES = (
    b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", b"Transfer-Encoding: xchunked\r\n",
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n", b"Sec-WebSocket-Key: \xff\r\n",
    b"Expect: 100-continue\r\n", b"X\r\n", b": x\r\n", b"X : y\r\n", b"X: \0\r\n", b" folded: x\r\n",
    b"Host: b\r\n", b"Content-Type: application/json; charset=\xff\r\n", b"Connection: close\r\n",
)  # fmt: skip
_BODIES = (b"", b"{}", b"5\r\nabcde\r\n0\r\n\r\n", b"zz\r\n", b"ffffffffffffffff\r\n", b"-1\r\nx", b"\0" * 30)


def _nearly_http(dice: random.Random) -> bytes:
    head = dice.choice(_HEADS)
    lines = b"".join(dice.choices(_LINES, k=dice.randrange(4)))
    data = bytearray(head + lines + b"\r\n" + dice.choice(_BODIES))
    for _ in range(dice.choice((0, 0, 1, 3))):
        at = dice.randrange(len(data))
        match dice.randrange(4):
            case 0:
                data[at] = dice.randrange(256)
            case 1:
                del data[at : at + dice.randrange(1, 9)]
            case 2:
                data[at:at] = dice.choice((b"\r\n", b"\0", b" ", b"\n", b"%", b"\xf0\x9f\x92\xa9"))
            case _:
                data[at:at] = data[: dice.randrange(1, 40)]
        if not data:
            break
    return bytes(data)


def _sent(port: int, data: bytes) -> bytes | None:
    """What came back until the pool closed; None where it neither answered nor closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S) as line:
        with contextlib.suppress(OSError):
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
        try:
            return line.recv(64)
        except TimeoutError:
            return None
        except OSError:
            return b""
