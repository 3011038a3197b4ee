"""Kinds of devices that a host can run: how to start one, and how to remove what dead owners left."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from guiagent.protocols import Device

if TYPE_CHECKING:
    from devices.config import AnyDeviceConfig


class HostedDevice(Device, Protocol):
    """A device as its host sees it. Verbs never overlap.

    The features of `describe` say which capability protocols of `guiagent.protocols` it also implements.
    """

    async def attest(self) -> str:
        """A digest of everything that a lease holder could have left behind.

        This means files, cookies, windows, processes, clipboard, settings. The digest is equal after every
        reset to the blank baseline.
        """
        ...


class UnsupportedAction(Exception):
    """A device cannot do this action; the message, one line, becomes `Observation.action_error`."""


@dataclass(frozen=True, slots=True)
class Driver:
    """How to start one kind of device, and how to end devices whose owners died.

    Attributes:
        start: returns a running device. Raises InfrastructureError if software is missing, FaultError if the
            device does not start.
        sweep: ends devices whose owners died, and returns how many.
        start_s: seconds that the slowest start takes if nothing is wrong.
    """

    start: Callable[[Any], Awaitable[HostedDevice]]
    sweep: Callable[[], int] = lambda: 0
    start_s: float = 60.0


def _driver(kind: str, start_s: float = 60.0) -> Driver:
    """Driver of the module `devices.drivers.<kind>`, which is imported with its first device."""

    async def start(config: "AnyDeviceConfig") -> HostedDevice:
        device: HostedDevice = await import_module(f"devices.drivers.{kind}").start(config)
        return device

    def sweep() -> int:
        ended: int = import_module(f"devices.drivers.{kind}").sweep()
        return ended

    return Driver(start, sweep, start_s)


DRIVERS: dict[str, Driver] = {
    "browser": _driver("browser", start_s=900.0),  # the first of a site seeds it
    "desktop": _driver("desktop"),
    "phone": _driver("phone"),
    "android": _driver("android", start_s=420.0),
    "lab": _driver("lab"),
    "sim": _driver("sim"),
    "remote": _driver("remote"),
    "vm": _driver("vm", start_s=700.0),  # the first of an image boots it
}
