"""A phone behind adb as a `Device`: real, emulated or virtual, which the phone's own properties tell.

Verbs are scripts for the phone's own shell, as few as possible, because every round trip over adb costs time.
The virtual phone draws only on request, so its frame comes with the input or a reset in one round trip.
"""

import asyncio
import contextlib
import hashlib
import json
import re
import shlex
import time
from collections.abc import Sequence

from devices.drivers import UnsupportedAction
from devices.drivers.android import actions, files
from devices.drivers.android.actions import Command
from devices.drivers.android.adb import AdbError, AdbServer, ShellResult, Streams, lost
from devices.drivers.android.backend import PhoneBackend
from devices.drivers.android.screen import AndroidScreen, Screen, VirtualScreen, frame_command
from devices.drivers.deadline import deadline
from guiagent.actions import Action, Answer, Done, Open, Shell, Type, Wait
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.types import (
    Capabilities,
    CommandResult,
    Health,
    Node,
    Observation,
    ObserveSpec,
    ResetSpec,
)

_VERB_S = 30.0
_HEALTH_S = 5.0
_RETRY_S = 0.5
_MAX_PRINTED = 64 << 10
_PROBE = "getprop ro.guiagent.virtual; getprop ro.product.model; getprop ro.build.version.release; wm size"
_SIZE = re.compile(r"(?:Override|Physical) size: (\d{2,5})x(\d{2,5})")


class AndroidDevice:
    """A phone with `Device`, `Shell`, `Files`, `Snapshots` and `Services` of `guiagent.protocols`.

    Attributes:
        serial: as adb lists it.
        address: its host:port on TCP, for a new connection after a break; "" on USB.
    """

    def __init__(self, server: AdbServer, serial: str, address: str, backend: PhoneBackend) -> None:
        self.serial = serial
        self.address = address
        self._server = server
        self._backend = backend
        self._screen: Screen
        self._virtual = False
        self._software = ""
        self._labels: dict[str, str] | None = None  # of the virtual phone's apps; None: not asked yet
        self._keyboard: bool | None = None  # ADBKeyboard is there; None: not asked yet

    @classmethod
    async def attach(
        cls, server: AdbServer, serial: str, address: str, backend: PhoneBackend, within_s: float = 0.0
    ) -> "AndroidDevice":
        """Drive a phone that is running, or that will answer within `within_s` seconds.

        Raises FaultError if it does not answer, or does not trust this host.
        """
        await server.acquire()
        device = cls(server, serial, address, backend)
        try:
            async with deadline("the phone", "start", within_s + _VERB_S):
                await device._come_up(within_s)
        except BaseException:
            await device.close()
            raise
        return device

    # -- the contract --------------------------------------------------------------------------------------

    async def describe(self) -> Capabilities:
        kind = "phone" if self._virtual else "android"
        features = ["shell", "files", "a11y", "touch", *self._backend.features]
        return Capabilities(kind, self._screen.width, self._screen.height, features, self._software)

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        """Reset to the initial state or the baseline's, then open `baseline.url` unless it is about:blank."""
        _require_no_page(spec, baseline)
        async with deadline("the phone", "reset", 2 * _VERB_S):
            left = await self._backend.restore(self, seed, baseline)
            if self._virtual and left and spec.frame != "none" and baseline.url == "about:blank":
                frame = await self.checked(f"{left} && {frame_command(spec.frame, spec.quality)}")
                return self._observation(frame, spec, await self._tree(spec), None, None)
            if left:
                await self.checked(left)
            if baseline.url != "about:blank":
                note = await self._run_all([await self._opening(baseline.url)])
                if note is not None:
                    raise FaultError(Fault("task", "unreachable", note))
            await self._screen.settle()
            return await self._observe(spec, None)

    async def observe(self, spec: ObserveSpec) -> Observation:
        _require_no_page(spec)
        async with deadline("the phone", "observe", _VERB_S):
            return await self._observe(spec, None)

    async def act(self, given: Sequence[Action], spec: ObserveSpec) -> Observation:
        _require_no_page(spec)
        waits_s = sum(getattr(action, "ms", 0) for action in given) / 1000
        async with deadline("the phone", "act", _VERB_S + waits_s, retryable=False):
            note: str | None = None
            output: str | None = None
            waiting: list[Command] = []  # to be run in one round trip
            try:
                for action in given:
                    if isinstance(action, Wait | Shell):
                        note, waiting = await self._run_all(waiting), []
                        if note is not None:
                            break
                        if isinstance(action, Wait):
                            await asyncio.sleep(action.ms / 1000)
                        else:
                            output = _printed(await self.shell(action.command))
                    else:
                        waiting += await self._commands(action)
            except UnsupportedAction as refused:
                note = await self._run_all(waiting) or str(refused)
                waiting = []
            if self._virtual and spec.frame != "none" and waiting:
                return await self._act_and_observe(waiting, spec, output)
            note = await self._run_all(waiting) or note
            await self._screen.settle()
            return await self._observe(spec, note, output)

    async def health(self) -> Health:
        """Check a round trip through the phone's settings and a new picture of its screen."""
        try:
            async with deadline("the phone", "health", _HEALTH_S):
                await self.probe_fresh()
        except FaultError as error:
            return Health(False, str(error))
        return Health(True)

    async def attest(self) -> str:
        async with deadline("the phone", "attest", _VERB_S):
            return await self._backend.attest(self)

    async def close(self) -> None:
        try:
            if self.address:
                with contextlib.suppress(AdbError, OSError):  # forgotten already, or the server is gone
                    await self._server.query(f"host:disconnect:{self.address}")
        finally:
            await self._server.release()
            await self._backend.close()

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        async with deadline("the phone", "exec", timeout_s):
            result = await self.shell(shlex.join(command))
        stdout, stderr = (data[:_MAX_PRINTED].decode("utf-8", "replace") for data in result[1:])
        return CommandResult(result.code, stdout, stderr)

    async def put(self, path: str, data: bytes) -> None:
        async with (
            deadline("the phone", "put", 4 * _VERB_S),
            self._server.open(self.serial, "sync:") as streams,
        ):
            await files.send(*streams, path, data)

    async def get(self, path: str) -> bytes:
        async with (
            deadline("the phone", "get", 4 * _VERB_S),
            self._server.open(self.serial, "sync:") as streams,
        ):
            return await files.receive(*streams, path)

    async def snapshot(self) -> str:
        async with deadline("the phone", "snapshot", 4 * _VERB_S):
            return await self._backend.snapshot(self)

    async def connect(self, service: str) -> Streams:
        """Open a stream to the phone's own adbd (service "adb"), for `adb connect` through a tunnel."""
        if service != "adb":
            raise UsageError(f"a phone has no service {service!r}; it has adb")
        return await self._backend.connect()

    # -- shared by backends and the verbs above ------------------------------------------------------------

    async def shell(self, script: str, stdin: bytes = b"") -> ShellResult:
        """Run a script on the phone, after a new connection if the old one was broken.

        If the connection breaks while the script runs, a FaultError says so: a script is never sent twice.
        """
        try:
            return await self._server.shell(self.serial, script, stdin)
        except FaultError as error:
            if error.fault.code != "unreachable":
                raise
        await self.reconnect()
        return await self._server.shell(self.serial, script, stdin)

    async def checked(self, script: str, stdin: bytes = b"") -> bytes:
        """Run a script and return its stdout. Raises FaultError if it failed."""
        result = await self.shell(script, stdin)
        if result.code:
            said = (result.stderr or result.stdout).decode("utf-8", "replace").strip() or "no reason given"
            message = f"{script.split(' ')[0]} failed on {self.serial}: {said.splitlines()[0][:200]}"
            raise FaultError(Fault("device", "refused", message, retryable=True))
        return result.stdout

    async def reconnect(self) -> None:
        await self._server.revive()
        if self.address:
            with contextlib.suppress(AdbError, OSError):
                await self._server.query(
                    f"host:disconnect:{self.address}"
                )  # or adb waits ten seconds by itself
            try:
                await self._server.connect(self.address)
            except (AdbError, OSError) as error:
                raise lost(self.serial, str(error), sent=False) from error

    async def probe_fresh(self) -> None:
        """Raise FaultError unless the phone answers with fresh data, which no snapshot can contain."""
        if self._virtual:
            await self._screen.frame("jpeg", 10)
            return
        word = hashlib.sha256(str(asyncio.get_running_loop().time()).encode()).hexdigest()[:16]
        answer = await self.checked(
            f"settings put global guiagent_probe {word} && settings get global guiagent_probe && "
            "settings delete global guiagent_probe"
        )
        if not answer.decode("utf-8", "replace").startswith(word):
            raise FaultError(
                Fault("device", "unhealthy", f"{self.serial} does not keep what it is told", True)
            )
        await self._screen.frame("jpeg", 10)

    async def _come_up(self, within_s: float) -> None:
        end = time.monotonic() + within_s
        while True:
            try:
                if self.address:
                    await self.reconnect()
                await self._probe()
                return
            except FaultError:
                if time.monotonic() >= end:
                    raise
            await asyncio.sleep(_RETRY_S)

    async def _probe(self) -> None:
        lines = (await self.checked(_PROBE)).decode("utf-8", "replace").splitlines()
        size = _SIZE.search(lines[-1]) if len(lines) >= 4 else None
        if size is None:
            raise FaultError(Fault("device", "protocol", f"{self.serial} does not say how large it is", True))
        self._virtual = lines[0].strip() == "1"
        self._screen = (VirtualScreen if self._virtual else AndroidScreen)(self, int(size[1]), int(size[2]))
        model, release = lines[1].strip()[:64], lines[2].strip()[:16]
        self._software = model if self._virtual else f"Android {release} on {model}"

    async def _commands(self, action: Action) -> list[Command]:
        match action:
            case Answer() | Done():
                return []  # words to the user; nothing on the screen moves
            case Open():
                return [await self._opening(action.target)]
            case Type() if not self._virtual and not action.text.isascii() and await self._has_keyboard():
                typed = actions.keyboard_text(action.text)
                rest = action.model_copy(update={"text": ""})
                around = actions.commands(rest, self._screen.width, self._screen.height, unicode=True)
                return [*around[: len(around) - action.submit], typed, *around[len(around) - action.submit :]]
        ms = actions.SLOW_SCROLL_MS if self._virtual else actions.SCROLL_MS
        size = (self._screen.width, self._screen.height)
        return actions.commands(action, *size, unicode=self._virtual, scroll_ms=ms)

    async def _opening(self, target: str) -> Command:
        if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", target):
            return actions.open_url(target)
        listed = await self.checked("pm list packages")
        installed = [
            line.removeprefix("package:").strip() for line in listed.decode("utf-8", "replace").splitlines()
        ]
        if self._labels is None:
            self._labels = json.loads(await self.checked("guiagent apps")) if self._virtual else {}
        package = actions.package_of(target, installed, self._labels)
        if package is None:
            raise UnsupportedAction(f"no app named {target[:80]!r} on this phone")
        return actions.open_app(package)

    async def _has_keyboard(self) -> bool:
        if self._keyboard is None:
            listed = (await self.checked("ime list -s")).decode("utf-8", "replace").split()
            self._keyboard = actions.ADB_KEYBOARD in listed
            if self._keyboard:
                await self.checked(f"ime enable {actions.ADB_KEYBOARD} && ime set {actions.ADB_KEYBOARD}")
        return self._keyboard

    async def _run_all(self, commands: Sequence[Command]) -> str | None:
        """Run commands in one round trip; return why one had no effect, as one line, or None."""
        return _complaint(await self.shell(actions.script(commands))) if commands else None

    async def _act_and_observe(
        self, commands: Sequence[Command], spec: ObserveSpec, output: str | None
    ) -> Observation:
        shown = frame_command(spec.frame, spec.quality)
        result = await self.shell(f"{actions.script(commands)}; {shown}")
        if result.code:
            raise FaultError(Fault("device", "refused", f"no frame: {_complaint(result)}", retryable=True))
        note = _complaint(result._replace(code=int(bool(result.stderr))))
        return self._observation(result.stdout, spec, await self._tree(spec), note, output)

    async def _observe(self, spec: ObserveSpec, note: str | None, output: str | None = None) -> Observation:
        nodes = await self._tree(spec)
        frame = b"" if spec.frame == "none" else await self._screen.frame(spec.frame, spec.quality)
        return self._observation(frame, spec, nodes, note, output)

    async def _tree(self, spec: ObserveSpec) -> list[Node] | None:
        return await self._screen.tree() if spec.tree else None

    def _observation(
        self,
        frame: bytes,
        spec: ObserveSpec,
        nodes: list[Node] | None,
        note: str | None,
        output: str | None,
    ) -> Observation:
        return Observation.of(
            (self._screen.width, self._screen.height),
            frame,
            spec,
            tree=nodes,
            action_error=note,
            output=output,
        )


def _complaint(result: ShellResult) -> str | None:
    """Why a script of commands stopped, as one line; None if none failed."""
    lines = [line.strip() for line in result.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith("Warning")]
    if result.code == 0 and not any("rror" in line for line in said):
        return None
    return said[0][:300] if said else f"the phone refused (exit code {result.code})"


def _printed(result: ShellResult) -> str:
    return (result.stdout + result.stderr)[:_MAX_PRINTED].decode("utf-8", "replace")


def _require_no_page(spec: ObserveSpec, baseline: ResetSpec | None = None) -> None:
    if spec.probes or (baseline is not None and baseline.script is not None):
        raise UsageError("probes and baseline scripts run in a web page, and a phone has none")
    if baseline is not None and baseline.profile is not None:
        raise UsageError("a phone has no browser profiles")
