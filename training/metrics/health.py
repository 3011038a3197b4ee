"""Health of a run, update by update: what of it can teach, when to warn, and when to end."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isnan, nan

from guiagent.errors import StalledError
from training.config import HealthConfig
from training.learner.learner import Update
from training.metrics.utilisation import group_outcome
from training.replay import Group


@dataclass(frozen=True)
class Health:
    """Figures of one update that say whether a run learns. A share of nothing is NaN.

    An episode taught if its outcome, or a label of its steps, moved the weights: it had an advantage. What
    the distance from a reference or the entropy moves is not counted.
    """

    groups: int  # rolled out for this update
    episodes: int  # rolled out for it that no fault ended
    mixed: float  # share of these groups with successes and failures
    all_fail: float  # share of them without a success
    taught: float  # share of the episodes of the batch that taught, earlier ones included
    parse_errors: float  # share of the rolled-out episodes that ended in text that is no action
    entropy: float  # of a sampled token, in nats
    effective_samples: float  # effective sample size of the importance weights, as a share of the tokens
    least_ratio: float  # of the policy to the one that sampled, over the batch's tokens
    greatest_ratio: float
    staleness: float  # mean over the groups, in policy versions


def health(groups: Sequence[Group], update: Update) -> Health:
    """Return the health of an update made from `groups`."""
    fresh = [group for group in groups if group.sampled]
    outcomes = [group_outcome(known) for group in fresh if (known := [t for t in group.sampled if t.valid])]
    sampled = [trajectory for group in fresh for trajectory in group.sampled if trajectory.fault is None]
    members = [member for group in groups for member in group.members if member.valid]
    metrics = update.metrics
    return Health(
        groups=len(fresh),
        episodes=len(sampled),
        mixed=_share(outcomes.count("mixed"), len(outcomes)),
        all_fail=_share(outcomes.count("all_fail"), len(outcomes)),
        taught=_share(sum(member.id in update.taught for member in members), len(members)),
        parse_errors=_share(sum(t.stop == "parse_error" for t in sampled), len(sampled)),
        entropy=metrics.get("entropy", nan),
        effective_samples=metrics.get("ess", nan),
        least_ratio=metrics.get("ratio_min", nan),
        greatest_ratio=metrics.get("ratio_max", nan),
        staleness=_share(sum(group.staleness for group in fresh), len(fresh)),
    )


@dataclass
class HealthMonitor:
    """Follows the health of a session's updates: warns once when something begins to be wrong, and ends it.

    `in_vain` counts the updates in a row that taught nothing. Nothing of this is kept from one session to the
    next: whoever starts a run again has mended something, and gets as many updates anew.
    """

    limits: HealthConfig
    dialect: str
    in_vain: int = 0
    _since: list[Health] = field(default_factory=list)  # the updates that taught nothing
    _latest: list[float] = field(default_factory=list)  # shares of parse errors, `warn_after` at most
    _garbled: bool = False  # whether they have been warned of

    def add(self, found: Health) -> tuple[str, ...]:
        """Count an update; return what to warn of, in a line each."""
        self._since = [] if found.taught > 0 else [*self._since, found]
        self.in_vain = len(self._since)
        return tuple(self._warnings(found))

    def check(self) -> None:
        """Raise StalledError, which says what to do, if too many updates in a row taught nothing."""
        if self.limits.stop_after and self.in_vain >= self.limits.stop_after:
            raise StalledError(
                f"{self._what_happened()}; {self._way_out()}; with health.stop_after = 0 the run goes on"
            )

    def _warnings(self, found: Health) -> Iterator[str]:
        if self.in_vain == self.limits.warn_after:
            yield f"{self._what_happened()}; {self._way_out()}"
        self._latest = [*self._latest, found.parse_errors][-self.limits.warn_after :]
        share = sum(self._latest) / len(self._latest)
        garbled = len(self._latest) == self.limits.warn_after and share >= self.limits.parse_errors
        if garbled and not self._garbled and not self.in_vain:
            yield (
                f"{share:.0%} of the episodes of the last {len(self._latest)} updates ended in text that is "
                f"no action of the dialect {self.dialect}"
            )
        self._garbled = garbled

    def _what_happened(self) -> str:
        groups = sum(one.groups for one in self._since)
        failed, solved = self._mean(lambda one: one.all_fail), self._mean(_all_success)
        garbled = self._mean(lambda one: one.parse_errors)
        return (
            f"{self.in_vain} updates in a row taught nothing: of {groups:,} groups {failed:.0%} failed and "
            f"{solved:.0%} succeeded as a whole, and {garbled:.0%} of the episodes ended in text that is no "
            f"action of the dialect {self.dialect}"
        )

    def _way_out(self) -> str:
        if self._mean(lambda one: one.parse_errors) >= self.limits.parse_errors:
            return (
                "name the dialect and the size of screens that the policy was made for (dialect, "
                "device.width and device.height), or teach it them first (recipe sft-successes)"
            )
        if self._mean(_all_success) > 0.5:
            return "the policy solves these tasks: name harder ones (tasks)"
        return "name tasks that the policy solves now and then (tasks), or give it successes (update.seeds)"

    def _mean(self, figure: Callable[[Health], float]) -> float:
        """Return the mean of a figure over the updates that taught nothing; 0 if it is NaN in all of them."""
        values = [value for one in self._since if not isnan(value := figure(one))]
        return sum(values) / len(values) if values else 0.0


def _all_success(found: Health) -> float:
    return 1 - found.all_fail - found.mixed


def _share(part: float, whole: int) -> float:
    return part / whole if whole else nan
