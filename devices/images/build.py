"""Build the desktop guest from Debian packages: a qcow2 disk, its kernel and initrd, and a manifest.

The steps are mmdebstrap, our own files and the guest server on top, and `mkfs.ext4 -d`, which fills a file
system without mounting it. Making a root file system with its own users needs root.
"""

import datetime
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from devices import furnishing, guest
from devices.drivers.vm.image import File, Manifest, manifest
from guiagent.errors import InfrastructureError, MissingProgram

Report = Callable[[str], None]
"""Hears of each stage, and of progress within it."""

PACKAGES = [
    "linux-image-amd64", "initramfs-tools", "kmod", "iproute2", "procps", "psmisc", "sudo", "dbus",
    "dbus-x11", "xserver-xorg-core", "xserver-xorg-input-evdev", "x11-xserver-utils", "x11-utils",
    "openbox", "tint2", "xterm", "mousepad", "pcmanfm", "galculator", "fonts-dejavu-core",
    "adwaita-icon-theme", "librsvg2-common", "python3", "python-is-python3", "python3-xlib",
    "python3-pil", "python3-tk", "python3-gi", "gir1.2-atspi-2.0", "python3-pyatspi", "at-spi2-core",
    "xdotool", "wmctrl", "xclip", "curl", "ca-certificates", "xdg-utils",
]  # fmt: skip
APPLICATIONS = [
    "chromium", "libreoffice-calc", "libreoffice-writer", "libreoffice-impress", "libreoffice-gtk3", "gimp",
    "thunderbird", "vlc", "gnome-terminal", "gedit", "socat", "libatk-adaptor", "libgail-common",
    "dconf-gsettings-backend", "gsettings-desktop-schemas", "libglib2.0-bin", "ffmpeg", "file", "wget",
    "fonts-liberation", "gnome-shell-common", "gnome-settings-daemon-common", "jq", "bc", "sysstat",
]  # fmt: skip
"""What OSWorld's tasks use; `scripts/farm applications` installs the same on a host of desktops."""
IMAGES = {"desktop": PACKAGES, "osworld-desktop": [*PACKAGES, *APPLICATIONS]}
"""Packages of the images that can be built, by name."""
CMDLINE = (
    "root=/dev/vda rw console=ttyS0 net.ifnames=0 quiet panic=-1 "
    "mitigations=off tsc=reliable init=/opt/guiagent/init"
)
_TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "mkfs.ext4": "e2fsprogs",
    "qemu-img": "qemu-utils",
    "chroot": "coreutils",
}
_PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"  # some users' PATH lacks the last two
_FILES = Path(__file__).with_name("desktop")
_SERVER = Path(guest.__file__).parent
_INITRAMFS = {
    "etc/initramfs-tools/conf.d/guiagent": "MODULES=list\n",
    "usr/share/initramfs-tools/modules.d/guiagent": "virtio_pci\nvirtio_blk\next4\n",
}
_UNUSED_DRIVERS = [
    "gpu/drm/amd", "gpu/drm/i915", "gpu/drm/nouveau", "gpu/drm/radeon", "hwmon", "iio", "infiniband",
    "isdn", "md", "media", "mtd", "net/ethernet", "net/wireless", "scsi", "staging", "target", "usb",
]  # fmt: skip
_HOSTS = "127.0.0.1 localhost guest\n::1 localhost\n"
_FREE_MIB = 2048  # for what runs in the guest


def recipe(suite: str, packages: Sequence[str]) -> str:
    """Digest of an image's inputs: the Debian suite, the packages, and every file of ours that goes into it.

    Newer versions of the same packages do not change it.
    """
    ours = [Path(__file__), *_FILES.iterdir(), *_SERVER.glob("**/*.py")]
    ours += [
        path
        for path in Path(furnishing.__file__).parent.rglob("*")
        if path.suffix != ".pyc" and path.is_file()
    ]
    said = [suite, *sorted(packages), *(f"{file.name} {_described(file).sha256}" for file in sorted(ours))]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


def is_current(name: str, folder: Path, suite: str, extra: Sequence[str]) -> bool:
    """True if the image in `folder` is complete and has the recipe that `build` would use now."""
    try:
        return manifest(folder).recipe == recipe(suite, [*IMAGES[name], *extra])
    except InfrastructureError:
        return False


def build(name: str, suite: str, extra: Sequence[str], folder: Path, report: Report) -> Manifest:
    """Build an image of `IMAGES` into `folder`; one that is there is replaced only after the build succeeded.

    Raises MissingProgram if a program or root is missing, InfrastructureError if a step fails.
    """
    _require_means()
    wanted = [*IMAGES[name], *extra]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}-") as scratch:
        root, made = Path(scratch) / "root", Path(scratch) / "made"
        made.mkdir()
        report(f"packages of {suite}")
        _bootstrap(root, suite, wanted, Path(scratch) / "early", report)
        report("desktop and guest server")
        _furnish(root)
        packages = _packages(root)
        report("kernel and disk")
        _pack(root, made)
        files = {path.name: _described(path) for path in sorted(made.iterdir())}
        built_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        manifest = Manifest(name, suite, built_at, CMDLINE, files, packages, recipe(suite, wanted))
        (made / "manifest.json").write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1))
        shutil.rmtree(folder, ignore_errors=True)  # guests that run from it keep their open files
        made.rename(folder)
    return manifest


def _require_means() -> None:
    missing = sorted({package for tool, package in _TOOLS.items() if shutil.which(tool, path=_PATH) is None})
    wants = [f"`apt-get install {' '.join(missing)}`"] if missing else []
    wants += ["root, since it makes a file system with users of its own"] if os.geteuid() else []
    if wants:
        raise MissingProgram(f"building an image needs {' and '.join(wants)}")


def _bootstrap(root: Path, suite: str, packages: Sequence[str], early: Path, report: Report) -> None:
    for file, text in _INITRAMFS.items():  # before the kernel, so that it makes a small initrd at once
        (early / file).parent.mkdir(parents=True, exist_ok=True)
        (early / file).write_text(text)
    unused = [f"/lib/modules/*/kernel/drivers/{drivers}/*" for drivers in _UNUSED_DRIVERS]
    unused += ["/lib/modules/*/kernel/sound/*"]
    unused += [f"/usr/share/{papers}/*" for papers in ("man", "doc", "locale")]
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory"]
    command += ["--aptopt=Apt::Install-Recommends false"]
    command += [f"--dpkgopt=path-exclude={files}" for files in unused]
    command += [f"--essential-hook=sync-in {early} /", f"--include={','.join(packages)}", suite, str(root)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": _PATH},
    )
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line.strip())
        if line.startswith("I: "):
            report(f"  {line[3:].strip()}")
    if process.wait():
        raise InfrastructureError(f"mmdebstrap failed: {' | '.join(said[-5:])}")


def _furnish(root: Path) -> None:
    """Add our own files, and the user that OSWorld's tools expect: `user`, with the password `password`."""
    home = root / "opt/guiagent"
    home.mkdir(parents=True)
    for file in _FILES.iterdir():
        shutil.copyfile(file, home / file.name)
        (home / file.name).chmod(0o755 if file.suffix == "" else 0o644)
    (home / "menu.xml").replace(root / "etc/xdg/openbox/menu.xml")
    (home / "devices").mkdir()
    (home / "devices/__init__.py").touch()
    shutil.copytree(_SERVER, home / "devices/guest", ignore=shutil.ignore_patterns("__pycache__"))
    _run(
        "chroot", root, "useradd", "-m", "-s", "/bin/bash", "-u", "1000", "-G", "sudo,video,input,tty", "user"
    )
    _run("chroot", root, "chpasswd", given="user:password\n")
    for place, text in {**furnishing.system_files(root), "etc/hosts": _HOSTS}.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(text)
    shutil.copytree(furnishing.BIN, home / "bin")
    shutil.copytree(furnishing.HOME, root / "home/user", dirs_exist_ok=True)
    for name in furnishing.FOLDERS:
        (root / "home/user" / name).mkdir(exist_ok=True)
    _run("chroot", root, "chown", "-R", "user:user", "/home/user")
    sudoers = root / "etc/sudoers.d/user"
    sudoers.write_text("user ALL=(ALL) NOPASSWD: ALL\n")
    sudoers.chmod(0o440)
    _run("chown", "-R", "0:0", home, sudoers)
    _cache_fonts(root)
    _run("chroot", root, "python3", "-m", "compileall", "-q", "/opt/guiagent")
    for waste in ("var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(root / waste, ignore_errors=True)


def _cache_fonts(root: Path) -> None:
    """Make the font cache, with font folders whose times are whole seconds.

    A cache counts as current by its folder's time to the nanosecond, and `mkfs -d` keeps only seconds.
    """
    for fonts in ("usr/share/fonts", "usr/local/share/fonts"):
        for folder in (root / fonts).glob("**/"):
            os.utime(folder, (0, 0))
    _run("chroot", root, "fc-cache", "-f", "-s")


def _packages(root: Path) -> dict[str, str]:
    listed = _run("chroot", root, "dpkg-query", "-W", "-f", "${Package} ${Version}\n")
    return dict(line.split(" ", 1) for line in listed.splitlines())


def _pack(root: Path, made: Path) -> None:
    kernel, initrd = (max((root / "boot").glob(pattern)) for pattern in ("vmlinuz-*", "initrd.img-*"))
    shutil.copyfile(kernel, made / "vmlinuz")
    shutil.copyfile(initrd, made / "initrd.img")
    used_mib = int(_run("du", "-sm", root).split()[0])
    raw = made.parent / "disk.raw"
    with raw.open("wb") as file:
        file.truncate((used_mib * 11 // 10 + _FREE_MIB) << 20)
    _run("mkfs.ext4", "-q", "-F", "-L", "root", "-d", root, raw)
    _run("qemu-img", "convert", "-O", "qcow2", raw, made / "disk.qcow2")
    raw.unlink()


def _described(path: Path) -> File:
    with path.open("rb") as file:
        return File(hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size)


def _run(*command: str | Path, given: str | None = None) -> str:
    environment = {**os.environ, "PATH": _PATH}
    words = list(map(str, command))
    done = subprocess.run(words, input=given, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise InfrastructureError(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout
