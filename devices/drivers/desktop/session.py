"""One session of a desktop, with a fresh X server and a fresh root, which a reset throws away."""

import asyncio
import contextlib
import os
import re
import secrets
import shutil
import struct
from collections.abc import Coroutine, Mapping, Set
from importlib.util import find_spec
from pathlib import Path

import xxhash

import devices
from devices import furnishing, owned
from devices.config import DesktopConfig
from devices.drivers.desktop import sandbox
from devices.drivers.desktop.applications import menu
from devices.drivers.desktop.capture import Capture
from devices.drivers.desktop.display import Display
from devices.drivers.desktop.guest import Guest
from devices.drivers.desktop.sandbox import Process
from guiagent.errors import MissingProgram
from guiagent.sandbox import Plan

EGRESS_PORT = 3128
_PROXY = f"http://127.0.0.1:{EGRESS_PORT}"
_GUEST_CODE = "opt/guiagent"
_BIN, _HOME = f"{_GUEST_CODE}/bin", f"{_GUEST_CODE}/home"  # of `devices.furnishing`
_SOCKET = "guest.sock"
_START_S = 20.0
_NEEDED = {
    "Xvfb": "xvfb",
    "openbox": "openbox",
    "dbus-run-session": "dbus-daemon",
    "python3": "python3",
    "setpriv": "util-linux",
}
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/games:/usr/games"
_ENVIRONMENT = {
    "USER": "user",
    "LOGNAME": "user",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
    "XDG_SESSION_TYPE": "x11",
    # Accessibility: toolkits register with AT-SPI, whose bus starts with the first of them.
    "GTK_MODULES": "gail:atk-bridge",
    "SAL_USE_VCLPLUGIN": "gtk3",
    "ACCESSIBILITY_ENABLED": "1",
    "GNOME_ACCESSIBILITY": "1",
    "QT_ACCESSIBILITY": "1",
    "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",
}
_PROXIED = {
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _PROXY),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1"),
}
_CHROMIUM = (
    'export CHROMIUM_FLAGS="$CHROMIUM_FLAGS --no-first-run --no-default-browser-check --disable-gpu '
    "--force-renderer-accessibility --password-store=basic --disable-background-networking "
    # Its own sandbox wants namespaces, which this one does not give; "test-type" hides a bar that says so.
    "--no-sandbox --test-type "
    f'--proxy-server={_PROXY}"\n'
)
_RANDOM = re.compile(r"(?<=guiagent-guest-)\w{8}")  # the guest server's own folder
# The window manager leads: when it ends, so does the session.
_PROGRAMS = f"""
cd "$HOME"
exec >/dev/null 2>&1
cp -rT "$SKELETON" .
mkdir -p {" ".join(furnishing.FOLDERS)}
/usr/bin/python3 -m devices.guest --unix "$GUEST_SOCKET" $GUEST_PROXY &
until [ -S "/tmp/.X11-unix/X${{DISPLAY#:}}" ]; do sleep 0.01; done
exec openbox
"""


class Session:
    def __init__(self, folder: Path, config: DesktopConfig, egress: Path, isolated: bool) -> None:
        self.isolated = isolated
        self.server: Process
        self.programs: Process
        self.display: Display
        self.capture: Capture
        self.guest: Guest
        self._folder = folder
        self._config = config
        self._egress = egress
        self._cookie = secrets.token_bytes(16)
        self._stack = contextlib.AsyncExitStack()

    @classmethod
    async def start(cls, folder: Path, config: DesktopConfig, egress: Path, isolated: bool) -> "Session":
        """Start a session; `folder` is the device's, `egress` the socket of its egress proxy."""
        name = secrets.token_hex(4)
        session = cls(folder / name, config, egress, isolated)
        try:
            await session._start()
        except BaseException:
            await session.stop()
            raise
        return session

    async def stop(self) -> None:
        """End the session and remove its folder. Idempotent."""
        await self._stack.aclose()
        if not self.isolated:
            sandbox.end_marked(self._folder)
        await asyncio.to_thread(owned.remove_folder, self._folder)

    def dead(self) -> str:
        """The part that has ended; "" while all parts run."""
        if not self.server.running or not self.display.alive:
            return "the X server"
        return "" if self.programs.running else "the window manager"

    async def digest(self) -> str:
        """Digest of what `residue` finds."""
        return xxhash.xxh3_64_hexdigest(repr(await self.residue()).encode())

    async def residue(self) -> list[object]:
        """Every file written (name and size) and process, and a digest of windows, selections and buttons."""
        files = await asyncio.to_thread(self._files)
        return [files, self.programs.programs(), await self.display.digest()]

    def _files(self) -> list[tuple[str, int]]:
        if not self.isolated:
            return _listing(self._folder / "home")
        disk = self.programs.disk()
        overlaid = list(sandbox.SYSTEM) if self._config.rootfs is None else [""]
        skipped = {disk / "root" / place for place in (*overlaid, _GUEST_CODE)}
        return _listing(disk / "upper") + _listing(disk / "root", skipped)

    async def _start(self) -> None:
        for name in ("x", "run", "fb", "home"):
            folder = self._folder / name
            folder.mkdir(parents=True)
            folder.chmod(0o777)  # for the sandboxes' users; the device's folder keeps others out
        self._write_cookie("server", 0)
        async with asyncio.timeout(_START_S):
            number = await self._start_processes()
            socket = self._folder / "x/X0" if self.isolated else Path(f"/tmp/.X11-unix/X{number}")
            self.display = await Display.open(socket, self._cookie)
            self._stack.push_async_callback(self.display.close)
            screen = self.server.disk() / "root/fb" if self.isolated else self._folder / "fb"
            self.capture = Capture(screen / "Xvfb_screen0", self._config.width, self._config.height)
            self._stack.callback(self.capture.close)
            await _unless_ended(self.programs, self._ready())

    async def _start_processes(self) -> int:
        """Start the X server and the programs, and return the display's number.

        Two sandboxes start at the same time, since the display in them is always :0.
        """
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as ready:
            try:
                self.server = await self._start_server(writing)
            finally:
                os.close(writing)
            self._stack.push_async_callback(self.server.stop)
            if self.isolated:
                self.programs = await self._start_programs(0)
                self._stack.push_async_callback(self.programs.stop)
            line = await _line(ready.fileno())
        if not line:
            raise self.server.failed("Xvfb")
        if not self.isolated:
            self.programs = await self._start_programs(int(line))
            self._stack.push_async_callback(self.programs.stop)
        return int(line)

    async def _start_server(self, ready: int) -> Process:
        """Start the X server, which writes its display's number to `ready` once it takes connections."""
        width, height = self._config.width, self._config.height
        cookie, screen = (
            ("/etc/cookie", "/fb")
            if self.isolated
            else (f"{self._folder}/server.cookie", f"{self._folder}/fb")
        )
        command = [
            *("Xvfb", *([":0"] if self.isolated else []), "-displayfd", str(ready)),
            *("-screen", "0", f"{width}x{height}x24", "-fbdir", screen, "-auth", cookie),
            *("-nolisten", "tcp", "-noreset", "-s", "0", "-maxclients", "512"),
        ]
        what = sandbox.server_plan(self._folder, width, height, command) if self.isolated else command
        return await Process.start(what, self._folder, "server", descriptors=(ready,))

    def _write_cookie(self, name: str, number: int) -> None:
        file = self._folder / f"{name}.cookie"
        host = sandbox.HOST if self.isolated else os.uname().nodename
        file.write_bytes(_xauthority(self._cookie, host, number))
        file.chmod(0o644)  # for the sandboxes' users, too

    async def _start_programs(self, number: int) -> Process:
        self._write_cookie("programs", number)
        guest_code = Path(devices.__file__).parent
        run = Path("/", sandbox.RUN) if self.isolated else self._folder / "run"
        environment = _ENVIRONMENT | {
            "HOME": "/home/user" if self.isolated else f"{self._folder}/home",
            "PATH": f"{f'/{_BIN}' if self.isolated else furnishing.BIN}:{_PATH}",
            "SKELETON": f"/{_HOME}" if self.isolated else str(furnishing.HOME),
            "DISPLAY": f":{number}",
            "XAUTHORITY": "/run/cookie" if self.isolated else f"{self._folder}/programs.cookie",
            "XDG_RUNTIME_DIR": "/run/user/1000" if self.isolated else f"{self._folder}/run",
            "PYTHONPATH": f"/{_GUEST_CODE}" if self.isolated else str(guest_code.parent),
            "GUEST_SOCKET": f"{run}/{_SOCKET}",
            "GUEST_PROXY": "--proxy-socket /run/egress.sock" if self.isolated else "",
        }
        command = ["dbus-run-session", "--", "/bin/sh", "-c", _PROGRAMS, str(self._folder)]
        what: Plan | list[str] = command
        if self.isolated:
            what = await asyncio.to_thread(self._plan, guest_code, environment, command)
        return await Process.start(what, self._folder, "programs", environment)

    def _plan(self, guest_code: Path, environment: Mapping[str, str], command: list[str]) -> Plan:
        binds = [
            (f"{guest_code}/__init__.py", f"{_GUEST_CODE}/devices/__init__.py", True),
            (f"{guest_code}/guest", f"{_GUEST_CODE}/devices/guest", True),
            (str(furnishing.BIN), _BIN, True),
            (str(furnishing.HOME), _HOME, True),
            (str(self._egress), "run/egress.sock", True),
            (f"{self._folder}/programs.cookie", "run/cookie", True),
        ]
        root = self._config.rootfs or Path("/")
        files = {
            **furnishing.system_files(root),
            "etc/chromium.d/guiagent": _CHROMIUM,
            "etc/xdg/openbox/menu.xml": menu(root),
        }
        return sandbox.programs_plan(
            self._folder, self._config.rootfs, binds, files, {**environment, **_PROXIED}, command
        )

    async def _ready(self) -> None:
        run = self.programs.disk() / "root" / sandbox.RUN if self.isolated else self._folder / "run"
        self.guest = await Guest.connect(run / _SOCKET)
        self._stack.push_async_callback(self.guest.close)
        await self.display.managed()
        await self.display.settle()


async def _unless_ended(process: Process, ready: Coroutine[None, None, None]) -> None:
    """Wait until the desktop is ready. Raises FaultError if its programs end first."""
    waits = [asyncio.ensure_future(ready), asyncio.ensure_future(process.ended())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not waits[0].done():
            raise process.failed("the desktop's session")
        waits[0].result()
    finally:
        for wait in waits:
            wait.cancel()


def require_programs(rootfs: Path | None) -> None:
    """Raise MissingProgram if something that a desktop needs is not installed."""
    if rootfs is not None and not (rootfs / "usr/bin/openbox").exists():
        raise MissingProgram(f"{rootfs} is no system with a desktop: it has no /usr/bin/openbox")
    missing = [package for program, package in _NEEDED.items() if shutil.which(program) is None]
    if missing:
        raise MissingProgram(f"a desktop needs more programs: apt-get install {' '.join(missing)}")
    if find_spec("simplejpeg") is None:
        raise MissingProgram("a desktop needs simplejpeg: pip install 'guiagent[desktop]'")


def _xauthority(cookie: bytes, host: str, number: int) -> bytes:
    """An .Xauthority with a MIT-MAGIC-COOKIE-1: one for this display by name, one for any (see Xau(3))."""
    entries = b""
    for family, address, display in ((256, host, str(number)), (65535, "", "")):
        fields = (address.encode(), display.encode(), b"MIT-MAGIC-COOKIE-1", cookie)
        entries += struct.pack(">H", family)
        entries += b"".join(struct.pack(">H", len(field)) + field for field in fields)
    return entries


async def _line(descriptor: int) -> bytes:
    """Read a line from a pipe; b"" if the pipe ends before a newline."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        data = b""
        while not data.endswith(b"\n"):
            await readable.wait()
            readable.clear()
            chunk = os.read(descriptor, 64)
            if not chunk:
                return b""
            data += chunk
        return data
    finally:
        loop.remove_reader(descriptor)


def _listing(top: Path, skipped: Set[Path] = frozenset()) -> list[tuple[str, int]]:
    """Names and sizes of the files below a folder; links are not followed, sockets left out."""
    found = []
    for folder, folders, files in os.walk(top):
        if Path(folder) in skipped:
            folders.clear()
            continue
        for name in files:
            path = Path(folder, name)
            with contextlib.suppress(OSError):  # it went meanwhile
                status = path.lstat()
                if not path.is_socket():
                    found.append((_RANDOM.sub("*", str(path.relative_to(top))), status.st_size))
    return sorted(found)
