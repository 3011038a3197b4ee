"""The queue of groups: where rollouts and the trainer meet.

Rollouts ask for the next episode to play, open groups where there is room, and add committed trajectories;
the trainer takes closed groups. A group closes when all of its members have come, however long one took:
taking those that finish first would favour short episodes.

Nothing here touches a disk. The trajectories are durable in the store before they are added, and a checkpoint
holds `state()`; together they say which groups were consumed, so `restore` can offer the rest again.
"""

import random
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from statistics import pstdev
from threading import Condition
from typing import Any, Literal

from guiagent.errors import InfrastructureError, StalledError
from guiagent.types import Trajectory
from rewards.proposers.types import comparable
from training.algorithms.algorithm import FromBuffer, ReplayRule, RescueAllFail
from training.algorithms.reward import earned, outcome
from training.config import FlatGroups
from training.replay.groups import EpisodeRequest, Group, ReplayStats, Span, oldest_version, span
from training.replay.platforms import PlatformSchedulers
from training.replay.rules import Buffer, drawn, failed, members, young
from training.replay.scheduler import Limits, choose_batch
from training.replay.shares import in_turn

_BATCH_SYNCHRONOUS = Limits(groups=1, max_staleness=0, devices=1)


@dataclass
class _Pending:
    """A group that is open or waits to be taken."""

    number: int
    task: str
    seed: int
    size: int
    version: int  # of the weights that sampled when it was opened
    platform: str = ""
    members: dict[int, Trajectory] = field(default_factory=dict)
    span: Span | None = None  # of its tokens, once it has closed
    needs_rescue: bool = False  # all of it failed: it teaches nothing without an earlier success

    @property
    def id(self) -> str:
        return f"g{self.number:06d}"

    @property
    def closed(self) -> bool:
        return len(self.members) == self.size

    @property
    def sampled(self) -> tuple[Trajectory, ...]:
        return tuple(self.members[index] for index in sorted(self.members))

    @property
    def missing(self) -> list[EpisodeRequest]:
        return [
            EpisodeRequest(self.id, self.task, self.seed, index, self.size, self.platform)
            for index in range(self.size)
            if index not in self.members
        ]

    def staleness(self, version: int) -> int:
        return self.span.staleness(version) if self.span else 0


class Replay:
    """The queue of groups from rollouts to the trainer, with the earlier episodes that `rule` adds to them.

    `limits` say how many groups the trainer takes at once, how old they may be, and so how far rollouts run
    ahead of it: a `Scheduler` says what a device plays next. With several platforms there are limits for
    each, by name, which differ in devices and share (`training.replay.platforms.shared`).

    With `flat_groups` "drop" a group whose rewards are all the same is dropped and counted, because it
    teaches nothing (DAPO, arXiv 2503.14476); with "drop_by_outcome" one whose outcomes are, so that a judge's
    reward or a preset's format penalty is never the only contrast. So is one whose rewards have a population
    deviation below `min_std`. A group that failed as a whole is kept if the rule may rescue it.

    Thread-safe: any thread may ask, open and add; one trainer takes. `take` is the only call that waits. A
    draw depends only on `seed`, the group and the kept episodes, so there is no random state to save.
    """

    def __init__(
        self,
        rule: ReplayRule | None,
        seed: int,
        *,
        limits: Limits | Mapping[str, Limits] = _BATCH_SYNCHRONOUS,
        flat_groups: FlatGroups = "keep",
        min_std: float = 0.0,
    ) -> None:
        self._rule = rule
        self._flat_groups = flat_groups
        self._min_std = min_std
        self._seed = seed
        self._platforms = {"": limits} if isinstance(limits, Limits) else dict(limits)
        self._limits = next(iter(self._platforms.values()))  # what they say of the trainer is the same
        self._shares = {name: one.shares[one.place] for name, one in self._platforms.items()}
        self._schedulers: PlatformSchedulers[EpisodeRequest] = PlatformSchedulers(self._platforms)
        self._opened = 0
        self._pending: dict[int, _Pending] = {}
        self._closed: deque[_Pending] = deque()  # those of `_pending` that the trainer may take, oldest first
        self._withdrawn: set[int] = set()  # groups of platforms that lost their devices
        self._kept = Buffer(rule)
        self._stats = ReplayStats()
        self._in_vain = Counter[str]()  # groups dropped in a row when they closed, by reason
        self._changed = Condition()  # its lock is reentrant

    def next(self, device: Hashable, platform: str = "") -> EpisodeRequest | Literal["open", "wait"]:
        """Say what a free device does: play this episode, open a group, or wait until something changes."""
        with self._changed:
            return self._schedulers.next(platform, device, ready=len(self._closed))

    @contextmanager
    def opening(self, platform: str = "") -> Iterator[None]:
        """Count one more group as open while it is being prepared: a proposal for it takes time."""
        with self._changed:
            self._schedulers.opening(platform, 1)
        try:
            yield
        finally:
            with self._changed:
                self._schedulers.opening(platform, -1)

    def open_group(self, task: str, seed: int, size: int, *, by: Hashable = None, platform: str = "") -> str:
        """Open a group of `size` episodes, sampled by the newest weights or later ones; return its id.

        `by` is the device that opens it.
        """
        with self._changed:
            group = _Pending(self._opened, task, seed, size, self._schedulers.sampling, platform)
            self._pending[group.number] = group
            self._opened += 1
            self._schedulers.opened(platform, group.id, group.missing, by=by)
            return group.id

    def give_back(self, request: EpisodeRequest) -> None:
        """Offer an episode again whose device was lost: another device plays it."""
        with self._changed:
            if (group := self._pending.get(_number(request.group))) is not None:  # else it was withdrawn
                self._schedulers.returned(group.platform, group.id, request, group.version)

    def published(self, version: int) -> None:
        """Note that from now on every token is sampled by weights of `version` or later."""
        with self._changed:
            self._schedulers.published(version)

    def add(self, trajectory: Trajectory) -> list[float] | None:
        """Add a committed trajectory to its group; the last member closes the group.

        Return the group's known outcomes if it closed, whether it will be learned from or not; else None, as
        for a member of a withdrawn group.

        Raises `ValueError` for a group that is not open and for a member that is already there.
        """
        with self._changed:
            if (number := _number(trajectory.group)) in self._withdrawn:
                return None
            group = self._pending.get(number)
            if group is None:
                raise ValueError(f"trajectory {trajectory.id} belongs to no open group: {trajectory.group}")
            return self._place(group, trajectory)

    def withdraw(self, platform: str) -> int:
        """Drop the open groups of a platform that has lost all its devices, and count them.

        Its closed groups are learned from, and its share of the room is the others' until it joins again. The
        finished members of the open ones are not kept for later: those that finish first are short.
        """
        with self._changed:
            open = [
                group for group in self._pending.values() if group.platform == platform and not group.closed
            ]
            for group in open:
                del self._pending[group.number]
                self._schedulers.settled(platform)
                self._withdrawn.add(group.number)
            self._schedulers.leave(platform)
            self._stats.withdrawn += len(open)
            self._changed.notify_all()  # a batch may have waited for them
            return len(open)

    def join(self, platform: str) -> None:
        """Give a platform its share of the room again: it has a device."""
        with self._changed:
            self._schedulers.join(platform)

    def take(self, *, current_version: int, timeout: float) -> list[Group]:
        """Take a batch of closed groups, chosen by `choose_batch`; return [] if `timeout` seconds pass.

        A group with a token sampled more than `limits.max_staleness` policy versions away from
        `current_version` is dropped and counted. Returned groups count as consumed: the trainer steps on them
        before it checkpoints `state()`.

        With a rule that learns from a buffer alone, one more group holds the drawn episodes, if any.

        Raises:
            StalledError: more than `limits.batches_in_vain` batches' worth of groups in a row were dropped as
                they closed.
        """

        limits = self._limits

        def chosen() -> list[_Pending] | None:
            self._drop_hopeless(current_version)
            open = [group.version for group in self._pending.values() if not group.closed]
            turns = in_turn([group.platform for group in self._closed], self._shares)
            waiting = [self._closed[index] for index in turns]
            closed = [group.version for group in waiting]
            indices = choose_batch(
                closed, open, current_version, groups=limits.groups, max_staleness=limits.max_staleness
            )
            if indices is not None:
                return [waiting[index] for index in indices]
            if limits.batches_in_vain and self._in_vain.total() > limits.batches_in_vain * limits.groups:
                raise _starved(self._in_vain)
            return None

        with self._changed:
            batch = self._changed.wait_for(chosen, timeout)
            if not batch:
                return []
            for group in batch:
                self._closed.remove(group)
            taken = [self._hand_over(group, current_version) for group in batch]
            for group in batch:  # only now: a batch's own successes must not rescue it
                self._forget(group)
            at_play = Counter(group.platform for group in self._pending.values() if not group.closed)
            self._schedulers.took(current_version, at_play)
            return taken + self._drawn(taken)

    def missing(self) -> list[EpisodeRequest]:
        """Return the members that open groups still wait for, oldest group first."""
        with self._changed:
            return [request for group in self._pending.values() for request in group.missing]

    def seed(self, trajectories: Iterable[Trajectory]) -> None:
        """Keep episodes of another run, such as BEPA's self-rolled seeds, as if this one had settled them.

        Only for the start of a run: later, `restore` brings them back from the checkpoint's state. They must
        be in the run's own store and belong to no group there: `training.replay.adopt` does both.

        Raises `ValueError` for a trajectory that belongs to a group.
        """
        with self._changed:
            for trajectory in trajectories:
                if trajectory.group:
                    raise ValueError(f"trajectory {trajectory.id} belongs to group {trajectory.group}")
                self._kept.add(trajectory)

    @property
    def pending(self) -> int:
        """Groups opened and not yet taken or dropped."""
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
        """A copy of the counts, safe to read while rollouts go on."""
        with self._changed:
            return ReplayStats(**asdict(self._stats))

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must hold, as JSON: ids only, because the store has the trajectories."""
        with self._changed:
            return {
                "opened": self._opened,
                "pending": [
                    [group.number, group.task, group.seed, group.size, group.version, group.platform]
                    for group in self._pending.values()
                ],
                "kept": self._kept.ids(),
                "stats": asdict(self._stats),
            }

    def restore(self, state: dict[str, Any] | None, store: Iterable[Trajectory], *, version: int = 0) -> None:
        """Make a new replay continue from a checkpoint's `state` (None if there is none) and a store.

        `version` is that of the checkpoint's weights. Groups that were not settled at the checkpoint, or were
        opened since, are offered again with their committed trajectories, in the order of the commits.
        Trajectories without a group are left alone.

        Raises:
            InfrastructureError: the store lacks a trajectory that the state refers to.
        """
        with self._changed:
            state = state or self.state()
            shelves = state["kept"] if self._rule else {}
            kept = {id for ids in shelves.values() for id in ids}
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
                    task, seed, size = trajectory.task, trajectory.seed, trajectory.group_size
                    version_then = oldest_version(trajectory)
                    group = _Pending(number, task, seed, size, version_then, trajectory.platform)
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
            self._kept.refill(shelves, found)
            for group, trajectory in offered:
                self._place(group, trajectory)
            self._in_vain.clear()  # the recipe's tasks may have changed
            self._schedulers = PlatformSchedulers(self._platforms, version)
            for group in self._pending.values():
                self._schedulers.restored(group.platform, group.id, group.missing, group.version)

    def _place(self, group: _Pending, trajectory: Trajectory) -> list[float] | None:
        if not 0 <= trajectory.group_index < group.size or trajectory.group_index in group.members:
            raise ValueError(
                f"trajectory {trajectory.id} cannot be member {trajectory.group_index} of {group.id}"
            )
        group.members[trajectory.group_index] = trajectory
        if not group.closed:
            return None
        known = [value for member in group.sampled if (value := outcome(member)) is not None]
        rewards = [value for member in group.sampled if (value := earned(member)) is not None]
        group.span = span(group.sampled)
        if not comparable(len(known), sum(member.fault is None for member in group.sampled)):
            self._stats.invalid += 1
            self._in_vain["invalid"] += 1
            self._forget(group)
        elif (flat := self._teaches_nothing(rewards, known)) and not self._rescuable(group, known):
            self._stats.flat += 1
            self._in_vain["flat"] += 1
            self._forget(group)
        else:
            group.needs_rescue = flat
            self._closed.append(group)
            self._in_vain.clear()
        self._changed.notify_all()  # also after a drop: a batch may have waited for this group
        return known

    def _drop_hopeless(self, version: int) -> None:
        """Drop closed groups that are too old, and those whose rescue has become too old."""
        for group in tuple(self._closed):
            if group.staleness(version) > self._limits.max_staleness:
                self._stats.stale += 1
            elif group.needs_rescue and not self._young(group, version):
                self._stats.flat += 1
            else:
                continue
            self._closed.remove(group)
            self._forget(group)

    def _teaches_nothing(self, rewards: list[float], outcomes: list[float]) -> bool:
        compared = outcomes if self._flat_groups == "drop_by_outcome" else rewards
        flat = self._flat_groups != "keep" and min(compared) == max(compared)
        return flat or pstdev(rewards) < self._min_std

    def _rescuable(self, group: _Pending, outcomes: list[float]) -> bool:
        rule = self._rule
        return isinstance(rule, RescueAllFail) and failed(rule, outcomes) and bool(self._kept.of(group.task))

    def _young(self, group: _Pending, version: int) -> bool:
        rule = self._rule
        return isinstance(rule, RescueAllFail) and bool(young(rule, self._kept.of(group.task), version))

    def _hand_over(self, group: _Pending, version: int) -> Group:
        sampled, kept = group.sampled, self._kept.of(group.task)
        learned = members(self._rule, sampled, kept, version=version, rng=self._rng(group.id))
        old = group.staleness(version)
        stats = self._stats
        stats.taken += 1
        stats.staleness += [0] * (old + 1 - len(stats.staleness))
        stats.staleness[old] += 1
        return self._counted(Group(group.id, group.task, group.seed, sampled, learned, old, group.platform))

    def _drawn(self, fresh: list[Group]) -> list[Group]:
        """With `FromBuffer`, draw as many kept episodes as there are fresh ones, as one group of no task."""
        if not isinstance(self._rule, FromBuffer) or not fresh:
            return []
        count = sum(trajectory.valid for group in fresh for trajectory in group.sampled)
        id = f"drawn-{fresh[0].id}"
        found = drawn(self._rule, self._kept.everything(), count, self._rng(id))
        return [self._counted(Group(id, "", self._seed, (), found, 0))] if found else []

    def _counted(self, group: Group) -> Group:
        self._stats.trained += sum(member.valid for member in group.members)
        self._stats.replayed += sum(group.replayed)
        return group

    def _rng(self, name: str) -> random.Random:
        return random.Random(f"{self._seed}:{name}")

    def _forget(self, group: _Pending) -> None:
        """Remove a settled group: offer its members to the buffer and count the masked ones."""
        del self._pending[group.number]
        self._schedulers.settled(group.platform)
        for member in group.sampled:
            self._stats.masked += outcome(member) is None
            self._kept.add(member)


def _starved(dropped: Counter[str]) -> StalledError:
    return StalledError(
        f"{dropped.total()} groups in a row taught nothing: {dropped['flat']} whose members all fared alike, "
        f"{dropped['invalid']} of which too few outcomes are known; choose tasks that the policy solves now "
        "and then, or look into the faults; with health.stop_after = 0 the run goes on"
    )


def _number(group_id: str) -> int:
    return int(group_id.removeprefix("g"))
