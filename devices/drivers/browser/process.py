"""Finding, starting and ending Chromium, so that no browser outlives its owner.

Every browser is its own session (process group) with a private profile folder whose name carries the owner's
pid and start time. Closing the command pipe ends Chromium by itself; `Process.stop` makes sure; `sweep` ends
what a killed owner left behind.
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import tempfile
from pathlib import Path
from typing import NamedTuple

from guiagent.errors import Fault, FaultError, InfrastructureError

_PROFILE_PREFIX = "guiagent-browser-"
_PROFILE = re.compile(_PROFILE_PREFIX + r"(?P<pid>\d+)-(?P<start_time>\d+)-\w+")
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
    "--no-zygote",
    "--hide-scrollbars",
    "--mute-audio",
    "--force-color-profile=srgb",
    "--block-new-web-contents",  # a device is one page; see Page on what becomes of a new window
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
)
UNTHROTTLED_FLAGS = ("--disable-frame-rate-limit", "--disable-gpu-vsync")
EXPOSED_FLAGS = (
    "--remote-debugging-port=0",
)  # on loopback; the browser writes the port it got to its profile


class Executable(NamedTuple):
    path: str
    headless_shell: bool  # the only build that has begin-frame control


def find(executable: str | None = None) -> Executable:
    """The browser to use: the given path, $GUIAGENT_CHROMIUM, a headless shell, then a full Chromium."""
    chosen = executable or os.environ.get("GUIAGENT_CHROMIUM")
    if chosen:
        path = shutil.which(chosen)
        if path is None:
            raise InfrastructureError(f"no executable browser at {chosen!r}; {MISSING}")
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
    raise InfrastructureError(MISSING)


class Process:
    """One running Chromium: its process, its pipe and its profile folder."""

    def __init__(self, process: asyncio.subprocess.Process, profile: Path) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.pid = process.pid
        self.reader = process.stdout
        self.writer = process.stdin
        self._process = process
        self._profile = profile

    @classmethod
    async def start(
        cls, executable: Executable, width: int, height: int, flags: tuple[str, ...]
    ) -> "Process":
        profile = Path(tempfile.mkdtemp(prefix=f"{_PROFILE_PREFIX}{os.getpid()}-{_start_time(os.getpid())}-"))
        arguments = [*_FLAGS, *flags, f"--window-size={width},{height}", f"--user-data-dir={profile}"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # Chromium's sandbox refuses to run as root
        if not executable.headless_shell:
            arguments.append("--headless=new")
        try:
            # Chromium wants its pipe on descriptors 3 and 4; the shell moves our stdin and stdout there.
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                'exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>/dev/null',
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
            shutil.rmtree(profile, ignore_errors=True)
            fault = Fault("device", "start_failed", f"cannot start {executable.path}: {error.strerror}")
            raise FaultError(fault) from error
        return cls(process, profile)

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def port(self) -> int:
        """The port of a browser started with EXPOSED_FLAGS; waits until there is one."""
        file = self._profile / "DevToolsActivePort"
        while True:
            if file.exists() and (lines := file.read_text().splitlines()):
                return int(lines[0])
            await asyncio.sleep(0.02)

    async def stop(self, grace_s: float = 2.0) -> None:
        """End the whole process group, wait for it, and remove the profile. Idempotent."""
        self.writer.close()  # Chromium leaves when its pipe closes
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), grace_s)
        _kill_group(self.pid)  # also when the leader left: on Debian it is a shell script around the browser
        await self._process.wait()
        await asyncio.to_thread(shutil.rmtree, self._profile, ignore_errors=True)


def sweep() -> int:
    """End browsers whose owner process is gone and remove their profiles; returns how many were ended."""
    folder = Path(tempfile.gettempdir())
    groups = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it ended meanwhile, or is not ours to read
            if entry.name.isdigit() and _is_orphan((entry / "cmdline").read_bytes(), folder):
                groups.add(os.getpgid(int(entry.name)))
    for group in groups:
        _kill_group(group)
    for profile in folder.glob(f"{_PROFILE_PREFIX}*"):
        if _owner_gone(profile.name):
            shutil.rmtree(profile, ignore_errors=True)
    return len(groups)


def _is_orphan(cmdline: bytes, folder: Path) -> bool:
    """True for the command line of a browser that `Process.start` of a dead owner started."""
    arguments = [os.fsdecode(argument) for argument in cmdline.split(b"\0")]
    option = f"--user-data-dir={folder}/"
    profiles = [argument.removeprefix(option) for argument in arguments if argument.startswith(option)]
    return "--remote-debugging-pipe" in arguments and any(map(_owner_gone, profiles))


def _owner_gone(profile_name: str) -> bool:
    match = _PROFILE.fullmatch(profile_name)
    return match is not None and _start_time(int(match["pid"])) != match["start_time"]


def _start_time(pid: int) -> str:
    """When the process started, in clock ticks since boot; "" when it is gone. Tells reused pids apart."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
