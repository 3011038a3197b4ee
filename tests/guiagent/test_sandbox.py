"""The system call filter of sandboxes, as the kernel reads it, and what a machine without them is told."""

import errno
import shutil
import struct

import pytest

from guiagent import sandbox
from guiagent.errors import InfrastructureError
from guiagent.sandbox.seccomp import denials

ALLOWED, KILLED = "allowed", "killed"
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def verdict(machine: str, number: int, argument: int = 0, architecture: int | None = None) -> object:
    """What the filter answers to a call: an errno, `ALLOWED` or `KILLED`."""
    data = struct.pack("<IIQQ", number, architecture or ARCHITECTURES[machine], 0, argument)
    code = denials(machine)
    program = [struct.unpack_from("<HBBI", code, place) for place in range(0, len(code), 8)]
    place, loaded = 0, 0
    while True:
        kind, yes, no, constant = program[place]
        place += 1
        match kind:
            case 0x20:
                (loaded,) = struct.unpack_from("<I", data, constant)
            case 0x15:
                place += yes if loaded == constant else no
            case 0x35:
                place += yes if loaded >= constant else no
            case 0x45:
                place += yes if loaded & constant else no
            case 0x06:
                action = {0x7FFF0000: ALLOWED, 0x80000000: KILLED}
                return action.get(constant, constant & 0xFFFF)
            case _:
                raise AssertionError(f"instruction {kind:#x}")


@pytest.mark.parametrize(
    ("machine", "numbers"),
    [
        (
            "x86_64",
            {"read": 0, "clone": 56, "unshare": 272, "socket": 41, "mount": 165, "ptrace": 101, "last": 450},
        ),
        (
            "aarch64",
            {"read": 63, "clone": 220, "unshare": 97, "socket": 198, "mount": 40, "ptrace": 117, "last": 450},
        ),
    ],
)
def test_the_filter(machine: str, numbers: dict[str, int]) -> None:
    threads, user_namespace, files = 0x3D0F00, 0x10000000, 0x400
    for name, argument, expected in (
        ("read", 0, ALLOWED),
        ("clone", 17, ALLOWED),
        ("clone", threads, ALLOWED),
        ("clone", user_namespace | 17, errno.EPERM),
        ("clone", 0x20000000 | 17, errno.EPERM),
        ("unshare", files, ALLOWED),
        ("unshare", user_namespace, errno.EPERM),
        ("unshare", 0x80, errno.EPERM),
        ("socket", 1, ALLOWED),
        ("socket", 2, ALLOWED),
        ("socket", 10, ALLOWED),
        ("socket", 16, ALLOWED),
        ("socket", 38, errno.EAFNOSUPPORT),
        ("socket", 40, errno.EAFNOSUPPORT),
        ("mount", 0, errno.EPERM),
        ("ptrace", 0, errno.EPERM),
    ):
        assert verdict(machine, numbers[name], argument) == expected, (name, argument)
    assert verdict(machine, 435) == errno.ENOSYS  # clone3
    assert verdict(machine, 425) == errno.ENOSYS  # io_uring_setup
    assert verdict(machine, numbers["read"], architecture=0x40000003) == KILLED  # 32-bit calls


def test_calls_of_the_x32_interface_are_not_there() -> None:
    assert verdict("x86_64", 0x40000000 | 165) == errno.ENOSYS


def test_another_machine_is_told_that_there_is_no_filter() -> None:
    with pytest.raises(InfrastructureError, match="x86_64 and aarch64, not for riscv64"):
        denials("riscv64")


def test_without_bubblewrap_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "apt-get install bubblewrap" in sandbox.why_not_isolated({})  # type: ignore[typeddict-item]
