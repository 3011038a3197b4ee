"""Build the root of a sandbox in private namespaces, drop privileges, and become bubblewrap.

Run as a script with two arguments, a `Plan` as JSON and a system call filter in base64; needs nothing outside
the standard library. The mounts live in a private mount namespace, so they go when the last process of the
sandbox does, however it ended.

As root, the sandbox runs under a host user id of its own that owns nothing on this machine, and the system
folders are mounted with root's files mapped to that id (idmapped mounts, Linux 5.19), so that the user inside
may change them, in the overlay. If the kernel or the file system cannot map, they are mounted as they are. As
another user, all of it happens in a user namespace.
"""

import base64
import ctypes
import json
import os
import resource
import shutil
import stat
import sys
from pathlib import Path
from typing import TypedDict

DISK = Path("/mnt")  # a tmpfs there, in the private namespace: all that the sandbox ever writes
ROOT = DISK / "root"
UPPER = DISK / "upper"
_FIRST_UID = 0x7000_0000  # plus this process's id: unique while the sandbox lives, and nobody else's

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # the same on every architecture
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH, _AT_EMPTY_PATH, _MOUNT_ATTR_IDMAP = 1, 4, 0x1000, 0x100000
_AT_FDCWD = -100


class Plan(TypedDict):
    """Description of a sandbox.

    Attributes:
        name: name of the sandbox in the list of processes.
        size: bytes that it may write, in all places together.
        limits: resource limits by their names without RLIMIT_, see setrlimit(2). Processes (NPROC) are those
            of this sandbox.
        overlays: folders of the host that appear writable, by place in the root ("" is all of it).
        layer: content of files laid over the overlays, by path; "" hides what the host has there.
        binds: source, place in the root, and whether it is read-only.
        copies: source and place of files that are copied, so that everybody may read them.
        folders: folders to make, owned by the user; "" is the root itself.
        links: targets of symbolic links to make, by path.
        command: bubblewrap and its arguments.
    """

    name: str
    size: int
    limits: dict[str, int]
    overlays: dict[str, str]
    layer: dict[str, str]
    binds: list[tuple[str, str, bool]]
    copies: list[tuple[str, str]]
    folders: list[str]
    links: dict[str, str]
    command: list[str]


_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _mount(source: str, target: Path, kind: str, flags: int = 0, data: str = "") -> None:
    arguments = [source.encode(), bytes(target), kind.encode(), ctypes.c_ulong(flags), data.encode()]
    _check(_libc.mount(*arguments), f"mount {target}")


def _unshare(flags: int) -> None:
    what = "this host allows no user namespaces" if flags & _CLONE_NEWUSER else "unshare"
    _check(_libc.unshare(flags), what)


def _user_namespace(uid: int) -> int:
    """Open a descriptor of a user namespace in which root is host user `uid`."""
    ready, hold = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        _unshare(_CLONE_NEWUSER)
        os.write(ready[1], b".")
        os.read(hold[0], 1)
        os._exit(0)
    os.close(ready[1])
    if not os.read(ready[0], 1):
        raise OSError("this host allows no user namespaces")
    for kind in ("uid_map", "gid_map"):
        Path(f"/proc/{child}/{kind}").write_text(f"0 {uid} 1")
    namespace = os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
    os.write(hold[1], b".")
    os.waitpid(child, 0)
    return namespace


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def _mount_mapped(source: str, target: Path, namespace: int) -> None:
    """Show the folder `source` at `target` with owners mapped by the user namespace."""
    tree = _check(_libc.syscall(_OPEN_TREE, _AT_FDCWD, source.encode(), _OPEN_TREE_CLONE), "open_tree")
    attributes = _MountAttributes(attr_set=_MOUNT_ATTR_IDMAP, userns_fd=namespace)
    size = ctypes.sizeof(attributes)
    try:
        _check(
            _libc.syscall(_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, ctypes.byref(attributes), size),
            "mount_setattr",
        )
        _check(
            _libc.syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, bytes(target), _MOVE_MOUNT_F_EMPTY_PATH),
            "move_mount",
        )
    finally:
        os.close(tree)


def _overlay(place: str, source: str, plan: Plan, uid: int, namespace: int | None) -> None:
    name = place.replace("/", "-") or "all"
    layer, lower, upper = DISK / "layer" / name, DISK / "lower" / name, UPPER / name
    work, target = DISK / "work" / name, ROOT / place
    for folder in (layer, lower, upper, work, target):
        folder.mkdir(parents=True, exist_ok=True)
    os.chown(upper, uid, uid)
    for path, content in plan["layer"].items():
        if path.startswith(f"{place}/") or not place:
            file = layer / Path(path).relative_to(place)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
    for above, _, names in os.walk(layer):
        for path in (".", *names):
            os.chown(Path(above, path), uid, uid)
    options = f"upperdir={upper},workdir={work}" + ("" if namespace is not None else ",userxattr")
    if namespace is not None:
        try:
            _mount_mapped(source, lower, namespace)
            _mount("overlay", target, "overlay", 0, f"lowerdir={layer}:{lower},{options}")
            return
        except OSError:  # this kernel or file system cannot map owners
            pass
    _mount("overlay", target, "overlay", 0, f"lowerdir={layer}:{source},{options}")


def _bind(source: int, place: str, read_only: bool) -> None:
    """Show the file or folder that the descriptor `source` names."""
    target = ROOT / place
    if stat.S_ISDIR(os.fstat(source).st_mode):
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(f"/proc/self/fd/{source}", target, "", _MS_BIND)
    # A user namespace may not take this one away from a mount of the host.
    kept = _MS_NOEXEC if os.statvfs(target).f_flag & os.ST_NOEXEC else 0
    flags = _MS_REMOUNT | _MS_BIND | _MS_NOSUID | _MS_NODEV | kept | (_MS_RDONLY if read_only else 0)
    _mount("", target, "", flags)


def _copy(source: str, place: str) -> None:
    target = ROOT / place
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o444)


def _limit(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        _, ceiling = resource.getrlimit(kind)
        most = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
        resource.setrlimit(kind, (most, most))


def _filtered(command: list[str], code: bytes) -> list[str]:
    """Bubblewrap's command with the filter handed over in a descriptor."""
    descriptor = os.memfd_create("filter", 0)
    os.write(descriptor, code)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return [command[0], "--seccomp", str(descriptor), *command[1:]]


def main() -> None:
    plan: Plan = json.loads(sys.argv[1])
    code = base64.b64decode(sys.argv[2])
    os.umask(0o022)
    as_root = os.geteuid() == 0
    uid = _FIRST_UID + os.getpid() if as_root else 0
    namespace = _user_namespace(uid) if as_root else None
    if as_root:
        _unshare(_CLONE_NEWNS)
    else:
        outside, group = os.getuid(), os.getgid()
        _unshare(_CLONE_NEWNS | _CLONE_NEWUSER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {outside} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _mount("none", Path("/"), "", _MS_REC | _MS_PRIVATE)
    # Before anything is mounted: the disk may hide where they are.
    sources = [os.open(source, os.O_PATH) for source, _, _ in plan["binds"]]
    copied = [os.open(source, os.O_RDONLY) for source, _ in plan["copies"]]
    _mount("tmpfs", DISK, "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={plan['size']},mode=755")
    for place, source in plan["overlays"].items():
        _overlay(place, source, plan, uid, namespace)
    for path in ["proc", "dev", *plan["folders"]]:
        (ROOT / path).mkdir(parents=True, exist_ok=True)
    (DISK / "shm").mkdir()
    for path, goal in plan["links"].items():
        if not (ROOT / path).is_symlink():
            (ROOT / path).symlink_to(goal)
    for path in [*plan["folders"], "../shm"]:
        os.chown(ROOT / path, uid, uid)
    for descriptor, (_, place, read_only) in zip(sources, plan["binds"], strict=True):
        _bind(descriptor, place, read_only)
    for descriptor, (_, place) in zip(copied, plan["copies"], strict=True):
        _copy(f"/proc/self/fd/{descriptor}", place)
    command = _filtered(plan["command"], code)
    _limit(plan["limits"])
    if as_root:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    # Bubblewrap is the sandbox's first process, whose /proc/1/environ the programs inside may read.
    os.execve(shutil.which(command[0]) or command[0], [plan["name"], *command[1:]], {})


if __name__ == "__main__":
    main()
