"""The queue of groups: what the trainer is given, what is dropped and counted, what a restart keeps."""

import dataclasses
import json
import random
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guiagent.errors import InfrastructureError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import PolicyOutput, Score, Step, Trajectory
from tests.support.groups import FAULT, advantages, close_group, member, rescued, take
from training.advantages import group_advantages
from training.algorithms import ALGORITHMS
from training.replay import Group, Replay, ReplayStats
from training.replay.scheduler import Limits

ARPO = ALGORITHMS["arpo"]


def waiting(replay: Replay) -> list[tuple[str, str, int, int]]:
    return [(member.group, member.task, member.seed, member.index) for member in replay.missing()]


def arpo_replay(seed=0) -> Replay:
    return Replay(ARPO.replay, seed)


def with_success(*values: float, version=0, task="a") -> Replay:
    """A replay in which these outcomes have been taken, and kept where they may rescue."""
    replay = arpo_replay()
    close_group(replay, *values, version=version, task=task)
    take(replay, version=version)
    return replay


# Groups


def test_a_group_closes_on_all_of_its_members_in_whatever_order_they_come():
    replay = arpo_replay()
    group = replay.open_group("a", 7, 3)
    first, second, third = (member(group, i, size=3, value=i / 2) for i in range(3))
    replay.add(third)
    replay.add(first)
    assert take(replay) == []
    assert waiting(replay) == [(group, "a", 7, 1)]
    replay.add(second)
    [taken] = take(replay)
    assert taken.members == taken.sampled == (first, second, third)
    assert (taken.id, taken.task, taken.seed, rescued(taken)) == (group, "a", 7, False)


def test_groups_come_in_the_order_they_closed_and_only_a_full_batch_at_once():
    replay = arpo_replay()
    slow = replay.open_group("a", 0, 2)
    quick = close_group(replay, 0.0, 1.0)
    assert take(replay, 2) == []
    assert replay.ready == 1
    replay.add(member(slow, 0, size=2))
    replay.add(member(slow, 1, 1.0, size=2))
    assert [group.id for group in take(replay, 2)] == [quick[0].group, slow]
    assert (replay.ready, replay.pending, replay.opened) == (0, 0, 2)


def test_a_fault_is_masked_and_counted_and_never_a_score():
    replay = arpo_replay()
    close_group(replay, None, 1.0, 0.0)
    [group] = take(replay)
    assert advantages(group)[0] == 0.0
    assert replay.stats.masked == 1
    assert replay.stats.trained == 2


@pytest.mark.parametrize("values", [(None, None, None), (None, 1.0, None), (0.0, None)])
def test_a_group_that_cannot_be_compared_is_dropped_and_counted(values):
    replay = arpo_replay()
    close_group(replay, *values)
    assert take(replay) == []
    assert (replay.stats.invalid, replay.stats.masked) == (1, values.count(None))
    assert replay.pending == 0


def test_what_a_judge_could_mostly_not_say_is_dropped_and_what_met_faults_is_not():
    unknown = {"score": Score(None, "judge"), "fault": None}
    for others, taken in ((unknown, 0), ({"fault": FAULT, "stop": "fault"}, 1)):
        replay = arpo_replay()
        group = replay.open_group("a", 0, 5)
        for index, value in enumerate((1.0, 0.0)):
            replay.add(member(group, index, value, size=5))
        for index in (2, 3, 4):
            replay.add(member(group, index, None, size=5, **others))
        assert len(take(replay)) == taken
        assert (replay.stats.invalid, replay.stats.masked) == (1 - taken, 3)


@pytest.mark.parametrize(
    ("values", "taken"),
    [((1.0, 1.0), 0), ((0.0, 0.0, 0.0), 0), ((1.0, None, 1.0), 0), ((0.0, 1.0), 1), ((0.0, None, 1.0), 1)],
)
def test_dynamic_sampling_drops_and_counts_groups_without_contrast(values, taken):
    replay = Replay(None, 0, flat_groups="drop")
    close_group(replay, *values)
    assert len(take(replay)) == taken
    assert (replay.stats.flat, replay.stats.taken, replay.pending) == (1 - taken, taken, 0)
    assert replay.stats.masked == values.count(None)


@pytest.mark.parametrize(("flat_groups", "taken"), [("keep", 1), ("drop", 1), ("drop_by_outcome", 0)])
def test_failures_that_earned_different_rewards_are_a_contrast_unless_outcomes_alone_count(
    flat_groups, taken
):
    replay = Replay(None, 0, flat_groups=flat_groups)
    group = replay.open_group("a", 0, 2)
    for index, reward in enumerate((-1.0, 0.0)):
        replay.add(member(group, index, size=2, score=Score(0.0, "judge", reward=reward)))
    assert (len(take(replay)), replay.stats.flat) == (taken, 1 - taken)


def test_a_format_penalty_is_never_the_only_contrast_where_outcomes_count_alone():
    """ARPO keeps a group that failed as a whole, and learns from it which episode could not be parsed."""
    for flat_groups, taken in (("keep", 1), ("drop_by_outcome", 0)):
        replay = Replay(ARPO.replay, 0, flat_groups=flat_groups)
        group = replay.open_group("a", 0, 2)
        unreadable = Step("", 1, 1, PolicyOutput("?", error="no action"))
        replay.add(member(group, 0, size=2))
        replay.add(member(group, 1, size=2, steps=[unreadable]))
        groups = take(replay)
        assert (len(groups), replay.stats.flat) == (taken, 1 - taken)
        for one in groups:
            assert group_advantages([ARPO.reward(t) for t in one.members])[0] > 0


def test_a_closed_group_tells_its_known_outcomes_even_if_it_is_dropped():
    replay = Replay(None, 0, flat_groups="drop")
    group = replay.open_group("a", 0, 3)
    told = [replay.add(member(group, i, value, size=3)) for i, value in enumerate((1.0, None, 1.0))]
    assert told == [None, None, [1.0, 1.0]]


def test_dynamic_sampling_goes_on_after_a_restart(tmp_path: Path):
    def fresh() -> Replay:
        return Replay(None, 0, flat_groups="drop")

    replay = fresh()
    state = replay.state()
    with TrajectoryStore(tmp_path) as store:
        for values in ((1.0, 1.0), (0.0, 1.0)):
            store.commit(close_group(replay, *values))
        restored = fresh()
        restored.restore(json.loads(json.dumps(state)), store)
    assert len(take(restored)) == 1
    assert restored.stats.flat == 1


@pytest.mark.parametrize("index", [0, 4, -1])
def test_a_member_that_does_not_fit_is_refused(index):
    replay = arpo_replay()
    group = replay.open_group("a", 0, 4)
    replay.add(member(group, 0))
    with pytest.raises(ValueError, match="cannot be member"):
        replay.add(member(group, index))
    with pytest.raises(ValueError, match="no open group"):
        replay.add(member("g000009", 0))


# Staleness


def test_a_stale_group_is_dropped_and_counted_and_the_next_is_taken():
    replay = arpo_replay()
    close_group(replay, 0.0, 1.0, version=1)
    fresh = close_group(replay, 0.0, 1.0, version=3)
    [group] = take(replay, version=4, max_staleness=2)
    assert group.members == tuple(fresh)
    assert group.staleness == 1
    assert (replay.stats.stale, replay.stats.taken, replay.stats.staleness) == (1, 1, [0, 1])


def test_one_old_token_makes_a_group_stale_but_not_a_masked_members():
    replay = arpo_replay()
    group = replay.open_group("a", 0, 3)
    steps = [Step("", 1, 1, PolicyOutput("x", policy_version=version)) for version in (0, 5)]
    replay.add(member(group, 0, size=3, version=5))
    replay.add(member(group, 1, 1.0, size=3, steps=steps))
    replay.add(member(group, 2, None, size=3, version=0))
    assert take(replay, version=5, max_staleness=4) == []
    assert replay.stats.stale == 1
    masked = replay.open_group("a", 0, 3)
    replay.add(member(masked, 0, size=3, version=5))
    replay.add(member(masked, 1, 1.0, size=3, version=5))
    replay.add(member(masked, 2, None, size=3, version=0))
    [taken] = take(replay, version=5, max_staleness=4)
    assert taken.staleness == 0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=12), st.integers(0, 5))
def test_no_batch_holds_a_sample_older_than_the_bound(versions, bound):
    replay = arpo_replay()
    for version in versions:
        close_group(replay, 0.5, 1.0, version=version)
    current, fit = 12, sum(12 - version <= bound for version in versions)
    groups = take(replay, fit, version=current, max_staleness=bound)
    assert len(groups) == fit
    for group in groups:
        assert all(current - s.policy.policy_version <= bound for t in group.members for s in t.steps)
    assert replay.stats.stale == len(versions) - fit
    assert sum(replay.stats.staleness) == replay.stats.taken == fit


def test_every_token_counts_where_weights_changed_within_a_turn():
    """Resumed at version 3, which a turn begun at 3 and finished at 7 has overtaken."""
    replay = arpo_replay()
    group = replay.open_group("a", 0, 2)
    turned = [Step("", 1, 1, PolicyOutput("x", policy_version=3, versions=[(0, 3), (5, 7)]))]
    replay.add(member(group, 0, size=2, version=3))
    replay.add(member(group, 1, 1.0, size=2, steps=turned))
    assert take(replay, version=3, max_staleness=3) == []
    assert replay.stats.stale == 1


# Threads


def test_a_waiting_trainer_is_woken_by_the_member_that_closes_a_group():
    replay = arpo_replay()
    group = replay.open_group("a", 0, 2)
    taken: list[Group] = []

    def train() -> None:
        taken.extend(replay.take(current_version=0, timeout=3600))

    trainer = threading.Thread(target=train, daemon=True)
    trainer.start()
    trainer.join(0.1)  # so that it waits by now
    replay.add(member(group, 0, size=2))
    replay.add(member(group, 1, 1.0, size=2))
    trainer.join(60)
    assert [each.id for each in taken] == [group]


def test_nothing_is_lost_or_given_twice_between_many_producers_and_one_trainer():
    replay = Replay(ARPO.replay, 0, limits=Limits(groups=4, max_staleness=0, devices=4))

    def produce(task: str) -> None:
        for _ in range(50):
            close_group(replay, 0.0, 1.0, task=task)

    producers = [threading.Thread(target=produce, args=(task,)) for task in "abcd"]
    for producer in producers:
        producer.start()
    taken = [g for _ in range(50) for g in replay.take(current_version=0, timeout=30)]
    for producer in producers:
        producer.join()
    assert len({t.id for group in taken for t in group.sampled}) == 400


# Restarts


def saved(replay: Replay) -> dict[str, object]:
    """The state as a checkpoint gives it back."""
    state: dict[str, object] = json.loads(json.dumps(replay.state()))
    return state


def commit_group(
    replay: Replay, store: TrajectoryStore, *values: float | None, of: int | None = None, **changes
):
    """Commits and adds the members, and leaves the group open where `of` says it has more."""
    size = of or len(values)
    group = replay.open_group(changes.get("task", "a"), 3, size)
    for i, value in enumerate(values):
        trajectory = member(group, i, value, size=size, seed=3, **changes)
        store.commit([trajectory])
        replay.add(trajectory)
    return group


def test_the_state_survives_byte_for_byte(tmp_path: Path):
    with TrajectoryStore(tmp_path) as store:
        replay = arpo_replay()
        commit_group(replay, store, 1.0, 0.0, None)
        commit_group(replay, store, 0.0, 1.0, task="b")
        commit_group(replay, store, None, None)
        take(replay, 2)
        commit_group(replay, store, 0.0, 0.0)
        commit_group(replay, store, 0.0, of=4)
        replay.open_group("b", 9, 2)
        store.commit([member("", 0)])  # an episode that belongs to no group, such as an evaluation
        before = saved(replay)
        restored = arpo_replay()
        restored.restore(before, store)
    assert json.dumps(saved(restored)) == json.dumps(before)
    assert restored.missing() == replay.missing()
    assert restored.stats == replay.stats
    assert take(restored)[0] == take(replay)[0]


def test_what_no_checkpoint_says_was_consumed_is_offered_again(tmp_path: Path):
    """Killed after a checkpoint: groups taken, closed or opened since then are there, and none before it."""
    with TrajectoryStore(tmp_path) as store:
        replay = arpo_replay()
        consumed = commit_group(replay, store, 1.0, 0.0)
        take(replay)
        closed = commit_group(replay, store, 0.0, 0.0)
        state = saved(replay)
        taken_since = commit_group(replay, store, 0.0, 1.0)
        take(replay, 2)
        half = commit_group(replay, store, 0.5, of=3)
        replay.open_group("a", 5, 2)  # none of its members was committed
    with TrajectoryStore(tmp_path) as store:
        restored = arpo_replay()
        restored.restore(state, store)
        assert waiting(restored) == [(half, "a", 3, 1), (half, "a", 3, 2)]
        groups = take(restored, 2)
        assert [group.id for group in groups] == [closed, taken_since]
        assert rescued(groups[0])  # by the success that the checkpoint remembers
        assert restored.open_group("a", 0, 2) not in (consumed, closed, taken_since, half)


def test_without_any_checkpoint_every_group_is_offered(tmp_path: Path):
    with TrajectoryStore(tmp_path) as store:
        replay = arpo_replay()
        ids = [commit_group(replay, store, 0.0, 1.0) for _ in range(3)]
        take(replay, 2)
        commit_group(replay, store, 1.0, None)
        restored = arpo_replay()
        restored.restore(None, store)
    assert restored.stats == ReplayStats(invalid=1, masked=1)
    assert [group.id for group in take(restored, 3)] == ids


def test_members_committed_but_not_yet_added_are_not_rolled_out_again(tmp_path: Path):
    with TrajectoryStore(tmp_path) as store:
        replay = arpo_replay()
        group = replay.open_group("a", 3, 2)
        store.commit([member(group, 1, size=2)])
        restored = arpo_replay()
        restored.restore(saved(replay), store)
    assert waiting(restored) == [(group, "a", 3, 0)]


def test_the_oldest_group_is_finished_first_whichever_was_committed_first():
    replay = arpo_replay()
    first, second = (replay.open_group("a", 0, 2) for _ in range(2))
    restored = arpo_replay()
    restored.restore(None, [member(second, 0, size=2), member(first, 1, size=2)])
    assert waiting(restored) == [(first, "a", 0, 0), (second, "a", 0, 1)]


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 30))
def test_killed_anywhere_each_committed_group_is_trained_on_once(rng: random.Random, kill_at: int):
    """Consumption counts from the last checkpoint, which every optimiser step writes here."""
    log: list[Trajectory] = []
    replay, state = arpo_replay(), None
    trained: list[str] = []
    open_groups: list[tuple[str, list[int]]] = []
    for turn in range(60):
        if turn == kill_at:
            replay, open_groups = arpo_replay(), []
            replay.restore(state, log)
            for group, _, _, index in waiting(replay):
                if not open_groups or open_groups[-1][0] != group:
                    open_groups.append((group, []))
                open_groups[-1][1].append(index)
        if turn < 40 and rng.random() < 0.4:
            open_groups.append((replay.open_group("a", 0, 3), [0, 1, 2]))
        elif open_groups and rng.random() < 0.8:
            group, missing = rng.choice(open_groups)
            trajectory = member(group, missing.pop(), rng.choice([0.0, 1.0]), size=3)
            log.append(trajectory)
            replay.add(trajectory)
            open_groups = [(g, rest) for g, rest in open_groups if rest]
        for group in take(replay):
            trained += [t.id for t in group.sampled]
            state = saved(replay)
    assert len(trained) == len(set(trained))
    complete = [t.id for t in log if sum(other.group == t.group for other in log) == 3]
    assert set(trained) == set(complete)


def test_a_store_that_lacks_what_the_checkpoint_refers_to_is_refused_in_one_line():
    state = saved(with_success(1.0, 0.0))
    with pytest.raises(InfrastructureError, match="does not hold, such as t") as error:
        arpo_replay().restore(state, [])
    assert "\n" not in str(error.value)


def test_tokens_of_a_lost_version_count_by_their_distance():
    """Resumed at version 3 from before the steps that made version 5."""
    replay = arpo_replay()
    close_group(replay, 0.0, 1.0, version=5)
    assert take(replay, version=3, max_staleness=1) == []
    assert replay.stats.stale == 1


def test_the_stats_are_a_copy():
    replay = with_success(1.0, 0.0)
    replay.stats.staleness.append(99)
    assert dataclasses.asdict(replay.stats)["staleness"] == [1]
