"""The screenshots that a process's share of a batch shows: rank 0 has the store, and sends each its own."""

from collections.abc import Callable, Sequence

import msgspec

from training.distributed.ranks import ProcessGroup

Frames = Callable[[str], bytes]  # a stored screenshot by its hash

_decode: Callable[[bytes], dict[str, bytes]] = msgspec.msgpack.Decoder(dict[str, bytes]).decode


class DealtFrames:
    """Screenshots by hash for as long as a batch is learned. `stored` is asked by rank 0 alone."""

    def __init__(self, stored: Frames, ranks: ProcessGroup) -> None:
        self._stored, self._ranks = stored, ranks
        self._dealt: list[set[str]] = [set() for _ in range(ranks.world)]  # what each process has by now
        self._received: dict[str, bytes] = {}

    def __call__(self, name: str) -> bytes:
        return self._stored(name) if self._ranks.rank == 0 else self._received[name]

    def deal(self, shown: Sequence[set[str]]) -> None:
        """Send each process what it lacks of `shown`, the hashes that each needs. Collective."""
        if self._ranks.world == 1:
            return
        missing = [sorted(names - had) for names, had in zip(shown, self._dealt, strict=True)]

        def message(rank: int) -> bytes:
            return msgspec.msgpack.encode({name: self._stored(name) for name in missing[rank]})

        if received := self._ranks.scatter(message):
            self._received |= _decode(received)
        for names, had in zip(missing, self._dealt, strict=True):
            had.update(names)
