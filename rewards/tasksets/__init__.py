"""Collections of tasks with state checks, chosen by name."""

from typing import Protocol

from guiagent.protocols import Taskset
from rewards.tasksets.miniwob import MiniWob


class MakeTaskset(Protocol):
    def __call__(self, oracle: bool = False) -> Taskset:
        """With `oracle`, observations carry the probe that `OraclePolicy` reads."""
        ...


TASKSETS: dict[str, MakeTaskset] = {"miniwob": MiniWob}
