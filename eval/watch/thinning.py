"""Rows of figures over a run, at most so many: when there are more, neighbours become one."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

_LEAST, _GREATEST = ("min", "least"), ("max", "greatest")


class Thinned:
    """The figures of all updates in at most `most` rows, of `stride` updates each, but the last.

    A row has the mean of each figure over its updates; of one that is named as an extreme, the extreme.
    Adding is amortised constant time, and memory is bounded whatever the length of a run.
    """

    def __init__(self, most: int) -> None:
        self.stride = 1
        self._most = most
        self._rows: list[_Row] = []
        self._updates = 0

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, step: int, figures: Mapping[str, float]) -> None:
        """Add the figures of an update."""
        if self._updates % self.stride == 0:
            if len(self._rows) == self._most:
                self._rows = [a.merged(b) for a, b in zip(self._rows[::2], self._rows[1::2], strict=True)]
                self.stride *= 2
            self._rows.append(_Row(step, dict(figures), dict.fromkeys(figures, 1)))
        else:
            self._rows[-1] = self._rows[-1].merged(_Row(step, dict(figures), dict.fromkeys(figures, 1)))
        self._updates += 1

    def columns(self, start: int = 0) -> dict[str, Any]:
        """Return the rows from `start` on, by column: the last step of each, and figures, None if unknown."""
        rows = self._rows[start:]
        names = dict.fromkeys(name for row in rows for name in row.figures)
        return {
            "stride": self.stride,
            "from": start,
            "steps": [row.step for row in rows],
            "columns": {name: [_short(row.figures.get(name)) for row in rows] for name in names},
        }


class _Row:
    __slots__ = ("figures", "step", "updates")

    def __init__(self, step: int, figures: dict[str, float], updates: dict[str, int]) -> None:
        self.step, self.figures, self.updates = step, figures, updates

    def merged(self, later: "_Row") -> "_Row":
        figures, updates = dict(self.figures), dict(self.updates)
        for name, value in later.figures.items():
            n, m = updates.get(name, 0), later.updates[name]
            if n == 0:
                figures[name] = value
            else:
                figures[name] = _together(name, figures[name], n, value, m)
            updates[name] = n + m
        return _Row(later.step, figures, updates)


def _together(name: str, a: float, n: int, b: float, m: int) -> float:
    extreme = _extreme(name)
    return extreme(a, b) if extreme else (a * n + b * m) / (n + m)


@lru_cache(4_096)
def _extreme(name: str) -> Callable[[float, float], float] | None:
    words = name.replace("/", "_").split("_")
    if any(word in words for word in _LEAST):
        return min
    return max if any(word in words for word in _GREATEST) else None


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
