"""Conversion between the coordinates a model writes and pixels of the device's frame.

Sizes are (width, height).

Models see a resized picture, and each family counts in its own units; mixing them up is the classic mistake
with open GUI models, so every conversion goes through `CoordinateSpace`.
"""

import math
from dataclasses import dataclass
from typing import Literal

from guiagent.errors import UsageError

Size = tuple[int, int]
_FITTED_SIDE, _FITTED_PIXELS = 1568, 1_150_000


def smart_resize(width: int, height: int, factor: int, min_pixels: int, max_pixels: int) -> Size:
    """The size Qwen-VL's image processors give a picture before they cut it into patches.

    Both sides become multiples of `factor` (patch x merge: 28 for Qwen2.5-VL, 32 for Qwen3-VL), the area lies
    in [`min_pixels`, `max_pixels`], the aspect ratio is kept as closely as that allows. Halves are rounded to
    even, as Python's `round` does: rounding them up is off by a whole factor on some screens.
    Formula: transformers, `models/qwen2_vl/image_processing_qwen2_vl.py`.

    Raises:
        UsageError: a side is not positive, or one is more than 200 times the other.
    """
    if min(width, height) < 1 or max(width, height) > 200 * min(width, height):
        raise UsageError(
            f"a {width}x{height} frame cannot be shown to the model: its sides differ over 200-fold"
        )
    w, h = round(width / factor) * factor, round(height / factor) * factor
    if w * h > max_pixels:
        shrink = math.sqrt(width * height / max_pixels)
        w = max(factor, math.floor(width / shrink / factor) * factor)
        h = max(factor, math.floor(height / shrink / factor) * factor)
    elif w * h < min_pixels:
        grow = math.sqrt(min_pixels / (width * height))
        w = math.ceil(width * grow / factor) * factor
        h = math.ceil(height * grow / factor) * factor
    return w, h


@dataclass(frozen=True, slots=True)
class CoordinateSpace:
    """The units a model family writes its coordinates in.

    - `resized`: pixels of the `smart_resize` picture (UI-TARS-1.5, Qwen2.5-VL), by the three numbers.
    - `norm1000`: thousandths of the frame (UI-TARS 1.0, Doubao).
    - `norm999`: the 999x999 screen of Qwen3-VL's prompt.
    - `frame`: pixels of the frame itself.
    - `fitted`: pixels of the picture that Anthropic's API makes of larger ones: at most 1,568 a side and
      1,150,000 in all, the aspect ratio kept.

    A pixel converted there and back moves by at most half a unit and a rounding: not at all if the picture is
    the frame or larger, 1 px in `resized` up to 4096 px a side, and `size / 2000 + 0.5` in the normed spaces.
    """

    kind: Literal["resized", "norm1000", "norm999", "frame", "fitted"]
    factor: int = 28
    min_pixels: int = 4 * 28**2
    max_pixels: int = 16384 * 28**2

    @classmethod
    def resized(cls, factor: int) -> "CoordinateSpace":
        """Qwen-VL's usual bounds: 4 to 16,384 visual tokens a picture, for a patch x merge of `factor` px."""
        return cls("resized", factor, 4 * factor**2, 16384 * factor**2)

    def extent(self, size: Size) -> Size:
        """The model's coordinates (x, y) of the bottom right corner of a frame of `size`."""
        match self.kind:
            case "resized":
                return smart_resize(*size, self.factor, self.min_pixels, self.max_pixels)
            case "norm1000":
                return 1000, 1000
            case "norm999":
                return 999, 999
            case "frame":
                return size
            case "fitted":
                return _fitted(size)

    def to_device(self, point: tuple[float, float], size: Size) -> tuple[int, int]:
        """The pixel of the frame at the model's coordinates `point`, clamped to the frame."""
        extent = self.extent(size)
        x, y = (min(max(round(point[i] * size[i] / extent[i]), 0), size[i] - 1) for i in (0, 1))
        return x, y

    def from_device(self, pixel: tuple[int, int], size: Size) -> tuple[int, int]:
        """The integer coordinates a model would write for a pixel of the frame."""
        extent = self.extent(size)
        x, y = (min(max(round(pixel[i] * extent[i] / size[i]), 0), extent[i]) for i in (0, 1))
        return x, y

    def drift(self, size: Size) -> tuple[float, float]:
        """The most that a pixel moves, along x and y, when it is converted there and back."""
        x, y = (
            0.0 if units >= pixels else pixels / units / 2 + 0.5
            for units, pixels in zip(self.extent(size), size, strict=True)
        )
        return x, y


def _fitted(size: Size) -> Size:
    shrink = min(1.0, _FITTED_SIDE / max(size), math.sqrt(_FITTED_PIXELS / (size[0] * size[1])))
    return max(1, math.floor(size[0] * shrink)), max(1, math.floor(size[1] * shrink))
