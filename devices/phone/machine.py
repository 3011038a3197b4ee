"""The phone as adb's services see it: the screen behind one lock, files, properties, and a log."""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import xxhash

from devices.phone.adbd import Stream
from devices.phone.phone import Phone
from devices.phone.storage import Storage
from guiagent.errors import FaultError

T = TypeVar("T")
_LOG_LINES = 2000
_FIRST_PID = 1000
_ORDERED = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class LogLine:
    number: int
    at: float  # seconds since the epoch, by the phone's own clock
    tag: str
    message: str
    level: str = "I"
    pid: int = _FIRST_PID


class Reversal(NamedTuple):
    """Host target of a port of the phone (`adb reverse`), and a function that opens a stream to it."""

    host: str
    open: Callable[[], Awaitable[Stream]]


class Machine:
    """Everything that adb services and shell commands work on.

    Attributes:
        reversed: reversed ports by port of the phone, such as "tcp:9000".
    """

    def __init__(self, phone: Phone, reboot: Callable[[], None]) -> None:
        self.phone = phone
        self.reboot = reboot
        self.storage = Storage(phone.folder, lambda: phone.state.clock.now() / 1000)
        self.reversed: dict[str, Reversal] = {}
        self.booted = time.monotonic()
        self.log: deque[LogLine] = deque(maxlen=_LOG_LINES)
        self.logged = asyncio.Event()  # replaced whenever a line is added
        self._numbers = itertools.count()
        self.failure: FaultError | None = None
        self.failed = asyncio.Event()  # set once the screen, and so the phone, is lost
        self._turn = asyncio.Lock()
        self._set: dict[str, str] = {}
        self._built = _properties(phone)
        self.storage.prepare("".join(f"{name}={value}\n" for name, value in self._built.items()))

    # -- the screen ----------------------------------------------------------------------------------------

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work that uses the screen: one at a time, and to its end even if the caller is cancelled.

        Raises ConnectionResetError if the work ends in a FaultError, which loses the phone.
        """

        async def in_turn() -> T:
            async with self._turn:
                try:
                    return await work
                except FaultError as error:  # the phone is lost
                    self.failure = error
                    self.failed.set()
                    raise ConnectionResetError(str(error)) from error

        return await asyncio.shield(asyncio.create_task(in_turn()))

    def pid(self, package: str) -> int:
        """Invented process id of an app; 0 if there is no such app."""
        return _FIRST_PID + sorted(self.phone.apps).index(package) if package in self.phone.apps else 0

    def changed(self, path: str) -> None:
        """Report a file that was written from outside the apps, so that open pages refresh."""
        if self.storage.path(path).startswith("/sdcard"):
            self.phone.state.changed(None)

    # -- whole state ---------------------------------------------------------------------------------------

    async def reset(self, seed: int) -> None:
        self._forget()
        await self.do(self.phone.reset(seed))

    async def load(self, document: dict[str, Any]) -> None:
        self._forget()
        await self.do(self.phone.load(document))

    def attest(self) -> str:
        """Digest of all a lease holder could have left: document, temporary files, properties, forwards."""
        left = (self.phone.document(), self.storage.temporary(), self._set, list(self.reversed))
        return xxhash.xxh3_64_hexdigest(_ORDERED.encode(left))

    def _forget(self) -> None:
        self.storage.wipe_temporary()
        self._set.clear()
        self.reversed.clear()
        self.log.clear()

    # -- properties and log --------------------------------------------------------------------------------

    @property
    def properties(self) -> dict[str, str]:
        return self._built | self._set

    def set_property(self, name: str, value: str) -> bool:
        """Set a property; return False if it is fixed at build time or exceeds a limit."""
        if name in self._built or len(name) > 128 or len(value) > 91 or len(self._set) >= 256:
            return False
        self._set[name] = value
        return True

    def note(self, tag: str, message: str, level: str = "I", package: str = "") -> None:
        now = self.phone.state.clock.now() / 1000
        pid = self.pid(package) or _FIRST_PID
        line = LogLine(next(self._numbers), now, tag, message[:1000], level, pid)
        self.log.append(line)
        self.logged.set()
        self.logged = asyncio.Event()


def _properties(phone: Phone) -> dict[str, str]:
    """Properties for `getprop`: what Android's tools expect, without a claim to be certified by Google."""
    return {
        "dev.bootcomplete": "1",
        "init.svc.bootanim": "stopped",
        "persist.sys.locale": "en-US",
        "persist.sys.timezone": "UTC",
        "ro.adb.secure": "1",
        "ro.build.characteristics": "virtual",
        "ro.build.fingerprint": "guiagent/virtual/virtual:14/GUIAGENT/1:user/test-keys",
        "ro.build.tags": "test-keys",
        "ro.build.type": "user",
        "ro.build.version.release": "14",
        "ro.build.version.sdk": "34",
        "ro.debuggable": "0",
        "ro.guiagent.virtual": "1",
        "ro.hardware": "guiagent",
        "ro.product.brand": "guiagent",
        "ro.product.cpu.abi": "none",
        "ro.product.device": "virtual",
        "ro.product.manufacturer": "guiagent",
        "ro.product.model": "guiagent virtual phone",
        "ro.product.name": "guiagent_virtual",
        "ro.secure": "1",
        "ro.serialno": f"virtual-{Path(phone.folder).name}",
        "ro.sf.lcd_density": str(phone.density),
        "sys.boot_completed": "1",
    }
