"""Whether a run learns: the figures of an update, what is warned of, and when it ends."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import isnan, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from guiagent.errors import StalledError
from guiagent.types import StopReason
from tests.support.groups import member
from training.config import HealthConfig, TrainConfig
from training.engine.engine import EngineStats
from training.learner.learner import Update
from training.metrics.health import Health, HealthMonitor, health
from training.metrics.observer import Counters, RunObserver
from training.metrics.writer import read
from training.replay import Group, Replay

LEARNS = Health(
    groups=8,
    episodes=64,
    mixed=0.5,
    all_fail=0.25,
    taught=0.5,
    parse_errors=0.1,
    entropy=0.3,
    effective_samples=0.9,
    least_ratio=0.5,
    greatest_ratio=2.0,
    staleness=0.5,
)
FAILS = replace(LEARNS, mixed=0.0, all_fail=1.0, taught=0.0)
GARBLED = replace(FAILS, parse_errors=1.0)
SOLVED = replace(LEARNS, mixed=0.0, all_fail=0.0, taught=0.0, parse_errors=0.0)


def group(number: int, *values: float | None, stop: StopReason = "task_done", extra: int = 0) -> Group:
    """A group of so many outcomes, None for a fault; `extra` earlier successes joined it."""
    name = f"g{number:06}"
    changes = {"stop": stop} if None not in values else {}
    sampled = tuple(member(name, i, value, size=len(values), **changes) for i, value in enumerate(values))
    earlier = tuple(member("", i, 1.0) for i in range(extra))
    return Group(name, "a", 0, sampled, (*sampled, *earlier), staleness=number)


def an_update(groups: Sequence[Group], taught: Sequence[int] = (), **metrics: float) -> Update:
    members = [trajectory for group in groups for trajectory in group.members]
    return Update(metrics, bool(taught), frozenset(members[index].id for index in taught))


def test_the_figures_of_an_update():
    groups = [
        group(0, 1.0, 0.0, None, extra=1),
        group(1, 0.0, 0.0, stop="parse_error"),
        group(2, 1.0, 1.0),
        group(3, 0.0, 0.9),
    ]
    update = an_update(groups, [0, 1, 3], entropy=0.25, ess=0.8, ratio_min=0.1, ratio_max=7.0)
    found = health(groups, update)
    assert (found.groups, found.episodes, found.mixed, found.all_fail) == (4, 8, 1 / 4, 2 / 4)
    assert found.taught == 3 / 9  # the episode with a fault is none, the earlier one is
    assert found.parse_errors == 2 / 8
    assert (found.entropy, found.effective_samples) == (0.25, 0.8)
    assert (found.least_ratio, found.greatest_ratio, found.staleness) == (0.1, 7.0, 1.5)


def test_an_update_without_a_gradient_has_no_figures_of_tokens():
    groups = [group(0, None, None)]
    found = health(groups, an_update(groups))
    assert [isnan(x) for x in (found.mixed, found.taught, found.parse_errors, found.entropy)] == [True] * 4
    assert found.groups == 1


def test_episodes_from_a_buffer_alone_teach_without_a_fresh_group():
    """With `FromBuffer` fresh groups have no members, and one group without `sampled` holds what is drawn."""
    fresh = replace(group(0, 1.0, 0.0), members=())
    drawn = replace(group(1, 1.0, 1.0), sampled=())
    found = health([fresh, drawn], an_update([drawn], [0, 1]))
    assert (found.groups, found.mixed, found.taught) == (1, 1.0, 1.0)


def followed(found: Sequence[Health], **limits: float) -> tuple[list[tuple[str, ...]], HealthMonitor]:
    monitor = HealthMonitor(HealthConfig.model_validate(limits), "ui-tars")
    return [monitor.add(one) for one in found], monitor


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (GARBLED, "name the dialect and the size of screens"),
        (FAILS, "name tasks that the policy solves now and then"),
        (SOLVED, "the policy solves these tasks"),
        (replace(FAILS, taught=nan, mixed=nan, all_fail=nan), "name tasks that the policy solves"),
    ],
)
def test_a_run_that_learns_nothing_warns_once_and_then_ends_with_the_way_out(found, said):
    warnings, monitor = followed([found] * 19)
    assert [bool(lines) for lines in warnings] == [False] * 4 + [True] + [False] * 14
    ((warning,),) = [lines for lines in warnings if lines]
    assert "5 updates in a row taught nothing" in warning and said in warning
    monitor.check()
    monitor.add(found)
    with pytest.raises(StalledError, match=r"20 updates in a row taught nothing: of 160 groups") as error:
        monitor.check()
    assert said in str(error.value) and "\n" not in str(error.value)
    assert error.value.exit_code == 3


def test_the_end_says_what_became_of_the_episodes():
    _, monitor = followed([GARBLED] * 3 + [SOLVED], stop_after=4)
    with pytest.raises(StalledError) as error:
        monitor.check()
    assert "of 32 groups 75% failed and 25% succeeded as a whole" in str(error.value)
    assert "75% of the episodes ended in text that is no action of the dialect ui-tars" in str(error.value)


def test_one_update_that_teaches_begins_the_count_anew():
    warnings, monitor = followed([FAILS] * 19 + [LEARNS] + [FAILS] * 19)
    assert sum(map(bool, warnings)) == 2 and monitor.in_vain == 19
    monitor.check()


def test_who_sets_no_end_gets_none():
    _, monitor = followed([FAILS] * 500, stop_after=0)
    assert monitor.in_vain == 500
    monitor.check()


def test_many_parse_errors_are_warned_of_while_it_learns_and_again_when_they_come_back():
    many = replace(LEARNS, parse_errors=0.6)
    warnings, _ = followed([many] * 6 + [LEARNS] * 5 + [many] * 5)
    said = [number for number, lines in enumerate(warnings) if lines]
    assert said[0] == 4 and len(said) == 2
    assert warnings[4][0].startswith("60% of the episodes of the last 5 updates ended in text")


def observed(run: Path, updates: int, **figures: float) -> None:
    """A run whose every episode ends in text that is no action, through the observer that a run has."""
    state = SimpleNamespace(step=0, seconds=1.0, episodes=0, env_steps=0, recorded=0)
    parts: Any = (state, Replay(None, 0), SimpleNamespace(stats=EngineStats()))
    observer = RunObserver(run, TrainConfig(), *parts, Counters())
    rollouts = SimpleNamespace(stats=SimpleNamespace(per_second=1.0), faults=Counter(), lost={})
    try:
        for state.step in range(1, updates + 1):
            groups = [group(2 * state.step + i, 0.0, 0.0, stop="parse_error") for i in range(2)]
            observer.record(groups, an_update(groups, **figures), rollouts)
    finally:
        observer.close()


def test_a_dead_run_ends_in_a_line_and_its_metrics_say_why(tmp_path: Path):
    with pytest.raises(StalledError, match="name the dialect and the size of screens") as error:
        observed(tmp_path, 80)
    assert "of 40 groups 100% failed" in str(error.value) and "100% of the episodes" in str(error.value)
    lines = read(tmp_path)
    assert len(lines) == 20  # the last one is written before the run ends
    assert [line["in_vain"] for line in lines] == list(range(1, 21))
    assert [bool(line["warnings"]) for line in lines].index(True) == 4
    dead = lines[-1]["health"]
    assert (dead["mixed"], dead["all_fail"], dead["taught"], dead["parse_errors"]) == (0.0, 1.0, 0.0, 1.0)
    curves = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert {"health/mixed", "health/parse_errors", "in_vain"} <= set(curves.Tags()["scalars"])
    assert [event.value for event in curves.Scalars("health/parse_errors")] == [1.0] * 20


def test_a_run_that_goes_on_after_its_end_gets_as_many_updates_anew(tmp_path: Path):
    for _ in range(2):
        with pytest.raises(StalledError, match="20 updates in a row"):
            observed(tmp_path, 80)
