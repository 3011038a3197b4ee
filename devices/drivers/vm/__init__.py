"""Virtual machines as devices: forks of a guest that booted once, in QEMU; see `gold.py`."""

from devices.config import VmConfig
from devices.drivers.vm import gold, image
from devices.drivers.vm.accel import accelerator
from devices.drivers.vm.device import VmDevice
from devices.drivers.vm.folders import sweep
from devices.drivers.vm.machine import Machine
from devices.drivers.vm.network import NETWORK

__all__ = ["VmDevice", "start", "sweep"]


async def start(config: VmConfig) -> VmDevice:
    """Start one VM; the first of an image and a size on this host boots it, which takes a minute emulated.

    Raises InfrastructureError without QEMU, image or network namespace, FaultError if it does not start.
    """
    if config.allow_unisolated:
        NETWORK.allow_unisolated = True
    found = await image.find(config.image, config.sha256)
    baseline = await gold.of(found, await machine(config, found))
    if not baseline.ready:
        await gold.boot(found, baseline)
    return await VmDevice.start(baseline, ours=found.ours)


async def machine(config: VmConfig, image: image.Image) -> Machine:
    """The machine that a config describes, with the accelerator that works here."""
    return Machine(
        accel=await accelerator(image.kernel),
        cpus=config.cpus,
        memory_mb=config.memory_mb,
        width=config.width,
        height=config.height,
        kernel=image.kernel,
        initrd=image.initrd,
        cmdline=image.cmdline,
    )
