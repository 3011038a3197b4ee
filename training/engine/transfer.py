"""A version of the weights on its way to an engine in another process: its plan, and buckets of bytes.

A bucket is checked when it arrives, and the version is whole when all of them have: an engine takes it then,
or goes on with the one it has.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
import xxhash
from numpy.typing import NDArray
from torch import Tensor

from training.distributed.buckets import Piece, buckets

Bytes = NDArray[np.uint8]


class Plan(NamedTuple):
    """What is sent: dtype (torch's name, such as "bfloat16") and shape of each tensor, and the buckets."""

    tensors: dict[str, tuple[str, list[int]]]
    buckets: list[list[Piece]]


class Version(NamedTuple):
    """A version of the weights that may be sent, now and again. Nobody changes its tensors."""

    number: int
    tensors: dict[str, Tensor]
    plan: Plan


def prepared(
    number: int, state: Mapping[str, Tensor], dtypes: Mapping[str, torch.dtype], most: int
) -> Version:
    """Prepare weights to be sent in buckets of `most` bytes, converted to the engines' `dtypes`, if known.

    Tensors that share their memory, as a tied head and its embedding do, are sent once.
    """
    found: dict[int, str] = {}
    for name, tensor in state.items():
        found.setdefault(tensor.data_ptr() or id(tensor), name)
    tensors = {
        name: state[name].detach().to("cpu", dtypes.get(name, state[name].dtype)).contiguous()
        for name in found.values()
    }
    shapes = {name: (str(x.dtype).removeprefix("torch."), list(x.shape)) for name, x in tensors.items()}
    return Version(
        number, tensors, Plan(shapes, buckets({name: x.nbytes for name, x in tensors.items()}, most))
    )


def packed(version: Version, number: int) -> tuple[Bytes, str]:
    """The bytes of a bucket, and their xxh3-128."""
    parts = [_bytes(version.tensors[one.name])[one.start : one.end] for one in version.plan.buckets[number]]
    data = np.concatenate(parts)
    return data, xxhash.xxh3_128_hexdigest(data.data)


class Arriving:
    """A version that arrives bucket by bucket, in any order; `tensors` are all there once it is `whole`."""

    def __init__(self, version: int, plan: Plan) -> None:
        self.version = version
        self.tensors = {
            name: torch.empty(shape, dtype=getattr(torch, dtype))
            for name, (dtype, shape) in plan.tensors.items()
        }
        self._buckets = plan.buckets
        self._missing = set(range(len(plan.buckets)))

    @property
    def whole(self) -> bool:
        return not self._missing

    def put(self, number: int, data: Bytes, digest: str) -> bool:
        """Take a bucket; return False, and keep nothing of it, if its digest is wrong."""
        if xxhash.xxh3_128_hexdigest(data.data) != digest:
            return False
        start = 0
        for piece in self._buckets[number]:
            end = start + piece.end - piece.start
            _bytes(self.tensors[piece.name])[piece.start : piece.end] = data[start:end]
            start = end
        self._missing.discard(number)
        return True


def _bytes(tensor: Tensor) -> Bytes:
    """A contiguous tensor's own memory."""
    flat: Bytes = tensor.reshape(-1).view(torch.uint8).numpy()
    return flat
