"""A desktop as a `Device`: actions by XTEST, frames from the X server's memory, settled by damage.

Every action starts on a quiet screen: after each one, the window manager and the active program must answer
that they have processed it, then nothing may be painted for 30 ms (`settle.py`). A reset is a new session
(`session.py`).
"""

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

from devices import owned
from devices.config import DesktopConfig
from devices.drivers import UnsupportedAction
from devices.drivers.deadline import deadline
from devices.drivers.desktop import sandbox
from devices.drivers.desktop.applications import command_for, is_url
from devices.drivers.desktop.input import strokes
from devices.drivers.desktop.packages import installed
from devices.drivers.desktop.session import Session, require_programs
from devices.drivers.desktop.x11 import XError
from devices.egress.proxy import EgressProxy
from devices.leases import PUBLIC
from guiagent.actions import Action, Answer, Done, LongPress, Open, Shell, Swipe, Wait
from guiagent.errors import Fault, FaultError, InfrastructureError, UsageError
from guiagent.types import Capabilities, CommandResult, Health, Observation, ObserveSpec, ResetSpec

_START_DEADLINE_S = 45.0
_VERB_DEADLINE_S = 30.0
_HEALTH_DEADLINE_S = 4.0
_OPEN_S = 15.0  # for the first window of an application
_SHELL_S = 20.0
_MAX_OUTPUT = 16_384  # characters of a shell action's output


class DesktopDevice:
    """A desktop with `Device`, `Shell`, `Files`, `Services` and `Networked`; one verb at a time."""

    def __init__(self, folder: Path, config: DesktopConfig, egress: EgressProxy, warning: str) -> None:
        self.session: Session
        self._folder = folder
        self._config = config
        self._egress = egress
        self._warning = warning  # why there is no isolation, or ""
        self._note: str | None = None
        self._output: str | None = None
        self._closed = False

    @classmethod
    async def start(cls, config: DesktopConfig) -> "DesktopDevice":
        """Start a desktop. Raises InfrastructureError where it cannot be isolated and nobody allowed that."""
        require_programs(config.rootfs)
        warning = await asyncio.to_thread(sandbox.why_not_isolated)
        if warning and not config.allow_unisolated:
            raise InfrastructureError(
                f"programs of a desktop cannot be kept from this machine: {warning}; "
                "--allow-unisolated runs them all the same"
            )
        folder = owned.create_folder(sandbox.KIND)
        socket = folder / "egress.sock"
        egress = await EgressProxy.start(socket)
        socket.chmod(0o666)  # for the sandbox's user; the folder keeps others out
        device = cls(folder, config, egress, warning)
        try:
            async with _answering("start", _START_DEADLINE_S):
                device.session = await device._new_session()
        except BaseException:
            await device.close()
            raise
        return device

    async def describe(self) -> Capabilities:
        width, height = self._config.width, self._config.height
        programs, image = await asyncio.to_thread(installed, self._config.rootfs or Path("/"))
        if self._warning:
            software = f"{programs or 'Xvfb, openbox'}; NOT ISOLATED from this machine ({self._warning})"
            return Capabilities("desktop", width, height, ["a11y"], software, image)
        features = ["a11y", "shell", "files", "osworld"]
        software = programs or "Xvfb, openbox, bubblewrap"
        return Capabilities("desktop", width, height, features, software, image)

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        """Throw the session away and start another; open the baseline's page if it names one.

        A desktop has nothing to seed. Raises UsageError for baselines that only other kinds have.
        """
        if baseline.script or baseline.snapshot or baseline.profile or baseline.state is not None:
            raise UsageError(
                "a desktop is reset to `url` alone: it has no script, snapshot, profile or state"
            )
        async with _answering("reset", _START_DEADLINE_S):
            self._note = self._output = None
            _, self.session = await asyncio.gather(self.session.stop(), self._new_session())
            if baseline.url != "about:blank":
                await self._open(baseline.url)
                await self.session.display.settle()
            return await self._observe(spec)

    async def observe(self, spec: ObserveSpec) -> Observation:
        async with self._verb("observe"):
            return await self._observe(spec)

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        """Carry out actions in order until one fails; each starts on a quiet screen."""
        waits_s = sum(action.ms for action in actions if isinstance(action, Wait | LongPress | Swipe)) / 1000
        async with self._verb("act", waits_s + _SHELL_S * sum(isinstance(one, Shell) for one in actions)):
            self._note = self._output = None
            for action in actions:
                try:
                    await self._perform(action)
                except UnsupportedAction as error:
                    self._note = str(error)
                    break
            return await self._observe(spec)

    async def health(self) -> Health:
        if dead := self.session.dead():
            return Health(False, f"{dead} ended")
        try:
            async with _answering("health", _HEALTH_DEADLINE_S):
                await self.session.display.sync()
        except FaultError as error:
            return Health(False, str(error))
        return Health(True)

    async def attest(self) -> str:
        """Digest of the files in the overlay, processes, windows, selections and pressed buttons."""
        async with self._verb("attest"):
            return await self.session.digest()

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        async with self._verb("exec", timeout_s):
            return await self.session.guest.exec(command, timeout_s)

    async def put(self, path: str, data: bytes) -> None:
        async with self._verb("put"):
            await self.session.guest.put(path, data)

    async def get(self, path: str) -> bytes:
        async with self._verb("get"):
            return await self.session.guest.get(path)

    async def connect(self, service: str) -> tuple[StreamReader, StreamWriter]:
        """Open a connection to the guest server (service "osworld"), which speaks OSWorld's interface."""
        if service != "osworld" or self._warning:
            raise UsageError(f"this desktop does not speak {service!r}")
        async with self._verb("connect"):
            return await self.session.guest.stream()

    async def allow(self, egress: Sequence[str]) -> None:
        """Set the rules of the HTTP(S) proxy, the only egress. Raises UsageError for an invalid rule."""
        if self._warning and tuple(egress) != PUBLIC:
            raise UsageError(f"this desktop is not isolated and reaches all ({self._warning})")
        self._egress.allow(egress)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if hasattr(self, "session"):
            await self.session.stop()
        await self._egress.close()
        await asyncio.to_thread(owned.remove_folder, self._folder)

    async def _new_session(self) -> Session:
        return await Session.start(
            self._folder, self._config, self._folder / "egress.sock", not self._warning
        )

    async def _observe(self, spec: ObserveSpec) -> Observation:
        display, capture = self.session.display, self.session.capture
        frame, digest = b"", ""
        if spec.frame != "none":
            cursor = await display.cursor()
            moment = (display.paints, cursor)
            taken = capture.current(moment, spec.frame, spec.quality)
            if taken is None:
                take = partial(capture.take, moment, cursor, spec.frame, spec.quality)
                taken = await asyncio.to_thread(take)
            frame, digest = taken
        return Observation.of(
            (self._config.width, self._config.height),
            frame,
            spec,
            digest,
            title=await display.title() if spec.page else None,
            tree=await self.session.guest.tree() if spec.tree else None,
            action_error=self._note,
            output=self._output,
        )

    async def _perform(self, action: Action) -> None:
        display = self.session.display
        match action:
            case Answer() | Done():
                return  # words to the user; nothing on the screen moves
            case Wait():
                await asyncio.sleep(action.ms / 1000)
                return
            case Open():
                await self._open(action.target)
            case Shell():
                await self._shell(action.command)
            case _:
                for stroke in strokes(action, display.keymap):
                    if stroke.loan.taken:
                        await display.typed()
                    display.remap(stroke.loan.keysyms)
                    display.play(stroke.events)
                    if stroke.pause_ms is None:
                        await display.processed()
                    else:
                        await asyncio.sleep(stroke.pause_ms / 1000)
        await display.settle()

    async def _open(self, target: str) -> None:
        display = self.session.display
        command = await asyncio.to_thread(command_for, target, self._config.rootfs or Path("/"))
        if command is None:
            raise UnsupportedAction(f"there is no application {target!r} on this desktop")
        windows = await display.windows()
        running = is_url(target) and bool(windows)  # a running browser may use a window it has
        paints = display.paints if running else None
        await self.session.guest.launch(command)
        await display.opened(set(windows), paints, _OPEN_S)

    async def _shell(self, command: str) -> None:
        if self._warning:
            raise UnsupportedAction("this desktop is not isolated and runs no commands")
        try:
            result = await self.session.guest.exec(["/bin/sh", "-c", command], _SHELL_S)
        except FaultError as error:
            if error.fault.origin != "task":
                raise
            raise UnsupportedAction(error.fault.message) from error
        self._output = (result.stdout + result.stderr)[:_MAX_OUTPUT]
        if result.code:
            self._note = f"the command ended with status {result.code}"

    @contextlib.asynccontextmanager
    async def _verb(self, verb: str, more_s: float = 0.0) -> AsyncIterator[None]:
        """Set a deadline; raise FaultError if the session has died before or after the verb."""
        if dead := self.session.dead():
            raise _ended(dead)
        async with _answering(verb, _VERB_DEADLINE_S + more_s):
            yield
        if dead := self.session.dead():
            raise _ended(dead)


def _ended(what: str) -> FaultError:
    return FaultError(Fault("device", "crashed", f"{what} of the desktop ended", retryable=True))


@contextlib.asynccontextmanager
async def _answering(verb: str, seconds: float) -> AsyncIterator[None]:
    """In time, and without a refusal of the X server's; else a fault."""
    try:
        async with deadline("the desktop", verb, seconds):
            yield
    except XError as error:
        message = f"the X server refused {verb!r}: {error}"
        raise FaultError(Fault("device", "protocol", message, retryable=True)) from error
