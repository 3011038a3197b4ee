"""Choice of the accelerator for guests: KVM if a kernel really boots under it, else QEMU's emulation.

Opening /dev/kvm and creating a VM prove nothing: on hosts that are themselves guests without nested paging
both succeed and a kernel never gets past its decompressor. So a kernel is booted, once per boot of the host.
"""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import msgspec

from devices.drivers.vm.machine import CPUS, find
from guiagent.client.local_pool import state_dir
from guiagent.errors import DECODE_ERRORS

_PROOF = b"Linux version"  # the first line that a kernel itself writes on its console
_PROBE_S = 10.0


class _Verdict(msgspec.Struct):
    host_boot: str
    kernel: str
    accel: str


async def accelerator(kernel: Path | None) -> str:
    """Return `kvm` or `tcg`: boot `kernel` once and store the result, or look at the CPU's flags for None."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    if kernel is None:
        return "kvm" if {"vmx", "svm"} & set(_read("/proc/cpuinfo").split()) else "tcg"
    remembered = state_dir() / "kvm.json"
    host_boot = _read("/proc/sys/kernel/random/boot_id").strip()
    with contextlib.suppress(FileNotFoundError, *DECODE_ERRORS):
        verdict = msgspec.json.decode(remembered.read_bytes(), type=_Verdict)
        if (verdict.host_boot, verdict.kernel) == (host_boot, str(kernel)):
            return verdict.accel
    accel = "kvm" if await boots(kernel, "kvm", _PROBE_S) else "tcg"
    remembered.parent.mkdir(parents=True, exist_ok=True)
    remembered.write_bytes(msgspec.json.encode(_Verdict(host_boot, str(kernel), accel)))
    return accel


async def boots(kernel: Path, accel: str, within_s: float) -> bool:
    """True if the kernel prints its first line within `within_s` seconds."""
    process = await asyncio.create_subprocess_exec(
        *("setpriv", "--pdeathsig", "KILL", "--", find()),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-machine", "q35", "-accel", accel, "-cpu", CPUS[accel], "-m", "256M"),
        *("-kernel", str(kernel), "-append", "console=ttyS0 panic=-1", "-serial", "stdio"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = b""
    try:
        async with asyncio.timeout(within_s):
            while _PROOF not in said and (more := await process.stdout.read(4096)):
                said += more
    except TimeoutError:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return _PROOF in said


def _read(file: str) -> str:
    return Path(file).read_text()
