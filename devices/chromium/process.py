"""Finding, starting and ending Chromium, so that no browser outlives its owner.

Every browser is its own session (process group) with a private folder, for its profile and its files, whose
name carries the owner's pid and start time. Closing the command pipe ends Chromium by itself; `Process.stop`
makes sure; `sweep` ends what a killed owner left behind.

What a page's process could do if somebody took it over is bounded twice: by Chromium's own sandbox, where
user namespaces can be made, and as root by a user of its own (see `devices.processes`). One of the two there
must be.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from devices import foreign, owned, processes, watch
from devices.processes import Confined
from guiagent.errors import Fault, FaultError, InfrastructureError, MissingProgram

_KIND = "browser"
_HEADLESS_SHELLS = ("chromium-headless-shell", "chrome-headless-shell", "headless_shell")
_FULL_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = (
    "no Chromium found: run `make setup`, or `apt-get install chromium-headless-shell`, "
    "or `playwright install chromium-headless-shell`, or set GUIAGENT_CHROMIUM to a browser's path"
)

_FLAGS = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-default-apps",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-breakpad",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--mute-audio",
    "--force-color-profile=srgb",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",  # of a headless shell
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # of a full Chromium
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # its proxy resolves names, nobody else
    "--remote-debugging-pipe",
)
# One compositor frame per HeadlessExperimental.beginFrame, all stages of it, and none without it.
BEGIN_FRAME_FLAGS = (
    "--enable-begin-frame-control",
    "--run-all-compositor-stages-before-draw",
    "--disable-new-content-rendering-timeout",
    "--disable-threaded-animation",
    "--disable-threaded-scrolling",
    "--disable-checker-imaging",
    "--disable-image-animation-resync",
    "--disable-features=RasterInducingScroll",  # with it, a scroll beside a drawn canvas hangs the next frame
    "--block-new-web-contents",  # a second page would hang it; see Page on what becomes of a new window
)
# Without a zygote a browser starts sooner; one that has its own sandbox cannot do without it.
_UNSANDBOXED = ("--no-sandbox", "--no-zygote")
UNTHROTTLED_FLAGS = ("--disable-frame-rate-limit", "--disable-gpu-vsync")
EXPOSED_FLAGS = ("--remote-debugging-port=0",)  # on loopback; its profile says which
_SIGNALLED = 128  # a shell's exit code is this and the signal that ended its last command
# Chromium wants its pipe on descriptors 3 and 4; the shell moves our stdin and stdout there. It goes on where
# a file gets too large.
_EXEC = """trap '' XFSZ; exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>/dev/null"""


class Executable(NamedTuple):
    path: str
    headless_shell: bool  # the only build that has begin-frame control

    @property
    def reads(self) -> set[Path]:
        """Folders that it reads itself from."""
        return {Path(self.path).absolute().parent, Path(self.path).resolve().parent}


def find(executable: str | None = None) -> Executable:
    """The browser to use: the given path, $GUIAGENT_CHROMIUM, a headless shell, then a full Chromium."""
    chosen = executable or os.environ.get("GUIAGENT_CHROMIUM")
    if chosen:
        path = shutil.which(chosen)
        if path is None:
            raise MissingProgram(f"no executable browser at {chosen!r}; {MISSING}")
        return Executable(path, any(shell in Path(path).name for shell in _HEADLESS_SHELLS))
    for name in _HEADLESS_SHELLS:
        if path := shutil.which(name):
            return Executable(path, True)
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    for pattern in ("chromium_headless_shell-*/*/*headless*shell", "chromium-*/chrome-linux*/chrome"):
        found = [path for path in sorted(cache.glob(pattern), reverse=True) if os.access(path, os.X_OK)]
        if found:
            return Executable(str(found[0]), "headless" in pattern)
    for name in _FULL_BROWSERS:
        if path := shutil.which(name):
            return Executable(path, False)
    raise MissingProgram(MISSING)


def headless_shell() -> Executable:
    """The headless shell to use. Raises MissingProgram if there is none."""
    found = find()
    if not found.headless_shell:
        raise MissingProgram(f"a headless shell is needed, and {found.path} is none; {MISSING}")
    return found


class Process:
    """One running Chromium: its process, its pipe and its folder.

    Attributes:
        files: a private folder for downloads and for files given to it, removed with the process.
        profile: its profile. Like `files` the browser may have put anything there, links included.
    """

    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.pid = process.pid
        self.reader = process.stdout
        self.writer = process.stdin
        self.files = folder / "files"
        self.profile = folder / "profile"
        self._process = process
        self._folder = folder

    @classmethod
    async def start(
        cls,
        executable: Executable,
        width: int,
        height: int,
        flags: Sequence[str],
        *,
        fill: Callable[[Path], None] | None = None,
        allow_unisolated: bool = False,
    ) -> "Process":
        """Start a browser with a throwaway profile, into whose folder `fill` may put an earlier one.

        Raises:
            InfrastructureError: nothing would keep its pages from this machine's files, and nobody has
                allowed that.
        """
        folder = owned.create_folder(_KIND)
        try:
            (folder / "files" / "Downloads").mkdir(parents=True)
            if fill is not None:
                await asyncio.to_thread(fill, folder / "profile")
            confined = await asyncio.to_thread(_confine, folder, executable, allow_unisolated)
        except BaseException:
            owned.remove_folder(folder)
            raise
        arguments = [*_FLAGS, *flags, f"--window-size={width},{height}", f"--user-data-dir={folder}/profile"]
        if not _has_own_sandbox(confined):
            arguments += _UNSANDBOXED
        if not executable.headless_shell:
            arguments.append("--headless=new")
        try:
            process = await asyncio.create_subprocess_exec(
                *confined.command,
                "/bin/sh",
                "-c",
                _EXEC,
                executable.path,
                *arguments,
                "about:blank",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=confined.environment,
                start_new_session=True,
                limit=1 << 22,
            )
        except OSError as error:
            owned.remove_folder(folder)
            fault = Fault("device", "start_failed", f"cannot start {executable.path}: {error.strerror}")
            raise FaultError(fault) from error
        watch.add(process.pid, folder)
        return cls(process, folder)

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    @property
    def ending(self) -> str:
        """How the process ended, as a reader of a fault would want it told: "signal 9", "exit code 1"."""
        code = self._process.returncode
        return "still running" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"

    @property
    def crashed(self) -> bool:
        """True if a signal ended the process, or the browser under Debian's shell script around it."""
        code = self._process.returncode
        return code is not None and (code < 0 or code > _SIGNALLED)

    async def port(self) -> int:
        """The port of a browser started with EXPOSED_FLAGS; waits until there is one."""
        while True:
            with contextlib.suppress(OSError, ValueError):
                return int(foreign.read(self.profile, ["DevToolsActivePort"], 64).split()[0])
            await asyncio.sleep(0.02)

    async def stop(self, *, save: Callable[[Path], None] | None = None, grace_s: float = 2.0) -> None:
        """End the whole process group, wait for it, let `save` have its profile, and remove its folder.

        Idempotent.
        """
        self.writer.close()  # Chromium leaves when its pipe closes
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), grace_s)
        watch.remove(self.pid)
        # Also when the leader left: on Debian it is a shell script around the browser.
        owned.kill_group(self.pid)
        await self._process.wait()
        await asyncio.to_thread(self._clean_up, save, grace_s)

    def _clean_up(self, save: Callable[[Path], None] | None, grace_s: float) -> None:
        until = time.monotonic() + grace_s
        while (
            _living(self.pid) and time.monotonic() < until
        ):  # the kernel takes its time where memory is large
            time.sleep(0.01)
        if save is not None and self.profile.is_dir():
            save(self.profile)
        owned.remove_folder(self._folder)


def _confine(folder: Path, executable: Executable, allow_unisolated: bool) -> Confined:
    confined = processes.confine(folder, executable.reads, allow_unisolated=allow_unisolated)
    if confined.user is None and not allow_unisolated and not _has_own_sandbox(confined):
        raise InfrastructureError(
            f"pages cannot be kept from this machine's files: {processes.why_no_namespace()}; allow user "
            "namespaces, or run as root, or with --allow-unisolated (GUIAGENT_ALLOW_UNISOLATED=1)"
        )
    return confined


def _has_own_sandbox(confined: Confined) -> bool:
    """Whether Chromium can make its sandbox, which it refuses to as root."""
    return (os.geteuid() != 0 or confined.user is not None) and not processes.why_no_namespace()


def sweep() -> int:
    """End browsers whose owner process is gone and remove their folders; returns how many were ended."""
    ended = owned.end_commands(_is_orphan)
    owned.remove_orphaned(_KIND)
    return ended


def _is_orphan(arguments: list[str]) -> bool:
    """True for the command line of a browser that `Process.start` of a dead owner started."""
    option = f"--user-data-dir={tempfile.gettempdir()}/"
    folders = [
        argument.removeprefix(option).partition("/")[0]
        for argument in arguments
        if argument.startswith(option)
    ]
    return "--remote-debugging-pipe" in arguments and any(owned.is_orphaned(_KIND, one) for one in folders)


def _living(group: int) -> bool:
    """True while a process of the group runs; those that only wait to be reaped do not count."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                return True
    return False
