"""Commands that train and compare."""

from typing import Literal

Launch = Literal["process", "torchrun", "ray"]  # the ways to start a run
