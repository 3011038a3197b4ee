"""Screens as arrays, for the environments that hand them to learners."""

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from guiagent.types import Observation

Frame = NDArray[np.uint8]
"""A screen as uint8 [height, width, 3], RGB."""


def decoded(shown: Observation, size: tuple[int, int]) -> Frame:
    """The PNG of an observation; a screen that changed its size is shown in the size that was promised."""
    with Image.open(io.BytesIO(shown.frame), formats=["PNG"]) as image:
        picture = image.convert("RGB")
    return np.asarray(picture if picture.size == size else picture.resize(size), np.uint8)
