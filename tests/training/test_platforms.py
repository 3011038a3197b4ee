"""Several platforms in one run: who gets which share, in virtual time, and what a lost platform changes."""

import heapq
import math
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guiagent.types import PolicyOutput, Score, Step, Trajectory
from guiagent.wire import DeviceInfo
from training.replay import EpisodeRequest, Replay
from training.replay.platforms import shared
from training.replay.scheduler import Limits
from training.replay.shares import apportion, in_turn
from training.rollout.presence import presence

shares = st.lists(st.floats(0.01, 100), min_size=1, max_size=5).map(tuple)


@given(shares, st.integers(0, 60))
def test_all_places_are_given_and_one_more_takes_none_away(shares: tuple[float, ...], places: int) -> None:
    given, more = apportion(places, shares), apportion(places + 1, shares)
    assert sum(given) == places and sum(more) == places + 1
    assert all(before <= after for before, after in zip(given, more, strict=True))
    assert sum(place > 0 for place in given) == min(places, len(shares))


def test_places_follow_the_shares_and_a_share_of_nothing_has_none() -> None:
    assert apportion(16, (3.0, 1.0)) == (12, 4)
    assert apportion(8, (100.0, 1.0)) == (7, 1)
    assert apportion(8, (1.0, 0.0, 1.0)) == (4, 0, 4)
    assert apportion(3, (0.0, 0.0)) == (0, 0)
    assert apportion(7, (0.3,)) == (7,)


def test_of_equally_old_groups_each_platform_has_its_turns() -> None:
    order = in_turn("aaaaabb", {"a": 2.0, "b": 1.0})
    assert [("aaaaabb"[index], index) for index in order][:6] == [
        *(("a", 0), ("b", 5), ("a", 1), ("a", 2)),
        *(("b", 6), ("a", 3)),
    ]
    assert in_turn("aaa", {"a": 0.1}) == [0, 1, 2]


@dataclass(frozen=True)
class Kind:
    """So many devices, whose episodes take a random time around `seconds`."""

    devices: int
    seconds: float
    share: float = 1.0
    sticky: bool = False


@dataclass
class Figures:
    """What a farm and a trainer in virtual time came to, from the end of the warm-up on."""

    seconds: float = 0.0
    busy: Counter[str] = field(default_factory=Counter)
    taken: Counter[str] = field(default_factory=Counter)
    oldest: int = 0

    def utilisation(self, name: str, kind: Kind) -> float:
        return float(self.busy[name]) / (self.seconds * kind.devices)


class World:
    """Devices of several kinds, a replay and a trainer whose updates take `learn_s`, all in virtual time."""

    def __init__(
        self,
        kinds: dict[str, Kind],
        *,
        groups: int = 4,
        size: int = 4,
        max_staleness: int = 4,
        learn_s: float = 1.0,
        seed: int = 0,
    ) -> None:
        alone = {
            name: Limits(groups=groups, max_staleness=max_staleness, devices=k.devices, sticky=k.sticky)
            for name, k in kinds.items()
        }
        self.replay = Replay(None, 0, limits=shared(alone, {name: k.share for name, k in kinds.items()}))
        self.kinds, self.size, self.learn_s = kinds, size, learn_s
        self.rng = random.Random(seed)
        self.now, self.version, self.learning = 0.0, 0, False
        self.events: list[tuple[float, int, str, int, EpisodeRequest | None, int]] = []
        self.order = count()
        self.idle = [(name, n) for name, kind in kinds.items() for n in range(kind.devices)]
        self.away: set[str] = set()
        self.figures = Figures()

    def run(self, updates: int) -> Figures:
        """Go on until so many more updates are done; figures are of these."""
        self.figures, began, until = Figures(), self.now, self.version + updates
        while self.version < until:
            self._dispatch()
            assert self.events, "all wait for each other"
            self.now, _, name, device, request, version = heapq.heappop(self.events)
            if request is None:
                self.learning = False
                self.version += 1
                self.replay.published(self.version)
            elif name not in self.away:
                self.idle.append((name, device))
                self.replay.add(self._played(request, version))
            self._learn()
        self.figures.seconds = self.now - began
        return self.figures

    def lose(self, name: str) -> int:
        """Take all devices of a kind away, with what they play; return how many groups are withdrawn."""
        self.away.add(name)
        self.idle = [one for one in self.idle if one[0] != name]
        return self.replay.withdraw(name)

    def repair(self, name: str) -> None:
        self.away.discard(name)
        self.events = [event for event in self.events if event[2] != name]
        heapq.heapify(self.events)
        self.idle += [(name, n) for n in range(self.kinds[name].devices)]
        self.replay.join(name)

    def _dispatch(self) -> None:
        waiting = []
        for name, device in self.idle:
            while (move := self.replay.next((name, device), name)) == "open":
                self.replay.open_group(name, 0, self.size, by=(name, device), platform=name)
            if move == "wait":
                waiting.append((name, device))
                continue
            assert isinstance(move, EpisodeRequest) and move.platform == name
            seconds = self.kinds[name].seconds * math.exp(0.4 * self.rng.gauss(0.0, 1.0))
            self.figures.busy[name] += seconds  # type: ignore[assignment]
            self._after(seconds, name, device, move)
        self.idle = waiting

    def _learn(self) -> None:
        groups = [] if self.learning else self.replay.take(current_version=self.version, timeout=0)
        if groups:
            self.learning = True
            self.figures.taken.update(group.platform for group in groups)
            self.figures.oldest = max(self.figures.oldest, *(group.staleness for group in groups))
            self._after(self.learn_s, "", 0, None)

    def _after(self, seconds: float, name: str, device: int, request: EpisodeRequest | None) -> None:
        event = (self.now + seconds, next(self.order), name, device, request, self.version)
        heapq.heappush(self.events, event)

    def _played(self, request: EpisodeRequest, version: int) -> Trajectory:
        return Trajectory(
            f"{request.group}/{request.index}",
            request.task,
            request.seed,
            "",
            [Step("", 1, 1, PolicyOutput("x", policy_version=version))],
            "task_done",
            Score(float(self.rng.random() < 0.5)),
            group=request.group,
            group_index=request.index,
            group_size=request.size,
            platform=request.platform,
        )


SLOW = 20.0  # a desktop's step against a browser's


@pytest.mark.parametrize("sticky", [False, True])
def test_where_the_trainer_is_slow_the_groups_it_takes_are_as_the_shares(sticky: bool) -> None:
    kinds = {"browser": Kind(12, 1.0, share=3.0, sticky=sticky), "desktop": Kind(24, SLOW)}
    world = World(kinds, groups=8, learn_s=60.0)
    world.run(10)
    figures = world.run(30)
    assert figures.taken["browser"] / figures.taken["desktop"] == pytest.approx(3.0, rel=0.1)
    assert figures.oldest <= 4 and world.replay.stats.stale == 0


def test_where_devices_are_slow_each_kind_is_busy_and_none_starves() -> None:
    """A desktop's group takes 80 s of each of its four devices, a browser's four: with room for that many
    versions, the browsers need not wait for the desktops."""
    kinds = {"browser": Kind(8, 1.0, share=3.0), "desktop": Kind(4, SLOW)}
    world = World(kinds, groups=8, learn_s=0.1, max_staleness=24)
    world.run(30)
    figures = world.run(120)
    assert all(figures.utilisation(name, kind) > 0.85 for name, kind in kinds.items())
    assert figures.taken["browser"] > 20 * figures.taken["desktop"] > 0
    assert figures.oldest <= 24 and world.replay.stats.stale == 0


def test_a_slow_kind_cannot_hold_more_than_its_share_of_the_room() -> None:
    """Else the groups of many slow devices would fill it, and the fast ones would have nothing to do."""
    kinds = {"browser": Kind(4, 1.0), "desktop": Kind(100, SLOW)}
    figures = World(kinds, groups=4, learn_s=10.0).run(60)
    assert figures.taken["browser"] > 0.4 * figures.taken.total()


def test_with_a_staleness_of_0_every_batch_has_its_part_of_each() -> None:
    kinds = {"browser": Kind(6, 1.0, share=3.0), "desktop": Kind(6, SLOW)}
    figures = World(kinds, groups=4, max_staleness=0).run(15)
    assert figures.taken == {"browser": 45, "desktop": 15}


@settings(max_examples=60, deadline=None)
@given(
    kinds=st.lists(
        st.builds(
            Kind, st.integers(1, 12), st.sampled_from([0.1, 1.0, 20.0]), st.floats(0.05, 20), st.booleans()
        ),
        min_size=1,
        max_size=4,
    ),
    more=st.integers(0, 4),
    size=st.integers(2, 4),
    max_staleness=st.integers(0, 5),
    learn_s=st.sampled_from([0.01, 1.0, 30.0]),
    seed=st.integers(0, 99),
)
def test_whatever_the_platforms_nothing_is_too_old_and_nobody_waits_for_ever(
    kinds: list[Kind], more: int, size: int, max_staleness: int, learn_s: float, seed: int
) -> None:
    named = {f"kind-{index}": kind for index, kind in enumerate(kinds)}
    groups = len(kinds) + more
    world = World(named, groups=groups, size=size, max_staleness=max_staleness, learn_s=learn_s, seed=seed)
    figures = world.run(12)
    assert figures.oldest <= max_staleness and world.replay.stats.stale == 0
    assert figures.taken.total() in (12 * groups, 13 * groups)  # the next may be on its way
    if len(named) > 1:  # and so it is when one is lost, and comes back
        world.lose("kind-0")
        world.run(4)
        assert world.figures.oldest <= max_staleness
        world.repair("kind-0")
        world.run(4)
        assert world.figures.oldest <= max_staleness and world.replay.stats.stale == 0


def test_a_lost_platform_gives_its_room_to_the_others_until_it_is_back() -> None:
    kinds = {"browser": Kind(6, 1.0), "desktop": Kind(6, SLOW)}
    world = World(kinds, groups=4, max_staleness=0)
    assert world.run(5).taken == {"browser": 10, "desktop": 10}
    world._dispatch()  # the next batch is at play
    assert world.lose("desktop") == 2 and world.replay.stats.withdrawn == 2
    assert world.run(5).taken == {"browser": 20}
    world.repair("desktop")
    assert world.run(5).taken["desktop"] in (8, 10)  # a batch may have been opened without it


def test_what_comes_late_for_a_withdrawn_group_is_nobodys() -> None:
    limits = Limits(groups=2, max_staleness=0, devices=2)
    replay = Replay(None, 0, limits=shared({"a": limits, "b": limits}, {"a": 1.0, "b": 1.0}))
    world = World({"a": Kind(1, 1.0)})
    replay.open_group("task", 0, 2, by="device", platform="a")
    first, second = (replay.next("device", "a") for _ in range(2))
    assert isinstance(first, EpisodeRequest) and isinstance(second, EpisodeRequest)
    assert replay.withdraw("a") == 1 and replay.pending == 0
    assert replay.add(world._played(first, 0)) is None
    replay.give_back(second)
    assert replay.next("device", "a") == "wait" and replay.next("other", "b") == "open"
    assert replay.missing() == []


def test_a_checkpoint_from_before_there_were_platforms_still_loads() -> None:
    world = World({"": Kind(1, 1.0)})
    world.replay.open_group("task", 0, 2)
    state = world.replay.state()
    assert state["pending"] == [[0, "task", 0, 2, 0, ""]]
    state["pending"] = [[0, "task", 0, 2, 0]]
    del state["stats"]["withdrawn"]
    again = World({"": Kind(1, 1.0)}).replay
    again.restore(state, [])
    assert [request.platform for request in again.missing()] == ["", ""] and again.stats.withdrawn == 0


def test_a_restart_knows_whose_groups_are_whose() -> None:
    kinds = {"browser": Kind(2, 1.0), "desktop": Kind(2, SLOW)}
    world = World(kinds)
    for name in kinds:
        world.replay.open_group(name, 0, 2, platform=name)
    again = World(kinds).replay
    request = world.replay.next("device", "desktop")
    assert isinstance(request, EpisodeRequest)
    again.restore(world.replay.state(), [world._played(request, 0)])
    assert Counter(one.platform for one in again.missing()) == {"browser": 2, "desktop": 1}
    assert again.next("device", "desktop") == EpisodeRequest(request.group, "desktop", 0, 1, 2, "desktop")


def info(kind: str, state: str, reason: str = "") -> DeviceInfo:
    return DeviceInfo(f"{kind}-0", kind, state, 1, "", 160, 224, 0.0, 0, 0, None, reason=reason)


def test_a_platform_is_lost_when_all_its_devices_are_out_of_service() -> None:
    kinds = {"browser": "browser", "lab": "lab"}
    browser = info("browser", "leased")
    out = [info("lab", "quarantined", "crashed: it went away"), info("lab", "lost")]
    assert presence([browser, *out], kinds) == {
        "browser": None,
        "lab": "2 of 2 lab devices are out of service: crashed: it went away",
    }
    assert presence([browser, *out, info("lab", "ready")], kinds) == {"browser": None, "lab": None}
    for starting in ("booting", "dead", "off"):
        assert presence([browser, *out, info("lab", starting)], kinds) == {"browser": None}
    assert presence([browser], kinds) == {"browser": None}  # a tenant sees no others
