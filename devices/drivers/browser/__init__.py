"""Headless Chromium as a device; see `device.py` for how a step is made fast and its frame fresh."""

from devices.drivers.browser.device import BrowserDevice
from devices.drivers.browser.process import find, sweep

__all__ = ["BrowserDevice", "find", "start", "sweep"]


async def start(width: int, height: int, *, executable: str | None = None) -> BrowserDevice:
    """Start one browser showing about:blank at `width` x `height` pixels.

    Raises InfrastructureError where no browser is installed, FaultError where it does not come up.
    """
    return await BrowserDevice.start(find(executable), width, height)
