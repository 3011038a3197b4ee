"""Build the root of a sandbox in private namespaces, drop privileges, and become bubblewrap.

Run as a script with one argument, a `Plan` as JSON; needs nothing outside the standard library. The mounts
live in a private mount namespace, so they go when the last process of the sandbox does, however it ended.

As root, the sandbox runs under a host user id of its own that owns nothing on this machine, and the system
folders are mounted with root's files mapped to that id (idmapped mounts, Linux 5.19), so that the user inside
may change them, in the overlay. If the kernel or the file system cannot map, they are mounted as they are. As
another user, all of it happens in a user namespace.
"""

import ctypes
import json
import os
import resource
import sys
from pathlib import Path
from typing import TypedDict

DISK = Path("/mnt")  # a tmpfs there, in the private namespace: all that the sandbox ever writes
ROOT = DISK / "root"
UPPER = DISK / "upper"
_FIRST_UID = 0x7000_0000  # plus this process's id: unique while the sandbox lives, and nobody else's

_PROCESSES = 4096

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT = 1, 2, 4, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # the same on every architecture
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH, _AT_EMPTY_PATH, _MOUNT_ATTR_IDMAP = 1, 4, 0x1000, 0x100000
_AT_FDCWD = -100


class Plan(TypedDict):
    """Description of a sandbox.

    Attributes:
        name: name of the sandbox in the list of processes.
        size: bytes that it may write.
        overlays: folders of the host that appear writable, by place in the root ("" is all of it).
        layer: content of files laid over the overlays, by path; "" hides what the host has there.
        binds: source, place in the root, and whether it is read-only.
        folders: folders to make, owned by the user.
        links: targets of symbolic links to make, by path.
        command: bubblewrap and its arguments.
    """

    name: str
    size: int
    overlays: dict[str, str]
    layer: dict[str, str]
    binds: list[tuple[str, str, bool]]
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
    _check(_libc.unshare(flags), "unshare")


def _user_namespace(uid: int) -> int:
    """Open a descriptor of a user namespace in which root is host user `uid`."""
    ready, hold = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        _unshare(_CLONE_NEWUSER)
        os.write(ready[1], b".")
        os.read(hold[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
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


def _bind(source: str, place: str, read_only: bool) -> None:
    target = ROOT / place
    if Path(source).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(source, target, "", _MS_BIND)
    flags = _MS_REMOUNT | _MS_BIND | _MS_NOSUID | _MS_NODEV | (_MS_RDONLY if read_only else 0)
    _mount("", target, "", flags)


def main() -> None:
    plan: Plan = json.loads(sys.argv[1])
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
    _mount("tmpfs", DISK, "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={plan['size']},mode=755")
    for place, source in plan["overlays"].items():
        _overlay(place, source, plan, uid, namespace)
    for path in plan["folders"]:
        (ROOT / path).mkdir(parents=True, exist_ok=True)
    for folder in (ROOT, DISK / "shm"):
        folder.mkdir(exist_ok=True)
    for path, goal in plan["links"].items():
        if not (ROOT / path).is_symlink():
            (ROOT / path).symlink_to(goal)
    for path in [*plan["folders"], "", "../shm"]:
        os.chown(ROOT / path, uid, uid)
    for source, place, read_only in plan["binds"]:
        _bind(source, place, read_only)
    if as_root:
        _, ceiling = resource.getrlimit(resource.RLIMIT_NPROC)
        most = _PROCESSES if ceiling == resource.RLIM_INFINITY else min(_PROCESSES, ceiling)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))  # counted by user id
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    program, *arguments = plan["command"]
    os.execvp(program, [plan["name"], *arguments])


if __name__ == "__main__":
    main()
