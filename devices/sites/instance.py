"""One running instance of a site: a sandbox with its server and its data, reached by two unix sockets."""

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import h11
import msgspec

from devices import namespaces, owned, watch
from devices.sites import reading
from devices.sites.plan import PORT, site_plan
from devices.sites.site import DATA, Site
from guiagent import sandbox
from guiagent.errors import DECODE_ERRORS, Fault, FaultError
from guiagent.types import CommandResult

KIND = "site"
_ANSWER = 16 << 20  # bytes of an answer of the keeper
_LAST_WORDS = 4096  # bytes of the log that a fault looks at
_MARGIN_S = 5.0
_RETRY_S = 0.05
_STOP_S = 2.0


class _Answer(msgspec.Struct, frozen=True):
    code: int
    stdout: str = ""
    stderr: str = ""


class Instance:
    """A running site. Nothing listens for it but a unix socket that this user alone may connect to.

    Attributes:
        data: its data folder as this process sees it; its content is a stranger's (`devices.foreign`).
    """

    def __init__(self, site: Site, process: asyncio.subprocess.Process, folder: Path) -> None:
        self.site = site
        self._process = process
        self._folder = folder
        self.data = Path(f"/proc/{process.pid}/root", *sandbox.ROOT.parts[1:], *DATA.parts[1:])

    @classmethod
    async def start(cls, site: Site, image: Path, *, serves: bool = True) -> "Instance":
        """Start an instance over an image, and wait until it serves, or until it can run the seed program.

        Raises FaultError if it does not within `site.start_s`.
        """
        folder = owned.create_folder(KIND)
        program = site.command(DATA, PORT) if serves else site.seed(DATA)
        try:
            with _listener(folder / "web") as web, _listener(folder / "control") as control:
                descriptors = (web.fileno(), control.fileno())
                with (folder / "log").open("wb") as log:
                    process = await asyncio.create_subprocess_exec(
                        *sandbox.command(site_plan(site, folder, image, program, serves, descriptors)),
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=log,
                        env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
                        start_new_session=True,
                        pass_fds=descriptors,
                        cwd="/",
                    )
        except BaseException:
            owned.remove_folder(folder)
            raise
        instance = cls(site, process, folder)
        try:
            async with asyncio.timeout(site.start_s):
                await instance._come_up(serves)
        except TimeoutError:
            await instance.stop()
            message = f"the site {site.name} did not serve within {site.start_s:g} s"
            raise FaultError(Fault("device", "site_start", message, retryable=True)) from None
        except BaseException:
            await instance.stop()
            raise
        return instance

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    @property
    def pid(self) -> int:
        """Process id of the sandbox's outer end."""
        return self._process.pid

    def died(self) -> FaultError:
        """The fault of an instance that has ended, with its last words."""
        with contextlib.suppress(OSError):
            with (self._folder / "log").open("rb") as log:  # programs of the site may have filled it
                log.seek(max(0, log.seek(0, os.SEEK_END) - _LAST_WORDS))
                lines = log.read(_LAST_WORDS).decode(errors="replace").strip().splitlines()
            why = f": {lines[-1][-300:]}" if lines else ""
            message = f"the site {self.site.name} ended{why}"
            return FaultError(Fault("device", "site_died", message, retryable=True))
        return FaultError(Fault("device", "site_died", f"the site {self.site.name} ended", retryable=True))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to the server. Raises OSError if it has ended."""
        return await asyncio.open_unix_connection(str(self._folder / "web"))

    async def exec(self, argv: Sequence[str], timeout_s: float) -> CommandResult:
        """Run a program in the sandbox, in the data folder."""
        answer = await self._ask({"argv": list(argv), "timeout_s": timeout_s}, b"", timeout_s)
        return CommandResult(answer.code, answer.stdout, answer.stderr)

    async def put(self, path: str, data: bytes) -> None:
        """Write a file below the data folder, as the site's user. Raises FaultError (origin "task")."""
        if ".." in Path(path).parts or path.startswith("/") or "\0" in path or not path:
            raise FaultError(Fault("task", "bad_path", f"{path[:80]!r} is no path below the data folder"))
        answer = await self._ask({"put": path, "size": len(data)}, data, _MARGIN_S)
        if answer.code:
            raise FaultError(Fault("task", "bad_path", answer.stderr[-300:]))

    async def get(self, path: str) -> bytes:
        """Read a file as of one moment; see `reading.read`."""
        return await asyncio.to_thread(reading.read, self.site, self.pid, self.data, path)

    async def stop(self) -> None:
        """End every process of it and remove its folder. Idempotent."""
        if self.running:
            for first in namespaces.children(self.pid):  # all of the sandbox ends before it does
                watch.remove(first)
                namespaces.kill(first)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _STOP_S)
        if self.running:
            owned.kill_group(self.pid)
        await self._process.wait()
        await asyncio.to_thread(owned.remove_folder, self._folder)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _come_up(self, serves: bool) -> None:
        while not (await self._serves() if serves else await self._answers()):
            if not self.running:
                raise self.died()
            await asyncio.sleep(_RETRY_S)
        for first in namespaces.children(self.pid):  # it leads the group of all that the site starts
            watch.add(first, self._folder)

    async def _answers(self) -> bool:
        answer = await self._ask({"argv": ["true"], "timeout_s": _MARGIN_S}, b"", self.site.start_s)
        return answer.code == 0

    async def _serves(self) -> bool:
        """Ask for the path `ready`; whether the answer's status is below 500."""
        http = h11.Connection(h11.CLIENT)
        headers = [("Host", self.site.host), ("Connection", "close")]
        request = h11.Request(method="GET", target=self.site.ready, headers=headers)
        ended = asyncio.ensure_future(self._process.wait())
        asking = asyncio.ensure_future(self._status(http, request))
        try:
            await asyncio.wait((asking, ended), return_when=asyncio.FIRST_COMPLETED)
            return asking.done() and asking.result() < 500
        except (OSError, EOFError, h11.ProtocolError):
            return False
        finally:
            asking.cancel()
            ended.cancel()

    async def _status(self, http: h11.Connection, request: h11.Request) -> int:
        reader, writer = await self.connect()
        try:
            writer.write((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
            while not isinstance(event := http.next_event(), h11.Response | h11.ConnectionClosed):
                if event is h11.NEED_DATA:
                    http.receive_data(await reader.read(1 << 16))
            if isinstance(event, h11.ConnectionClosed):
                raise EOFError
            return event.status_code
        finally:
            writer.close()

    async def _ask(self, request: dict[str, object], data: bytes, timeout_s: float) -> _Answer:
        """Ask the keeper. What it answers is the sandbox's, which a page may have taken over."""
        try:
            async with asyncio.timeout(timeout_s + _MARGIN_S):
                reader, writer = await asyncio.open_unix_connection(str(self._folder / "control"))
                try:
                    writer.write(msgspec.json.encode(request) + b"\n" + data)
                    answer = bytearray()
                    while chunk := await reader.read(1 << 16):
                        answer += chunk
                        if len(answer) > _ANSWER:
                            raise OSError(f"an answer of more than {_ANSWER} bytes")
                finally:
                    writer.close()
            return msgspec.json.decode(answer, type=_Answer)
        except (TimeoutError, OSError, *DECODE_ERRORS) as error:
            if not self.running:
                raise self.died() from error
            message = f"the site {self.site.name} does not do what it is asked: {type(error).__name__}"
            raise FaultError(Fault("device", "site_garbled", message, retryable=True)) from error


def _listener(path: Path) -> socket.socket:
    """A listening unix socket in a private folder, to be handed to the sandbox."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    return listener


def sweep() -> int:
    """End sites whose owner is gone, and remove their folders; return how many were ended."""
    owned.remove_orphaned(reading.KIND)
    return owned.sweep(KIND)
