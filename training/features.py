"""A frozen vision tower's output, kept for screenshots that come again: screens repeat, and so do epochs."""

from collections import OrderedDict
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from training.forward import look
from training.packing import Pack

_KEPT_TOKENS = 2**19  # 2 GiB for each 2,048 half-precision numbers of a token's features


class _Features(NamedTuple):
    pooled: Tensor  # [tokens, size]
    deepstack: list[Tensor]


class KeptFeatures:
    """A `training.forward.Look` with a memory. Of use only while the vision tower's weights do not change."""

    def __init__(self, capacity: int = _KEPT_TOKENS) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[str, _Features] = OrderedDict()
        self._tokens = 0

    def __call__(self, model: PreTrainedModel, pack: Pack) -> Any:
        new = [i for i, frame in enumerate(pack.frames) if frame not in self._kept]
        found = {frame: self._kept[frame] for frame in pack.frames if frame in self._kept}
        if new:
            part = pack._replace(
                frames=[pack.frames[i] for i in new], pictures=[pack.pictures[i] for i in new]
            )
            with torch.no_grad():
                found |= zip(part.frames, _each(look(model, part)), strict=True)
        for frame in pack.frames:
            self._keep(frame, found[frame])
        ordered = [found[frame] for frame in pack.frames]
        return SimpleNamespace(
            pooler_output=[one.pooled for one in ordered],
            deepstack_features=[
                list(layer) for layer in zip(*(one.deepstack for one in ordered), strict=True)
            ],
        )

    def _keep(self, frame: str, features: _Features) -> None:
        if frame not in self._kept:
            self._tokens += len(features.pooled)
        self._kept[frame] = features
        self._kept.move_to_end(frame)
        while self._tokens > self._capacity and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._tokens -= len(oldest.pooled)


def _each(output: Any) -> list[_Features]:
    """The tower's output, picture by picture."""
    layers = getattr(output, "deepstack_features", None) or []
    return [
        _Features(pooled, [layer[index] for layer in layers])
        for index, pooled in enumerate(output.pooler_output)
    ]
