"""Headless Chromium as a device; see `page.py` for how a step is made fast and its frame fresh."""

from typing import TYPE_CHECKING

from devices.chromium import process
from devices.chromium.process import find

if TYPE_CHECKING:
    from devices.config import BrowserConfig
    from devices.drivers.browser.device import BrowserDevice
    from devices.drivers.browser.with_sites import BrowserWithSites

__all__ = ["find", "start", "sweep"]


async def start(config: "BrowserConfig") -> "BrowserDevice | BrowserWithSites":
    """Start one browser showing about:blank, with its sites.

    Raises InfrastructureError if no browser is installed or its pages cannot be kept from this machine,
    FaultError if it does not start.
    """
    # Imported with the first browser: a phone's process uses this package without its pages.
    from devices.drivers.browser.device import BrowserDevice

    async def browser() -> "BrowserDevice":
        return await BrowserDevice.start(
            find(config.executable),
            config.width,
            config.height,
            cdp=config.cdp,
            allow_unisolated=config.allow_unisolated,
        )

    if not config.sites:
        return await browser()
    from devices.drivers.browser.with_sites import BrowserWithSites, known
    from devices.sites.leased import Sites

    sites = await Sites.start(known(config.sites))
    try:
        return BrowserWithSites(await browser(), sites)
    except BaseException:
        await sites.close()
        raise


def sweep() -> int:
    """End browsers and sites whose owners are gone; return how many were ended."""
    from devices.sites import instance

    return process.sweep() + instance.sweep()
