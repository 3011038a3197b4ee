"""Headless Chromium as a device; see `page.py` for how a step is made fast and its frame fresh."""

from devices.drivers.browser.device import BrowserDevice
from devices.drivers.browser.process import find, sweep

__all__ = ["BrowserDevice", "find", "start", "sweep"]


async def start(
    width: int, height: int, *, executable: str | None = None, expose_cdp: bool = False
) -> BrowserDevice:
    """Start one browser showing about:blank at `width` x `height` pixels.

    With `expose_cdp`, `device.cdp_url` is where Playwright's `connect_over_cdp` finds the same page. Any
    process on this machine can connect there: the DevTools protocol knows no password.

    Raises InfrastructureError where no browser is installed, FaultError where it does not come up.
    """
    return await BrowserDevice.start(find(executable), width, height, expose_cdp=expose_cdp)
