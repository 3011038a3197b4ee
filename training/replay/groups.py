"""The replay's data types: requested episodes, groups to learn from, and counts of settled groups."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from guiagent.types import Step, Trajectory


@dataclass(frozen=True, slots=True)
class EpisodeRequest:
    """An episode that an open group still needs."""

    group: str
    task: str
    seed: int
    index: int
    size: int  # of the group
    platform: str = ""  # whose devices play it, in a run with several platforms


@dataclass(frozen=True)
class Group:
    """Episodes of one task from one seed: `members` are learned from, `sampled` were rolled out for it.

    Success rates are computed over `sampled`. The two differ if a replay rule replaced some of them by
    earlier episodes or added some. With a rule that learns from a buffer alone, fresh groups have no
    members, and one further group without `sampled` holds the episodes drawn from the buffer, of any task.
    """

    id: str
    task: str
    seed: int
    sampled: tuple[Trajectory, ...]
    members: tuple[Trajectory, ...]
    staleness: int  # policy versions between the trainer and the oldest token sampled here
    platform: str = ""  # on whose devices `sampled` was rolled out, in a run with several

    @property
    def replayed(self) -> tuple[bool, ...]:
        """For each member, whether it is an earlier episode."""
        fresh = {trajectory.id for trajectory in self.sampled}
        return tuple(member.id not in fresh for member in self.members)


@dataclass
class ReplayStats:
    """Counts over all groups settled so far, taken or dropped."""

    taken: int = 0  # groups handed to the trainer
    stale: int = 0  # groups dropped because a member was sampled too many policy versions ago
    invalid: int = 0  # groups dropped because too few members were valid
    flat: int = 0  # groups dropped because their outcomes were the same, or hardly differed
    withdrawn: int = 0  # groups dropped while they were open, because their platform lost its devices
    masked: int = 0  # members whose outcome a fault or an unknown score hides
    trained: int = 0  # valid members handed to the trainer
    replayed: int = 0  # of these, the earlier episodes that a replay rule added
    staleness: list[int] = field(default_factory=list)  # [n]: groups taken that were n versions old

    @property
    def replay_share(self) -> float:
        return self.replayed / self.trained if self.trained else 0.0


class Span(NamedTuple):
    """The oldest and the newest policy version among the tokens of some trajectories."""

    first: int
    last: int

    def staleness(self, version: int) -> int:
        """Policy versions between `version` and the furthest token.

        A distance, not an age: after a resume from an older checkpoint, tokens can be of a version to come.
        """
        return max(version - self.first, self.last - version)


def span(trajectories: Iterable[Trajectory]) -> Span | None:
    """Return the span of all valid `trajectories`; None if they sampled nothing."""
    versions = [v for t in trajectories if t.valid for step in t.steps for v in _versions(step)]
    return Span(min(versions), max(versions)) if versions else None


def staleness(trajectories: Iterable[Trajectory], version: int) -> int:
    """Return the staleness of the trajectories' span at `version`; 0 if they sampled nothing."""
    found = span(trajectories)
    return found.staleness(version) if found else 0


def oldest_version(trajectory: Trajectory) -> int:
    """Return the oldest policy version that began one of its steps; 0 if it has no steps."""
    return min((step.policy.policy_version for step in trajectory.steps), default=0)


def _versions(step: Step) -> Iterable[int]:
    for call in step.policy.sampled:
        yield call.policy_version
        yield from (version for _, version in call.versions)
