"""The devices that the server's clients hold: by handles, with what they were last shown."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from guiagent import wire
from guiagent.actions import Action
from guiagent.client import FarmClient, LeasedDevice
from guiagent.errors import GuiAgentError, LeaseError, UsageError
from guiagent.pictures import Picture, on_screen, within
from guiagent.types import Box, Observation, ObserveSpec

_SHOWN = 64  # devices of the farm that are listed
_LOOKS_PER_IDLE_TIME = 8


@dataclass(slots=True)
class Held:
    """A leased device.

    Attributes:
        size: of the picture that its coordinates are in, in pixels.
        screen: size of the screen in pixels.
        used: when its last call ended, by the event loop's clock.
        calls: how many are under way.
    """

    device: LeasedDevice
    size: tuple[int, int]
    screen: tuple[int, int]
    used: float
    calls: int = 0


class Devices:
    """Leases of one server. What nobody uses for `idle_s` seconds is given back.

    The protocol has no sessions any more, so that a client that went away is known by its silence only. A
    handle ends in a secret: who was not given it cannot use the device.
    """

    def __init__(self, farm: FarmClient, longest: int, idle_s: float) -> None:
        self._farm = farm
        self._longest = longest
        self._idle_s = idle_s
        self._held: dict[str, Held] = {}

    async def lease(
        self, kind: str, needs: Sequence[str], egress: Sequence[str], wait_s: float
    ) -> tuple[str, Held]:
        device = await self._farm.lease(kind, needs=needs, egress=egress, wait=wait_s, label="mcp")
        can = await device.describe()  # known here: from now on a cancelled call cannot lose the device
        screen = can.width, can.height
        held = Held(device, _fitted(screen, self._longest), screen, asyncio.get_running_loop().time())
        handle = f"{device.id}.{secrets.token_hex(4)}"
        self._held[handle] = held
        return handle, held

    async def release(self, handle: str) -> None:
        held = self._of(handle)
        del self._held[handle]
        await held.device.close()

    async def farm(self) -> list[wire.DeviceInfo]:
        return (await self._farm.devices()).devices[:_SHOWN]

    async def last_seen(self, device: str) -> Picture:
        """The last picture that the pool has of any device of the farm."""
        return within(*await self._farm.frame(device), self._longest)

    @contextlib.asynccontextmanager
    async def using(self, handle: str) -> AsyncIterator[Held]:
        """The device of a handle, which is not given back meanwhile; forgotten if its lease has ended."""
        held = self._of(handle)
        held.calls += 1
        try:
            yield held
        except LeaseError as ended:
            self._held.pop(handle, None)
            raise UsageError(f"{handle} is no longer yours: {ended}; lease another device") from ended
        finally:
            held.calls -= 1
            held.used = asyncio.get_running_loop().time()

    async def act(self, handle: str, actions: Sequence[Action]) -> Observation:
        async with self.using(handle) as held:
            return await held.device.act(actions, ObserveSpec(frame="none", page=True))

    async def show(self, handle: str) -> Picture:
        """A picture of the screen as it is now; coordinates are in its pixels from now on."""
        async with self.using(handle) as held:
            seen = await held.device.observe(ObserveSpec(frame="jpeg"))
            picture = within(seen.frame, seen.media_type, self._longest)
            held.size, held.screen = picture.size, picture.screen
            return picture

    async def elements(self, handle: str) -> Observation:
        async with self.using(handle) as held:
            if "a11y" not in held.device.features:
                raise UsageError(f"{handle} has no accessibility tree; look at a screenshot")
            return await held.device.observe(ObserveSpec(frame="none", tree=True, page=True))

    async def ask_human(self, handle: str, reason: str, wait_s: float) -> wire.HelpAnswer:
        async with self.using(handle) as held:
            return await held.device.ask_human(reason, wait_s)

    def point(self, handle: str, x: int, y: int) -> tuple[int, int]:
        """The pixel of the screen that a point of the picture stands for."""
        held = self._of(handle)
        return on_screen(x, y, held.size, held.screen)

    def shown_at(self, handle: str, box: Box) -> Box:
        """A box (left, top, width, height) of the screen in pixels of the picture."""
        held = self._of(handle)
        across, down = held.size[0] / held.screen[0], held.size[1] / held.screen[1]
        left, top, width, height = box
        return round(left * across), round(top * down), round(width * across), round(height * down)

    async def watch(self) -> None:
        """Give back what nobody uses, until cancelled."""
        while True:
            await asyncio.sleep(self._idle_s / _LOOKS_PER_IDLE_TIME)
            late = asyncio.get_running_loop().time() - self._idle_s
            for handle, held in list(self._held.items()):
                if not held.calls and held.used < late:
                    del self._held[handle]
                    with contextlib.suppress(GuiAgentError):  # the others are still to be given back
                        await held.device.close()

    def _of(self, handle: str) -> Held:
        if handle not in self._held:
            raise UsageError(f"you hold no device {handle[:80]!r}: `lease` gives one, and its handle")
        return self._held[handle]


def _fitted(screen: tuple[int, int], longest: int) -> tuple[int, int]:
    scale = min(1.0, longest / max(screen))
    return max(1, round(screen[0] * scale)), max(1, round(screen[1] * scale))
