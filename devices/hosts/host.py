"""The interface of a device host, in this process (`devices.hosts.local`) or on another machine."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from devices.hosts.slot_record import SlotRecord
from devices.leases import Lease
from guiagent.types import Capabilities
from guiagent.wire import ConnectRequest, Verb

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SlotInfo:
    """A device slot that a host offers."""

    id: str  # in the whole farm: "browser-0", or "HOST.browser-0" on a host that joined
    kind: str
    width: int  # of the screen in pixels; 0 where only the device itself knows
    height: int
    warm: int | None = None  # free devices of the group to keep up; None: all of them
    idle_s: float = 0.0  # after which a device beyond those is stopped
    group: str = ""  # slots with the same one are sized together


class Host(Protocol):
    """A device host. Every method ends by a deadline, with a value or a FaultError (LeaseError: old token).

    `start` may also raise InfrastructureError: the machine lacks what such a device needs.
    """

    @property
    def id(self) -> str: ...

    @property
    def slots(self) -> Sequence[SlotInfo]:
        """The slots it offers; they do not change while the host is part of a farm."""
        ...

    @property
    def records(self) -> Mapping[str, SlotRecord]:
        """The last frame, counts, and log of each device."""
        ...

    async def start(self, device: str) -> Capabilities: ...

    def open(self, device: str, *, stale: bool) -> None: ...

    async def stop(self, device: str) -> None: ...

    async def recycle(self, device: str) -> None: ...

    async def check(self, device: str) -> None: ...

    def fence(self, device: str, token: int, epoch: int) -> None: ...

    async def close(self) -> None: ...

    async def call(self, lease: Lease, message: Verb[T]) -> T:
        """Carry out any verb but `connect` under the holder's lease."""
        ...

    async def connect(
        self, lease: Lease, message: ConnectRequest
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]: ...

    def on_disconnect(self, device: str, writer: asyncio.StreamWriter) -> None: ...
