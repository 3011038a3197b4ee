"""The schedulers of a run's platforms: each has devices and groups of its own, and a share of the batches.

A platform's groups are played by its own devices, so each platform has a queue of its own, and a quota of
groups that are open or wait for the trainer. A slow platform cannot fill the room with groups that become
stale, and a fast one cannot take it all: while the trainer is the bottleneck, the groups that it takes are in
proportion to the shares; while devices are, every platform gives what it can.

The batches are common to all: `training.replay.scheduler.choose_batch` takes the groups that were opened
first, of equally old ones each platform's share (`in_turn`), and waits for an old one of any platform.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Generic, Literal, TypeVar

from training.replay.scheduler import Limits, Scheduler

Request = TypeVar("Request")


def shared(limits: Mapping[str, Limits], shares: Mapping[str, float]) -> dict[str, Limits]:
    """Return the limits of every platform with its share of the trainer's room; a share of 0 has none."""
    among = tuple(shares[name] for name in limits)
    return {name: replace(one, shares=among, place=place) for place, (name, one) in enumerate(limits.items())}


class PlatformSchedulers(Generic[Request]):
    """One `Scheduler` per platform, by name; `version` is that of the weights that sample.

    Its owner reports the events of `Scheduler`, and what becomes of groups: `opened`, `restored`, `settled`.
    """

    def __init__(self, limits: Mapping[str, Limits], version: int = 0) -> None:
        self._limits = dict(limits)
        self._schedulers: dict[str, Scheduler[Request]] = {
            name: Scheduler(one, version) for name, one in limits.items()
        }
        self._pending = Counter[str]()  # groups that are open or wait for the trainer, by platform
        self._away: set[str] = set()

    @property
    def sampling(self) -> int:
        """Version of the weights that sample."""
        return next(iter(self._schedulers.values())).sampling

    def next(self, platform: str, device: Hashable, *, ready: int) -> Request | Literal["open", "wait"]:
        """Say what a free device of the platform does; `ready` groups of any platform wait to be taken."""
        own = self._pending[platform]
        opening = sum(one.opening for name, one in self._schedulers.items() if name != platform)
        others = self._pending.total() - own + opening
        return self._schedulers[platform].next(device, pending=own, ready=ready, others=others)

    def opening(self, platform: str, more: int) -> None:
        """Note that so many more groups are about to be opened, or that so many (below 0) are no longer."""
        self._schedulers[platform].opening += more

    def opened(self, platform: str, group: Hashable, requests: Iterable[Request], *, by: Hashable) -> None:
        """Note that the device `by` opened a group, with these episodes to play."""
        self._pending[platform] += 1
        self._schedulers[platform].opened(group, requests, by=by)

    def restored(self, platform: str, group: Hashable, requests: list[Request], version: int) -> None:
        """Note a group of an earlier session, opened at `version`, with what is missing of it."""
        self._pending[platform] += 1
        if requests:
            self._schedulers[platform].returned(group, requests, version)

    def returned(self, platform: str, group: Hashable, request: Request, version: int) -> None:
        """Offer an episode of a group opened at `version` again, whose device was lost."""
        self._schedulers[platform].returned(group, [request], version)

    def settled(self, platform: str) -> None:
        """Note that a group was taken, dropped or withdrawn."""
        self._pending[platform] -= 1

    def took(self, version: int, at_play: Counter[str]) -> None:
        """Note that the trainer took a batch at `version`, with so many groups open on each platform."""
        for name, one in self._schedulers.items():
            one.took(version, at_play[name])

    def published(self, version: int) -> None:
        """Note that from now on only weights of `version` or later sample."""
        for one in self._schedulers.values():
            one.published(version)

    def leave(self, platform: str) -> None:
        """Forget what is to be played on a platform that has no devices, and give the others its room."""
        self._away.add(platform)
        self._schedulers[platform].forget()
        self._share()

    def join(self, platform: str) -> None:
        """Give a platform its room again."""
        self._away.discard(platform)
        self._share()

    def _share(self) -> None:
        present = {
            name: 0.0 if name in self._away else one.shares[one.place] for name, one in self._limits.items()
        }
        for name, one in shared(self._limits, present).items():
            self._schedulers[name].limits = one
