"""The virtual phone as a device: its process, and its whole state as one document (`devices.phone`).

A lease holder reaches it with adb through a tunnel to `connect("adb")`, which leads to a Unix socket of the
phone. The socket asks for no key, since only its host can open its folder. The port on loopback, which any
process of the host can reach, accepts only the host's own adb server.
"""

import asyncio
import contextlib
import json
import os
import secrets
import sys
from pathlib import Path
from typing import IO

from devices import owned, processes
from devices.chromium import process as chromium
from devices.config import PhoneConfig
from devices.drivers.android.adb import SERVER, Streams
from devices.drivers.android.backend import Phone
from devices.drivers.android.device import AndroidDevice
from devices.processes import Confined
from guiagent.errors import Fault, FaultError, InfrastructureError, MissingProgram, UsageError
from guiagent.types import ResetSpec

KIND = "phone"
_CODE = Path(__file__).parents[2]
_START_S = 20.0
_STOP_S = 3.0
_MAX_SNAPSHOTS = 256
_SAYS = "phone: "  # begins what `devices.phone` says when it cannot go on
_snapshots: dict[str, bytes] = {}  # documents by name, shared by the phones of this process


class VirtualPhone:
    """The process of one virtual phone, and the `PhoneBackend` of its state."""

    features = ("adb", "snapshot", "fork", "state")

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, keys: IO[bytes]) -> None:
        self.pid = process.pid
        self.address = ""
        self._process = process
        self._folder = folder
        self._keys = keys  # a pipe to the process

    @classmethod
    async def launch(cls, config: PhoneConfig) -> "VirtualPhone":
        """Start the process; `come_up` must follow, with the public key that may drive the phone."""
        shell = chromium.headless_shell()
        folder = owned.create_folder(KIND)
        try:
            confined = await asyncio.to_thread(_confine, folder, shell, config.allow_unisolated)
        except BaseException:
            owned.remove_folder(folder)
            raise
        command = [*confined.command, sys.executable, "-m", "devices.phone"]
        command += [f"--width={config.width}", f"--height={config.height}"]
        if config.allow_unisolated or confined.user is not None:  # then its browser needs no other wall
            command.append("--allow-unisolated")
        reading, writing = os.pipe()
        if confined.user is not None:  # it opens the pipe by its name
            os.fchown(reading, confined.user, confined.user)
        command += [f"--keys=/dev/fd/{reading}", f"--folder={folder / 'root'}", f"--socket={folder / 'adb'}"]
        with (folder / "log").open("wb") as log, os.fdopen(reading, "rb"):
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=_CODE,
                env=confined.environment,
                start_new_session=True,
                pass_fds=(reading,),
            )
        return cls(process, folder, os.fdopen(writing, "wb"))

    async def come_up(self, key: Path) -> None:
        assert self._process.stdout is not None
        self._give(key)
        try:
            async with asyncio.timeout(_START_S):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise FaultError(
                Fault("device", "start_failed", f"no phone within {_START_S:g} s", True)
            ) from None
        if line:
            self.address = f"127.0.0.1:{json.loads(line)['port']}"
            return
        code = await self._process.wait()
        said = last_words((self._folder / "log").read_text(errors="replace")) or f"exit code {code}"
        for missing in (MissingProgram, InfrastructureError):
            if code == missing.exit_code:
                raise missing(said)
        raise FaultError(Fault("device", "start_failed", f"the virtual phone: {said}", retryable=True))

    def _give(self, key: Path) -> None:
        with contextlib.suppress(BrokenPipeError), self._keys:  # it may have left, and said why
            self._keys.write(key.read_bytes())

    # -- keeping its state ---------------------------------------------------------------------------------

    async def restore(self, phone: Phone, seed: int, baseline: ResetSpec) -> str:
        if baseline.snapshot is None and baseline.state is None:
            return f"guiagent state reset {int(seed)}"
        if baseline.snapshot is not None:
            document = _snapshots.get(baseline.snapshot)
            if document is None:
                raise UsageError(f"no snapshot {baseline.snapshot!r} on this host")
            await phone.checked("guiagent state put", document)
        else:
            await phone.checked(f"guiagent state reset {int(seed)}")
        if baseline.state is not None:
            await phone.checked("guiagent state merge", json.dumps(baseline.state).encode())
        return ""

    async def snapshot(self, phone: Phone) -> str:
        document = await phone.checked("guiagent state get")
        name = f"phone-{secrets.token_hex(8)}"
        _snapshots[name] = document
        if len(_snapshots) > _MAX_SNAPSHOTS:
            del _snapshots[next(iter(_snapshots))]
        return name

    async def attest(self, phone: Phone) -> str:
        return (await phone.checked("guiagent attest")).decode("ascii", "replace").strip()

    async def connect(self) -> Streams:
        try:
            return await asyncio.open_unix_connection(str(self._folder / "adb"))
        except OSError as error:
            raise FaultError(
                Fault("device", "crashed", f"the phone has left: {error}", retryable=True)
            ) from None

    async def close(self) -> None:
        """End the phone and its browser, wait for both, and remove its folder. Idempotent."""
        if self._process.stdin is not None:
            self._process.stdin.close()  # it leaves by itself, and takes its browser along
        with contextlib.suppress(BrokenPipeError):
            self._keys.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_S):
                await self._process.wait()
        await asyncio.to_thread(owned.end_all, self._folder)  # it, and a browser that it left behind
        await self._process.wait()
        await asyncio.to_thread(owned.remove_folder, self._folder)


def _confine(folder: Path, shell: chromium.Executable, allow_unisolated: bool) -> Confined:
    reads = [Path(sys.prefix), Path(sys.base_prefix), _CODE, Path(sys.executable).parent, *shell.reads]
    return processes.confine(
        folder, reads, {"GUIAGENT_CHROMIUM": shell.path}, allow_unisolated=allow_unisolated
    )


async def start(config: PhoneConfig) -> AndroidDevice:
    """Start one virtual phone in the initial state of seed 0.

    Raises InfrastructureError without a headless shell or adb, FaultError if it does not start.
    """
    phone = await VirtualPhone.launch(config)
    try:
        await SERVER.acquire()  # while the phone comes up
        try:
            await phone.come_up(SERVER.public_key)
            return await AndroidDevice.attach(SERVER, phone.address, phone.address, phone)
        finally:
            await SERVER.release()
    except BaseException:
        await phone.close()
        raise


def last_words(log: str) -> str:
    """What a phone said when it ended: its own last line, if it has one, else the last one; "" if none.

    Python may log a broken pipe to the dead browser after it.
    """
    lines = log.splitlines()
    own = [line.removeprefix(_SAYS) for line in lines if line.startswith(_SAYS)]
    return next(iter((own or lines)[-1:]), "")[:300]


def sweep() -> int:
    return owned.sweep(KIND) + owned.sweep("adb")
