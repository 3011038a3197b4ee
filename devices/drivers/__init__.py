"""Kinds of devices this host can run: how to start one, and how to clear away what dead owners left."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from guiagent.protocols import Device


@dataclass(frozen=True, slots=True)
class Driver:
    """`start(width, height)` returns a running device or raises InfrastructureError (nothing to run it with)
    or FaultError (it did not come up); `sweep()` ends devices whose owners died, and returns how many."""

    start: Callable[[int, int], Awaitable[Device]]
    sweep: Callable[[], int] = lambda: 0


async def _start_browser(width: int, height: int) -> Device:
    from devices.drivers import browser

    return await browser.start(width, height)


def _sweep_browsers() -> int:
    from devices.drivers import browser

    return browser.sweep()


DRIVERS: dict[str, Driver] = {"browser": Driver(_start_browser, _sweep_browsers)}
