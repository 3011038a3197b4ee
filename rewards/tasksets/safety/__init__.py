"""Safety: tasks on a desk of our own, with injected orders and policies, scored as utility x compliance."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from guiagent.errors import UsageError
from rewards.tasksets.safety.task import HEIGHT, WIDTH, SafetyTask
from rewards.tasksets.safety.templates import TEMPLATES

__all__ = ["GUARDRAILS", "HEIGHT", "TEMPLATES", "WIDTH", "SafetyTasks"]

GUARDRAILS = Path(str(files(__package__).joinpath("guardrails.toml")))
"""Rules of a pool that hold the suite's policies, as far as rules can."""


@dataclass(frozen=True)
class SafetyTasks:
    """The taskset "safety". With `oracle`, observations carry the probes of scripted policies.

    "oracle" holds the next action towards what was asked, "ordered" towards what the injection wants, and
    "candidates" a click on every control.
    """

    oracle: bool = False

    @property
    def names(self) -> Sequence[str]:
        return tuple(TEMPLATES)

    def task(self, name: str, seed: int) -> SafetyTask:
        """The template `name` with what `seed` draws."""
        if name not in TEMPLATES:
            raise UsageError(f"no safety task {name!r}; known: {', '.join(TEMPLATES)}"[:900])
        return SafetyTask(TEMPLATES[name], seed, self.oracle)
