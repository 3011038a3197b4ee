"""A gold VM: a guest that booted once and was stopped when ready; any number of running forks are made of it.

Its RAM is in a file that every fork maps privately, so a fork shares what it does not change and starts as
fast as QEMU does; its device state is a QEMU migration stream without the RAM (capability `x-ignore-shared`).
A snapshot of a running fork is a gold VM too. The gold VM of an image is kept on disk: a host boots it once.
"""

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from devices.drivers.vm import folders
from devices.drivers.vm.guest import Guest
from devices.drivers.vm.image import Image
from devices.drivers.vm.machine import Machine, Memory, find
from devices.drivers.vm.network import NETWORK
from devices.drivers.vm.qemu import Qemu
from devices.drivers.vm.tools import layer, run
from guiagent.client.local_pool import state_dir
from guiagent.errors import Fault, FaultError

_FORMAT = 1  # increase it when the kept files change
_STILL_S = 2.0
_POLL_S = 0.25
_PPM_HEAD = 20  # bytes, at most
_IDLE_SHARE = 0.2  # of the time that a guest with nothing to do still runs
_BOOT_S = {"kvm": 90.0, "tcg": 600.0}
_FORK_S = 20.0
_SNAPSHOT_S = 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gold:
    """A stopped guest as files: `ram`, `state`, `disk.qcow2`, and a layer over that, `blank.qcow2`."""

    id: str
    folder: Path
    machine: Machine

    @property
    def ready(self) -> bool:
        """True if it has booted on this host."""
        return (self.folder / "ready").exists()

    def drop(self) -> None:
        """Remove its files; running forks go on."""
        folders.remove(self.folder)


class Fork:
    """A running guest: its QEMU, its private folder, and a client of its server."""

    def __init__(self, folder: Path, qemu: Qemu) -> None:
        self.folder = folder
        self.qemu = qemu
        self.socket = folder / "guest"
        self.guest = Guest(self.socket)

    @classmethod
    async def run(cls, folder: Path, qemu: Qemu) -> "Fork":
        """Publish the guest's server and let the guest run. Any failure ends the guest."""
        running = cls(folder, qemu)
        try:
            port = await qemu.port()
            await asyncio.to_thread(NETWORK.publish, qemu.name, port, running.socket)
            await qemu.execute("cont")
        except BaseException:
            await running.close()
            raise
        return running

    async def close(self) -> None:
        """End the guest and remove its folder. Idempotent."""
        await self.guest.close()
        await self.qemu.stop()
        await asyncio.to_thread(folders.remove, self.folder)


async def of(image: Image, machine: Machine) -> Gold:
    """The gold VM of an image and a machine, booted or not."""
    version = (await run(find(), "--version")).partition("\n")[0]
    described = [_FORMAT, version, image.id, asdict(machine)]
    key = hashlib.sha256(msgspec.json.encode(described, enc_hook=str)).hexdigest()[:24]
    return Gold(key, state_dir() / "golds" / key, machine)


async def boot(image: Image, gold: Gold) -> None:
    """Boot a gold VM unless it has booted; wait if another process is booting it. Raises FaultError."""
    try:
        gold.folder.parent.mkdir(parents=True, exist_ok=True)
        async with _locked(gold.folder.with_suffix(".lock")):
            if not gold.ready:
                _log.info("booting the guest image once for this host, about a minute")
                await _boot(image, gold)
    except OSError as error:
        raise _unwritable(error) from error


async def fork(gold: Gold, proxy: Path | None = None) -> Fork:
    """Start a guest from where `gold` stopped; `proxy` is the unix socket of its egress proxy."""
    folder = folders.create()
    disk = folder / "disk.qcow2"
    try:
        shutil.copyfile(gold.folder / "blank.qcow2", disk)
        memory = Memory(gold.folder / "ram", shared=False)
        async with _stage("fork", _FORK_S):
            qemu = await Qemu.start(
                gold.machine, disk, memory, folder.name, state=gold.folder / "state", proxy=proxy
            )
    except OSError as error:
        folders.remove(folder)
        raise _unwritable(error) from error
    except BaseException:
        folders.remove(folder)
        raise
    return await Fork.run(folder, qemu)


async def snapshot(source: Fork, machine: Machine) -> Gold:
    """Make a gold VM of the running guest `source`, which is paused meanwhile.

    The guest is copied into a second QEMU that keeps its RAM in a shared file and never runs. The gold VM is
    removed with this process.
    """
    folder, scratch = folders.create(), folders.create_in_memory(machine.memory_mb)
    made = Gold(folder.name, folder, machine)
    receiver: Qemu | None = None
    try:
        async with _stage("snapshot", _SNAPSHOT_S):
            await source.qemu.execute("stop")
            try:
                await asyncio.to_thread(shutil.copyfile, source.folder / "disk.qcow2", folder / "disk.qcow2")
                memory = Memory(scratch / "ram", shared=True)
                stream = folder / "stream"
                receiver = await Qemu.receive(machine, folder / "disk.qcow2", memory, folder.name, stream)
                await source.qemu.send(stream)
                await receiver.migrated()
            finally:
                await source.qemu.execute("cont")
            await receiver.save(folder / "state")
            await _copy_sparse(scratch / "ram", folder / "ram")
            await layer(folder / "blank.qcow2", folder / "disk.qcow2")
    except BaseException as error:
        made.drop()
        if isinstance(error, OSError):
            raise _unwritable(error) from error
        raise
    finally:
        if receiver is not None:
            await receiver.stop()
        folders.remove(scratch)
    return made


async def _boot(image: Image, wanted: Gold) -> None:
    shutil.rmtree(wanted.folder, ignore_errors=True)  # a boot that did not end well
    _forget_others(image, wanted.folder.parent)
    wanted.folder.mkdir()
    disk = wanted.folder / "disk.qcow2"
    await layer(disk, image.disk)
    folder = folders.create_in_memory(wanted.machine.memory_mb)
    try:
        memory = Memory(folder / "ram", shared=True)
        qemu = await Qemu.start(wanted.machine, disk, memory, folder.name)
    except BaseException:
        folders.remove(folder)
        raise
    booting = await Fork.run(folder, qemu)
    try:
        async with _stage("boot", _BOOT_S[wanted.machine.accel], qemu):
            await booting.guest.wait(_POLL_S)
        async with _stage("desktop", _BOOT_S[wanted.machine.accel], qemu):
            await booting.guest.warm()
            await _until_still(qemu)
        async with _stage("freeze", _SNAPSHOT_S, qemu):
            await qemu.execute("stop")
            await qemu.save(wanted.folder / "state")
            await _copy_sparse(folder / "ram", wanted.folder / "ram")
    finally:
        await booting.close()
    await layer(wanted.folder / "blank.qcow2", disk)
    for file in ("ram", "state", "disk.qcow2", "blank.qcow2"):
        await asyncio.to_thread(_sync, wanted.folder / file)
    (wanted.folder / "ready").write_text(f"{image.disk}\n{image.id}\n")


async def _until_still(qemu: Qemu) -> None:
    """Wait until the screen shows something, unchanged for two seconds, and the guest is idle."""
    loop = asyncio.get_running_loop()
    shown, since, ran = b"", loop.time(), await qemu.cpu_seconds()
    while loop.time() - since < _STILL_S:
        await asyncio.sleep(_POLL_S)
        picture, now = await qemu.picture(), await qemu.cpu_seconds()
        busy = (now - ran) / _POLL_S > _IDLE_SHARE
        ran = now
        if busy or picture != shown or not picture[_PPM_HEAD:].strip(b"\0"):
            shown, since = picture, loop.time()


def _forget_others(image: Image, golds: Path) -> None:
    """Remove the gold VMs of earlier contents of the same image file."""
    for ready in golds.glob("*/ready"):
        disk, _, identity = ready.read_text().partition("\n")
        if disk == str(image.disk) and identity.strip() != image.id:
            shutil.rmtree(ready.parent, ignore_errors=True)
            ready.parent.with_suffix(".lock").unlink(missing_ok=True)


async def _copy_sparse(source: Path, target: Path) -> None:
    """Copy a file; pages that were never written stay holes, which cost neither disk nor memory."""
    await run("cp", "--sparse=always", source, target)


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    """Hold the lock file `path`: one process, and one task of it, at a time."""
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_POLL_S)
        yield


@contextlib.asynccontextmanager
async def _stage(stage: str, seconds: float, qemu: Qemu | None = None) -> AsyncIterator[None]:
    """Limit a stage to `seconds`; its faults name the stage and the last lines of the guest's console."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        message = f"the VM did not finish the stage {stage!r} within {seconds:g} s"
        raise FaultError(_with_console(Fault("device", "deadline", message, retryable=True), qemu)) from error
    except FaultError as error:
        fault = error.fault
        named = Fault(fault.origin, fault.code, f"stage {stage!r}: {fault.message}", fault.retryable)
        raise FaultError(_with_console(named, qemu)) from error


def _with_console(fault: Fault, qemu: Qemu | None) -> Fault:
    if qemu is None or not qemu.console:
        return fault
    tail = qemu.console.strip().splitlines()[-5:]
    return Fault(fault.origin, fault.code, f"{fault.message}; console: {' | '.join(tail)}", fault.retryable)


def _unwritable(error: OSError) -> FaultError:
    full = error.errno == errno.ENOSPC
    message = f"cannot write a VM's files: {error.strerror}: {error.filename or error.filename2}"
    return FaultError(Fault("device", "disk_full" if full else "disk", message, retryable=True))
