"""Protocol of the processes that share one optimiser step: rank, world size, sums, and messages to each."""

from collections.abc import Callable, Sequence
from typing import Protocol

from training.distributed.writers import LoneWriter, Writers


class ProcessGroup(Protocol):
    """One process's view of the others. The gradients of their parts add up to the step's."""

    @property
    def rank(self) -> int: ...

    @property
    def world(self) -> int: ...

    @property
    def writers(self) -> Writers:
        """What the processes write checkpoints by."""
        ...

    def sum(self, values: Sequence[float]) -> list[float]:
        """Each number summed over all processes."""
        ...

    def largest(self, values: Sequence[float]) -> list[float]:
        """The largest of each number over all processes."""
        ...

    def scatter(self, message: Callable[[int], bytes]) -> bytes:
        """Send from rank 0 to each other process `message` of its rank; return what came here, b"" on rank 0.

        Only rank 0 calls `message`, and holds one at a time.
        """
        ...


class SingleProcess:
    """A `ProcessGroup` of one process."""

    rank = 0
    world = 1
    writers = LoneWriter()

    def sum(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def largest(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def scatter(self, message: Callable[[int], bytes]) -> bytes:
        return b""
