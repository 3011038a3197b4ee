"""Cache of a frozen vision tower's output for screenshots that come again, in an episode or a later epoch."""

from collections import OrderedDict
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from training.inputs.packing import PackedBatch
from training.model.forward import encode_images

KEPT_TOKENS = 2**19  # 2 GiB if a token's features are 2,048 half-precision numbers


class _Features(NamedTuple):
    pooled: Tensor  # [tokens, size]
    deepstack: list[Tensor]


class KeptFeatures:
    """A `training.model.forward.Look` with a cache, valid while the vision tower's weights do not change.

    Each new screenshot is encoded alone: the last bits of a tower's output depend on the other screenshots of
    its batch, and a resumed run has other ones in its cache.
    """

    def __init__(self, capacity: int = KEPT_TOKENS) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[str, _Features] = OrderedDict()
        self._tokens = 0

    def __call__(self, model: PreTrainedModel, pack: PackedBatch) -> Any:
        found = {frame: self._kept[frame] for frame in pack.frames if frame in self._kept}
        for frame, picture in zip(pack.frames, pack.pictures, strict=True):
            if frame not in found:
                found[frame] = _features(model, pack._replace(frames=[frame], pictures=[picture]))
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


@torch.no_grad()
def _features(model: PreTrainedModel, pack: PackedBatch) -> _Features:
    """Encode the one screenshot of `pack`."""
    output = encode_images(model, pack)
    layers = getattr(output, "deepstack_features", None) or []
    return _Features(output.pooler_output[0], [layer[0] for layer in layers])
