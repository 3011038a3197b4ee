"""Divides a trajectory over forward passes: consecutive contexts together, no piece over a bound of tokens.

A context whose beginning another piece stores stores it again, so that every token is computed from exactly
the context that it was sampled from, in whatever pass.
"""

from collections.abc import Sequence
from typing import NamedTuple

from guiagent.errors import UsageError
from training.inputs.packing import Branch


class Piece(NamedTuple):
    """Consecutive branches of a trajectory, and which of its sampled tokens, in order, they hold."""

    branches: list[Branch]
    begin: int
    end: int


def pieces(branches: Sequence[Branch], bound: int) -> list[Piece]:
    """Divide a trajectory's branches, in order, into pieces that store at most `bound` tokens each.

    What a branch shares must hold none of its sampled tokens; that of `packing.tree` holds none.

    Raises UsageError if a single context is longer than `bound`.
    """
    found: list[Piece] = []
    chosen: list[int] = []  # of the piece under construction
    taken: list[Branch] = []
    stored = sampled = 0

    def close() -> None:
        begin = found[-1].end if found else 0
        found.append(Piece(list(taken), begin, sampled))
        chosen.clear()
        taken.clear()

    for index, branch in enumerate(branches):
        length = len(branch.context.ids)
        if length > bound:
            raise UsageError(too_long(length, bound))
        parent, shared = _nearest(branches, chosen, index)
        if taken and stored + length - shared > bound:
            close()
            parent, shared, stored = 0, 0, 0
        chosen.append(index)
        taken.append(Branch(branch.context, parent, shared))
        stored += length - shared
        sampled += sum(branch.context.sampled[max(branch.shared, 1) :])
    if taken:
        close()
    return found


def too_long(length: int, bound: int) -> str:
    """Say that a context of `length` tokens fits in no forward pass, and what to change."""
    return (
        f"a context of {length:,} tokens is longer than update.batch_tokens, {bound:,}, and cannot be "
        "divided over forward passes: raise it, or show fewer screenshots (rollout.history) or smaller ones "
        "(max_pixels)"
    )


def _nearest(branches: Sequence[Branch], chosen: Sequence[int], index: int) -> tuple[int, int]:
    """Return which of the `chosen` branches has most in common with another, and how many tokens."""
    common = [_common(branches, other, index) for other in chosen]
    most = max(common, default=0)
    return (common.index(most), most) if most else (0, 0)


def _common(branches: Sequence[Branch], earlier: int, later: int) -> int:
    """Count the tokens that both are known to begin with: those that all branches between them share."""
    shared = len(branches[later].context.ids)
    while earlier != later:
        shared = min(shared, branches[later].shared)
        earlier, later = sorted((earlier, branches[later].parent))
    return shared
