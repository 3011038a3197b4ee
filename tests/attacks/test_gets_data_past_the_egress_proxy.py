"""A program on a device that wants out: by a second request inside the first, or by the names it asks for."""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devices.egress.proxy import EgressProxy
from devices.egress.rules import Address

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: internal\r\n\r\n"


class Origin:
    """A server that keeps what it was sent, byte by byte."""

    def __init__(self) -> None:
        self.sent = b""
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.sent += head
            if b"chunked" in head.lower():
                self.sent += await reader.readuntil(b"\r\n0\r\n")
                self.sent += await reader.readuntil(b"\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()
            self.sent += await reader.read()
        writer.close()


@contextlib.asynccontextmanager
async def origin() -> AsyncIterator[Origin]:
    listener = Origin()
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()


async def send(socket: Path, request: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"transfer-encoding: chunked\r\nCONTENT-LENGTH: 5"],
)
async def test_a_body_with_two_ends_goes_nowhere(framing: bytes, version: bytes, tmp_path: Path) -> None:
    proxy = await EgressProxy.start(tmp_path / "way-out")
    async with origin() as listener:
        proxy.allow([f"127.0.0.1:{listener.port}"])
        head = b"POST http://127.0.0.1:%d/ HTTP/%s\r\nHost: x\r\nConnection: close\r\n%s\r\n\r\n" % (
            listener.port,
            version,
            framing,
        )
        answer = await send(tmp_path / "way-out", head + b"0\r\n\r\n" + SMUGGLED)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"not both" in answer
        assert listener.sent == b""
    await proxy.close()


async def test_a_trailer_is_no_header_of_the_next_server(tmp_path: Path) -> None:
    proxy = await EgressProxy.start(tmp_path / "way-out")
    async with origin() as listener:
        proxy.allow([f"127.0.0.1:{listener.port}"])
        head = (
            b"POST http://127.0.0.1:%d/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" % listener.port
        )
        answer = await send(
            tmp_path / "way-out", head + b"2\r\nhi\r\n0\r\nContent-Length: 5\r\nHost: internal\r\n\r\n"
        )
        assert answer.endswith(b"ok")
        assert b"internal" not in listener.sent
        assert b"content-length" not in listener.sent.lower()
    await proxy.close()


@pytest.mark.parametrize("rules", [["192.0.2.0/24"], ["127.0.0.1:1"], ["192.0.2.1", "known.example"], []])
async def test_no_name_server_hears_a_name_that_no_rule_names(rules: list[str], tmp_path: Path) -> None:
    heard: list[str] = []

    async def name_server(host: str) -> list[Address]:
        heard.append(host)
        return [ipaddress.ip_address("192.0.2.1")]

    proxy = await EgressProxy.start(tmp_path / "way-out", resolve=name_server)
    proxy.allow(rules)
    for name in ("c2VjcmV0.evil.example", "x.known.example", "2130706433", "known.example.evil"):
        for request in (
            f"CONNECT {name}:1 HTTP/1.1\r\nHost: x\r\n\r\n",
            f"GET http://{name}:1/ HTTP/1.1\r\nHost: x\r\n\r\n",
        ):
            answer = await send(tmp_path / "way-out", request.encode())
            assert answer.startswith(b"HTTP/1.1 403 ")
    assert heard == []
    await proxy.close()
