"""What the tests of the vm driver share: whether there is a guest to run here, and what runs."""

import tempfile
from pathlib import Path

import pytest

from devices.config import VmConfig
from guiagent.errors import InfrastructureError

CONFIG = VmConfig()


async def require_guest(*, booted: bool = True) -> None:
    """Skip where there is no QEMU or no built image; and, unless told otherwise, where it never booted."""
    try:
        from devices.drivers import vm
        from devices.drivers.vm import gold, image

        found = await image.find(CONFIG.image)
        baseline = await gold.of(found, await vm.machine(CONFIG, found))
    except InfrastructureError as missing:
        pytest.skip(str(missing))
    if booted and not baseline.ready:
        pytest.skip(
            "the desktop image has not booted here yet: `pytest -m drill tests/test_devices_vm_faults.py`"
        )


def qemus() -> set[int]:
    """Process ids of the QEMUs that run VMs of this driver."""
    return {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _is_ours(entry)}


def folders_of(pid: int) -> list[Path]:
    """What VMs of that owner have on disk."""
    return list(Path(tempfile.gettempdir()).glob(f"guiagent-vm-{pid}-*"))


def _is_ours(process: Path) -> bool:
    try:
        return b"\0-name\0guiagent-vm-" in (process / "cmdline").read_bytes()
    except OSError:
        return False
