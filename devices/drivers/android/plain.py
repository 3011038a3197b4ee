"""Backend of a user's own phone: no snapshots, nothing erased; a reset only stops apps and goes home."""

import asyncio
import shlex

import xxhash

from devices.drivers.android.adb import Streams
from devices.drivers.android.backend import Phone
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.types import ResetSpec

_WAKE = "input keyevent KEYCODE_WAKEUP; wm dismiss-keyguard; input keyevent KEYCODE_HOME"
_FOLDERS = " ".join(
    f"/sdcard/{name}" for name in ("DCIM", "Documents", "Download", "Movies", "Music", "Pictures")
)
_RESIDUE = f"pm list packages | sort; ime list -s | sort; find {_FOLDERS} -type f 2>/dev/null | sort"


class Owned:
    """Backend of a user's phone: a reset stops its user's apps and shows the home screen, but keeps all data.

    What a lease holder leaves in apps is not wiped. The digest covers installed apps, keyboards and files, so
    a change of these takes the phone out of service until somebody has looked at it.
    """

    features = ("adb", "unlimited_egress")

    def __init__(self, address: str) -> None:
        self._address = address

    async def restore(self, phone: Phone, seed: int, baseline: ResetSpec) -> str:
        if baseline.snapshot is not None or baseline.state is not None:
            raise UsageError("this phone has no snapshots; lease an emulator or a virtual phone")
        listed = (await phone.checked("pm list packages -3")).decode("utf-8", "replace").splitlines()
        packages = [line.removeprefix("package:").strip() for line in listed]
        stopping = [f"am force-stop {shlex.quote(package)}" for package in packages if package]
        return "; ".join([*stopping, _WAKE])

    async def snapshot(self, phone: Phone) -> str:
        raise UsageError("this phone has no snapshots; lease an emulator or a virtual phone")

    async def attest(self, phone: Phone) -> str:
        return xxhash.xxh3_64_hexdigest(await phone.checked(_RESIDUE))

    async def connect(self) -> Streams:
        return await dial(self._address)

    async def close(self) -> None:
        pass


async def dial(address: str) -> Streams:
    """Connect to an adbd on TCP. Raises UsageError for a phone on USB, FaultError if it is unreachable."""
    if not address:
        raise UsageError("this phone is on USB: it has no adb port to connect to")
    host, _, port = address.rpartition(":")
    try:
        return await asyncio.open_connection(host, int(port))
    except OSError as error:
        raise FaultError(Fault("device", "unreachable", f"{address}: {error}", retryable=True)) from None
