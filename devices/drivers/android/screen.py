"""A phone's screen: its picture, its tree of views, and waiting until it is stable.

The virtual phone draws only on request, and a command of its shell returns once its screen is stable. On any
other phone, the picture is polled until it stays the same.
"""

import asyncio
import contextlib
from typing import Protocol

import xxhash

from devices.drivers.android import frames, tree
from devices.drivers.android.backend import Phone
from guiagent.errors import Fault, FaultError
from guiagent.types import FrameFormat, Node
from guiagent.uiautomator import TreeError

_SETTLE_S = 3.0
_SETTLE_POLL_S = 0.05
_TREE_TRIES = 4
_TREE_PAUSE_S = 0.5
_DUMP = (
    "uiautomator dump /sdcard/guiagent.xml >/dev/null && cat /sdcard/guiagent.xml; rm -f /sdcard/guiagent.xml"
)


class Screen(Protocol):
    """A phone's screen.

    Attributes:
        width, height: of the picture, in pixels.
    """

    width: int
    height: int

    async def settle(self) -> None:
        """Wait until nothing on the screen moves, with a cap for screens that never stop."""
        ...

    async def frame(self, form: FrameFormat, quality: int) -> bytes: ...

    async def tree(self) -> list[Node]:
        """Nodes as in `Observation.tree`. Raises FaultError if the phone gives none."""
        ...


class VirtualScreen:
    def __init__(self, phone: Phone, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._phone = phone

    async def settle(self) -> None:
        pass

    async def frame(self, form: FrameFormat, quality: int) -> bytes:
        return await self._phone.checked(frame_command(form, quality))

    async def tree(self) -> list[Node]:
        try:
            xml = await self._phone.checked("guiagent tree")
            return await asyncio.to_thread(tree.parse, xml, self.width, self.height)
        except TreeError as error:
            raise _no_tree(self._phone.serial, error) from None


class AndroidScreen:
    def __init__(self, phone: Phone, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._phone = phone

    async def settle(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_S):
                before = ""
                while (now := xxhash.xxh3_64_hexdigest(await self._phone.checked("screencap"))) != before:
                    before = now
                    await asyncio.sleep(_SETTLE_POLL_S)

    async def frame(self, form: FrameFormat, quality: int) -> bytes:
        raw = await self._phone.checked("screencap")
        return await asyncio.to_thread(lambda: frames.encode(frames.parse(raw), form, quality))

    async def tree(self) -> list[Node]:
        """Nodes from uiautomator, which is ended and run again if it finds no stable screen or no window."""
        for attempt in range(_TREE_TRIES):
            if attempt:
                await self._phone.shell("pkill -f com.android.commands.uiautomator")
                await asyncio.sleep(_TREE_PAUSE_S)
            xml = (await self._phone.shell(_DUMP)).stdout
            try:
                return await asyncio.to_thread(tree.parse, xml, self.width, self.height)
            except TreeError as error:
                why = error
        raise _no_tree(self._phone.serial, why)


def frame_command(form: FrameFormat, quality: int) -> str:
    """Shell command that makes the virtual phone write its frame to stdout."""
    return "guiagent frame png" if form == "png" else f"guiagent frame jpeg {quality}"


def _no_tree(serial: str, error: TreeError) -> FaultError:
    return FaultError(
        Fault("device", "no_tree", f"uiautomator on {serial}: {str(error)[:200]}", retryable=True)
    )
