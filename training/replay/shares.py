"""Shares of a number of places, such as those of a batch, among the platforms of a run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache


@lru_cache(maxsize=4096)
def apportion(places: int, shares: tuple[float, ...]) -> tuple[int, ...]:
    """Divide `places` in proportion to `shares`; every positive share has one, if there are enough.

    With one place more, nobody has fewer: a part of one batch is never more than the part of several. The
    first place of each comes before all second ones, the largest share first.

    Source: the divisor method of Webster and Sainte-Laguë, in Balinski and Young, Fair Representation, 1982.
    """
    given = [0] * len(shares)
    wanting = [index for index, share in enumerate(shares) if share > 0]
    if len(wanting) == 1:
        given[wanting[0]] = max(places, 0)
        return tuple(given)
    for _ in range(places if wanting else 0):
        given[max(wanting, key=lambda index: _claim(index, given, shares))] += 1
    return tuple(given)


def _claim(index: int, given: Sequence[int], shares: Sequence[float]) -> tuple[bool, float]:
    return not given[index], shares[index] / (given[index] + 0.5)


def in_turn(owners: Sequence[str], shares: Mapping[str, float]) -> list[int]:
    """Return the indices of `owners` in an order in which each comes as often as its share says.

    So of groups that are equally old a batch takes those of every platform, and not of the fastest alone.
    """
    seen = Counter[str]()
    turns: list[float] = []
    for owner in owners:
        turns.append((seen[owner] + 0.5) / shares[owner])
        seen[owner] += 1
    return sorted(range(len(owners)), key=turns.__getitem__)
