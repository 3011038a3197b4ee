"""Images that a VM boots: one that `guiagent image build` made, a qcow2 file, or a URL with its digest."""

import asyncio
import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec

from devices.drivers.vm.tools import run
from guiagent.client.local_pool import state_dir
from guiagent.errors import DECODE_ERRORS, InfrastructureError, MissingProgram, UsageError

_CHUNK = 1 << 20
_QCOW2 = b"QFI\xfb"
_DOWNLOAD_TIMEOUT_S = 60.0  # of silence


class File(msgspec.Struct, frozen=True):
    sha256: str
    bytes: int


class Manifest(msgspec.Struct, frozen=True):
    """`manifest.json` beside the files of a built image."""

    name: str
    suite: str
    built_at: str  # UTC, ISO 8601
    cmdline: str
    """The kernel's command line."""
    files: dict[str, File]
    """By name: `disk.qcow2`, `vmlinuz`, `initrd.img`."""
    packages: dict[str, str]
    """Every Debian package in the guest, and its version."""
    recipe: str = ""
    """Digest of what it was asked to be made of: see `devices.images.build.recipe`."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image; `id` changes with the contents. Without a kernel, the BIOS boots the disk."""

    id: str
    disk: Path
    kernel: Path | None = None
    initrd: Path | None = None
    cmdline: str = ""

    @property
    def ours(self) -> bool:
        """True if `guiagent image build` made it, so that its software is known."""
        return self.kernel is not None


def images_dir() -> Path:
    return state_dir() / "images"


async def find(image: str, sha256: str | None = None) -> Image:
    """The image that a config names. Raises UsageError, or InfrastructureError with the way to get it."""
    if "://" in image:
        return await _downloaded(image, sha256)
    if "/" in image or image.endswith(".qcow2"):
        return await asyncio.to_thread(_plain, Path(image), sha256)
    return built(image)


def manifest(folder: Path) -> Manifest:
    """Read the manifest of the image in `folder`. Raises InfrastructureError if the image is not complete."""
    try:
        made = msgspec.json.decode((folder / "manifest.json").read_bytes(), type=Manifest)
    except FileNotFoundError:
        name = folder.name
        message = f"no image {name!r} in {folder.parent}: make it with `guiagent image build {name}`"
        raise MissingProgram(message) from None
    except DECODE_ERRORS as error:
        message = f"{folder}/manifest.json is damaged ({error}): build the image again"
        raise InfrastructureError(message) from error
    for file, expected in made.files.items():
        path = folder / file
        if not path.is_file() or path.stat().st_size != expected.bytes:
            raise InfrastructureError(f"{path} is not what its manifest says: build the image again")
    return made


def built(name: str) -> Image:
    """An image of `guiagent image build` by its name."""
    folder = images_dir() / name
    made = manifest(folder)
    digest = made.files["disk.qcow2"].sha256
    return Image(digest, folder / "disk.qcow2", folder / "vmlinuz", folder / "initrd.img", made.cmdline)


def _plain(disk: Path, sha256: str | None) -> Image:
    disk = disk.expanduser()
    try:
        status = disk.stat()
        with disk.open("rb") as file:
            head = file.read(len(_QCOW2))
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest() if sha256 else None
    except OSError as error:
        raise UsageError(f"cannot read the image {disk}: {error.strerror}") from error
    if head != _QCOW2:
        raise UsageError(f"{disk} is not a qcow2 image; `qemu-img convert -O qcow2` makes one")
    if digest != sha256:
        raise UsageError(f"{disk} does not have the sha256 that the config gives")
    identity = f"{disk.resolve()} {status.st_size} {status.st_mtime_ns}"
    return Image(hashlib.sha256(identity.encode()).hexdigest(), disk.resolve())


async def _downloaded(url: str, sha256: str | None) -> Image:
    """The image at `url`, fetched once into a folder that is named after its digest."""
    if sha256 is None:
        raise UsageError(f"the image {url} needs its sha256 in the config")
    folder = images_dir() / f"sha256-{sha256}"
    disk = folder / "disk.qcow2"
    if not disk.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            partial = Path(scratch) / "disk.qcow2"
            await _fetch(url, sha256, partial)
            await _require_self_contained(partial, url)
            partial.rename(disk)
    return Image(sha256, disk)


async def _fetch(url: str, sha256: str, to: Path) -> None:
    digest = hashlib.sha256()
    try:
        async with (
            httpx.AsyncClient(follow_redirects=True, timeout=_DOWNLOAD_TIMEOUT_S) as client,
            client.stream("GET", url) as response,
        ):
            response.raise_for_status()
            with to.open("wb") as file:
                async for chunk in response.aiter_bytes(_CHUNK):
                    digest.update(chunk)
                    file.write(chunk)
    except (httpx.HTTPError, OSError) as error:
        raise InfrastructureError(f"cannot download {url}: {error}") from error
    if digest.hexdigest() != sha256:
        raise InfrastructureError(f"{url} has the sha256 {digest.hexdigest()}, not the one the config gives")


async def _require_self_contained(disk: Path, url: str) -> None:
    """Raise UsageError unless a downloaded file is a qcow2 image that names no other file of the host."""
    if disk.open("rb").read(len(_QCOW2)) != _QCOW2:
        raise UsageError(f"{url} is not a qcow2 image (unpack an archive first and give the file's path)")
    info = json.loads(await run("qemu-img", "info", "--output=json", "-f", "qcow2", disk))
    data_file = info.get("format-specific", {}).get("data", {}).get("data-file")
    if "backing-filename" in info or data_file is not None:
        raise UsageError(f"{url} refers to other files of its host; `qemu-img convert` makes it whole")
