"""Groups of made-up trajectories, for tests of replays."""

import itertools
from dataclasses import replace
from typing import Any

from guiagent.errors import Fault
from guiagent.types import PolicyOutput, Score, Step, Trajectory
from training.advantages import group_advantages
from training.algorithms.reward import outcome
from training.replay import Group, Replay

FAULT = Fault("device", "crashed", "the browser died")

_ids = itertools.count()


def member(
    group: str,
    index: int,
    value: float | None = 0.0,
    *,
    size=4,
    version=0,
    task="a",
    length=2,
    **changes: Any,
) -> Trajectory:
    """A trajectory of `length` steps, sampled at `version`; without a value it is a fault's."""
    steps = [Step("", 1, 1, PolicyOutput("x", policy_version=version)) for _ in range(length)]
    known = {"score": Score(value)} if value is not None else {"fault": FAULT, "stop": "fault"}
    return Trajectory(
        **{
            "id": f"t{next(_ids)}",
            "task": task,
            "seed": 0,
            "instruction": "",
            "steps": steps,
            "stop": "task_done",
        }
        | {"group": group, "group_index": index, "group_size": size}
        | known
        | changes
    )


def close_group(replay: Replay, *values: float | None, task="a", **changes: Any) -> list[Trajectory]:
    """Opens a group and adds a member for each value, in order."""
    group = replay.open_group(task, 0, len(values))
    members = [
        member(group, i, value, size=len(values), task=task, **changes) for i, value in enumerate(values)
    ]
    for trajectory in members:
        replay.add(trajectory)
    return members


def take(replay: Replay, count=1, *, version=0, max_staleness=1000) -> list[Group]:
    """Takes so many groups now. A run never changes its limits; a test may take one group, and then two."""
    replay._limits = replace(replay._limits, groups=count, max_staleness=max_staleness)
    return replay.take(current_version=version, timeout=0)


def rescued(group: Group) -> bool:
    return any(group.replayed)


def advantages(group: Group) -> list[float]:
    """GRPO's, of the members that are learned from."""
    return group_advantages([outcome(trajectory) for trajectory in group.members])
