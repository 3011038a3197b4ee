"""Collections of tasks with state checks, chosen by name."""

from guiagent.protocols import Taskset
from rewards.tasksets.miniwob import MiniWob

TASKSETS: dict[str, type[Taskset]] = {"miniwob": MiniWob}
