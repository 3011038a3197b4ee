"""Finding, starting and ending Chromium, so that no browser outlives its owner.

Every browser is its own session (process group) with a private folder, for its profile and its files, whose
name carries the owner's pid and start time. Closing the command pipe ends Chromium by itself; `Process.stop`
makes sure; `sweep` ends what a killed owner left behind.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from devices import owned
from guiagent.errors import Fault, FaultError, MissingProgram

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
    "--block-new-web-contents",  # a second page would hang it; see Page on what becomes of a new window
)
# Without a zygote a browser starts sooner; one that has its own sandbox (not as root) cannot do without it.
_UNSANDBOXED = ("--no-sandbox", "--no-zygote")
UNTHROTTLED_FLAGS = ("--disable-frame-rate-limit", "--disable-gpu-vsync")
EXPOSED_FLAGS = ("--remote-debugging-port=0",)  # on loopback; its profile says which
_MAX_FILE_BLOCKS = 2 << 20  # of 512 bytes: no file a browser writes gets larger than 1 GiB
# Chromium wants its pipe on descriptors 3 and 4; the shell moves our stdin and stdout there.
_EXEC = f"""trap '' XFSZ; ulimit -f {_MAX_FILE_BLOCKS}; exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>/dev/null"""


class Executable(NamedTuple):
    path: str
    headless_shell: bool  # the only build that has begin-frame control


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


class Process:
    """One running Chromium: its process, its pipe and its folder.

    Attributes:
        files: a private folder for downloads and for files given to it, removed with the process.
    """

    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.pid = process.pid
        self.reader = process.stdout
        self.writer = process.stdin
        self.files = folder / "files"
        self._process = process
        self._folder = folder

    @classmethod
    async def start(
        cls,
        executable: Executable,
        width: int,
        height: int,
        flags: Sequence[str],
        profile: Path | None = None,
    ) -> "Process":
        """Start a browser with a throwaway profile, or with the folder `profile`, which is kept."""
        folder = owned.create_folder(_KIND)
        (folder / "files").mkdir()
        if profile is not None:  # a link, so that the command line says whose browser it is
            (folder / "profile").symlink_to(profile, target_is_directory=True)
        arguments = [*_FLAGS, *flags, f"--window-size={width},{height}", f"--user-data-dir={folder}/profile"]
        # Chromium refuses to be sandboxed as root, and cannot be in most containers, whose images say so.
        if os.geteuid() == 0 or os.environ.get("GUIAGENT_NO_SANDBOX"):
            arguments += _UNSANDBOXED
        if not executable.headless_shell:
            arguments.append("--headless=new")
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                _EXEC,
                executable.path,
                *arguments,
                "about:blank",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                limit=1 << 22,
            )
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            fault = Fault("device", "start_failed", f"cannot start {executable.path}: {error.strerror}")
            raise FaultError(fault) from error
        return cls(process, folder)

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def port(self) -> int:
        """The port of a browser started with EXPOSED_FLAGS; waits until there is one."""
        file = self._folder / "profile" / "DevToolsActivePort"
        while True:
            if file.exists() and (lines := file.read_text().splitlines()):
                return int(lines[0])
            await asyncio.sleep(0.02)

    async def stop(self, grace_s: float = 2.0) -> None:
        """End the whole process group, wait for it, and remove its folder. Idempotent."""
        self.writer.close()  # Chromium leaves when its pipe closes
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), grace_s)
        # Also when the leader left: on Debian it is a shell script around the browser.
        owned.kill_group(self.pid)
        await self._process.wait()
        await asyncio.to_thread(self._clean_up, grace_s)

    def _clean_up(self, grace_s: float) -> None:
        until = time.monotonic() + grace_s
        while (
            _living(self.pid) and time.monotonic() < until
        ):  # the kernel takes its time where memory is large
            time.sleep(0.01)
        shutil.rmtree(self._folder, ignore_errors=True)


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
