"""The way out of a device: what its rules permit, and that nothing else gets a single connection."""

import asyncio
import base64
import contextlib
import ipaddress
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import h11
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.egress.peer import Peer
from devices.egress.proxy import EgressProxy
from devices.egress.rules import Address, Block, Name, Public, canonical, is_public, parse, permits, plain
from guiagent.errors import UsageError

PUBLIC_V4, PUBLIC_V6 = ipaddress.ip_address("93.184.215.14"), ipaddress.ip_address("2606:2800:21f:cb07::1")
addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))


# -- rules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("public", Public()),
        ("example.org", Name("example.org")),
        ("Example.ORG.", Name("example.org")),
        ("bücher.example", Name("xn--bcher-kva.example")),
        ("*.example.org", Name("example.org", subdomains=True)),
        ("*.example.org:8443", Name("example.org", subdomains=True, port=8443)),
        ("localhost:80", Name("localhost", port=80)),
        ("10.0.0.0/8", Block(ipaddress.ip_network("10.0.0.0/8"))),
        ("127.0.0.1:8700", Block(ipaddress.ip_network("127.0.0.1/32"), 8700)),
        ("::ffff:10.1.2.3", Block(ipaddress.ip_network("10.1.2.3/32"))),
        ("fd00::/8", Block(ipaddress.ip_network("fd00::/8"))),
        ("::1", Block(ipaddress.ip_network("::1/128"))),
        ("[::1]", Block(ipaddress.ip_network("::1/128"))),
        ("[::1]:443", Block(ipaddress.ip_network("::1/128"), 443)),
    ],
)
def test_a_rule_is_read_from_its_text(text: str, rule: object) -> None:
    assert parse([text]) == (rule,)


@pytest.mark.parametrize(
    "text",
    ["", "*", "*.", "a b", "http://example.org", "example.org:0", "example.org:65536", "example.org:http",
     "example.org:" + "1" * 5000, "10.0.0.1/8", "10.0.0.0/33", "0x7f000001", "2130706433", "127.1", "a..b",
     "-a.org", "*.*.org", "user@example.org", "exa\nmple.org", "PUBLIC/8"],
)  # fmt: skip
def test_what_is_no_rule_is_one_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(["public", text])
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("egress: ")


@given(st.text(max_size=40))
def test_any_text_is_a_rule_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse([text])


@given(addresses)
def test_public_is_never_more_than_what_python_calls_global(address: Address) -> None:
    if is_public(address):
        within = plain(address)
        assert within.is_global
        assert not (within.is_private or within.is_loopback or within.is_link_local)
        assert not (within.is_multicast or within.is_reserved or within.is_unspecified)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_alike_however_it_is_wrapped(address: ipaddress.IPv4Address) -> None:
    for prefix in ("::ffff:0:0", "64:ff9b::"):
        wrapped = ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | int(address))
        assert is_public(wrapped) == is_public(address)
        assert permits(parse([str(address)]), "x", 80, wrapped)


@given(addresses, st.integers(1, 65535))
def test_an_address_rule_permits_that_address_and_port_alone(address: Address, port: int) -> None:
    rules = parse([f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"])
    assert permits(rules, "any.name", port, address)
    assert not permits(rules, "any.name", port % 65535 + 1, address)
    other = type(address)(int(address) ^ 1)
    assert not permits(rules, str(address), port, other)


@given(st.from_regex(r"[a-z]{1,9}(\.[a-z]{1,9}){0,3}", fullmatch=True), addresses, st.integers(1, 65535))
def test_no_rules_permit_nothing_and_names_permit_public_addresses_alone(
    host: str, address: Address, port: int
) -> None:
    assert not permits((), host, port, address)
    public = is_public(address)
    assert permits(parse([host]), host.upper() + ".", port, address) == public
    assert permits(parse([f"*.{host}"]), f"a.b.{host}", port, address) == public
    for other in (f"x{host}", f"{host}.evil", f"a{host}"):
        assert not permits(parse([host, f"*.{host}"]), other, port, address)
    assert not permits(parse([f"*.{host}"]), host, port, address)
    assert not permits(parse([host, "public"]), host, port, address, own=True)


@given(st.text(max_size=300))
def test_any_host_has_a_canonical_form(host: str) -> None:
    assert canonical(host).isascii()


PRIVATE = [
    "0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254",
    "169.254.1.1", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.168.0.1",
    "198.18.0.1", "203.0.113.9", "168.63.129.16", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:7f00:1::",
    "2001:db8::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1",
    "fec0::1", "ff02::1", "5f00::1",
]  # fmt: skip


@pytest.mark.parametrize("text", PRIVATE)
def test_what_is_not_public(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "93.184.215.14", "172.32.0.1", "2606:4700::1111", "2a00:1450::1"]
)
def test_what_is_public(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


# -- the proxy -----------------------------------------------------------------------------------------------


class Listener:
    """A small server on loopback that counts who connects. `/cut` never ends, `/to?URL` redirects."""

    def __init__(self) -> None:
        self.connections = 0
        self.requests: list[bytes] = []
        self.asked = asyncio.Event()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, EOFError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.requests.append(head)
                self.asked.set()
                path = head.split(b" ")[1]
                if path == b"/never":
                    await reader.read()
                    break
                if path == b"/echo":
                    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                    body = await reader.readexactly(size)
                    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
                    break
                if path.startswith(b"/to?"):
                    location = path.partition(b"?")[2]
                    writer.write(
                        b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + location + b"\r\n\r\n"
                    )
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def listening(host: str = "127.0.0.1") -> AsyncIterator[Listener]:
    listener = Listener()
    server = await asyncio.start_server(listener.serve, host, 0)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()


NAMES = {
    "site.example": "127.0.0.1",
    "loopback.example": "127.0.0.1",
    "loopback6.example": "::1",
    "mapped.example": "::ffff:127.0.0.1",
    "metadata.example": "169.254.169.254",
    "own.example": "0.0.0.0",
}


async def resolve(host: str) -> list[Address]:
    """The test's names, then what the system makes of a host (every odd spelling that it knows)."""
    if host in NAMES:
        return [ipaddress.ip_address(NAMES[host])]
    answers = await asyncio.get_running_loop().getaddrinfo(host, None)
    return [ipaddress.ip_address(answer[4][0]) for answer in answers]


@contextlib.asynccontextmanager
async def proxying(*rules: str) -> AsyncIterator[EgressProxy]:
    proxy = await EgressProxy.start(resolve=resolve)
    try:
        proxy.allow(rules)
        yield proxy
    finally:
        await proxy.close()


def through(proxy: EgressProxy) -> httpx.AsyncClient:
    return httpx.AsyncClient(proxy=proxy.url, trust_env=False, timeout=10)


async def connect(proxy: EgressProxy, target: str) -> tuple[str, asyncio.StreamReader, asyncio.StreamWriter]:
    """The status line of a CONNECT, and the tunnel."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    secret = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
    writer.write(
        f"CONNECT {target} HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic {secret}\r\n\r\n".encode()
    )
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    return head.decode().partition("\r\n")[0], reader, writer


async def test_what_is_allowed_comes_back_and_what_is_not_says_so() -> None:
    async with (
        listening() as listener,
        proxying("site.example", f"127.0.0.1:{listener.port}") as proxy,
        through(proxy) as client,
    ):
        url = f"http://site.example:{listener.port}/page?q=1"
        for _ in range(3):  # over one connection of the client's
            answer = await client.get(url, headers={"Proxy-Secret": "x", "Connection": "X-Hop", "X-Hop": "1"})
            assert (answer.status_code, answer.text) == (200, "hello")
        head = listener.requests[-1].lower()
        assert head.startswith(b"get /page?q=1 http/1.1\r\nhost: site.example:%d\r\n" % listener.port)
        assert b"proxy-" not in head
        assert b"x-hop" not in head
        body = bytes(range(256)) * 4000
        assert (await client.post(f"http://127.0.0.1:{listener.port}/echo", content=body)).content == body

        refused = await client.get("http://127.0.0.1:1/")
        assert refused.status_code == 403
        assert refused.headers["proxy-status"] == "guiagent; error=destination_ip_prohibited"
        assert refused.text == "127.0.0.1:1 is not among what this lease may reach\n"
        assert proxy.failure("127.0.0.1", 1) == refused.text.strip()
        assert proxy.failure("site.example", listener.port) is None
        assert (proxy.refused, proxy.refusals) == ({"127.0.0.1:1": 1}, 1)


async def test_before_anything_is_allowed_nothing_is() -> None:
    async with listening() as listener, proxying() as proxy, through(proxy) as client:
        assert (await client.get(f"http://127.0.0.1:{listener.port}/")).status_code == 403
        assert listener.connections == 0


async def test_a_target_that_is_not_there_is_told_apart_from_one_that_is_refused() -> None:
    async with listening() as listener, proxying("127.0.0.0/8") as proxy, through(proxy) as client:
        gone = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
        port = gone.sockets[0].getsockname()[1]
        gone.close()
        await gone.wait_closed()
        answer = await client.get(f"http://127.0.0.1:{port}/")
        assert (answer.status_code, answer.text) == (502, f"127.0.0.1:{port}: Connection refused\n")
        answer = await client.get("http://no-such-name.invalid/")
        assert (answer.status_code, answer.text) == (
            502,
            "the name no-such-name.invalid cannot be resolved\n",
        )
        assert proxy.refusals == 0


async def test_a_tunnel_carries_bytes_both_ways_and_ends_with_either_side() -> None:
    async with listening() as listener, proxying("site.example", f"127.0.0.1:{listener.port}") as proxy:
        status, reader, writer = await connect(proxy, f"site.example:{listener.port}")
        assert status == "HTTP/1.1 200 Connection established"
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert (await reader.readuntil(b"hello")).endswith(b"hello")
        writer.write(b"POST /echo HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi")
        assert (await asyncio.wait_for(reader.read(), 10)).endswith(b"hi")
        writer.close()


@pytest.mark.parametrize("password", [None, "wrong"])
async def test_a_stranger_on_this_machine_is_turned_away(password: str | None) -> None:
    async with listening() as listener, proxying("127.0.0.0/8") as proxy:
        url = f"http://{f'device:{password}@' if password else ''}127.0.0.1:{proxy.port}"
        async with httpx.AsyncClient(proxy=url, trust_env=False) as client:
            answer = await client.get(f"http://127.0.0.1:{listener.port}/")
            assert answer.status_code == 407
            assert answer.headers["proxy-authenticate"].startswith("Basic ")
            with pytest.raises(httpx.ProxyError, match="407"):
                await client.get(f"https://127.0.0.1:{listener.port}/")
        assert listener.connections == 0


async def test_a_unix_socket_serves_its_owner_without_a_password(tmp_path: Path) -> None:
    path = tmp_path / "way-out"
    proxy = await EgressProxy.start(path)
    assert (proxy.port, proxy.password) == (0, None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with listening() as listener:
        proxy.allow(["127.0.0.1"])
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(f"GET http://127.0.0.1:{listener.port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert b"hello" in await reader.readuntil(b"hello")
        await proxy.close()
        assert await reader.read() == b""
        assert not path.exists()
        writer.close()


async def test_allowing_less_cuts_what_is_open_and_nothing_else() -> None:
    async with (
        listening() as kept,
        listening() as lost,
        proxying("127.0.0.0/8") as proxy,
        through(proxy) as client,
    ):
        _, kept_reader, kept_writer = await connect(proxy, f"127.0.0.1:{kept.port}")
        _, lost_reader, lost_writer = await connect(proxy, f"127.0.0.1:{lost.port}")
        hanging = asyncio.create_task(client.get(f"http://127.0.0.1:{lost.port}/never"))
        await asyncio.wait_for(lost.asked.wait(), 10)
        with pytest.raises(UsageError):
            proxy.allow(["no rule"])
        assert not hanging.done()
        proxy.allow([f"127.0.0.1:{kept.port}"])
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(lost_reader.read(), 10) == b""
        with pytest.raises(httpx.TransportError):
            await asyncio.wait_for(hanging, 10)
        kept_writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert (await kept_reader.readuntil(b"hello")).endswith(b"hello")
        for writer in (kept_writer, lost_writer):
            writer.close()


async def test_a_name_is_resolved_once_for_each_connection() -> None:
    answers = ["127.0.0.1", "127.0.0.2"]
    asked: list[str] = []

    async def rebinding(host: str) -> list[Address]:
        asked.append(host)
        return [ipaddress.ip_address(answers[len(asked) - 1])]

    proxy = await EgressProxy.start(resolve=rebinding)
    async with listening("127.0.0.2") as secret, listening() as listener, through(proxy) as client:
        proxy.allow(["rebinding.example", "127.0.0.1"])
        url = f"http://rebinding.example:{listener.port}/"
        assert (await client.get(url)).text == "hello"
        assert asked == ["rebinding.example"]
        assert (await client.get(f"http://rebinding.example:{secret.port}/")).status_code == 403
        assert secret.connections == 0
    await proxy.close()


async def test_what_no_rule_can_permit_is_not_even_resolved() -> None:
    async def resolve_none(host: str) -> list[Address]:
        raise AssertionError(f"asked for {host}")

    proxy = await EgressProxy.start(resolve=resolve_none)
    proxy.allow(["example.org", "*.example.com:443", "192.0.2.0/24"])
    async with through(proxy) as client:
        for url in ("http://words-to-carry-out.evil.example/", "http://a.example.com/"):
            assert (await client.get(url)).status_code == 403
    await proxy.close()


async def test_what_is_remembered_is_bounded() -> None:
    async with proxying() as proxy, through(proxy) as client:
        for port in range(1, 301):
            await client.get(f"http://127.0.0.1:{port}/")
        assert proxy.refusals == 300
        assert len(proxy.refused) == 256
        assert "127.0.0.1:300" in proxy.refused


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
     b"CONNECT :80 HTTP/1.1\r\nHost: x\r\n\r\n", b"CONNECT a:b HTTP/1.1\r\nHost: x\r\n\r\n",
     b"GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n", b"GET ftp://a/ HTTP/1.1\r\nHost: x\r\n\r\n",
     b"X" * 200_000, b""],
)  # fmt: skip
async def test_garbage_ends_its_own_connection_only(garbage: bytes, tmp_path: Path) -> None:
    proxy = await EgressProxy.start(tmp_path / "socket")
    reader, writer = await asyncio.open_unix_connection(tmp_path / "socket")
    writer.write(garbage)
    writer.write_eof()
    with contextlib.suppress(ConnectionError):
        answer = await asyncio.wait_for(reader.read(), 10)
        assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 403"))
    writer.close()
    assert proxy.refusals == 0
    await proxy.close()


# -- server-side request forgery -----------------------------------------------------------------------------

SPELLINGS = [
    "127.0.0.1", "127.1", "127.0.1", "127.255.255.254", "2130706433", "0x7f000001", "0x7F.0.0.1", "0x7f.1",
    "017700000001", "0177.0.0.1", "0177.0.0.01", "127.0.0.0x1", "0", "0.0.0.0", "0x0", "00000000000.0",
    "localhost", "LOCALHOST", "localhost.", "ip6-localhost", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]",
    "[0000::0001]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::FFFF:7F00:0001]", "[0:0:0:0:0:ffff:7f00:1]",
    "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::127.0.0.1]", "loopback.example",
    "loopback6.example", "mapped.example", "metadata.example", "own.example", "user@127.0.0.1",
    "public.example@127.0.0.1", "user:pass@localhost", "169.254.169.254", "2852039166", "[fd00:ec2::254]",
]  # fmt: skip


async def test_no_spelling_of_a_private_address_gets_a_connection() -> None:
    async with listening() as four, contextlib.AsyncExitStack() as stack:
        ports = [four.port]
        listeners = [four]
        with contextlib.suppress(OSError):  # a machine without IPv6
            six = await stack.enter_async_context(listening("::1"))
            listeners.append(six)
            ports.append(six.port)
        proxy = await stack.enter_async_context(
            proxying("public", "public.example", "*.example", "localhost")
        )
        for spelling in SPELLINGS:
            for port in ports:
                status, _, writer = await connect(proxy, f"{spelling}:{port}")
                writer.close()
                assert status.split()[1] in ("400", "403", "502"), spelling
                reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
                secret = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
                writer.write(
                    f"GET http://{spelling}:{port}/ HTTP/1.1\r\nHost: public.example\r\n"
                    f"Proxy-Authorization: Basic {secret}\r\n\r\n".encode()
                )
                assert (await reader.readline()).split()[1] in (b"400", b"403", b"502"), spelling
                writer.close()
        assert [listener.connections for listener in listeners] == [0] * len(listeners)
        assert proxy.refusals >= len(SPELLINGS)


async def test_a_redirect_to_a_private_address_ends_at_the_proxy() -> None:
    async with (
        listening() as door,
        listening() as secret,
        proxying("site.example", f"127.0.0.1:{door.port}") as proxy,
    ):
        async with through(proxy) as client:
            url = f"http://site.example:{door.port}/to?http://127.0.0.1:{secret.port}/"
            answer = await client.get(url, follow_redirects=True)
        assert answer.status_code == 403
        assert (door.connections, secret.connections) == (1, 0)


async def test_a_request_that_comes_in_the_moment_its_predecessor_is_answered_is_not_lost() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"GET http://a.test/1 HTTP/1.1\r\nHost: a.test\r\n\r\n")
    http = h11.Connection(h11.SERVER)
    client = Peer(http, reader, cast(asyncio.StreamWriter, None))  # it writes nothing here
    assert isinstance(await client.next(), h11.Request)
    assert isinstance(await client.next(), h11.EndOfMessage)

    async def answer() -> None:
        http.send(h11.Response(status_code=204, headers=[]))
        http.send(h11.EndOfMessage())
        reader.feed_data(b"GET http://a.test/2 HTTP/1.1\r\nHost: a.test\r\n\r\n")

    await client.while_here(answer())
    http.start_next_cycle()
    following = await asyncio.wait_for(client.next(), 5)
    assert isinstance(following, h11.Request) and following.target == b"http://a.test/2"
