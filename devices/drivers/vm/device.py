"""A virtual machine as a `Device`: a fork of a gold VM, driven through QEMU's screen, keyboard and tablet.

A reset ends the guest and forks another, so nothing of the last lease holder can be left.
"""

import asyncio
import atexit
import contextlib
import re
import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import xxhash

from devices.drivers import UnsupportedAction
from devices.drivers.vm import folders
from devices.drivers.vm import gold as golds
from devices.drivers.vm.gold import Fork, Gold
from devices.drivers.vm.input import Batch, batches, typeable
from devices.drivers.vm.screen import Camera, busy
from devices.egress.proxy import EgressProxy
from guiagent.actions import Action, Answer, Done, LongPress, MouseDown, MouseUp, Open, Shell, Type, Wait
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.types import Capabilities, CommandResult, Health, Observation, ObserveSpec, ResetSpec

_VERB_DEADLINE_S = 30.0
_START_DEADLINE_S = 60.0
_FILE_DEADLINE_S = 120.0
_HEALTH_DEADLINE_S = 5.0
_SHELL_S = 60.0
_GRACE_S = 5.0  # for ending a command
_OPEN_CAP_S, _LOOK_S = 15.0, 0.1  # for a window to appear; between two looks
_MAX_SNAPSHOTS = 8
_PROGRAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_URL = re.compile(r"(https?://|about:|file:///)\S+")
_BLANK = ResetSpec()
# A virtual keyboard has a queue of 64 events and drops what does not fit; a key up or down is two of them.
_BURST = 12
_TAKEN_WINDOW_S = 0.01
_TAKEN_CAP_S = 0.5

_SNAPSHOTS: dict[str, Gold] = {}
"""By name, of all VMs of this process: a sibling is reset to what another VM was."""


@atexit.register
def _drop_snapshots() -> None:
    for gold in _SNAPSHOTS.values():
        gold.drop()


class VmDevice:
    """A VM with `Device`, `Shell`, `Files`, `Snapshots`, `Services` and `Networked` of `guiagent.protocols`.

    Attributes:
        pid: process id of QEMU, which leads a process group of its own.
    """

    def __init__(self, gold: Gold, proxy: EgressProxy, folder: Path, vm: Fork, *, ours: bool) -> None:
        self._gold = gold
        self._proxy = proxy
        self._folder = folder
        self._ours = ours
        self._snapshots: list[str] = []  # of this VM, the longest unused first
        self._note: str | None = None
        self._output: str | None = None
        self._enter(gold, vm)

    @classmethod
    async def start(cls, gold: Gold, *, ours: bool) -> "VmDevice":
        """Start a fork of `gold`, ready to be driven; `ours`: its image was built by this project."""
        folder = folders.create()
        proxy = await EgressProxy.start(folder / "proxy")
        try:
            vm = await golds.fork(gold, folder / "proxy")
        except BaseException:
            await proxy.close()
            folders.remove(folder)
            raise
        device = cls(gold, proxy, folder, vm, ours=ours)
        try:
            async with device._verb("start", _START_DEADLINE_S):
                await device._come_up()
        except BaseException:
            await device.close()
            raise
        return device

    @property
    def pid(self) -> int:
        return self._vm.qemu.pid

    async def describe(self) -> Capabilities:
        machine = self._gold.machine
        features = ["shell", "files", "snapshot", "fork", "osworld", *(["a11y"] if self._ours else [])]
        software, image = f"QEMU ({machine.accel})", self._gold.id
        return Capabilities("vm", machine.width, machine.height, features, software, image)

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        """End the guest and fork the baseline: the freshly booted desktop, or a snapshot."""
        gold = self._named(baseline)
        await self._vm.close()
        self._enter(gold, await golds.fork(gold, self._folder / "proxy"))
        async with self._verb("reset", _START_DEADLINE_S):
            await self._come_up()
            return await self._observe(spec)

    async def observe(self, spec: ObserveSpec) -> Observation:
        async with self._verb("observe", _VERB_DEADLINE_S):
            return await self._observe(spec)

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        waits_s = sum(action.ms for action in actions if isinstance(action, Wait | LongPress)) / 1000
        waits_s += sum(_SHELL_S for action in actions if isinstance(action, Shell))
        async with self._verb("act", _VERB_DEADLINE_S + waits_s):
            self._note = self._output = None
            for action in actions:
                try:
                    await self._perform(action)
                except UnsupportedAction as error:
                    self._note = str(error)
                    break
            await self._camera.settle()
            return await self._observe(spec)

    async def health(self) -> Health:
        """Check that QEMU runs the guest, and that the guest's server answers."""
        try:
            async with self._verb("health", _HEALTH_DEADLINE_S):
                status = (await self._vm.qemu.execute("query-status"))["status"]
                answers = await self._vm.guest.answers()
        except FaultError as error:
            return Health(False, str(error))
        if status != "running":
            return Health(False, f"the guest is {status}")
        return Health(answers, "" if answers else "the guest's server does not answer")

    async def attest(self) -> str:
        """Digest of the baseline's id, and, for an image of ours, of the windows and the user's programs."""
        left = [self._baseline.id]
        if self._ours:
            async with self._verb("attest", _VERB_DEADLINE_S):
                left.append((await self._vm.guest.windows()).decode(errors="replace"))
                listed = await self._vm.guest.run(["ps", "-u", "user", "-o", "comm="])
                left += sorted(set(listed.stdout.split("\n")))
        return xxhash.xxh3_64_hexdigest(repr(left).encode())

    async def close(self) -> None:
        await self._vm.close()
        await self._proxy.close()
        folders.remove(self._folder)

    # -- by capability ---------------------------------------------------------------------------------------

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        """Run a program; exit status 124 means that it was ended after `timeout_s` seconds."""
        async with self._verb("exec", timeout_s + _GRACE_S):
            return await self._vm.guest.run(["timeout", "-k", "1", f"{timeout_s:.1f}", *command])

    async def put(self, path: str, data: bytes) -> None:
        async with self._verb("put", _FILE_DEADLINE_S):
            await self._vm.guest.put(path, data)

    async def get(self, path: str) -> bytes:
        async with self._verb("get", _FILE_DEADLINE_S):
            return await self._vm.guest.get(path)

    async def snapshot(self) -> str:
        """Save the guest, which is paused for seconds, and return the snapshot's name.

        Eight snapshots are kept per VM; the one unused for longest is removed first.
        """
        made = await golds.snapshot(self._vm, self._gold.machine)
        name = secrets.token_hex(16)
        _SNAPSHOTS[name] = made
        self._snapshots.append(name)
        if len(self._snapshots) > _MAX_SNAPSHOTS:
            _SNAPSHOTS.pop(self._snapshots.pop(0)).drop()
        return name

    async def connect(self, service: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if service != "osworld":
            raise UsageError(f"a VM has no service {service!r}; it has 'osworld'")
        try:
            return await asyncio.open_unix_connection(str(self._vm.socket))
        except OSError as error:
            message = f"the guest cannot be reached: {error.strerror}"
            raise FaultError(Fault("device", "unreachable", message, retryable=True)) from error

    async def allow(self, egress: Sequence[str]) -> None:
        self._proxy.allow(egress)

    # -- inside ----------------------------------------------------------------------------------------------

    def _enter(self, baseline: Gold, vm: Fork) -> None:
        self._baseline = baseline
        self._vm = vm
        self._camera = Camera(vm.qemu)
        self._note = self._output = None

    async def _come_up(self) -> None:
        """Wait until the guest answers and shows a picture now; a snapshot's own memory proves nothing."""
        await self._vm.guest.wait()
        await self._vm.qemu.picture()

    def _named(self, baseline: ResetSpec) -> Gold:
        if baseline.snapshot is None:
            if baseline != _BLANK:
                raise UsageError("a VM is reset to its desktop or to a snapshot; it has no pages or profiles")
            return self._gold
        gold = _SNAPSHOTS.get(baseline.snapshot)
        if gold is None or gold.machine != self._gold.machine:
            raise UsageError(f"there is no snapshot {baseline.snapshot!r} of a VM like this here")
        if baseline.snapshot in self._snapshots:
            self._snapshots.remove(baseline.snapshot)
            self._snapshots.append(baseline.snapshot)
        return gold

    async def _observe(self, spec: ObserveSpec) -> Observation:
        tree = await self._vm.guest.tree() if spec.tree else None
        machine = self._gold.machine
        size, picture, digest = (machine.width, machine.height), b"", ""
        if spec.frame != "none":
            frame = await self._camera.frame(spec)
            size, picture, digest = (frame.width, frame.height), frame.data, frame.hash
        said = {"action_error": self._note, "output": self._output}
        return Observation.of(size, picture, spec, digest, tree=tree, **said)

    async def _perform(self, action: Action) -> None:
        match action:
            case Answer() | Done():
                pass  # words to the user; nothing on the screen moves
            case Wait():
                await asyncio.sleep(action.ms / 1000)
            case LongPress():
                await self._perform(MouseDown(x=action.x, y=action.y))
                await asyncio.sleep(action.ms / 1000)
                await self._perform(MouseUp(x=action.x, y=action.y))
            case Shell():
                result = await self._vm.guest.run(["timeout", str(_SHELL_S), "sh", "-c", action.command])
                self._output = result.stdout + result.stderr
            case Open():
                await self._open(action.target)
            case Type() if not all(map(typeable, action.text.replace("\r\n", "\n"))):
                if refusal := await self._vm.guest.act([action.model_dump(mode="json")]):
                    raise UnsupportedAction(refusal)
            case _:
                machine = self._gold.machine
                await self._send(batches(action, machine.width, machine.height))

    async def _send(self, input: Sequence[Batch]) -> None:
        for sent, batch in enumerate(input, start=1):
            await self._vm.qemu.execute("input-send-event", events=batch)
            if sent % _BURST == 0:
                await self._until_taken()

    async def _until_taken(self) -> None:
        """Wait until the guest is idle, so that it has emptied its input queue; with a cap."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TAKEN_CAP_S):
                while await busy(self._vm.qemu, _TAKEN_WINDOW_S):
                    pass

    async def _open(self, target: str) -> None:
        if _URL.fullmatch(target):
            command = ["xdg-open", target]
        elif _PROGRAM.fullmatch(target):
            command = [target]
        else:
            raise UnsupportedAction(f"{target[:80]!r} is neither a program's name nor a page")
        before = await self._windows()
        if refusal := await self._vm.guest.launch(command):
            raise UnsupportedAction(refusal)
        if before and command[0] == "xdg-open":
            return  # a running browser may use a window it has
        # Keys that are sent before a window is there would be lost.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_OPEN_CAP_S):
                while not await self._windows() - before:  # noqa: ASYNC110  # the guest sends no events
                    await asyncio.sleep(_LOOK_S)

    async def _windows(self) -> set[str]:
        """Ids of the guest's windows; none if its image has no wmctrl."""
        listed = await self._vm.guest.run(["wmctrl", "-l"])
        return {line.split()[0] for line in listed.stdout.splitlines() if line.strip()}

    @contextlib.asynccontextmanager
    async def _verb(self, verb: str, seconds: float) -> AsyncIterator[None]:
        """Set a deadline that expires at once when the guest fails: the fault then says why it failed."""
        qemu = self._vm.qemu
        try:
            async with asyncio.timeout(seconds) as deadline:
                with qemu.calling(lambda: deadline.reschedule(0)):
                    yield
        except TimeoutError as error:
            message = f"the VM did not finish {verb!r} within {seconds:g} s"
            late = Fault("device", "deadline", message, retryable=True)
            raise FaultError(qemu.fault or late) from error
        except FaultError as error:
            if error.fault.origin == "device" and (fault := await qemu.fault_soon()):
                raise FaultError(fault) from error
            raise
