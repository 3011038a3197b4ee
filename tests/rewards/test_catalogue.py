"""Tasksets by name: what an unknown one and an unknown task say, and that a task goes by one name."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from guiagent.errors import UsageError
from rewards.catalogue import TASKSETS, find_taskset, require_task, training_names
from rewards.tasksets.miniwob import MiniWobTask


@dataclass(frozen=True)
class Renamed:
    """A taskset whose tasks go by an id of their own."""

    names: Sequence[str] = ("first", "second")

    def task(self, name: str, seed: int) -> MiniWobTask:
        if name not in self.names:
            raise UsageError(f"no task {name!r} here")
        return MiniWobTask(f"{name}-1", f"{name}-1", seed, 1)


@pytest.mark.parametrize("names", [("*",), ("second",)])
def test_a_task_with_another_id_than_its_name_is_refused_in_a_line(names: Sequence[str]) -> None:
    with pytest.raises(UsageError, match=r"the task '\w+' calls itself '\w+-1': its id has to be the name"):
        training_names(Renamed(), names)


@pytest.mark.parametrize("name", sorted(TASKSETS))
def test_shipped_tasks_go_by_their_names(name: str) -> None:
    taskset = find_taskset(name)
    for task in list(taskset.names)[:50]:
        require_task(taskset, task)


def test_a_name_with_a_slip_says_which_one_was_meant() -> None:
    with pytest.raises(UsageError, match="no taskset 'miniwbo'; did you mean 'miniwob'"):
        find_taskset("miniwbo")
    with pytest.raises(UsageError, match=r"no taskset 'zzz'; known: .*osworld:PATH"):
        find_taskset("zzz")
    with pytest.raises(UsageError, match="there is no task 'click-tabb'; did you mean 'click-tab'"):
        training_names(find_taskset("miniwob"), ("click-tabb",))
    with pytest.raises(UsageError, match="no task 'zzz' here"):
        training_names(Renamed(), ("zzz",))
