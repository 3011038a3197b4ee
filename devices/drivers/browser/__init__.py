"""Headless Chromium as a device; see `page.py` for how a step is made fast and its frame fresh."""

from devices.config import BrowserConfig
from devices.drivers.browser.device import BrowserDevice
from devices.drivers.browser.process import find, sweep

__all__ = ["BrowserDevice", "find", "start", "sweep"]


async def start(config: BrowserConfig) -> BrowserDevice:
    """Start one browser showing about:blank.

    Raises InfrastructureError where no browser is installed, FaultError where it does not come up.
    """
    return await BrowserDevice.start(
        find(config.executable), config.width, config.height, expose_cdp=config.cdp
    )
