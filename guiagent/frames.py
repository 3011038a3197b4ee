"""Decoding a device's frames: PNG and JPEG alone, whatever else Pillow may read or start a program for."""

import io

from PIL import Image, UnidentifiedImageError

from guiagent.errors import Fault, FaultError

FORMATS = ("PNG", "JPEG")
MOST_PIXELS = 64 << 20


def rgb(frame: bytes) -> Image.Image:
    """Decode a frame to RGB. Raises ValueError, in one line, if it is no PNG or JPEG, or too large."""
    try:
        with Image.open(io.BytesIO(frame), formats=FORMATS) as image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise ValueError(f"too large a picture: {width} x {height} pixels")
            return image.convert("RGB")
    except UnidentifiedImageError:
        raise ValueError("no picture: neither PNG nor JPEG") from None
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"no picture: {error}") from error


def rgb_of_device(frame: bytes) -> Image.Image:
    """Decode as `rgb`. Raises FaultError (origin "device"), so that an episode ends without a score."""
    try:
        return rgb(frame)
    except ValueError as error:
        raise FaultError(Fault("device", "bad_frame", f"a frame is {error}")) from error
