"""Pictures of episodes as files, as data URLs and as what a stranger's file refers to."""

import base64
import binascii
import io
import warnings
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from guiagent.errors import UsageError
from guiagent.storage.plain import read_plain

MOST_BYTES = 32 * 2**20
MOST_OF_AN_EPISODE = 512 * 2**20  # bytes
MOST_PIXELS = 2**25  # a little more than 7680 x 4320
MOST_SIDE = 16_384  # an action's pixels end there
_KINDS = {b"\xff\xd8\xff": ("image/jpeg", "jpg"), b"\x89PNG\r\n\x1a\n": ("image/png", "png")}


class Picture(NamedTuple):
    data: bytes
    width: int
    height: int

    @property
    def size(self) -> tuple[int, int]:
        return self.width, self.height


def media_and_suffix(data: bytes) -> tuple[str, str]:
    """The media type of a picture's bytes and how its file is called. Raises UsageError for other bytes."""
    for magic, kind in _KINDS.items():
        if data.startswith(magic):
            return kind
    raise UsageError("a picture is neither PNG nor JPEG: convert it first")


def data_url(data: bytes) -> str:
    return f"data:{media_and_suffix(data)[0]};base64,{base64.b64encode(data).decode()}"


def keep(folder: Path, hash: str, data: bytes) -> str:
    """Write a picture into `folder` under its hash, unless it is there; return its name in that folder."""
    name = f"{hash}.{media_and_suffix(data)[1]}"
    if not (folder / name).exists():
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    return name


class Album:
    """The pictures that one episode of a file refers to, together bounded. They lie below `root`."""

    def __init__(self, root: Path) -> None:
        self._root, self._bytes = root, 0

    def picture(self, reference: str) -> Picture:
        """Return the picture of a data URL, or of a file at a relative path.

        No link is followed and nothing is fetched; size and pixels are bounded before anything is decoded.

        Raises:
            UsageError: there is no such picture, or it is damaged, or it or all of them are too large.
        """
        if reference.startswith("data:"):
            return self.taken(_decoded(reference), "a picture in the file")
        return self.taken(self._read(reference), f"the picture {reference[:80]!r}")

    def taken(self, data: bytes, what: str) -> Picture:
        """Return the picture of bytes that are in the file. Raises UsageError as `picture` does."""
        found = checked(data, what)
        self._bytes += len(found.data)
        if self._bytes > MOST_OF_AN_EPISODE:
            raise UsageError(f"an episode has pictures of more than {MOST_OF_AN_EPISODE // 2**20} MiB")
        return found

    def _read(self, reference: str) -> bytes:
        try:
            return read_plain(self._root, *reference.removeprefix("./").split("/"), most=MOST_BYTES + 1)
        except (OSError, ValueError):
            raise UsageError(
                f"no picture {reference[:80]!r} in {self._root}: give relative paths of files beside it"
            ) from None


def checked(data: bytes, what: str) -> Picture:
    """Return the picture with its size. Raises UsageError if it is too large, or no whole PNG or JPEG."""
    if len(data) > MOST_BYTES:
        raise UsageError(f"{what} has more than {MOST_BYTES // 2**20} MiB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=("PNG", "JPEG")) as image:
                width, height = image.size
                if width * height > MOST_PIXELS or max(width, height) > MOST_SIDE:
                    raise UsageError(f"{what} is too large: {width} x {height} pixels")
                image.load()
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UsageError(f"{what} has too many pixels") from None
    except (OSError, ValueError, SyntaxError, EOFError):
        raise UsageError(f"{what} is no whole PNG or JPEG") from None
    return Picture(data, width, height)


def _decoded(url: str) -> bytes:
    head, _, body = url.partition(",")
    if not head.endswith(";base64"):
        raise UsageError("a picture in the file is no data URL in base64")
    if len(body) > MOST_BYTES * 4 // 3 + 4:
        raise UsageError(f"a picture in the file has more than {MOST_BYTES // 2**20} MiB")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("a picture in the file is no base64") from None
