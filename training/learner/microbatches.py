"""The forward passes of a step: packs of trajectories or pieces of them, prepared one ahead for a GPU."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

from training.distributed.ranks import ProcessGroup
from training.inputs.packing import Branch, PackedBatch, bins, stored_tokens
from training.inputs.pieces import Piece, pieces

Tree = list[Branch]


class Part(NamedTuple):
    """A piece of the trajectory with the index `member`: all of it, if it fits into one pass."""

    member: int
    piece: Piece


class Pass(NamedTuple):
    """A forward pass: what it computes of which trajectories, and the pack of these pieces in this order.

    A pass without parts is a blank one, which only keeps the collectives of the processes aligned.
    """

    parts: list[Part]
    pack: PackedBatch


def passes(
    trees: Sequence[Tree],
    own: Sequence[int],
    make: Callable[[list[Tree]], PackedBatch],
    *,
    budget: int,
    ranks: ProcessGroup,
    ahead: bool,
) -> Iterator[Pass]:
    """Yield this process's `own` trajectories in packs of at most `budget` tokens. Collective.

    A longer trajectory is divided over passes (`training.inputs.pieces`). All processes have equally many
    passes, because those of a sharded model are collective: a process with fewer adds blank ones, `make([])`.
    `make` decodes and resizes screenshots, and a GPU would wait for it: with `ahead` it runs in a thread, one
    pass ahead. If the model runs on the CPU, a second pool of threads would make both slower.

    Raises UsageError, in all processes, if a context of any trajectory is longer than `budget`.
    """
    divided = [pieces(tree, budget) for tree in trees]
    parts = [Part(index, piece) for index in own for piece in divided[index] if piece.begin < piece.end]
    found = bins([stored_tokens(part.piece.branches) for part in parts], budget)
    planned = [[parts[number] for number in bin] for bin in found]
    most = int(ranks.largest([float(len(planned))])[0])
    planned += [[] for _ in range(most - len(planned))]

    def made(plan: list[Part]) -> Pass:
        return Pass(plan, make([part.piece.branches for part in plan]))

    if not ahead:
        yield from map(made, planned)
        return
    left = iter(planned)
    with ThreadPoolExecutor(1, "packing") as thread:
        coming = deque(thread.submit(made, plan) for plan in islice(left, 1))
        while coming:
            one = coming.popleft().result()
            coming.extend(thread.submit(made, plan) for plan in islice(left, 1))
            yield one
