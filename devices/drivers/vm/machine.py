"""Virtual hardware of a guest, and QEMU's command line for it."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from guiagent.errors import MissingProgram

CPUS = {"tcg": "max", "kvm": "host"}  # by accelerator
GUEST_PORT = 5000  # where OSWorld's guest server, and ours, listens
_HOST = "10.0.2.100"  # what a guest calls the host: the loopback of its own namespace, see `gate.py`
_EXECUTABLE = "qemu-system-x86_64"
_MIB = 1 << 20


def find() -> str:
    """QEMU's path. Raises MissingProgram with the way to get one."""
    path = shutil.which(_EXECUTABLE)
    if path is None:
        raise MissingProgram(f"no {_EXECUTABLE} here: `apt-get install qemu-system-x86 qemu-utils`")
    return path


@dataclass(frozen=True, slots=True)
class Machine:
    """Virtual hardware of a guest; all forks of one gold VM have exactly the same."""

    accel: str  # "tcg" or "kvm"
    cpus: int
    memory_mb: int
    width: int
    height: int
    kernel: Path | None = None  # None: the BIOS boots what is on the disk
    initrd: Path | None = None
    cmdline: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """Guest RAM in a file: `shared` writes to it, otherwise a private copy is made page by page."""

    file: Path
    shared: bool


def arguments(
    machine: Machine, disk: Path, memory: Memory, name: str, control: int, *, proxied: bool
) -> list[str]:
    """QEMU's command line without the executable.

    `control` is the file descriptor of its QMP socket. `proxied`: it runs in a namespace with nothing but the
    way to its egress proxy.
    """
    video_mb = max(16, 1 << (machine.width * machine.height * 4 // _MIB).bit_length())
    shared = "on" if memory.shared else "off"
    boot = ["-kernel", str(machine.kernel), "-append", machine.cmdline] if machine.kernel else []
    boot += ["-initrd", str(machine.initrd)] if machine.initrd else []
    return [
        *("-name", name, "-nodefaults", "-no-user-config", "-display", "none"),
        *("-machine", "q35,vmport=off,memory-backend=ram", "-m", f"{machine.memory_mb}M"),
        *("-accel", machine.accel, "-smp", str(machine.cpus)),
        *("-cpu", CPUS[machine.accel]),
        "-object",
        f"memory-backend-file,id=ram,size={machine.memory_mb}M,mem-path={_path(memory.file)},share={shared}",
        *("-device", f"VGA,xres={machine.width},yres={machine.height},edid=on,vgamem_mb={video_mb}"),
        *("-device", "virtio-keyboard-pci", "-device", "virtio-tablet-pci"),
        *("-drive", f"if=none,id=disk,format=qcow2,cache=unsafe,discard=unmap,file={_path(disk)}"),
        *("-device", "virtio-blk-pci,drive=disk"),
        *("-netdev", ",".join(["user", "id=net", *_network(proxied)])),
        *("-device", "virtio-net-pci,netdev=net,romfile="),
        *("-device", "virtio-rng-pci", "-device", "vmgenid,guid=auto"),  # forks draw different random numbers
        *("-rtc", "base=utc,clock=host"),
        *("-chardev", "stdio,id=serial,signal=off", "-serial", "chardev:serial"),
        *("-chardev", f"socket,id=control,fd={control}", "-mon", "chardev=control,mode=control"),
        *("-sandbox", "on,obsolete=deny,resourcecontrol=deny,elevateprivileges=deny,spawn=deny"),
        *boot,
    ]


def _network(proxied: bool) -> list[str]:
    """Options of a private network: in only to the guest's server, out at most to its own namespace."""
    forward = f"hostfwd=tcp:127.0.0.1:0-:{GUEST_PORT}"  # to port 0: one the system picks
    return [*([] if proxied else ["restrict=on"]), f"host={_HOST}", "ipv6=off", forward]


def _path(path: Path | str) -> str:
    return str(path).replace(",", ",,")  # QEMU's own escape inside an option
