"""Sandboxed processes of a desktop: what they may see, how they end, how leftovers are found.

A desktop has two sandboxes. One contains only the X server, so that a program can change the picture or the
server's memory only through the X protocol. The other contains the programs: it has its own process, network,
IPC and host name namespaces, a root in which everything may be written and nothing is kept, and none of the
host's home folders, /root, /tmp, /run or private files of /etc. `guiagent.sandbox` builds both.
"""

import asyncio
import contextlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from devices import namespaces, owned
from guiagent import sandbox
from guiagent.errors import Fault, FaultError
from guiagent.sandbox import SYSTEM_LINKS, Plan, bubblewrap

HOME = "home/user"
RUN = "run/guiagent"
HOST = "desktop"
KIND = "desktop"
_MARK = "GUIAGENT_DESKTOP"  # in the environment of every process we start; its value is the session's folder
_USER = 1000
_WRITABLE = ("var/tmp", "var/log", "var/lib/xkb", "opt", "srv", "mnt")
SYSTEM = ("usr", "etc", "var/cache/fontconfig", "var/lib/dpkg")
# The part of /etc that programs with windows need; a sandbox sees nothing else of it.
_ETC = re.compile(
    r"alternatives|bash\.bashrc|ca-certificates.*|chromium.*|dbus-1|dconf|debian_version|"
    r"dictionaries-common|emacs|fonts|ghostscript|gimp|glvnd|gnome.*|gtk-.*|host\.conf|inputrc|issue|"
    r"java.*|ld\.so\..*|libreoffice|lsb-release|localtime|locale\..*|login\.defs|magic.*|mailcap.*|"
    r"mime\.types|openal|os-release|papersize|perl|pulse|python3.*|protocols|services|shells|skel|ssl|"
    r"terminfo|thunderbird|timezone|vim|vulkan|X11|xattr\.conf|xdg"
)
_PROGRAM_DISK = 2 << 30  # bytes that a desktop may write in all places together
_SERVER_DISK = 64 << 20  # bytes that its X server may write besides the screen
_LIMITS = {"NPROC": 4096, "CORE": 0}


def server_plan(folder: Path, width: int, height: int, command: Sequence[str]) -> Plan:
    """Plan for the X server: read-only programs, its socket, its cookie, and a screen file in `fb`."""
    return Plan(
        name=str(folder),
        size=_SERVER_DISK + 4 * width * height,
        limits=_LIMITS,
        overlays={},
        layer={},
        binds=[
            ("/usr", "usr", True),
            (f"{folder}/x", "tmp/.X11-unix", False),
            (f"{folder}/server.cookie", "etc/cookie", True),
        ],
        copies=[],
        folders=["", "tmp", "fb", "var/lib/xkb"],
        links=SYSTEM_LINKS,
        command=bubblewrap(command, {"PATH": "/usr/bin:/bin"}, _USER, HOST),
    )


def programs_plan(
    folder: Path,
    rootfs: Path | None,
    binds: Sequence[tuple[str, str, bool]],
    files: Mapping[str, str],
    environment: Mapping[str, str],
    command: Sequence[str],
) -> Plan:
    """Plan for the programs: the host's system, or `rootfs`, under an overlay with `files` laid over it."""
    layer = {
        "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"
        f"user:x:{_USER}:{_USER}:User:/{HOME}:/bin/bash\nnobody:x:65534:65534::/:/usr/sbin/nologin\n",
        "etc/group": f"root:x:0:\nuser:x:{_USER}:\nnogroup:x:65534:\n",
        "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
        "etc/hostname": f"{HOST}\n",
        "etc/hosts": f"127.0.0.1 localhost {HOST}\n::1 localhost\n",
        "etc/resolv.conf": "",
        "etc/machine-id": "00000000000000000000000000000001\n",
        **files,
    }
    if rootfs is None:
        overlays = {place: f"/{place}" for place in SYSTEM if Path("/", place).is_dir()}
        layer = dict.fromkeys(_hidden(Path("/etc")), "") | layer
    else:
        overlays = {"": str(rootfs)}
    return Plan(
        name=str(folder),
        size=_PROGRAM_DISK,
        limits=_LIMITS,
        overlays=overlays,
        layer=layer,
        binds=[(f"{folder}/x", "tmp/.X11-unix", True), *binds],
        copies=[],
        folders=["", HOME, RUN, "tmp", f"run/user/{_USER}", *_WRITABLE],
        links=SYSTEM_LINKS if rootfs is None else {},
        command=bubblewrap(command, environment, _USER, HOST),
    )


def _hidden(folder: Path, needed: re.Pattern[str] | None = _ETC) -> list[str]:
    """Paths below `folder` to hide: those that are not `needed`, and those that not everybody may read."""
    hidden = []
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):  # it went meanwhile
            public = entry.is_symlink() or entry.stat(follow_symlinks=False).st_mode & 0o004
            if not public or (needed and not needed.fullmatch(entry.name)):
                hidden.append(entry.path.lstrip("/"))
            elif entry.is_dir(follow_symlinks=False):
                hidden += _hidden(Path(entry.path), None)
    return hidden


@cache
def why_not_isolated() -> str:
    """Why this host does not allow sandboxes; "" if it does. Raises FaultError for a timeout."""
    folder = owned.create_folder(KIND)
    try:
        (folder / "x").mkdir()
        return sandbox.why_not_isolated(programs_plan(folder, None, [], {}, {}, ["/bin/true"]))
    except TimeoutError as error:
        raise FaultError(Fault("device", "start_failed", str(error), retryable=True)) from error
    finally:
        owned.remove_folder(folder)


class Process:
    """A sandbox, or without isolation a process group, that ends with its owner.

    Attributes:
        pid: of bubblewrap outside the sandbox, or of the group's leader.
    """

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, log: Path, isolated: bool) -> None:
        self.pid = process.pid
        self.isolated = isolated
        self._process = process
        self._folder = folder
        self._log = log

    @classmethod
    async def start(
        cls,
        what: Plan | Sequence[str],
        folder: Path,
        name: str,
        environment: Mapping[str, str] | None = None,
        descriptors: tuple[int, ...] = (),
    ) -> "Process":
        """Start a plan in a sandbox, or a command without one and with only this `environment`."""
        isolated = isinstance(what, dict)
        command = (
            sandbox.command(what) if isinstance(what, dict) else ["setpriv", "--pdeathsig", "KILL", *what]
        )
        path = {"PATH": "/usr/local/bin:/usr/bin:/bin", _MARK: str(folder)}
        log = folder / f"{name}.log"
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
                env=path | dict(environment or {}),
                start_new_session=True,
                pass_fds=descriptors,
                cwd="/",
            )
        return cls(process, folder, log, isolated)

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def ended(self) -> None:
        await self._process.wait()

    def failed(self, what: str) -> FaultError:
        """Fault for a process that should run but has ended, with the last line of its log."""
        lines = self._log.read_text(errors="replace").strip().splitlines() if self._log.exists() else []
        why = f": {lines[-1][:300]}" if lines else ""
        return FaultError(Fault("device", "crashed", f"{what} ended{why}", retryable=True))

    def disk(self) -> Path:
        """Host path of all that was written in the sandbox; its content must not be trusted."""
        return Path(f"/proc/{self.pid}/root", *sandbox.DISK.parts[1:])

    def programs(self) -> list[str]:
        """Names of the processes inside, sorted."""
        if self.isolated:
            pids = [pid for child in namespaces.children(self.pid) for pid in namespaces.sharing(child)]
        else:
            pids = [pid for pid, folder in marked() if folder == self._folder]
        names = []
        for pid in pids:
            with contextlib.suppress(OSError):  # it ended meanwhile
                names.append(Path(f"/proc/{pid}/comm").read_text().strip())
        return sorted(names)

    async def stop(self) -> None:
        """End everything inside and wait until it has ended. Idempotent."""
        if self.running:
            if self.isolated:
                for child in namespaces.children(self.pid):  # the first in there ends last
                    namespaces.kill(child)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), 2.0)
            owned.kill_group(self.pid)
        await self._process.wait()


def sweep() -> int:
    """End desktops whose owner process is gone and remove their folders; returns how many were ended."""
    ended = owned.sweep(KIND)
    for pid, folder in marked():
        if not folder.exists():
            namespaces.kill(pid)
            ended += 1
    return ended


def end_marked(folder: Path) -> None:
    """End every process that was started for this session, even outside its process group."""
    for pid, session in marked():
        if session == folder:
            namespaces.kill(pid)


def marked() -> list[tuple[int, Path]]:
    """Process id and session folder of every process that inherited the environment of a session."""
    prefix = f"{_MARK}=".encode()

    def session_of(process: Path) -> tuple[int, Path] | None:
        for variable in (process / "environ").read_bytes().split(b"\0"):
            if variable.startswith(prefix):
                return int(process.name), Path(os.fsdecode(variable.removeprefix(prefix)))
        return None

    return owned.survey(session_of)
