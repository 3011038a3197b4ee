"""Sandboxes: leases of devices with a time to live, by E2B's words for them."""

import asyncio
import contextlib
import hmac
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec

from guiagent.client import FarmClient, LeasedDevice
from guiagent.doors.e2b.desktop import Line, read
from guiagent.doors.e2b.files import Folders
from guiagent.doors.e2b.programs import MOST_S, Programs
from guiagent.errors import GuiAgentError, LeaseError, UsageError
from guiagent.types import ObserveSpec

DAEMON = "0.5.7"  # the version of E2B's daemon whose calls are answered
KINDS = {"base": "desktop"}  # kinds of devices by template, where they have not the same name
_SWEEP_S = 1.0
_EVERYTHING = frozenset({"0.0.0.0/0", "::/0"})
_NO_FRAME = ObserveSpec(frame="none")

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Words = Annotated[dict[str, Annotated[str, msgspec.Meta(max_length=4096)]], msgspec.Meta(max_length=64)]
_Timeout = Annotated[int, msgspec.Meta(ge=1, le=int(MOST_S))]


class Network(msgspec.Struct, rename="camel"):
    """What a sandbox may reach."""

    allow_out: list[str] = []
    deny_out: list[str] = []


class NewSandbox(msgspec.Struct, rename={"template": "templateID", "environment": "envVars"}):
    """A sandbox as a client asks for it."""

    template: _Name
    timeout: _Timeout = 300
    metadata: _Words = {}
    environment: _Words = {}
    allow_internet_access: bool | None = None
    network: Network | None = None
    autoPause: bool = False
    mcp: Any = None
    iam: Any = None
    volumeMounts: list[Any] = []

    def egress(self) -> tuple[str, ...]:
        """The farm's rules for what it may reach. Raises UsageError for what they cannot say."""
        network = self.network or Network()
        if self.allow_internet_access is False or _EVERYTHING & set(network.deny_out):
            return tuple(network.allow_out)
        if network.deny_out:
            raise UsageError(
                'network: name what may be reached (allow_out), and deny the rest: deny_out=["0.0.0.0/0"]'
            )
        return ("public", *network.allow_out)

    def require_possible(self) -> None:
        """Raise UsageError for what no device of a farm has."""
        lacking = [name for name in ("mcp", "iam", "volumeMounts", "autoPause") if getattr(self, name)]
        if lacking:
            raise UsageError(f"sandboxes of this farm have no {lacking[0]}")


class Sandbox:
    """One client's device, until its time is over.

    Attributes:
        id, token: its name, and what its calls have to show.
        pointer: where this door last put the mouse pointer, in pixels; at first in the middle of the screen.
    """

    def __init__(self, device: LeasedDevice, size: tuple[int, int], asked: NewSandbox) -> None:
        self.id = f"{device.id}-{secrets.token_hex(8)}".lower()
        self.token = secrets.token_urlsafe(24)
        self.device = device
        self.size = size
        self.asked = asked
        self.pointer = (size[0] // 2, size[1] // 2)
        self.programs = Programs(device)
        self.folders = Folders(device)
        self.started = datetime.now(UTC)
        self.ends = self.started + timedelta(seconds=asked.timeout)
        self._turn = asyncio.Lock()

    async def carry_out(self, line: str) -> Line | None:
        """Do what a command line of the desktop client says; None: it is a program's, and nothing was done.

        Raises UsageError for what could not be done.
        """
        async with self._turn:  # a click is where the last movement ended
            said = read(line, self.pointer, self.size)
            if said is None:
                return None
            if said.screenshot is not None:
                seen = await self.device.observe(ObserveSpec(frame="png"))
                await self.device.put(await self.folders.path(said.screenshot), seen.frame)
            if said.actions:
                after = await self.device.act(said.actions, _NO_FRAME)
                if after.action_error is not None:
                    raise UsageError(after.action_error)
            self.pointer = said.pointer
            return said

    def told(self) -> dict[str, Any]:
        """The sandbox as its owner is told of it. Numbers of processors and bytes are not known: 0."""
        return {
            "templateID": self.asked.template,
            "sandboxID": self.id,
            "clientID": "guiagent",
            "envdVersion": DAEMON,
            "envdAccessToken": self.token,
            "startedAt": self.started.isoformat(),
            "endAt": self.ends.isoformat(),
            "state": "running",
            "metadata": self.asked.metadata,
            "cpuCount": 0,
            "memoryMB": 0,
            "diskSizeMB": 0,
        }


@dataclass(slots=True)
class _Making:
    """A sandbox that is being created, or was."""

    task: asyncio.Task[Sandbox]
    waiting: int = 0  # requests

    def stands(self, lives: Mapping[str, Sandbox]) -> bool:
        """Whether who asks again with its key gets what comes of it."""
        if not self.task.done():
            return True
        failed = self.task.cancelled() or self.task.exception() is not None
        return not failed and self.task.result().id in lives


class Sandboxes:
    """The sandboxes of one server; those whose time is over are given back."""

    def __init__(self, farm: FarmClient, wait_s: float = 30.0) -> None:
        self._farm = farm
        self._wait_s = wait_s
        self._open: dict[str, Sandbox] = {}
        self._makings: dict[str, _Making] = {}  # by idempotency key

    async def create(self, asked: NewSandbox, key: str, leaving: asyncio.Future[None]) -> Sandbox:
        """Lease a device for a client; asked again with the same key (not ""), give the same sandbox.

        Once everybody who waits for it is `leaving`, no device is taken.
        """
        asked.require_possible()
        key = key or secrets.token_hex(8)
        self._makings = {name: one for name, one in self._makings.items() if one.stands(self._open)}
        making = self._makings.get(key)
        if making is None:
            making = self._makings[key] = _Making(asyncio.create_task(self._create(asked)))
        making.waiting += 1
        try:
            await asyncio.wait((making.task, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not making.task.done():
                raise UsageError("nobody waits for this sandbox any more")
            return making.task.result()
        finally:
            making.waiting -= 1
            if not making.waiting:
                making.task.cancel()

    async def _create(self, asked: NewSandbox) -> Sandbox:
        kind = KINDS.get(asked.template, asked.template)
        device = await self._farm.lease(
            kind,
            needs=("shell", "files"),
            grants=("shell", "files"),
            egress=asked.egress(),
            label="e2b",
            wait=self._wait_s,
        )
        can = await device.describe()
        sandbox = Sandbox(device, (can.width, can.height), asked)
        self._open[sandbox.id] = sandbox
        return sandbox

    def all(self) -> list[Sandbox]:
        return list(self._open.values())

    def of(self, name: str) -> Sandbox | None:
        return self._open.get(name)

    def admitted(self, name: str, token: str) -> Sandbox | None:
        """The sandbox of that name, for who knows its token."""
        sandbox = self._open.get(name)
        if sandbox is None or not hmac.compare_digest(sandbox.token.encode(), token.encode()):
            return None
        return sandbox

    async def end(self, sandbox: Sandbox) -> None:
        """Give the device back. The sandbox is gone whatever the farm says to it."""
        if self._open.pop(sandbox.id, None) is not None:
            with contextlib.suppress(GuiAgentError):
                await sandbox.device.close()

    @contextlib.asynccontextmanager
    async def using(self, sandbox: Sandbox) -> AsyncIterator[None]:
        """Forget the sandbox if its lease turns out to have ended."""
        try:
            yield
        except LeaseError:
            await self.end(sandbox)
            raise

    async def sweep(self) -> None:
        """End those whose time is over, for ever."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            now = datetime.now(UTC)
            for sandbox in [one for one in self.all() if one.ends <= now]:
                await self.end(sandbox)

    async def close(self) -> None:
        await asyncio.gather(*(self.end(sandbox) for sandbox in self.all()))
