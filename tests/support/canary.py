"""Canary pictures: screens with a number drawn in large squares, and the number read back from pixels."""

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from guiagent.types import Observation

_SIDE = 4  # squares along each side: 16 bits
_GOLDEN = 40_503  # odd, so that numbers far apart in their bits stand for neighbours


def canary(number: int, size: tuple[int, int], form: str = "png") -> Observation:
    """A screen of `size` that shows `number`, from 0 to 65,535, as an encoded frame."""
    bits = (number * _GOLDEN) & 0xFFFF
    squares = np.array([(bits >> i) & 1 for i in range(_SIDE**2)], np.uint8).reshape(_SIDE, _SIDE) * 255
    picture = Image.fromarray(squares).resize(size, Image.Resampling.NEAREST).convert("RGB")
    held = io.BytesIO()
    picture.save(held, form)
    return Observation(*size, media_type=f"image/{form}", frame=held.getvalue())


def number_in(pixels: NDArray[np.generic]) -> int:
    """The number that pixels [height, width, channels] of a canary show, whatever their size and scale.

    Raises AssertionError for a picture that is no canary: a square that is neither dark nor light.
    """
    grey = np.asarray(pixels, np.float64).mean(axis=2)
    low, high = grey.min(), grey.max()
    rows, columns = (np.linspace(0, side, _SIDE + 1).astype(int) for side in grey.shape)
    bits = 0
    for i in range(_SIDE**2):
        y, x = divmod(i, _SIDE)
        square = grey[rows[y] : rows[y + 1], columns[x] : columns[x + 1]]
        light = (square.mean() - low) / max(high - low, 1e-9)
        assert not 0.3 < light < 0.7, "no canary"
        bits |= int(light > 0.5) << i
    return (bits * pow(_GOLDEN, -1, 1 << 16)) & 0xFFFF
