"""Devices that are elsewhere: in another pool, or behind an OSWorld server."""

from devices.config import RemoteConfig
from devices.drivers import HostedDevice
from devices.drivers.remote import osworld, pool

_OSWORLD = "osworld://"


async def start(config: RemoteConfig) -> HostedDevice:
    """Raises UsageError for a pool without a token, FaultError where nothing answers there."""
    if config.url.startswith(_OSWORLD):
        return await osworld.OSWorldDevice.start("http://" + config.url.removeprefix(_OSWORLD), config.of)
    return await pool.PooledDevice.start(config)


def sweep() -> int:
    return 0  # nothing runs on this machine; what was held elsewhere ends by its lease's time to live
