"""Micro-batches of a step: each token once, none over the budget, equally many on every process."""

from typing import Any

import pytest

from guiagent.errors import UsageError
from training.distributed.ranks import SingleProcess
from training.inputs.contexts import Context
from training.inputs.packing import Branch
from training.learner.microbatches import passes

PACK: Any = object()
SAID = 2  # tokens at the end of each context


class Beside(SingleProcess):
    """Another process has so many passes."""

    def __init__(self, most: float) -> None:
        self._most = most

    def largest(self, values: Any) -> list[float]:
        return [max(self._most, *values)]


def tree(*lengths: int) -> list[Branch]:
    """A context of each length."""
    said = [([False] * (n - SAID) + [True] * SAID) for n in lengths]
    return [
        Branch(Context([0] * n, sampled, [0.0] * n, [turn] * n, []))
        for turn, (n, sampled) in enumerate(zip(lengths, said, strict=True))
    ]


@pytest.mark.parametrize("ahead", [False, True])
def test_all_of_ones_own_once_and_no_pass_over_the_budget(ahead: bool) -> None:
    made: list[int] = []

    def make(some: list[list[Branch]]) -> Any:
        made.append(sum(len(branch.context.ids) for tree in some for branch in tree))
        return object()

    trees = [tree(4), tree(3), tree(9), tree(2), tree(3), tree(8, 7, 3, 9, 3)]
    own = [0, 1, 2, 4, 5]
    found = list(passes(trees, own, make, budget=10, ranks=SingleProcess(), ahead=ahead))
    parts = sorted((part.member, part.piece.begin, part.piece.end) for one in found for part in one.parts)
    whole = [(member, 0, SAID) for member in own[:-1]]
    assert parts == [*whole, (5, 0, SAID), (5, SAID, 3 * SAID), (5, 3 * SAID, 4 * SAID), (5, 8, 10)]
    assert len(made) == len(found) and max(made) <= 10


def test_whoever_has_fewer_computes_blank_ones() -> None:
    made: list[int] = []

    def make(some: list[list[Branch]]) -> Any:
        made.append(len(some))
        return PACK

    found = list(passes([tree(4), tree(4)], [1], make, budget=4, ranks=Beside(3), ahead=False))
    assert [[part.member for part in one.parts] for one in found] == [[1], [], []]
    assert made == [1, 0, 0]
    assert [one.parts for one in passes([], [], make, budget=4, ranks=Beside(2), ahead=False)] == [[], []]


def test_contexts_from_which_nothing_is_learned_take_no_pass() -> None:
    silent = [branch._replace(context=branch.context._replace(sampled=[False] * 4)) for branch in tree(4, 4)]
    found = passes([silent, tree(4)], [0, 1], lambda some: PACK, budget=6, ranks=SingleProcess(), ahead=False)
    assert [[part.member for part in one.parts] for one in found] == [[1]]


def test_every_process_refuses_a_context_over_the_budget_also_anothers() -> None:
    with pytest.raises(UsageError, match=r"a context of 11 tokens is longer than update\.batch_tokens, 10"):
        next(passes([tree(4), tree(5, 11)], [0], lambda _: PACK, budget=10, ranks=Beside(1), ahead=False))


def test_one_pass_ahead_and_no_more() -> None:
    begun: list[int] = []

    def make(some: list[list[Branch]]) -> Any:
        begun.append(len(some))
        return object()

    every = passes([tree(5)] * 4, range(4), make, budget=5, ranks=SingleProcess(), ahead=True)
    next(every)
    every.close()  # waits for what is under way
    assert len(begun) <= 2


def test_what_making_raises_comes_out() -> None:
    def make(some: list[list[Branch]]) -> Any:
        raise OSError("the screenshot cannot be read")

    with pytest.raises(OSError, match="screenshot"):
        list(passes([tree(3)], [0], make, budget=5, ranks=SingleProcess(), ahead=True))
