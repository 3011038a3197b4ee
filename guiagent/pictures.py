"""Pictures of screens as clients of other protocols are given them: within a size, the last few kept."""

import io
import secrets
from collections import OrderedDict
from dataclasses import dataclass

from PIL import Image

from guiagent.errors import UsageError
from guiagent.frames import FORMATS, MOST_PIXELS

_QUALITY = 85


@dataclass(frozen=True, slots=True)
class Picture:
    """A screen of `screen` pixels, shown as an encoded picture of `size` pixels."""

    data: bytes
    media_type: str
    size: tuple[int, int]
    screen: tuple[int, int]


def within(frame: bytes, media_type: str, longest: int) -> Picture:
    """A frame whose longer side has at most `longest` pixels, as it is or scaled down.

    Raises UsageError for bytes that are no picture, or one of too many pixels.
    """
    try:
        with Image.open(io.BytesIO(frame), formats=FORMATS) as image:
            screen = image.size
            if screen[0] * screen[1] > MOST_PIXELS:
                raise UsageError(f"the screen is too large to be shown: {screen[0]} x {screen[1]}")
            if max(screen) <= longest:
                return Picture(frame, media_type, screen, screen)
            scale = longest / max(screen)
            size = max(1, round(screen[0] * scale)), max(1, round(screen[1] * scale))
            smaller = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UsageError(f"the device's picture cannot be read: {type(error).__name__}") from None
    buffer = io.BytesIO()
    smaller.save(buffer, "JPEG", quality=_QUALITY)
    return Picture(buffer.getvalue(), "image/jpeg", size, screen)


def on_screen(x: int, y: int, size: tuple[int, int], screen: tuple[int, int]) -> tuple[int, int]:
    """The pixel of the screen under the middle of a picture's pixel. Raises UsageError beyond the picture."""
    if not (0 <= x < size[0] and 0 <= y < size[1]):
        raise UsageError(f"({x}, {y}) is off the picture, which is {size[0]} x {size[1]}")
    return (2 * x + 1) * screen[0] // (2 * size[0]), (2 * y + 1) * screen[1] // (2 * size[1])


class Kept:
    """The last `most` pictures, by names that cannot be guessed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pictures: OrderedDict[str, Picture] = OrderedDict()

    def add(self, picture: Picture) -> str:
        name = secrets.token_hex(8)
        self._pictures[name] = picture
        while len(self._pictures) > self._most:
            self._pictures.popitem(last=False)
        return name

    def get(self, name: str) -> Picture | None:
        return self._pictures.get(name)
