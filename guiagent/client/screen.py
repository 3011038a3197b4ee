"""A device's screen for synchronous code: `Screenshot`, and the protocol `Screen` that such code uses."""

import io
from functools import cached_property
from typing import Protocol

from PIL import Image

from guiagent.actions import Action
from guiagent.types import FrameFormat, Observation


class Screenshot:
    """A picture of a screen as PNG bytes; decoded when `image` is first read."""

    def __init__(self, observation: Observation) -> None:
        self._png = observation.frame
        self.size = (observation.width, observation.height)

    def png(self) -> bytes:
        return self._png

    def _repr_png_(self) -> bytes:
        return self._png  # for notebooks

    @cached_property
    def image(self) -> Image.Image:
        image = Image.open(io.BytesIO(self._png), formats=("PNG",))
        image.load()
        return image


class Screen(Protocol):
    """A device that takes actions and returns observations; `SyncDevice` of this package is one."""

    @property
    def features(self) -> frozenset[str]: ...

    def act(self, *actions: Action) -> Observation: ...

    def observe(self, frame: FrameFormat = "jpeg") -> Observation: ...

    def screenshot(self) -> Screenshot: ...
