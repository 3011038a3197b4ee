"""Plan of tensors in buckets of bounded size: which bytes of which tensors are in each. Pure.

Weights travel to the engines so, one bucket after another, and shards of a checkpoint are cut into files so:
what is in memory twice is a bucket, and never a model.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Piece(NamedTuple):
    """Bytes `start` to `end` of a tensor."""

    name: str
    start: int
    end: int


def buckets(sizes: Mapping[str, int], most: int) -> list[list[Piece]]:
    """Cut tensors of so many bytes, in their order, into buckets of `most` bytes; the last one may have less.

    A tensor that does not fit into what is left of a bucket goes on in the next one. One without bytes is in
    no bucket.
    """
    found: list[list[Piece]] = []
    room = 0
    for name, size in sizes.items():
        start = 0
        while start < size:
            if room == 0:
                found.append([])
                room = most
            end = min(size, start + room)
            found[-1].append(Piece(name, start, end))
            start, room = end, room - (end - start)
    return found
