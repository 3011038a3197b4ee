"""One QEMU process: its start, its control connection, and its end.

QEMU is spoken to over QMP (https://www.qemu.org/docs/master/interop/qmp-spec.html) on a socket pair, draws
into memory shared with us, and writes the guest's console to our pipe, so nothing of it has a name that
another user could open. It leads a process group and dies with the thread that started it.
"""

import asyncio
import contextlib
import os
import re
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

from devices import processes
from devices.drivers.vm.machine import GUEST_PORT, Machine, Memory, arguments, find
from devices.drivers.vm.network import NETWORK
from guiagent.errors import Fault, FaultError, MissingProgram

try:
    from qemu.qmp import QMPClient, QMPError
    from qemu.qmp.qmp_client import ExecuteError
except ModuleNotFoundError as error:
    raise MissingProgram("VMs need the package qemu.qmp: `pip install 'guiagent[vm]'`") from error

_TAIL = 4096
_SETPRIV = ("setpriv", "--pdeathsig", "KILL", "--no-new-privs")
_NO_CAPABILITIES = ("--inh-caps=-all", "--bounding-set=-all")  # root keeps what root owns, and nothing else
_ENDING_S = 0.5
_UNBOUNDED = 1 << 40  # bytes per second
_SCREEN_SET = 1  # QEMU's number of the file that `picture` is written to


class Screen:
    """Memory that QEMU writes pictures to."""

    def __init__(self) -> None:
        self._file = open(os.memfd_create("guiagent-vm-screen"), "rb", buffering=0)  # noqa: SIM115
        # QEMU takes a descriptor that can only be written to. Its offset is shared, and moved by us.
        self._writer = open(f"/proc/self/fd/{self._file.fileno()}", "wb", buffering=0)  # noqa: SIM115

    @property
    def writer(self) -> int:
        return self._writer.fileno()

    def rewind(self) -> None:
        self._writer.seek(0)

    def read(self) -> bytes:
        return os.pread(self._file.fileno(), self._writer.tell(), 0)

    def close(self) -> None:
        self._file.close()
        self._writer.close()


class Qemu:
    """A running QEMU. Its methods raise FaultError if QEMU is gone or refuses."""

    def __init__(
        self,
        name: str,
        process: asyncio.subprocess.Process,
        client: QMPClient,
        control: socket.socket,
        screen: Screen,
    ) -> None:
        self.name = name
        self.pid = process.pid
        self._process = process
        self._client = client
        self._control = control  # the client's socket once more: files go to QEMU beside the commands
        self._screen = screen
        self._console = b""
        self._errors = b""
        self._fault: Fault | None = None
        self._on_fault: Callable[[], None] = _nobody
        self._migration: asyncio.Queue[str] = asyncio.Queue()
        self._cpus: list[Path] = []
        self._tasks = [
            asyncio.create_task(work) for work in (self._hear(), self._keep_console(), self._keep_errors())
        ]

    @classmethod
    async def start(
        cls,
        machine: Machine,
        disk: Path,
        memory: Memory,
        name: str,
        *,
        state: Path | None = None,
        proxy: Path | None = None,
    ) -> "Qemu":
        """Start a paused guest: before its boot, or, with a `state` that `save` wrote, as it was then.

        Raises InfrastructureError if there is no QEMU, FaultError if it does not start.
        """
        if state is None:
            return await cls._start(machine, disk, memory, name, proxy)
        with state.open("rb") as file:
            qemu = await cls._start(machine, disk, memory, name, proxy, incoming=True, keep=[file.fileno()])
            await qemu._or_end(qemu._wake(file.fileno()))
        return qemu

    @classmethod
    async def receive(cls, machine: Machine, disk: Path, memory: Memory, name: str, path: Path) -> "Qemu":
        """Start a guest that waits, paused, for what another QEMU sends to the unix socket `path`."""
        qemu = await cls._start(machine, disk, memory, name, None, incoming=True)
        await qemu._or_end(qemu._listen(path))
        return qemu

    @classmethod
    async def _start(
        cls,
        machine: Machine,
        disk: Path,
        memory: Memory,
        name: str,
        proxy: Path | None,
        *,
        incoming: bool = False,
        keep: Sequence[int] = (),
    ) -> "Qemu":
        """Start the process. `incoming`: a migration brings the guest. `keep`: descriptors to inherit."""
        executable = find()
        entrance = await asyncio.to_thread(NETWORK.make, name, proxy)
        proxied = proxy is not None and bool(entrance)
        screen = Screen()
        ours, theirs = socket.socketpair()
        dropped = _NO_CAPABILITIES if os.geteuid() == 0 else ()
        command = [*entrance, *_SETPRIV, *dropped, "--", executable]
        command += arguments(machine, disk, memory, name, theirs.fileno(), proxied=proxied)
        command += ["-add-fd", f"fd={screen.writer},set={_SCREEN_SET}", "-S"]
        command += ["-incoming", "defer"] if incoming else []
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=processes.own_environment(),
                pass_fds=(theirs.fileno(), screen.writer, *keep),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            screen.close()
            await _leave(name)
            raise FaultError(Fault("device", "start_failed", f"cannot start QEMU: {error}")) from error
        finally:
            theirs.close()
        qemu = cls(name, process, QMPClient(name), ours.dup(), screen)
        await qemu._or_end(qemu._greet(ours))
        return qemu

    async def _or_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Await `work`; any failure ends the process."""
        try:
            await work
        except BaseException:
            await self.stop()
            raise

    async def _greet(self, control: socket.socket) -> None:
        try:
            await self._client.connect(control)
        except QMPError as error:
            await self.fault_soon()
            raise FaultError(self._last_words("start_failed")) from error

    async def _wake(self, state: int) -> None:
        await self._follow_migrations(ignore_shared=True)
        await self.execute("migrate-incoming", uri=f"fd:{state}")
        await self.migrated()

    async def _listen(self, path: Path) -> None:
        await self._follow_migrations(ignore_shared=False)
        await self.execute("migrate-incoming", uri=f"unix:{path}")

    @property
    def fault(self) -> Fault | None:
        """Why this guest cannot be used any more; None while it can."""
        if self._fault is None and self._process.returncode is not None:
            self._fault = self._last_words("crashed")
        return self._fault

    async def fault_soon(self) -> Fault | None:
        """Return `fault` after a short wait for a QEMU that is just ending."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._process.wait()), _ENDING_S)
        return self.fault

    @contextlib.contextmanager
    def calling(self, on_fault: Callable[[], None]) -> Iterator[None]:
        """Call `on_fault` if the guest fails within this context."""
        self._on_fault = on_fault
        try:
            yield
        finally:
            self._on_fault = _nobody

    @property
    def console(self) -> str:
        """The end of what the guest wrote on its serial console."""
        return self._console.decode(errors="replace")

    async def execute(self, command: str, **parameters: object) -> Any:
        """Run one QMP command and return its answer. Dashes of parameter names are written as underscores."""
        if self.fault is not None:
            raise FaultError(self.fault)
        named = {name.replace("_", "-"): value for name, value in parameters.items()}
        try:
            return await self._client.execute(command, named)
        except ExecuteError as error:
            message = f"QEMU refused {command}: {error}"
            raise FaultError(Fault("device", "protocol", message, retryable=True)) from error
        except QMPError as error:
            raise FaultError(await self.fault_soon() or self._last_words("crashed")) from error

    async def port(self) -> int:
        """Port of the guest's server on the loopback of its network namespace."""
        forwards = await self.execute("human-monitor-command", command_line="info usernet")
        match = re.search(rf"HOST_FORWARD\]\s+\S+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+{GUEST_PORT}\b", forwards)
        if match is None:
            message = "QEMU does not say where the guest's server is"
            raise FaultError(Fault("device", "protocol", message, retryable=True))
        return int(match[1])

    async def picture(self) -> bytes:
        """The screen as a PPM file: a header with the size, then RGB rows."""
        self._screen.rewind()
        await self.execute("screendump", filename=f"/dev/fdset/{_SCREEN_SET}")
        return self._screen.read()

    async def cpu_seconds(self) -> float:
        """Seconds that the guest's processors have run, or have waited for a CPU of the host.

        This tells a busy guest from an idle one, even on a busy host.
        """
        if not self._cpus:
            threads = [cpu["thread-id"] for cpu in await self.execute("query-cpus-fast")]
            self._cpus = [Path(f"/proc/{self.pid}/task/{thread}/schedstat") for thread in threads]
        try:
            stats = [path.read_text() for path in self._cpus]
        except OSError as error:
            raise FaultError(self.fault or self._last_words("crashed")) from error
        return sum(int(ran) + int(waited) for ran, waited, _ in map(str.split, stats)) / 1e9

    async def save(self, path: Path) -> None:
        """Write the device state of a paused guest, without the RAM: that is in its shared file."""
        await self._follow_migrations(ignore_shared=True)
        with path.open("wb") as file:
            await self._give(file.fileno(), "state")
        await self.execute("migrate", uri="fd:state")
        await self.migrated()

    async def send(self, path: Path) -> None:
        """Copy a paused guest with all its RAM to the QEMU that receives at the unix socket `path`."""
        await self._follow_migrations(ignore_shared=False)
        await self.execute("migrate-set-parameters", max_bandwidth=_UNBOUNDED)
        await self.execute("migrate", uri=f"unix:{path}")
        await self.migrated()

    async def migrated(self) -> None:
        """Wait for the end of a migration, outgoing or incoming. Raises FaultError if it failed."""
        while (status := await self._migration.get()) != "completed":
            if status in ("failed", "cancelled"):
                raise FaultError(self.fault or self._last_words("start_failed"))

    async def stop(self) -> None:
        """End the whole process group and its namespace, and wait for it. Idempotent."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        await self._process.wait()
        with contextlib.suppress(QMPError, OSError, EOFError):  # it was in the middle of something
            await self._client.disconnect()
        for task in self._tasks:
            task.cancel()
        self._control.close()
        self._screen.close()
        await _leave(self.name)

    async def _give(self, file: int, name: str) -> None:
        """Pass an open file to QEMU under the name `name`.

        `QMPClient.send_fd_scm` needs a socket of asyncio's own loop, but the pool runs on uvloop. The file
        goes with a space between two commands. None is pending: while a guest is saved, each command is
        answered before the next is sent.
        """
        try:
            socket.send_fds(self._control, [b" "], [file])
        except OSError as error:
            raise FaultError(await self.fault_soon() or self._last_words("crashed")) from error
        await self.execute("getfd", fdname=name)

    async def _follow_migrations(self, *, ignore_shared: bool) -> None:
        self._migration = asyncio.Queue()  # drops events of an earlier migration that was given up
        wanted = {"events": True, "x-ignore-shared": ignore_shared}
        states = [{"capability": name, "state": state} for name, state in wanted.items()]
        await self.execute("migrate-set-capabilities", capabilities=states)

    async def _hear(self) -> None:
        async for event in self._client.events:
            data: Any = event.get("data", {})
            match str(event["event"]):
                case "MIGRATION":
                    self._migration.put_nowait(data["status"])
                case "BLOCK_IO_ERROR" if data.get("nospace"):
                    self._fail("disk_full", "the disk that holds the guest's changes is full")
                case "BLOCK_IO_ERROR":
                    self._fail("disk", f"the guest's disk failed: {data.get('reason')}")
                case "GUEST_PANICKED":
                    self._fail("crashed", "the guest's kernel panicked")
                case "SHUTDOWN":
                    self._fail("crashed", f"the guest went off: {data.get('reason')}")

    async def _keep_console(self) -> None:
        assert self._process.stdout is not None
        while said := await self._process.stdout.read(_TAIL):
            self._console = (self._console + said)[-_TAIL:]

    async def _keep_errors(self) -> None:
        assert self._process.stderr is not None
        while said := await self._process.stderr.read(_TAIL):
            self._errors = (self._errors + said)[-_TAIL:]
        await self._process.wait()
        self._migration.put_nowait("failed")
        self._on_fault()

    def _fail(self, code: str, message: str) -> None:
        self._fault = self._fault or Fault("device", code, message, retryable=True)
        self._on_fault()

    def _last_words(self, code: str) -> Fault:
        said = self._errors.decode(errors="replace").strip().splitlines()[-1:]
        status = self._process.returncode
        how = "does not answer" if status is None else f"ended with status {status}"
        return Fault("device", code, ": ".join([f"QEMU {how}", *said]), retryable=True)


async def _leave(name: str) -> None:
    with contextlib.suppress(FaultError):  # it was left before, or the gate ended by itself
        await asyncio.to_thread(NETWORK.remove, name)


def _nobody() -> None:
    """Do nothing: the `on_fault` while no verb runs."""
