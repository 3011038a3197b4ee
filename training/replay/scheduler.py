"""The scheduler of asynchronous rollouts: what a free device plays next, and what the trainer takes.

No clock, no I/O. A group's deadline is the last policy version at which it may be learned from: the version
whose weights sampled when it was opened, plus the greatest staleness that is allowed. Two rules keep every
deadline, so that no group has to be dropped:

- a group is opened only while all pending groups can be taken in time, one batch per version
  (`Limits.most_pending`);
- a batch is the closed groups with the earliest deadlines, and the trainer waits if taking it would make
  another group late: the schedulability test of earliest deadline first (`choose_batch`).

Rollouts also run no further ahead than the trainer needs: two batches may wait for it beside the groups that
are being played. The number being played is averaged over the last updates; by Little's law it is the
trainer's pace times how long a group takes. While the trainer itself waits, only the deadlines bound how many
groups are opened.

A group closes only with all of its members. Taking the members that finish first, cutting off the last ones,
or dropping those that became too old in waiting would all select short episodes.

With a staleness of 0 this is batch-synchronous training: a batch is opened, played, learned from, published.
"""

import heapq
from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Generic, Literal, TypeVar

from training.replay.shares import apportion

Request = TypeVar("Request")

_SPARE_BATCHES = 2  # batches that may wait for the trainer
_SMOOTHING = 0.2  # weight of the newest count in the moving average of groups being played


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on how far rollouts run ahead of the trainer.

    A `sticky` device stays with its group, and opens a group of its own before it helps with another: for
    devices that set up the same task again much faster than a new one (a browser has its page loaded). Other
    devices play what is missing of the oldest group, so that it closes soon: rollout-wise sampling, DART,
    arXiv 2509.23866.
    """

    groups: int  # groups that the trainer takes at once, of all platforms
    max_staleness: int  # policy versions between the sampling of a group's oldest token and its update
    devices: int
    sticky: bool = False
    batches_in_vain: int = 50  # worth of groups that may be left out in a row before the run ends; 0: any
    shares: tuple[float, ...] = (1.0,)  # of all platforms (`training.replay.platforms`)
    place: int = 0  # of the platform with these devices among them

    @property
    def part(self) -> int:
        """Groups of a batch that are this platform's, by its share."""
        return apportion(self.groups, self.shares)[self.place]

    def in_time(self, lag: int) -> int:
        """Return how many groups, of all platforms, can be taken before one opened now is too old."""
        return self.groups * (self.max_staleness + 1 - lag)

    def most_pending(self, lag: int) -> int:
        """Return how many groups may be open or wait for the trainer, a new one included.

        The trainer takes its next batch `lag` versions after the version that samples now, and the new group
        after all others. One group per device and one more batch keep devices and trainer busy; more groups
        would only become stale.
        """
        own = apportion(self.in_time(lag), self.shares)[self.place]
        return min(own, self.devices + self.part)


def choose_batch(
    closed: Sequence[int], open: Sequence[int], version: int, *, groups: int, max_staleness: int
) -> list[int] | None:
    """Choose the batch of `groups` that the trainer takes at `version`; None if it has to wait.

    Return indices into `closed`. `closed` and `open` are the versions that the groups were opened at. The
    earliest deadlines come first, and among equal ones the group that closed first. The trainer waits for a
    full batch, and for open groups that could not all be taken in time after this batch: those that are due
    by a later version have to fit into the batches until then. It does not wait for groups that are already
    too old.

    Source: earliest deadline first, Liu and Layland, J. ACM 20 (1973).
    """
    if len(closed) < groups:
        return None
    oldest = version - max_staleness
    at_play = sorted(opened for opened in open if opened >= oldest)
    waiting = sorted(closed)
    for opened in range(oldest, version + 1) if at_play else ():
        unfinished, finished = bisect_right(at_play, opened), bisect_right(waiting, opened)
        # If this batch takes all the finished ones, the unfinished must fit into the batches that remain
        # until they are too old.
        if finished < groups and unfinished > groups * (opened - oldest):
            return None
    return heapq.nsmallest(groups, range(len(closed)), key=closed.__getitem__)


@dataclass(slots=True)
class _Open(Generic[Request]):
    """A group with episodes that no device plays yet."""

    version: int
    requests: deque[Request]


class Scheduler(Generic[Request]):
    """Gives the episodes of open groups to free devices, and says when to open another group.

    Its owner reports events: `took` and `published` for the trainer, `opened` and `returned` for the devices.
    `opening` counts groups that are about to be opened, which takes time if a proposal comes first.
    """

    def __init__(self, limits: Limits, version: int = 0) -> None:
        self.opening = 0
        self.sampling = version  # version of the weights that sample: the oldest, if engines differ
        self._taking = version  # version at which the trainer takes its next batch
        self.limits = limits
        self._at_play: float | None = None  # groups, as a moving average; None before the first update
        self._open: dict[Hashable, _Open[Request]] = {}
        self._oldest: list[tuple[int, int, Hashable]] = []  # a heap of those, and of some that are gone
        self._order = count()
        self._last: dict[Hashable, Hashable] = {}  # the group that a device played for last

    def took(self, version: int, at_play: int) -> None:
        """Note that the trainer took a batch at `version` while `at_play` groups were open. Idempotent."""
        if version < self._taking:
            return
        self._taking = version + 1
        before = at_play if self._at_play is None else self._at_play
        self._at_play = before + _SMOOTHING * (at_play - before)

    def published(self, version: int) -> None:
        """Note that from now on only weights of `version` or later sample."""
        self.sampling = version

    def opened(self, group: Hashable, requests: Iterable[Request], *, by: Hashable) -> None:
        """Note that the device `by` opened a group, with these episodes to play."""
        self._offer(group, requests, self.sampling)
        self._last[by] = group

    def returned(self, group: Hashable, requests: Iterable[Request], version: int) -> None:
        """Offer episodes of a group opened at `version` again: after a lost device, or after a restart."""
        if group in self._open:
            self._open[group].requests.extendleft(requests)
        else:
            self._offer(group, requests, version)

    def forget(self) -> None:
        """Forget all groups that have episodes to play."""
        self._open.clear()
        self._oldest.clear()

    def next(
        self, device: Hashable, *, pending: int, ready: int, others: int = 0
    ) -> Request | Literal["open", "wait"]:
        """Say what a free device does: play this episode, open a group, or wait until something changes.

        `pending` groups are open or wait for the trainer, and `others` of other platforms; `ready` of all of
        them wait. A group that is due in the trainer's next batch comes before everything else.
        """
        first = self._first()
        if first is not None and self._open[first].version + self.limits.max_staleness <= self._taking:
            return self._give(device, first)
        if self.limits.sticky:
            if (own := self._last.get(device)) in self._open:
                return self._give(device, own)
            if self._may_open(pending, ready, others):
                return "open"
        if first is not None:
            return self._give(device, first)
        return "open" if self._may_open(pending, ready, others) else "wait"

    def _may_open(self, pending: int, ready: int, others: int) -> bool:
        lag = self._taking - self.sampling
        most: float = self.limits.most_pending(lag)
        fed = lag > 0 or ready >= self.limits.groups
        if fed and self._at_play is not None:
            most = min(most, self._at_play + _SPARE_BATCHES * self.limits.part)
        # The others may hold more than their share: it is less for as long as new weights are on their way.
        return pending + self.opening < min(most, self.limits.in_time(lag) - others)

    def _first(self) -> Hashable | None:
        """Return the group with the earliest deadline among those with episodes to play; None if none has."""
        while self._oldest and self._oldest[0][2] not in self._open:
            heapq.heappop(self._oldest)
        return self._oldest[0][2] if self._oldest else None

    def _offer(self, group: Hashable, requests: Iterable[Request], version: int) -> None:
        self._open[group] = _Open(version, deque(requests))
        heapq.heappush(self._oldest, (version, next(self._order), group))

    def _give(self, device: Hashable, group: Hashable) -> Request:
        requests = self._open[group].requests
        request = requests.popleft()
        if not requests:
            del self._open[group]
        self._last[device] = group
        return request
