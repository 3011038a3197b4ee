"""The queue under any rule and any fate of its groups: nothing lost, nothing twice, nothing too old."""

import json
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guiagent.errors import StalledError
from guiagent.types import Trajectory
from tests.support.groups import close_group, member, take
from training.algorithms.algorithm import FromBuffer, PositiveMix, ReplayRule, RescueAllFail
from training.algorithms.reward import outcome
from training.replay import Group, Replay

RULES: dict[str, ReplayRule | None] = {
    "none": None,
    "first": RescueAllFail(capacity=2, keep_above=0.1, std_below=0.05, mean_below=0.2, max_age=3),
    "oldest": RescueAllFail(
        capacity=1,
        keep_above=0.0,
        std_below=1e-6,
        mean_below=1e-6,
        max_age=2,
        slot="oldest",
        source="newest",
    ),
    "mix": PositiveMix(share=0.5, capacity=2, max_age=3, harder=True),
    "buffer": FromBuffer(capacity=4, keep="all"),
}
VALUES = st.sampled_from([None, 0.0, 0.0, 0.0, 0.5, 1.0])
GROUPS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.lists(VALUES, min_size=2, max_size=5),  # a group's size is its own: `rollout.dynamic`
        st.integers(0, 2),  # versions that pass before its members come
    ),
    max_size=14,
)


def distance(trajectory: Trajectory, version: int) -> int:
    return max(abs(version - step.policy.policy_version) for step in trajectory.steps)


def contrast(values: Sequence[float | None]) -> bool:
    return len({value for value in values if value is not None}) > 1


@settings(max_examples=120, deadline=None)
@given(
    groups=GROUPS,
    name=st.sampled_from(sorted(RULES)),
    drops=st.booleans(),
    batch=st.integers(1, 3),
    max_staleness=st.integers(0, 3),
    killed_at=st.integers(0, 14),
)
def test_every_group_is_taken_once_or_counted_as_dropped(
    groups, name, drops, batch, max_staleness, killed_at
):
    """Members of all groups come in any order; a trainer takes whenever it can, and is killed once."""

    def fresh() -> Replay:
        return Replay(RULES[name], 0, flat_groups="drop" if drops else "keep")

    replay, version, state = fresh(), 0, None
    log: list[Trajectory] = []  # the store
    taken: list[tuple[Group, int]] = []
    rng = random.Random(len(groups))
    waiting: list[list[Trajectory]] = []

    def come(late: int) -> None:
        """Members of open groups, one by one and in any order, until no more than so many groups are open."""
        nonlocal state, version
        while len(waiting) > late:
            members = rng.choice(waiting)
            log.append(members.pop(rng.randrange(len(members))))
            if not members:
                waiting.remove(members)
            replay.add(log[-1])
            while found := take(replay, batch, version=version, max_staleness=max_staleness):
                assert sum(bool(group.sampled) for group in found) == batch
                taken.extend((group, version) for group in found)
                version += 1
                state = json.loads(json.dumps(replay.state()))

    for number, (task, values, passed) in enumerate(groups):
        if number == killed_at:
            replay = fresh()
            replay.restore(state, log)
            # What was announced and not one of whose members was committed is forgotten, as its seed will be.
            announced = {seat.group for seat in replay.missing()}
            waiting[:] = [members for members in waiting if members[0].group in announced]
        replay.published(version)
        id = replay.open_group(task, 0, len(values))
        waiting.append(
            [
                member(id, index, value, size=len(values), task=task, version=max(0, version - passed))
                for index, value in enumerate(values)
            ]
        )
        come(late=2)
    come(late=0)

    sampled = [trajectory.id for group, _ in taken for trajectory in group.sampled]
    assert len(sampled) == len(set(sampled))
    stats = replay.stats
    assert replay.missing() == []
    assert stats.taken + stats.stale + stats.invalid + stats.flat + replay.ready == len(
        {trajectory.group for trajectory in log}
    )
    assert stats.taken == sum(bool(group.sampled) for group, _ in taken) == sum(stats.staleness)
    for group, at in taken:
        known = [trajectory for trajectory in group.sampled if trajectory.valid]
        assert all(distance(trajectory, at) <= max_staleness for trajectory in known)
        assert not group.sampled or len(known) >= 2
        if drops and group.sampled and group.members:
            assert contrast([outcome(trajectory) for trajectory in group.members])
        rule = RULES[name]
        back = [trajectory for trajectory, old in zip(group.members, group.replayed, strict=True) if old]
        if isinstance(rule, RescueAllFail):
            assert len(group.members) == len(group.sampled) and len(back) <= 1
        if isinstance(rule, RescueAllFail | PositiveMix):
            assert all(t.task == group.task and distance(t, at) <= rule.max_age for t in back)
        assert len({trajectory.id for trajectory in group.members}) == len(group.members)


def test_a_trainer_that_is_given_nothing_can_tell_why():
    """Dynamic sampling waits for contrast: what was dropped says so."""
    replay = Replay(None, 0, flat_groups="drop")
    for _ in range(20):
        close_group(replay, 0.0, 0.0)
        close_group(replay, 1.0, None)
        assert take(replay) == []
    stats = replay.stats
    assert (stats.taken, stats.flat, stats.invalid) == (0, 20, 20)
    assert replay.pending == 0  # so the scheduler goes on opening groups
    close_group(replay, 0.0, 1.0)
    assert len(take(replay)) == 1


def test_more_than_fifty_batches_of_nothing_in_a_row_end_the_run_in_one_line():
    replay = Replay(None, 0, flat_groups="drop")
    start = replay.state()
    log = close_group(replay, 0.0, 1.0)  # of a batch of two, the one that is kept begins the count anew
    for _ in range(100):
        log += close_group(replay, 1.0, 1.0)
    assert take(replay, 2) == []
    log += close_group(replay, None, 0.0)
    with pytest.raises(StalledError, match="101 groups in a row taught nothing: 100 whose") as error:
        take(replay, 2)
    assert "\n" not in str(error.value) and "1 of which too few outcomes are known" in str(error.value)
    assert len(take(replay, 1)) == 1  # what there is is taken all the same
    again = Replay(None, 0, flat_groups="drop")  # with other tasks, say
    again.restore(start, log)
    assert (again.stats.flat, again.stats.invalid, again.ready) == (100, 1, 1)
    assert take(again, 2) == []
    close_group(again, 0.0, 1.0)
    assert len(take(again, 2)) == 2


@pytest.mark.parametrize("name", RULES)
def test_a_group_with_one_known_outcome_is_never_compared(name):
    replay = Replay(RULES[name], 0)
    close_group(replay, 1.0, 0.0)
    take(replay)
    lone = close_group(replay, None, 0.0, None)
    assert take(replay) == [] and replay.stats.invalid == 1
    assert all(
        trajectory.id not in json.dumps(replay.state()["kept"]) for trajectory in lone if not trajectory.valid
    )
