"""How much two pictures of a screen differ where they differ most, for eyes and not for bytes."""

from PIL import ImageChops

from guiagent.frames import rgb

TOLERANCE = 0.02
"""Differences up to this are a pixel here and there, as JPEG makes them of the same screen."""
_TILE = 16  # pixels; a digit of 12 pixels that became another one is 5 % of such a square
_CARET = 4  # pixels: the width of a text cursor, which blinks, and is at least three times as high
_VISIBLE = 48  # of 255, in any channel: below it, JPEG of quality 85 may be the reason

Box = tuple[int, int, int, int]


def difference(one: bytes, other: bytes) -> tuple[float, Box | None]:
    """Compare two PNG or JPEG pictures of a screen.

    Returns:
        The share of visibly different pixels in the square of 16 pixels that has most of them, in [0, 1], and
        the box (left, top, width, height) around all of them; None if there is none, or only a text cursor.
        Of different sizes, everything is different.

    Raises ValueError if one is no such picture.
    """
    if one == other:
        return 0.0, None
    first, second = rgb(one), rgb(other)
    if first.size != second.size:
        return 1.0, (0, 0, *second.size)
    channels = ImageChops.difference(first, second).split()
    most = ImageChops.lighter(ImageChops.lighter(channels[0], channels[1]), channels[2])
    seen = most.point([255 if level >= _VISIBLE else 0 for level in range(256)])
    box = seen.getbbox()
    if box is None:
        return 0.0, None
    left, top, width, height = box[0], box[1], box[2] - box[0], box[3] - box[1]
    if width <= _CARET and height >= 3 * width:
        return 0.0, None
    _, densest = seen.reduce(_TILE).getextrema()
    return float(densest) / 255, (left, top, width, height)  # type: ignore[arg-type]
