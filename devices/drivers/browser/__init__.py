"""Headless Chromium as a device; see `page.py` for how a step is made fast and its frame fresh."""

from typing import TYPE_CHECKING

from devices.chromium.process import find, sweep

if TYPE_CHECKING:
    from devices.config import BrowserConfig
    from devices.drivers.browser.device import BrowserDevice

__all__ = ["find", "start", "sweep"]


async def start(config: "BrowserConfig") -> "BrowserDevice":
    """Start one browser showing about:blank.

    Raises InfrastructureError if no browser is installed or its pages cannot be kept from this machine,
    FaultError if it does not start.
    """
    # Imported with the first browser: a phone's process uses this package without its pages.
    from devices.drivers.browser.device import BrowserDevice

    return await BrowserDevice.start(
        find(config.executable),
        config.width,
        config.height,
        cdp=config.cdp,
        allow_unisolated=config.allow_unisolated,
    )
