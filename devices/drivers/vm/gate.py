"""Network namespaces of guests, one each, and the only two ways through their walls: relays of bytes.

The guest server has no password, and QEMU's user network can publish it on a TCP port only; and what it calls
the host is the loopback of where QEMU runs. So each QEMU runs in a network namespace of its own, with nothing
but a loopback: a unix socket here leads to the guest's server, and a port there to the guest's egress proxy.

Reads orders from standard input, answers each with a line, and ends with its input:
`make NAME [PROXY]`, answered with the descriptor of the namespace; `open NAME PORT PATH`; `close NAME`.
Runs as a plain script: standard library only, no package around it. With the argument `shared` there are no
namespaces and no way to a proxy: every guest's port is on the loopback of where this program runs.
"""

import asyncio
import contextlib
import ctypes
import fcntl
import os
import resource
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Iterator

DONE = "done"
SHARED = "shared"
PROXY_PORT = 3128  # on the loopback of a guest's namespace
_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_CHUNK = 1 << 16
_MOST = 128  # connections of one guest at once, in each of the two directions
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Namespace:
    """One guest's network namespace and the servers that lead in and out; None: the one of this process."""

    def __init__(self, file: int | None) -> None:
        self.file = file
        self._servers: list[asyncio.Server] = []

    @classmethod
    def make(cls) -> "Namespace":
        """Make a network namespace with a loopback."""
        try:
            _check(_LIBC.unshare(_CLONE_NEWNET))
            _loopback_up()
            return cls(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        finally:
            _check(_LIBC.setns(_HOME, _CLONE_NEWNET))

    async def lead_in(self, port: int, path: str) -> None:
        """Relay connections to the unix socket `path` here to the loopback `port` there."""

        async def far() -> Streams:
            with self._inside():
                tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            try:
                await asyncio.get_running_loop().sock_connect(tcp, ("127.0.0.1", port))
            except OSError:
                tcp.close()
                raise
            return await asyncio.open_connection(sock=tcp)

        self._servers.append(await asyncio.start_unix_server(_relay(far), path))

    async def lead_out(self, path: str) -> None:
        """Relay connections to `PROXY_PORT` there to the unix socket `path` here."""

        async def far() -> Streams:
            return await asyncio.open_unix_connection(path)

        with self._inside():
            listener = socket.create_server(("127.0.0.1", PROXY_PORT), backlog=_MOST)
        self._servers.append(await asyncio.start_server(_relay(far), sock=listener))

    def close(self) -> None:
        """Stop listening. The namespace ends with the last process in it."""
        for server in self._servers:
            server.close()
        if self.file is not None:
            os.close(self.file)

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """Let new sockets belong to this namespace. Nothing may be awaited meanwhile."""
        if self.file is None:
            yield
            return
        _check(_LIBC.setns(self.file, _CLONE_NEWNET))
        try:
            yield
        finally:
            _check(_LIBC.setns(_HOME, _CLONE_NEWNET))


def _relay(
    connect: Callable[[], Awaitable[Streams]],
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """Handler that copies both ways between a client and what `connect` opens; at most `_MOST` at once."""
    open_now = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now
        open_now += 1
        try:
            if open_now > _MOST:
                return
            far_reader, far_writer = await connect()
            try:
                async with asyncio.TaskGroup() as both_ways:
                    both_ways.create_task(_copy(reader, far_writer))
                    both_ways.create_task(_copy(far_reader, writer))
            finally:
                far_writer.close()
        except* OSError:
            pass  # either end hung up
        finally:
            open_now -= 1
            writer.close()

    return handle


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh", b"lo", 0).ljust(40, b"\0")
        name, flags = struct.unpack_from("16sh", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))
        if not flags & _IFF_UP:
            fcntl.ioctl(
                any_socket, _SIOCSIFFLAGS, struct.pack("16sh", name, flags | _IFF_UP).ljust(40, b"\0")
            )


def _check(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


async def _obey(order: list[str], namespaces: dict[str, Namespace], shared: bool) -> str:
    """Carry out one order and return the answer."""
    match order:
        case ["make", name, *proxy]:
            made = namespaces[name] = Namespace(None) if shared else Namespace.make()
            try:
                if proxy and not shared:
                    await made.lead_out(*proxy)
            except OSError:
                namespaces.pop(name).close()
                raise
            return DONE if shared else f"{DONE} {made.file}"
        case ["open", name, port, path] if name in namespaces:
            await namespaces[name].lead_in(int(port), path)
        case ["close", name] if name in namespaces:
            namespaces.pop(name).close()
        case _:
            return f"there is no namespace for {order[:2]}"
    return DONE


async def _serve(shared: bool) -> None:
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    if not shared:
        Namespace.make().close()  # fails at once where there are none
    namespaces: dict[str, Namespace] = {}
    print("ready", flush=True)
    while order := (await orders.readline()).decode().rstrip("\n"):
        try:
            answer = await _obey(order.split("\t"), namespaces, shared)
        except OSError as error:
            answer = f"cannot {order.expandtabs(1)}: {error}"
        print(answer, flush=True)


if __name__ == "__main__":
    _LIBC = ctypes.CDLL(None, use_errno=True)
    _HOME = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    _most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (_most_files, _most_files))
    asyncio.run(_serve(SHARED in sys.argv))
