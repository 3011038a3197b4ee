"""Anything that can happen to a farm, in any order, at four depths: the same rules, the same invariants.

I1: no device has two holders. I2: its tokens rise. I3: what was acknowledged outlives the process.
I5: an action is executed under the token that is current, so nothing of a former holder ever is.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from devices.leases import AdminState
from tests.support.lease_targets import KIND, Bare, Given, Served, Target
from tests.support.stores import Place


@dataclass(slots=True)
class Hold:
    given: Given
    ttl: float
    expires: float
    key: str = ""


class LeaseRules(RuleBasedStateMachine):
    """The plain dicts here are the specification; `farm` makes what is held against it."""

    target: Target

    def farm(self, count: int) -> Target:
        raise NotImplementedError

    @initialize(count=st.integers(1, 3))
    def start(self, count: int) -> None:
        self.count = count
        self.target = self.farm(count)
        self.now = 0.0
        self.live: dict[str, Hold] = {}  # by device
        self.over: list[Hold] = []
        self.keys: dict[str, tuple[tuple[int, float], list[Given]]] = {}  # with what was asked
        self.tokens: dict[str, int] = {}
        self.marks: dict[str, AdminState] = {}
        self.acted: list[tuple[str, int]] = []
        self.broken = False
        self.target.settle()

    def teardown(self) -> None:
        if hasattr(self, "target"):
            self.target.close()

    def end(self, device: str) -> None:
        if (hold := self.live.pop(device, None)) is not None:
            self.over.append(hold)
            if not any(one.key == hold.key for one in self.live.values()):
                self.keys.pop(hold.key, None)

    def any_hold(self, data: st.DataObject) -> Hold:
        return data.draw(st.sampled_from([*self.live.values(), *self.over[-4:]]))

    def is_live(self, hold: Hold) -> bool:
        return self.live.get(hold.given.device) is hold

    @rule(n=st.integers(1, 2), ttl=st.sampled_from([1.0, 5.0]), key=st.sampled_from(["", "", "k", "l"]))
    def acquire(self, n: int, ttl: float, key: str) -> None:
        self.target.settle()
        given = self.target.acquire(n, ttl, key)
        if key in self.keys:  # a duplicate: the same leases, unless it asks for others or one has ended
            asked, before = self.keys[key]
            live = all(one in [hold.given for hold in self.live.values()] for one in before)
            assert given == (before if asked == (n, ttl) and live else None)
            return
        free = [f"{KIND}-{index}" for index in range(self.count)]
        free = [device for device in free if device not in self.live and not self.marks.get(device)]
        if given is None:
            assert len(free) < n or self.broken, "a free device was refused"
            return
        for one in given:
            assert one.device in free, "two holders of one device, or it was out of service"
            assert one.token > self.tokens.get(one.device, 0), "a token did not rise"
            self.tokens[one.device] = one.token
            self.live[one.device] = Hold(one, ttl, self.now + ttl, key)
        if key:
            self.keys[key] = (n, ttl), given

    @precondition(lambda self: self.live or self.over)
    @rule(data=st.data())
    def act(self, data: st.DataObject) -> None:
        """In time or late."""
        hold = self.any_hold(data)
        done = self.target.act(hold.given)
        assert done == self.is_live(hold)
        if done:
            hold.expires = self.now + hold.ttl
            self.acted.append((hold.given.device, hold.given.token))

    @precondition(lambda self: self.live or self.over)
    @rule(data=st.data(), release=st.booleans())
    def renew_or_release(self, data: st.DataObject, release: bool) -> None:
        hold = self.any_hold(data)
        done = self.target.release(hold.given) if release else self.target.renew(hold.given, hold.ttl)
        assert done == self.is_live(hold)
        if done and release:
            self.end(hold.given.device)
        elif done:
            hold.expires = self.now + hold.ttl

    @rule(seconds=st.sampled_from([0.3, 0.9, 2.0, 6.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.target.wait(seconds)
        for hold in list(self.live.values()):
            if hold.expires <= self.now:
                self.end(hold.given.device)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def a_held_device_breaks(self, data: st.DataObject) -> None:
        device = data.draw(st.sampled_from(sorted(self.live)))
        self.target.settle()
        self.target.break_device(self.live[device].given)
        self.broken = True  # it may have to sit out a quarantine
        self.end(device)

    @rule(data=st.data(), mark=st.sampled_from(["drain", "quarantine", ""]))
    def an_operator_marks(self, data: st.DataObject, mark: AdminState) -> None:
        device = f"{KIND}-{data.draw(st.integers(0, self.count - 1))}"
        self.target.mark(device, mark)
        self.marks[device] = mark
        if mark == "quarantine":
            self.end(device)

    @rule()
    def restart(self) -> None:
        self.target.restart()
        for hold in self.live.values():
            hold.expires = self.now + hold.ttl
        self.broken = False  # what was held against a device goes with the process
        self.target.settle()

    @invariant()
    def only_holders_act(self) -> None:
        if hasattr(self, "acted"):
            assert self.target.executed == self.acted


class Alone(LeaseRules):
    def farm(self, count: int) -> Target:
        return Bare(count)


class WithSqlite(LeaseRules):
    def farm(self, count: int) -> Target:
        self.folder = tempfile.TemporaryDirectory()
        return Bare(count, Place(Path(self.folder.name) / "pool.sqlite"))

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            self.folder.cleanup()


def with_postgres(dsn: str) -> type[LeaseRules]:
    class WithPostgres(LeaseRules):
        def farm(self, count: int) -> Target:
            place = Place(dsn=dsn)
            place.clear()
            return Bare(count, place)

    return WithPostgres


class BehindHttp(LeaseRules):
    def farm(self, count: int) -> Target:
        return Served(count)


def run(machine: type[LeaseRules], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_machine_alone() -> None:
    run(Alone, 60, 40)


def test_with_sqlite() -> None:
    run(WithSqlite, 12, 25)


def test_with_postgres(database: str) -> None:
    run(with_postgres(database), 6, 25)


def test_behind_http() -> None:
    run(BehindHttp, 3, 15)


@pytest.mark.drill
def test_500_runs_of_50_steps_at_each_depth(database: str) -> None:
    for machine in (Alone, WithSqlite, with_postgres(database), BehindHttp):
        run(machine, 500, 50)
