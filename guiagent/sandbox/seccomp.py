"""A seccomp filter that takes the system calls of administrators and debuggers from programs.

It lists what is denied, since applications of a whole desktop must run under it: what makes namespaces and
mounts, reads other processes, loads code into the kernel, sets the machine's clock, or has mostly been the
way into the kernel. A denied call fails with EPERM, or with ENOSYS where libraries then take an older call.
Filters are classic BPF over `struct seccomp_data` (see seccomp(2)).
"""

import errno
import platform
import struct

from guiagent.errors import InfrastructureError

# name: its number on x86_64 and on aarch64 (None: it is not there)
_DENIED: dict[str, tuple[int, int | None]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "open_by_handle_at": (304, 265),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "lookup_dcookie": (212, 18),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
}
_ABSENT: dict[str, tuple[int, int | None]] = {
    "clone3": (435, 435),  # its flags are in memory, where no filter can see them; libraries take clone
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_CLONE, _UNSHARE, _SOCKET = (56, 220), (272, 97), (41, 198)
_NAMESPACES = 0x7E020000  # CLONE_NEWNS and the five others that clone takes
_NEW_TIME = 0x80
_FAMILIES = (1, 2, 10, 16)  # unix, IPv4, IPv6, netlink: others (vsock, alg, ...) know no network namespaces
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000  # a third set of calls, of x86_64 alone

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_KILL, _ERROR, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16  # offsets; of the first argument its lower half, little-endian

_Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant


def denials(machine: str = platform.machine()) -> bytes:
    """The filter for a machine ("x86_64", "aarch64"), as bubblewrap's --seccomp reads it.

    Raises:
        InfrastructureError: there is no filter for this kind of machine.
    """
    if machine not in _ARCHITECTURES:
        known = " and ".join(_ARCHITECTURES)
        raise InfrastructureError(f"sandboxes have system call filters for {known}, not for {machine}")
    column = list(_ARCHITECTURES).index(machine)
    program: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    for calls, error in ((_DENIED, errno.EPERM), (_ABSENT, errno.ENOSYS)):
        for numbers in calls.values():
            if (number := numbers[column]) is not None:
                program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | error)]
    program += _with_bits(_CLONE[column], _NAMESPACES)
    program += _with_bits(_UNSHARE[column], _NAMESPACES | _NEW_TIME)
    program += _of_family(_SOCKET[column])
    program += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


def _with_bits(number: int, bits: int) -> list[_Instruction]:
    """Deny a call whose first argument has one of these bits."""
    return [
        (_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _ARGUMENT),
        (_ANY_BIT, 0, 1, bits),
        (_RETURN, 0, 0, _ERROR | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _of_family(number: int) -> list[_Instruction]:
    """Deny `socket` for all families but the usual ones."""
    allowed = [(_EQUAL, len(_FAMILIES) - index, 0, family) for index, family in enumerate(_FAMILIES)]
    return [
        (_EQUAL, 0, len(_FAMILIES) + 3, number),
        (_LOAD, 0, 0, _ARGUMENT),
        *allowed,
        (_RETURN, 0, 0, _ERROR | errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    ]
