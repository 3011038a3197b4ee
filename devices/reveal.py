"""Opens the way to single folders below one that a user may not enter, such as root's home, and no others.

Run as a script by root, with a plan and a command, which it becomes: in a mount namespace of its own, each
closed folder is covered by an empty one in which only the wanted folders are. Needs nothing outside the
standard library.
"""

import ctypes
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

_CLONE_NEWNS = 0x20000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18


def plan(covered: Iterable[Path], shown: Mapping[Path, bool]) -> str:
    """The script's first argument.

    Args:
        covered: the closed folders.
        shown: the wanted folders below them, and whether each is read-only.
    """
    return json.dumps([sorted({str(path) for path in covered}), {str(path): shown[path] for path in shown}])


def main() -> None:
    covered, shown = json.loads(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)

    def check(result: int, what: str) -> None:
        if result < 0:
            raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")

    def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
        words = [source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()]
        check(libc.mount(*words), f"mount {target}")

    check(libc.unshare(_CLONE_NEWNS), "unshare")
    mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    sources = {path: os.open(path, os.O_PATH) for path in shown}
    for path in covered:
        mount("none", path, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755,size=1m")
    for path, read_only in shown.items():
        Path(path).mkdir(parents=True, exist_ok=True)
        mount(f"/proc/self/fd/{sources[path]}", path, "", _MS_BIND)
        kept = _MS_NOEXEC if os.statvfs(path).f_flag & os.ST_NOEXEC else 0
        flags = _MS_REMOUNT | _MS_BIND | _MS_NOSUID | _MS_NODEV | kept
        mount("", path, "", flags | (_MS_RDONLY if read_only else 0))
        os.close(sources[path])
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
