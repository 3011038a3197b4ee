"""What a drill tried, what must never have come of it, and what that bounds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from statistics import median
from typing import Any

_SAID = 8  # problems kept in words


@dataclass(slots=True)
class Tally:
    """Counts of one drill. `unit` names the count of independent trials, over which the bound is stated.

    `lost` has every problem that the drill looks for, with 0 where it did not happen: a drill that looks for
    nothing cannot pass.
    """

    unit: str
    tried: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    @classmethod
    def looking_for(cls, unit: str, *problems: str) -> "Tally":
        return cls(unit, {unit: 0}, dict.fromkeys(problems, 0))

    @property
    def trials(self) -> int:
        return self.tried.get(self.unit, 0)

    @property
    def problems(self) -> dict[str, int]:
        return {name: count for name, count in self.lost.items() if count}

    def did(self, what: str, count: int = 1) -> None:
        self.tried[what] = self.tried.get(what, 0) + count

    def fail(self, what: str, words: str = "") -> None:
        """Count a problem; KeyError for one that the drill did not say it looks for."""
        self.lost[what] += 1
        if words and len(self.said) < _SAID:
            self.said.append(f"{what}: {words}")

    def merge(self, tried: Mapping[str, int], lost: Mapping[str, int], said: Iterable[str] = ()) -> None:
        """Add the counts of a part."""
        for what, count in tried.items():
            self.did(what, count)
        for what, count in lost.items():
            self.lost[what] = self.lost.get(what, 0) + count
        self.said += [*said][: max(0, _SAID - len(self.said))]

    def spread(self, what: str, values: list[float]) -> None:
        """Keep the median and the worst of measured values."""
        if values:
            self.figures[f"{what}, median"] = median(values)
            self.figures[f"{what}, worst"] = max(values)


def bound(failures: int, trials: int) -> float:
    """The greatest failure rate that `trials` without a failure leave possible, at 95 %; 1 where it says
    nothing.

    The rule of three: (1 - rate)^trials = 0.05 gives rate ~ 3 / trials (Hanley and Lippman-Hand, 1983).
    """
    return min(1.0, 3.0 / trials) if trials and not failures else 1.0


def of_dataclass(counts: Any, unit: str) -> Tally:
    """The tally of a dataclass whose `problems` are counts by name, or one line each."""
    tally = Tally(unit)
    problems = counts.problems
    names = [one.name for one in fields(counts)]
    if isinstance(problems, Mapping):
        first = names.index("lost")
        tally.lost = {name: getattr(counts, name) for name in names[first:]}
        names = names[:first]
    else:
        tally.lost = {"problems": len(problems)}
        tally.said = list(problems)[:_SAID]
    for name in names:
        value = getattr(counts, name)
        if name == "recovery_s":
            tally.spread("recovery, s", value)
        elif name != "problems":
            tally.tried[name.replace("_", " ")] = value
    return tally
