"""Replay: where rollouts and the trainer meet.

Rollouts open groups and add committed trajectories; the trainer takes closed groups. A group closes when all
of its members have come, however long one took: to take the first to finish would favour short episodes.

Nothing here touches a disk. The trajectories are durable in the store before they are added, and a checkpoint
holds `state()`; the two together say what was consumed, so `restore` can offer the rest again.
"""

import random
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import fmean, pstdev
from threading import Condition
from typing import Any

from guiagent.errors import InfrastructureError
from guiagent.types import Trajectory
from rewards.proposals import comparable
from training.reward import outcome


@dataclass(frozen=True, kw_only=True)
class RescueAllFail:
    """ARPO's replay: a group that failed as a whole gets an earlier success in place of member 0.

    It reads outcomes, never shaped rewards. Each task keeps its `capacity` newest trajectories with an
    outcome above `keep_above`; a group is rescued when its outcomes have a population deviation below
    `std_below` and a mean below `mean_below`, with one drawn uniformly among those sampled at most
    `max_age` policy versions ago.
    """

    capacity: int
    keep_above: float
    std_below: float
    mean_below: float
    max_age: int

    def needed(self, outcomes: Sequence[float]) -> bool:
        return pstdev(outcomes) < self.std_below and fmean(outcomes) < self.mean_below


@dataclass(frozen=True, slots=True)
class Member:
    """An episode to roll out for a group."""

    group: str
    task: str
    seed: int
    index: int
    size: int  # of the group


@dataclass(frozen=True)
class Group:
    """Siblings: episodes of one task from one seed. `members` are trained on.

    Statistics of success belong to `sampled`, the episodes that were rolled out for this group; the two
    differ in member 0 where the group was rescued.
    """

    id: str
    task: str
    seed: int
    sampled: tuple[Trajectory, ...]
    members: tuple[Trajectory, ...]
    staleness: int  # policy versions between the trainer and the oldest token sampled here

    @property
    def rescued(self) -> bool:
        return self.members[0] is not self.sampled[0]


@dataclass
class ReplayStats:
    """What became of every group settled so far, taken or dropped."""

    taken: int = 0  # groups handed to the trainer
    stale: int = 0  # groups dropped because a member was sampled too many policy versions ago
    invalid: int = 0  # groups dropped because too few members were valid
    flat: int = 0  # groups dropped by dynamic sampling, because all outcomes were the same
    masked: int = 0  # members whose outcome a fault or an unknown score hides
    trained: int = 0  # valid members handed to the trainer
    replayed: int = 0  # of these, the ones that rescued their group
    staleness: list[int] = field(default_factory=list)  # [n]: groups taken that were n versions old

    @property
    def replay_share(self) -> float:
        return self.replayed / self.trained if self.trained else 0.0


@dataclass
class _Pending:
    """A group that is open or waits to be taken."""

    number: int
    task: str
    seed: int
    size: int
    members: dict[int, Trajectory] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"g{self.number:06d}"

    @property
    def closed(self) -> bool:
        return len(self.members) == self.size

    @property
    def sampled(self) -> tuple[Trajectory, ...]:
        return tuple(self.members[index] for index in sorted(self.members))


class Replay:
    """Groups on their way from rollouts to the trainer, and the successes that rescue later ones.

    With `dynamic_sampling`, a group whose outcomes are all the same is dropped and counted: it teaches
    nothing (DAPO, arXiv 2503.14476).

    Thread-safe: any thread opens and adds, one trainer takes. `take` is the only call that waits. A draw
    depends only on `seed`, the group and the successes there are, so it needs no random state of its own.
    """

    def __init__(self, rescue: RescueAllFail | None, seed: int, *, dynamic_sampling: bool = False) -> None:
        self._rescue = rescue
        self._dynamic_sampling = dynamic_sampling
        self._seed = seed
        self._opened = 0
        self._pending: dict[int, _Pending] = {}
        self._closed: deque[_Pending] = deque()  # those of `_pending` that the trainer may take, oldest first
        fifo = partial(deque[Trajectory], maxlen=rescue.capacity if rescue else 0)
        self._successes: defaultdict[str, deque[Trajectory]] = defaultdict(fifo)
        self._stats = ReplayStats()
        self._changed = Condition()  # its lock is reentrant

    def open_group(self, task: str, seed: int, size: int) -> str:
        """Announces a group of `size` episodes; returns the id that its trajectories carry."""
        with self._changed:
            group = _Pending(self._opened, task, seed, size)
            self._pending[group.number] = group
            self._opened += 1
            return group.id

    def add(self, trajectory: Trajectory) -> None:
        """Receives a committed trajectory; the last one of a group closes it.

        Raises `ValueError` for a group that is not open and for a member that is already there.
        """
        with self._changed:
            group = self._pending.get(_number(trajectory.group))
            if group is None:
                raise ValueError(f"trajectory {trajectory.id} belongs to no open group: {trajectory.group}")
            self._place(group, trajectory)

    def take(self, count: int, *, current_version: int, max_staleness: int, timeout: float) -> list[Group]:
        """The `count` groups that closed first, as soon as there are so many; none if `timeout` seconds pass.

        A group whose oldest token was sampled more than `max_staleness` policy versions away from
        `current_version` is dropped and counted. What is returned counts as consumed: the trainer steps on it
        before it checkpoints `state()`.
        """

        def enough() -> bool:
            self._drop_stale(current_version, max_staleness)
            return len(self._closed) >= count

        with self._changed:
            if not self._changed.wait_for(enough, timeout):
                return []
            batch = [self._closed.popleft() for _ in range(count)]
            taken = [self._hand_over(group, current_version) for group in batch]
            for group in batch:  # only now: a batch's own successes must not rescue it
                self._forget(group)
            return taken

    def missing(self) -> list[Member]:
        """The members that open groups still wait for, oldest group first."""
        with self._changed:
            return [
                Member(group.id, group.task, group.seed, index, group.size)
                for group in self._pending.values()
                for index in range(group.size)
                if index not in group.members
            ]

    @property
    def pending(self) -> int:
        """Groups opened and not yet taken or dropped: what a scheduler bounds, to bound staleness."""
        with self._changed:
            return len(self._pending)

    @property
    def opened(self) -> int:
        """Groups opened so far, over the whole run."""
        with self._changed:
            return self._opened

    @property
    def ready(self) -> int:
        """Groups that wait for the trainer."""
        with self._changed:
            return len(self._closed)

    @property
    def stats(self) -> ReplayStats:
        """A copy, so that it can be read while rollouts go on."""
        with self._changed:
            return ReplayStats(**asdict(self._stats))

    def state(self) -> dict[str, Any]:
        """What a checkpoint must hold, as JSON: ids, never trajectories, which the store has."""
        with self._changed:
            return {
                "opened": self._opened,
                "pending": [
                    [group.number, group.task, group.seed, group.size] for group in self._pending.values()
                ],
                "successes": {task: [kept.id for kept in fifo] for task, fifo in self._successes.items()},
                "stats": asdict(self._stats),
            }

    def restore(self, state: dict[str, Any] | None, store: Iterable[Trajectory]) -> None:
        """Makes a new replay go on from a checkpoint's `state`, None if there is none, and a store.

        What was committed and not settled when the state was taken is offered again, in the order of the
        commits, and so are the groups opened since. Trajectories without a group are left alone.

        Raises:
            InfrastructureError: the store lacks a trajectory that the state refers to.
        """
        with self._changed:
            state = state or self.state()
            fifos = state["successes"] if self._rescue else {}
            kept = {id for ids in fifos.values() for id in ids}
            pending = {number: _Pending(number, *rest) for number, *rest in state["pending"]}
            found: dict[str, Trajectory] = {}
            offered: list[tuple[_Pending, Trajectory]] = []
            for trajectory in store:
                if trajectory.id in kept:
                    found[trajectory.id] = trajectory
                if not trajectory.group:
                    continue
                number = _number(trajectory.group)
                if number >= state["opened"]:  # a group opened after the checkpoint
                    group = _Pending(number, trajectory.task, trajectory.seed, trajectory.group_size)
                    pending.setdefault(number, group)
                if number in pending:
                    offered.append((pending[number], trajectory))
            if lost := kept - found.keys():
                raise InfrastructureError(
                    f"the checkpoint refers to {len(lost)} trajectories that the store does not hold, "
                    f"such as {min(lost)}: restore the store from a copy, or start a new run"
                )
            self._opened = max([state["opened"], *(number + 1 for number in pending)])
            self._pending = dict(sorted(pending.items()))
            self._stats = ReplayStats(**state["stats"])
            for task, ids in fifos.items():
                self._successes[task].extend(found[id] for id in ids)
            for group, trajectory in offered:
                self._place(group, trajectory)

    def _place(self, group: _Pending, trajectory: Trajectory) -> None:
        if not 0 <= trajectory.group_index < group.size or trajectory.group_index in group.members:
            raise ValueError(
                f"trajectory {trajectory.id} cannot be member {trajectory.group_index} of {group.id}"
            )
        group.members[trajectory.group_index] = trajectory
        if not group.closed:
            return
        known = [value for member in group.sampled if (value := outcome(member)) is not None]
        if not comparable(len(known), sum(member.fault is None for member in group.sampled)):
            self._stats.invalid += 1
            self._forget(group)
        elif self._dynamic_sampling and min(known) == max(known):
            self._stats.flat += 1
            self._forget(group)
        else:
            self._closed.append(group)
            self._changed.notify_all()

    def _drop_stale(self, version: int, max_staleness: int) -> None:
        for group in [group for group in self._closed if _staleness(group.sampled, version) > max_staleness]:
            self._closed.remove(group)
            self._stats.stale += 1
            self._forget(group)

    def _hand_over(self, group: _Pending, version: int) -> Group:
        sampled = group.sampled
        members = self._rescued(group, version) or sampled
        taken = Group(group.id, group.task, group.seed, sampled, members, _staleness(sampled, version))
        stats = self._stats
        stats.taken += 1
        stats.trained += sum(member.valid for member in members)
        stats.replayed += taken.rescued
        stats.staleness += [0] * (taken.staleness + 1 - len(stats.staleness))
        stats.staleness[taken.staleness] += 1
        return taken

    def _rescued(self, group: _Pending, version: int) -> tuple[Trajectory, ...] | None:
        """The members with a success in place of member 0, or None where the rule does not ask for it."""
        rule, sampled = self._rescue, group.sampled
        if rule is None or not rule.needed([value for t in sampled if (value := outcome(t)) is not None]):
            return None
        candidates = [
            t for t in self._successes.get(group.task, ()) if _staleness([t], version) <= rule.max_age
        ]
        if not candidates:
            return None
        return (random.Random(f"{self._seed}:{group.id}").choice(candidates), *sampled[1:])

    def _forget(self, group: _Pending) -> None:
        """The group is settled, taken or not: what remains of it are its successes and its masked members."""
        del self._pending[group.number]
        for member in group.sampled:
            value = outcome(member)
            if value is None:
                self._stats.masked += 1
            elif self._rescue is not None and value > self._rescue.keep_above:
                self._successes[group.task].append(member)


def _number(group_id: str) -> int:
    return int(group_id.removeprefix("g"))


def _staleness(trajectories: Iterable[Trajectory], version: int) -> int:
    """Policy versions between `version` and the furthest token of the valid ones.

    A distance, not an age: after a resume from an older checkpoint, tokens can be of a version to come.
    """
    versions = (step.policy.policy_version for t in trajectories if t.valid for step in t.steps)
    return max((abs(version - v) for v in versions), default=0)
