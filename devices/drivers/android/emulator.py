"""Android emulator started from an AVD: a private copy, two ports, boot, baseline snapshot, end.

Each emulator runs a copy of its AVD in a folder of its own, which is also its HOME: there it finds our adb
key and its console's password, so that several emulators of one AVD run at once and leave nothing behind.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
import subprocess
from pathlib import Path

import xxhash

from devices import owned, processes
from devices.drivers.android.adb import SERVER, Streams
from devices.drivers.android.backend import Phone
from devices.drivers.android.device import AndroidDevice
from devices.drivers.android.introduction import introduced
from devices.drivers.android.plain import dial
from guiagent.errors import Fault, FaultError, InfrastructureError, MissingProgram, UsageError
from guiagent.types import ResetSpec

KIND = "emulator"
BASE = "guiagent-base"
_FIRST_PORT, _LAST_PORT = 5554, 5682  # of the console, even; adb's is the next
_BOOT_S = 300.0
_PROBE_PAUSE_S = 0.5
_CONSOLE_S = 60.0
_SDK_PLACES = ("ANDROID_HOME", "ANDROID_SDK_ROOT")
_FLAGS = ("-no-window", "-no-audio", "-no-boot-anim", "-no-snapshot", "-no-metrics")
_RESIDUE = "pm list packages | sort; settings list global | sort; find /sdcard -type f 2>/dev/null | sort"
_reserved: set[int] = set()  # console ports of emulators of this process


def find() -> Path:
    """Path of the SDK's emulator. Raises MissingProgram."""
    places = [Path(os.environ[name]) / "emulator" for name in _SDK_PLACES if os.environ.get(name)]
    places.append(Path.home() / "Android" / "Sdk" / "emulator")
    for place in places:
        if os.access(place / "emulator", os.X_OK):
            return place / "emulator"
    if found := shutil.which("emulator"):
        return Path(found)
    raise MissingProgram(
        "no Android emulator found: install the SDK's emulator package and set ANDROID_HOME, "
        'or use a phone by its serial, or the virtual phone (kind "phone")'
    )


def avd_folder(avd: str) -> Path:
    """Folder of an AVD's data. Raises MissingProgram if there is no AVD of that name."""
    given = os.environ.get("ANDROID_AVD_HOME")
    home = Path(given) if given else Path.home() / ".android" / "avd"
    try:
        lines = (home / f"{avd}.ini").read_text().splitlines()
    except OSError:
        known = ", ".join(sorted(path.stem for path in home.glob("*.ini"))) or "none"
        message = f"no AVD {avd!r} in {home} (there: {known}); `avdmanager create avd` makes one"
        raise MissingProgram(message) from None
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    return Path(settings.get("path", home / f"{avd}.avd"))


def reserve_ports() -> int:
    """Reserve an even port that is free together with the next one, until `_reserved.discard`."""
    for console in range(_FIRST_PORT, _LAST_PORT + 1, 2):
        if console in _reserved:
            continue
        try:
            with socket.socket() as first, socket.socket() as second:
                first.bind(("127.0.0.1", console))
                second.bind(("127.0.0.1", console + 1))
        except OSError:
            continue
        _reserved.add(console)
        return console
    raise InfrastructureError(f"all ports for emulators, {_FIRST_PORT} to {_LAST_PORT + 1}, are taken")


class Emulator:
    """One emulator's process, console and snapshots."""

    features = ("adb", "snapshot", "unlimited_egress")

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, console: int, token: str) -> None:
        self.address = f"127.0.0.1:{console + 1}"
        self.pid = process.pid
        self._process = process
        self._folder = folder
        self._console = console
        self._token = token
        self._snapshots = {BASE}

    @classmethod
    def launch(cls, avd: str) -> "Emulator":
        """Start the process of an emulator, which can be driven only minutes later."""
        executable, source = find(), avd_folder(avd)
        with contextlib.ExitStack() as undo:
            folder = owned.create_folder(KIND)
            undo.callback(owned.remove_folder, folder)
            console = reserve_ports()
            undo.callback(_reserved.discard, console)
            token = secrets.token_hex(16)
            environment = _prepare(folder, source, avd, token) | {
                "ANDROID_SDK_ROOT": os.environ.get("ANDROID_SDK_ROOT", str(executable.parents[1]))
            }
            command = [str(executable), "-avd", avd, "-ports", f"{console},{console + 1}", *_FLAGS]
            # The folder in the command line is how a sweep finds it.
            command += ["-datadir", str(folder / "data")]
            with (folder / "log").open("wb") as log:
                process = processes.spawn(command, log, environment)
            undo.pop_all()
        return cls(process, folder, console, token)

    async def ready(self, phone: Phone) -> None:
        """Wait until the emulator answers with fresh data, which no snapshot can contain.

        `sys.boot_completed` is not enough, since a snapshot restores it as true.
        """
        async with asyncio.timeout(_BOOT_S):
            while True:
                try:
                    booted = (await phone.checked("getprop sys.boot_completed")).strip() == b"1"
                    if booted:
                        await phone.probe_fresh()
                        return
                except FaultError:
                    self.require_running()
                await asyncio.sleep(_PROBE_PAUSE_S)

    def require_running(self) -> None:
        if self._process.poll() is not None:
            lines = (self._folder / "log").read_text(errors="replace").splitlines()
            said = lines[-1][:300] if lines else "it said nothing"
            raise FaultError(Fault("device", "crashed", f"the emulator ended: {said}", retryable=True))

    async def console(self, command: str) -> list[str]:
        """Send a command to the emulator's console and return its answer. Raises FaultError if it refuses."""
        self.require_running()
        try:
            async with asyncio.timeout(_CONSOLE_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._console)
                try:
                    await _answer(reader)  # the greeting
                    for line in (f"auth {self._token}", command):
                        writer.write(f"{line}\r\n".encode())
                        answer = await _answer(reader)
                    return answer
                finally:
                    writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            message = f"the emulator's console: {error or 'no answer'}"
            raise FaultError(Fault("device", "console", message, retryable=True)) from error

    # -- keeping its state ---------------------------------------------------------------------------------

    async def restore(self, phone: Phone, seed: int, baseline: ResetSpec) -> str:
        if baseline.state is not None:
            raise UsageError("an emulator's state is no document; use a snapshot, or the virtual phone")
        name = baseline.snapshot or BASE
        if name not in self._snapshots:
            raise UsageError(f"this emulator has no snapshot {name!r}, and others' cannot be loaded into it")
        await self.console(f"avd snapshot load {name}")
        await phone.reconnect()  # the guest's adbd is the snapshot's
        await self.ready(phone)
        return ""

    async def snapshot(self, phone: Phone) -> str:
        name = f"guiagent-{secrets.token_hex(8)}"
        await self.keep(name)
        return name

    async def keep(self, name: str) -> None:
        await self.console(f"avd snapshot save {name}")
        self._snapshots.add(name)

    async def attest(self, phone: Phone) -> str:
        return xxhash.xxh3_64_hexdigest(await phone.checked(_RESIDUE))

    async def connect(self) -> Streams:
        return await introduced(await dial(self.address), self._folder / ".android" / "adbkey")

    async def close(self) -> None:
        await asyncio.to_thread(owned.stop, self._process)
        await asyncio.to_thread(owned.end_all, self._folder)
        _reserved.discard(self._console)
        await asyncio.to_thread(owned.remove_folder, self._folder)


async def start(avd: str) -> AndroidDevice:
    """Boot an emulator and save its state as the baseline snapshot."""
    await SERVER.acquire()
    try:
        emulator = await asyncio.to_thread(Emulator.launch, avd)
        try:
            async with asyncio.timeout(_BOOT_S):
                phone = await AndroidDevice.attach(
                    SERVER, emulator.address, emulator.address, emulator, _BOOT_S
                )
                await emulator.ready(phone)
            await emulator.keep(BASE)
        except TimeoutError:
            message = f"the emulator of {avd!r} was not ready within {_BOOT_S:g} s"
            await emulator.close()
            raise FaultError(Fault("device", "start_failed", message, retryable=True)) from None
        except BaseException:
            await emulator.close()
            raise
        return phone
    finally:
        await SERVER.release()


def _prepare(folder: Path, source: Path, avd: str, token: str) -> dict[str, str]:
    """Copy the AVD, and lay out a HOME with our adb key and the console's password."""
    target = folder / "avd" / f"{avd}.avd"
    target.parent.mkdir()
    skip = shutil.ignore_patterns("*.lock", "snapshots", "multiinstance.lock", "hardware-qemu.ini")
    shutil.copytree(source, target, ignore=skip)
    (folder / "avd" / f"{avd}.ini").write_text(f"avd.ini.encoding=UTF-8\npath={target}\n")
    (folder / "data").mkdir()
    (folder / ".android").mkdir()
    shutil.copy(SERVER.public_key, folder / ".android" / "adbkey.pub")
    shutil.copy(SERVER.public_key.with_suffix(""), folder / ".android" / "adbkey")
    password = folder / ".emulator_console_auth_token"
    password.touch(0o600)
    password.write_text(token)
    return {"HOME": str(folder), "ANDROID_AVD_HOME": str(target.parent)}


async def _answer(reader: asyncio.StreamReader) -> list[str]:
    """Lines up to the console's OK. Raises FaultError for its KO."""
    lines: list[str] = []
    while len(lines) < 1000:
        line = (await reader.readuntil(b"\n")).decode("utf-8", "replace").strip()
        if line == "OK":
            return lines
        if line.startswith("KO"):
            raise FaultError(
                Fault("device", "console", f"the emulator refused: {line[:200]}", retryable=True)
            )
        lines.append(line)
    raise FaultError(
        Fault("device", "console", "the emulator's console does not stop talking", retryable=True)
    )
