"""What the processes of a run say to each other while they write a checkpoint, in threads beside training.

They have a group of their own, so that their messages meet whatever the processes compute meanwhile.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from training.distributed.buckets import buckets

_MESSAGE_BYTES = 64 * 2**20  # most bytes that are sent at once


class Writers(Protocol):
    @property
    def rank(self) -> int: ...

    def exchange(self, message: bytes) -> Sequence[bytes]:
        """The message of every rank, on all of them. Collective."""
        ...

    def send(self, data: bytes) -> None:
        """Send bytes to rank 0, which calls `receive`."""
        ...

    def receive(self, rank: int, size: int) -> bytes: ...


class LoneWriter:
    """The `Writers` of one process."""

    rank = 0

    def exchange(self, message: bytes) -> Sequence[bytes]:
        return [message]

    def send(self, data: bytes) -> None:
        raise AssertionError("rank 0 sends nothing to itself")

    def receive(self, rank: int, size: int) -> bytes:
        raise AssertionError("there is no other rank")


class GlooWriters:
    """The `Writers` of the processes of a gloo group, which is used by nobody else."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.rank = dist.get_rank()
        self._group = group

    def exchange(self, message: bytes) -> Sequence[bytes]:
        sizes = self._all_gather(torch.tensor([len(message)]))
        longest = max(int(size) for size in sizes)
        padded = torch.zeros(max(longest, 1), dtype=torch.uint8)
        padded[: len(message)] = _bytes(message)
        rows = self._all_gather(padded)
        return [row[: int(size)].numpy().tobytes() for row, size in zip(rows, sizes, strict=True)]

    def send(self, data: bytes) -> None:
        for (piece,) in buckets({"": len(data)}, _MESSAGE_BYTES):
            dist.send(_bytes(data[piece.start : piece.end]), 0, self._group)

    def receive(self, rank: int, size: int) -> bytes:
        data = torch.empty(size, dtype=torch.uint8)
        for (piece,) in buckets({"": size}, _MESSAGE_BYTES):
            dist.recv(data[piece.start : piece.end], rank, self._group)
        return data.numpy().tobytes()

    def _all_gather(self, own: Tensor) -> list[Tensor]:
        found = [torch.empty_like(own) for _ in range(dist.get_world_size(self._group))]
        dist.all_gather(found, own, self._group)
        return found


def _bytes(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
