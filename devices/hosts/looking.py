"""Looks at a device that is driven past its verbs, over a stream of its own: DevTools, adb, OSWorld's server.

Nobody asks for a frame there, so the live page would stand still.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from devices.drivers.deadline import deadline
from devices.hosts.edge import edge
from devices.hosts.slot_record import SlotRecord
from guiagent.errors import FaultError
from guiagent.types import Observation, ObserveSpec

Observe = Callable[[ObserveSpec], Awaitable[Observation]]

_EVERY_S = 1.0
_DEADLINE_S = 5.0


class Looking:
    """Keeps the last frames of devices young while they have open streams."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, device: str, record: SlotRecord, token: int, observe: Observe) -> None:
        """Look at a device until the streams of the lease with `token` are closed, or the lease ends."""
        if device not in self._tasks:
            looks = asyncio.create_task(_look(device, record, token, observe))
            self._tasks[device] = looks
            looks.add_done_callback(lambda _: self._tasks.pop(device))

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


async def _look(device: str, record: SlotRecord, token: int, observe: Observe) -> None:
    while any(not stream.is_closing() for stream in record.streams) and token >= record.fence:
        number = record.frame.number
        await asyncio.sleep(_EVERY_S)
        if record.turn.locked() or record.frame.number != number:
            continue  # its holder sees it, or is about to
        spec = ObserveSpec(frame="jpeg", quality=70, have=record.frame.hash)
        with contextlib.suppress(FaultError), edge(device, "observe"):  # health checks report what is wrong
            async with deadline("the device", "observe", _DEADLINE_S), record.turn:
                seen = await observe(spec)
            if not seen.unchanged:
                record.saw(seen, token)
