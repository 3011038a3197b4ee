"""Screens as arrays, for the environments that hand them to learners."""

import numpy as np
from numpy.typing import NDArray

from guiagent.frames import rgb_of_device
from guiagent.types import Observation

Frame = NDArray[np.uint8]
"""A screen as uint8 [height, width, 3], RGB."""


_FLOAT32 = 2.0**-23  # twice what rounding to float32 may take from a share


def pixel(share: float, side: int) -> int:
    """The pixel that lies at a share (0 to 1) of a side of `side` pixels.

    `x / side` is pixel x, also as a float32, which may be a little less than the quotient.
    """
    return min(max(int(share * (1 + _FLOAT32) * side), 0), side - 1)


def decoded(shown: Observation, size: tuple[int, int]) -> Frame:
    """The PNG of an observation; a screen that changed its size is shown in the size that was promised."""
    picture = rgb_of_device(shown.frame)
    return np.asarray(picture if picture.size == size else picture.resize(size), np.uint8)
