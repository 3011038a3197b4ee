"""An adb server of this process, and an asyncio client for it.

The server is Android's `adb`, unmodified; it listens on a Unix socket in a private folder, so that no other
user of this machine can drive the phones through it, and no port is taken. A server that somebody else runs
can be used, too: a phone on USB belongs to one server at a time.

Its protocol (`SERVICES.TXT` of adb) is spoken here rather than through adbutils, because adbutils blocks a
thread for every call, which no deadline can end.
"""

import asyncio
import contextlib
import shutil
import struct
import subprocess
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from devices import owned, processes
from guiagent.errors import Fault, FaultError, InfrastructureError, MissingProgram

KIND = "adb"
MISSING = "no adb found: `apt-get install adb`, or put the platform-tools of the Android SDK on PATH"
_START_S = 10.0
_MAX_REPLY = 1 << 20
_MAX_OUTPUT = 128 << 20
_CHUNK = 64 << 10
_PACKET = struct.Struct("<BI")
_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = range(5)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class AdbError(Exception):
    """A refusal by the adb server or the device's adbd; the message is theirs."""


class ShellResult(NamedTuple):
    code: int
    stdout: bytes
    stderr: bytes


def lost(serial: str, why: str, *, sent: bool) -> FaultError:
    """Fault of a broken connection to a device; once a command was `sent`, its outcome is unknown."""
    if sent:
        message = (
            f"the connection to {serial} broke after a command was sent: {why}; it may have been carried out"
        )
        return FaultError(Fault("device", "unknown_outcome", message))
    return FaultError(Fault("device", "unreachable", f"{serial} cannot be reached: {why}", retryable=True))


class AdbServer:
    """An adb server that runs while devices use it: `acquire` it for each device, and `release` it.

    `given` names a server that somebody else runs, as adb's ADB_SERVER_SOCKET does ("tcp:127.0.0.1:5037").
    """

    def __init__(self, given: str = "") -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._given = given

    async def acquire(self) -> None:
        """Add a user of the server and make it run. Raises InfrastructureError if there is no adb."""
        with self._lock:
            self._users += 1
        try:
            await self.revive()
        except BaseException:
            await self.release()
            raise

    async def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            process, folder = self._process, self._folder
            self._process = self._folder = None
        if process is not None:
            owned.stop(process)
        if folder is not None:
            await asyncio.to_thread(owned.remove_folder, folder)

    async def revive(self) -> None:
        """Start the server if it does not run, and wait for its answer. Raises InfrastructureError."""
        try:
            async with asyncio.timeout(_START_S):
                while True:
                    with self._lock:  # each time: one that is just dying still looks alive
                        if not self._given:
                            self._spawn()
                    try:
                        await self.query("host:version")
                        return
                    except OSError:
                        await asyncio.sleep(0.01)
        except TimeoutError:
            place = self._given or self._log()
            raise InfrastructureError(f"the adb server did not come up ({place})") from None

    @property
    def public_key(self) -> Path:
        """File of the public key that a phone must trust to be driven by this server."""
        assert self._folder is not None
        return self._folder / "key.pub"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def query(self, request: str) -> str:
        """Ask the server itself. Raises AdbError, and OSError if there is no server."""
        reader, writer = await self._connect()
        try:
            await _send(reader, writer, request)
            return (await _reply(reader)).decode("utf-8", "replace")
        except asyncio.IncompleteReadError:
            raise ConnectionResetError("the adb server left") from None
        finally:
            writer.close()

    async def connect(self, address: str) -> None:
        """Connect a device on TCP. Raises AdbError if it does not answer or does not trust our key."""
        answer = await self.query(f"host:connect:{address}")
        if not answer.startswith(("connected to", "already connected")):
            raise AdbError(answer)

    @contextlib.asynccontextmanager
    async def open(self, serial: str, service: str) -> AsyncIterator[Streams]:
        """Open a stream to a service of a device.

        Raises FaultError: "unreachable" before the service was requested, "unknown_outcome" after.
        """
        sent = False
        try:
            reader, writer = await self._connect()
            try:
                await _send(reader, writer, f"host:transport:{serial}")
                sent = True
                await _send(reader, writer, service)
                yield reader, writer
            finally:
                writer.close()
        except AdbError as error:
            # adb says "closed" both for a missing service and for a phone that left with the command.
            raise lost(serial, str(error), sent=sent) from error
        except (OSError, asyncio.IncompleteReadError) as error:
            raise lost(serial, str(error) or "the adb server ended", sent=sent) from error

    async def shell(self, serial: str, script: str, stdin: bytes = b"") -> ShellResult:
        """Run a script on a device, with separate output streams and unchanged bytes."""
        async with self.open(serial, f"shell,v2,raw:{script}") as (reader, writer):
            for first in range(0, len(stdin), _CHUNK):
                part = stdin[first : first + _CHUNK]
                writer.write(_PACKET.pack(_STDIN, len(part)) + part)
                await writer.drain()
            writer.write(_PACKET.pack(_CLOSE_STDIN, 0))
            output = {_STDOUT: bytearray(), _STDERR: bytearray()}
            while True:
                kind, length = _PACKET.unpack(await reader.readexactly(_PACKET.size))
                if length > _MAX_OUTPUT - sum(map(len, output.values())):
                    raise FaultError(
                        Fault("device", "protocol", f"{serial} sent more than {_MAX_OUTPUT} bytes")
                    )
                data = await reader.readexactly(length)
                if kind == _EXIT:
                    code = data[0] if data else 255
                    return ShellResult(code, bytes(output[_STDOUT]), bytes(output[_STDERR]))
                if kind in output:
                    output[kind] += data

    async def _connect(self) -> Streams:
        if self._given:
            kind, _, address = self._given.partition(":")
            if kind == "tcp":
                host, _, port = address.rpartition(":")
                return await asyncio.open_connection(host or "127.0.0.1", int(port), limit=1 << 20)
            return await asyncio.open_unix_connection(address, limit=1 << 20)
        if self._folder is None:
            raise ConnectionRefusedError("the adb server was closed")
        return await asyncio.open_unix_connection(str(self._folder / "server"), limit=1 << 20)

    def _spawn(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        adb = shutil.which("adb")
        if adb is None:
            raise MissingProgram(MISSING)
        if self._folder is None:
            self._folder = owned.create_folder(KIND)
        key = self._folder / "key"
        if not key.exists():
            subprocess.run([adb, "keygen", str(key)], check=True, capture_output=True, timeout=_START_S)
        environment = {
            "ADB_VENDOR_KEYS": str(key),
            "ADB_LOCAL_TRANSPORT_MAX_PORT": "5554",
        }  # finds no emulators
        command = [adb, "-L", f"localfilesystem:{self._folder / 'server'}", "server", "nodaemon"]
        (self._folder / "server").unlink(missing_ok=True)  # of one that was killed
        with (self._folder / "log").open("ab") as log:
            self._process = processes.spawn(command, log, environment)

    def _log(self) -> str:
        assert self._folder is not None
        lines = (self._folder / "log").read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"


SERVER = AdbServer()  # this process's own


async def _send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: str) -> None:
    data = request.encode("utf-8", "surrogateescape")
    if len(data) > 0xFFFF:
        raise AdbError(f"a request of {len(data)} bytes is too long")
    writer.write(f"{len(data):04x}".encode() + data)
    status = await reader.readexactly(4)
    if status == b"FAIL":
        raise AdbError((await _reply(reader)).decode("utf-8", "replace"))
    if status != b"OKAY":
        raise ConnectionResetError(f"{status!r} is no answer of an adb server")


async def _reply(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(4)
    try:
        size = int(length, 16)
    except ValueError:
        raise ConnectionResetError(f"{length!r} is no length") from None
    return await reader.readexactly(min(size, _MAX_REPLY))
