"""The layout of a packed row: which contexts its tokens belong to, as attention needs to know."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """The contexts in a row of L tokens, in an order of their own if they share tokens."""

    lengths: tuple[int, ...]  # tokens of each context, its shared beginning included
    starts: Tensor  # [contexts + 1] int32, cumulative sums of the lengths, from 0
    # [sum of lengths]: where in the row each context's tokens are; None if they are in order, unshared
    places: Tensor | None
    kept: Tensor | None  # [L]: the index into `places` that gives each token its output

    def to(self, device: torch.device) -> Self:
        places = None if self.places is None else self.places.to(device)
        kept = None if self.kept is None else self.kept.to(device)
        return replace(self, starts=self.starts.to(device), places=places, kept=kept)
