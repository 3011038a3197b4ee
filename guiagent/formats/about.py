"""What is told of an episode beside its turns, with the same fields in every format that has room."""

import math
from typing import Annotated

import msgspec

from guiagent.errors import Fault, UsageError
from guiagent.types import Score, StopReason, Trajectory

SHORT = 4_096  # characters of a name, at most
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=SHORT)]
_Seed = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class Verdict(msgspec.Struct, frozen=True):
    """A `Score` without its evidence, so that all rows of a table have the same columns."""

    value: float | None
    source: str = "check"
    reason: str = ""

    @classmethod
    def of(cls, score: Score | None) -> "Verdict | None":
        return None if score is None else cls(score.value, score.source, score.reason)

    def score(self) -> Score:
        """The score. Raises UsageError for a value outside [0, 1], such as NaN, or an unknown source."""
        if self.value is not None and not (math.isfinite(self.value) and 0 <= self.value <= 1):
            raise UsageError(f"the score {self.value!r} is not between 0 and 1")
        if self.source not in ("check", "judge"):
            raise UsageError(f"the source of a score is check or judge, not {self.source[:60]!r}")
        return Score(self.value, "check" if self.source == "check" else "judge", self.reason)


class About(msgspec.Struct, frozen=True):
    """Name, task, seed, instruction and outcome of an episode; what a file does not say is None.

    `final` is the picture after the last action, as the format refers to pictures.
    """

    id: _Name | None = None
    task: _Name | None = None
    seed: _Seed | None = None
    instruction: str | None = None
    stop: StopReason | None = None
    score: Verdict | None = None
    fault: Fault | None = None
    final: str | None = None

    @classmethod
    def of(cls, id: str, told: Trajectory, final: str | None) -> "About":
        return cls(
            id, told.task, told.seed, told.instruction, told.stop, Verdict.of(told.score), told.fault, final
        )
