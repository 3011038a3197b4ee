"""Encode screens for a model server: scaled down, numbered, with a ring around each touched point.

Every frame is decoded and encoded anew, so that only its pixels are sent (a file can carry text that no
screen ever showed), and equal screens make equal bytes.
"""

import base64
import io
from collections.abc import Sequence
from typing import Any

from PIL import Image, ImageDraw

from guiagent.frames import rgb_of_device
from rewards.judges.cases import Screen

_QUALITY = 90
_RING = "#ff00c8"  # a colour that interfaces hardly use, between a white and a black line
STYLE = 1  # increase it when screens are drawn differently: verdicts may change then
LEGEND = "A magenta ring marks where a pointer or finger touched the screen just after that screenshot."


def drawn(screen: Screen, max_side: int) -> Image.Image:
    """The screen with no side longer than `max_side` pixels and a ring around each mark.

    Raises:
        FaultError: the frame is too large or no PNG or JPEG (origin "device").
    """
    image = rgb_of_device(screen.frame)
    width, height = image.size
    image.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    radius = max(6, round(max(image.size) / 50))
    draw = ImageDraw.Draw(image)
    for x, y in screen.marks:
        centre = (x * image.width / width, y * image.height / height)
        for grow, colour in ((2, "white"), (-3, "black"), (0, _RING)):
            draw.circle(centre, radius + grow, outline=colour, width=3)
    return image


def jpeg(image: Image.Image) -> bytes:
    encoded = io.BytesIO()
    image.save(encoded, "JPEG", quality=_QUALITY, subsampling=0)
    return encoded.getvalue()


def encode(screen: Screen, max_side: int) -> bytes:
    """The drawn screen as JPEG. Raises as `drawn`."""
    return jpeg(drawn(screen, max_side))


def thinned(indices: Sequence[int], limit: int) -> list[int]:
    """Keep at most `limit` indices: the first, the last and evenly between; only the last if `limit` is 1."""
    if len(indices) <= limit:
        return list(indices)
    if limit == 1:
        return [indices[-1]]
    return [indices[round(k * (len(indices) - 1) / (limit - 1))] for k in range(limit)]


def parts(screens: Sequence[Screen], indices: Sequence[int], max_side: int) -> list[dict[str, Any]]:
    """The screens at `indices` as content parts of a message, each after a line with its number."""
    content: list[dict[str, Any]] = []
    for index in indices:
        final = ", the final state" if index == len(screens) - 1 else ""
        content.append(text(f"Screenshot {index + 1} of {len(screens)}{final}:"))
        picture = base64.b64encode(encode(screens[index], max_side)).decode()
        content.append({"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{picture}"}})
    return content


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}
