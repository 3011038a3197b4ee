"""The lease machine: one holder a device, tokens only rise, nothing acknowledged is lost."""

import tempfile
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from devices.leases import (
    TRANSITIONS,
    AdminState,
    DeviceState,
    Ended,
    Event,
    Granted,
    Lease,
    Marked,
    Request,
    Slot,
)
from devices.pool.fairness import Account
from devices.pool.lease_table import Pool
from devices.pool.matching import able
from devices.pool.store import Sqlite
from guiagent.errors import Fault, FaultError, LeaseError, UsageError
from guiagent.types import Capabilities

CRASHED = Fault("device", "crashed", "it crashed", retryable=True)
CAPABLE = Capabilities("browser", 100, 100, features=["exec", "page"])


def farm(count: int = 2) -> Pool:
    pool = Pool.of(Slot(f"browser-{index}", "browser") for index in range(count))
    for slot in pool.slots:
        boot(pool, slot)
    return pool


def boot(pool: Pool, device: str, capabilities: Capabilities = CAPABLE) -> None:
    pool.device_booting(device)
    pool.device_ready(device, capabilities)


def request_for(*ids: str, ttl: float = 10.0, grants: tuple[str, ...] = (), **options: Any) -> Request:
    return Request(ids, options.pop("kind", "browser"), ttl, grants=frozenset(grants), **options)


def states(pool: Pool) -> list[str]:
    return [slot.state.value for slot in pool.slots.values()]


def take(pool: Pool, *ids: str, now: float = 0.0, **options: Any) -> list[Lease]:
    pool.enqueue(request_for(*ids, **options))
    return [lease for grant in pool.grant_ready(now) for lease in grant.leases]


def test_a_lease_is_kept_by_renewing_and_ends_without() -> None:
    pool = farm()
    (lease,) = take(pool, "a", ttl=10.0)
    pool.renew("a", now=9.0)
    assert pool.expire(now=18.9) == []
    assert pool.held("a", now=18.9) is lease
    with pytest.raises(LeaseError, match="ran out"):
        pool.held("a", now=19.0)  # also before the reaper came by
    (end,) = pool.expire(now=19.0)
    assert isinstance(end, Ended)
    assert end.fault.code == "expired"
    assert pool.slots[lease.device].state is DeviceState.RESETTING


def test_the_end_of_a_lease_already_fences_its_holder() -> None:
    pool = farm(1)
    (first,) = take(pool, "a")
    (end,) = pool.release("a", now=1.0)
    assert isinstance(end, Ended)
    assert end.token > first.token
    pool.device_clean(first.device)
    (second,) = take(pool, "b", now=2.0)
    assert second.token > end.token


def test_a_group_gets_all_or_waits_and_lets_nobody_pass() -> None:
    pool = farm(3)
    take(pool, "a")
    pool.enqueue(request_for("g1", "g2", "g3"))
    pool.enqueue(request_for("later"))
    assert pool.grant_ready(now=0.0) == []
    pool.release("a", now=1.0)
    pool.device_clean("browser-0")
    (grant,) = pool.grant_ready(now=1.0)
    assert [lease.id for lease in grant.leases] == ["g1", "g2", "g3"]
    assert [request.ids for request in pool.queue.requests] == [("later",)]


def test_leaving_the_queue_says_the_place_and_unblocks_those_behind() -> None:
    pool = farm(1)
    take(pool, "a")
    impatient, patient = request_for("b"), request_for("c")
    pool.enqueue(impatient)
    pool.enqueue(patient)
    assert pool.withdraw(patient, now=0.0).place == 2
    assert pool.withdraw(impatient, now=0.0).place == 1


def test_the_same_key_gets_the_same_leases_while_they_live() -> None:
    pool = farm(2)
    (first,) = take(pool, "a", key="k")
    (again,) = take(pool, "b", key="k")
    assert again is first
    pool.release("a", now=1.0)
    (fresh,) = take(pool, "c", now=1.0, key="k")
    assert fresh.id == "c"
    with pytest.raises(FaultError, match="key_reused"):
        pool.enqueue(request_for("d", "e", key="k"))


def test_a_key_is_kept_as_long_as_any_lease_of_its_group_lives() -> None:
    pool = farm(4)
    take(pool, "a", "b", key="k")
    pool.release("a", now=1.0)
    with pytest.raises(LeaseError, match="a part of what was granted under this key has ended"):
        pool.enqueue(request_for("c", "d", key="k"))
    pool.release("b", now=1.0)
    leases = take(pool, "e", "f", now=1.0, key="k")
    assert [lease.id for lease in leases] == ["e", "f"]
    restarted = Pool.of([Slot(leases[0].device, "browser")])
    restarted.restore({}, leases, {}, now=0.0)  # one of the devices is gone
    with pytest.raises(LeaseError, match="a part of what was granted"):
        restarted.enqueue(request_for("c", "d", key="k"))


@pytest.mark.parametrize(
    ("need", "kept"),
    [
        ("exec", ["upright", "wide", "unknown"]),
        ("shell", ["unknown"]),
        ("720p", ["upright", "wide", "unknown"]),
        ("1080p", ["wide"]),
        ("2160p", []),
    ],
)
def test_needs_are_features_and_screen_sizes(need: str, kept: list[str]) -> None:
    """What never was up may turn out able, unless its configured screen is too small already."""
    pool = Pool.of(
        [
            Slot("upright", "browser"),
            Slot("wide", "browser"),
            Slot("unknown", "browser", size=(1280, 720)),
        ]
    )
    boot(pool, "upright", Capabilities("browser", 720, 1280, features=["exec"]))
    boot(pool, "wide", Capabilities("browser", 1920, 1080, features=["exec"]))
    request = request_for("a", needs=frozenset({need}))
    assert [slot.id for slot in pool.slots.values() if able(slot, request)] == kept


def test_a_lease_can_name_its_device_and_its_host() -> None:
    pool = Pool.of(Slot(f"{host}.browser-0", "browser", host=host) for host in ("a", "b"))
    for slot in pool.slots:
        boot(pool, slot)
    (named,) = take(pool, "n", device="b.browser-0")
    assert named.device == "b.browser-0"
    assert take(pool, "m", host="b") == []  # it waits for that one
    assert [lease.device for lease in take(pool, "o")] == ["a.browser-0"]
    with pytest.raises(UsageError, match="2 browser devices on b were asked for; this farm has 1"):
        pool.enqueue(request_for("p", "q", host="b"))


def test_another_tenants_lease_is_as_unknown_as_one_that_never_was() -> None:
    pool = farm(2)
    take(pool, "a", tenant="ann")
    pool.expire(now=0.0)
    answers = set()
    for lease in ("a", "never"):
        with pytest.raises(LeaseError) as unknown:
            pool.renew(lease, now=0.0, tenant="bob")
        answers.add(str(unknown.value))
    assert pool.renew("a", now=0.0, tenant="ann") is pool.renew("a", now=0.0)  # the operator's call
    pool.release("a", now=0.0)
    with pytest.raises(LeaseError) as over:
        pool.held("a", now=0.0, tenant="bob")
    assert {str(over.value)} == answers
    with pytest.raises(LeaseError, match="released"):
        pool.held("a", now=0.0, tenant="ann")


def test_an_idempotency_key_is_a_tenants_own() -> None:
    pool = farm(2)
    (first,) = take(pool, "a", key="k", tenant="ann")
    (second,) = take(pool, "b", key="k", tenant="bob")
    assert first.device != second.device


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(("a",), "phone", 10.0), "no 'phone' devices; it has browser"),
        (request_for("a", "b", "c"), "this farm has 2"),
        (request_for("a", grants=("shell",)), "with shell"),
        (Request((), "browser", 10.0), "at least one device"),
    ],
)
def test_what_can_never_be_granted_is_refused_at_once(request_: Request, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        farm(2).enqueue(request_)


def test_a_fault_ends_the_lease_with_it() -> None:
    pool = farm(1)
    take(pool, "a")
    (end,) = pool.device_faulted("browser-0", CRASHED, now=0.0)
    assert isinstance(end, Ended)
    assert pool.device_faulted("browser-0", CRASHED, now=0.0) == []
    with pytest.raises(LeaseError, match="it crashed"):
        pool.held("a", now=0.0)


def test_after_a_restart_leases_stand_and_those_on_devices_that_are_gone_end() -> None:
    old = farm(2)
    leases = [*take(old, "a", key="k", ttl=5.0), *take(old, "b", ttl=5.0)]
    tokens = {slot.id: slot.token for slot in old.slots.values()}
    pool = Pool.of([Slot("browser-0", "browser")])
    (end,) = pool.restore(tokens, leases, {"z": CRASHED}, now=100.0)
    assert isinstance(end, Ended)
    assert (end.lease.id, end.fault.code) == ("b", "removed")
    assert pool.held("a", now=104.9).token == 1
    for lease_id, words in (("b", "no longer has browser-1"), ("z", "it crashed"), ("y", "no such lease")):
        with pytest.raises(LeaseError, match=words):
            pool.held(lease_id, now=100.0)
    pool.enqueue(
        request_for("c", key="k", ttl=5.0)
    )  # the same request again: answered once its device is back
    assert pool.grant_ready(now=100.0) == []
    pool.device_booting("browser-0")
    pool.device_ready("browser-0", CAPABLE)
    (grant,) = pool.grant_ready(now=100.0)
    assert grant.leases == (leases[0],)


def test_a_lease_that_a_former_leader_may_still_renew_lasts_as_long_as_if_it_had() -> None:
    old = farm(1)
    leases = take(old, "a", ttl=5.0)
    pool = Pool.of([Slot("browser-0", "browser")])
    assert pool.restore({"browser-0": 1}, leases, {}, now=100.0, overlap_s=3.0) == []
    assert pool.expire(107.9) == []
    assert [one.lease.id for one in pool.expire(108.0) if isinstance(one, Ended)] == ["a"]


@pytest.mark.parametrize("device", ["browser-0", "desk.browser-0"])
def test_after_a_restart_a_lease_of_a_removed_tenant_ends_and_its_device_is_free(device: str) -> None:
    old = Pool.of([Slot(device, "browser")], {"ann": Account()})
    boot(old, device)
    (lease,) = take(old, "a", tenant="ann")
    pool = Pool.of([Slot("browser-0", "browser")])
    (end,) = pool.restore({device: lease.token}, [lease], {}, now=100.0)
    assert isinstance(end, Ended)
    assert (end.fault.code, end.token) == ("removed", lease.token + 1)
    pool.add([Slot("desk.browser-0", "browser")])  # a host that joins
    assert (pool.slots[device].lease, pool.slots[device].token) == (None, lease.token + 1)
    with pytest.raises(LeaseError, match="no longer has the tenant ann"):
        pool.held("a", now=100.0)


def test_an_impossible_transition_is_a_bug_and_raises() -> None:
    pool = farm(1)
    with pytest.raises(RuntimeError, match="cannot go from ready to booting"):
        pool.device_booting("browser-0")
    assert set(TRANSITIONS) == set(DeviceState)


# -- taken out of service ------------------------------------------------------------------------------------


def test_a_drained_device_finishes_its_lease_and_then_stops() -> None:
    pool = farm(2)
    take(pool, "a")
    assert pool.mark("browser-0", "drain", "new image", now=0.0) == [
        Marked("browser-0", "drain", "new image")
    ]
    pool.mark("browser-1", "drain", "new image", now=0.0)
    assert states(pool) == ["leased", "drained"]
    assert pool.held("a", now=0.0)
    pool.release("a", now=1.0)
    assert states(pool) == ["drained", "drained"]
    assert pool.slots["browser-0"].running  # for the reconciler to stop
    assert take(pool, "b") == []
    assert pool.mark("browser-0", "", "", now=2.0) == [Marked("browser-0", "", "")]
    assert states(pool) == ["dead", "drained"]
    boot(pool, "browser-0")
    assert len(pool.grant_ready(now=3.0)) == 1


def test_a_device_drained_while_it_is_started_or_wiped_does_not_come_back() -> None:
    pool = farm(2)
    take(pool, "a")
    pool.release("a", now=0.0)
    pool.device_faulted("browser-1", CRASHED, now=0.0)
    pool.device_booting("browser-1")
    for device in pool.slots:
        pool.mark(device, "drain", "", now=0.0)
    pool.device_clean("browser-0")  # both told late
    pool.device_ready("browser-1", CAPABLE)
    assert states(pool) == ["drained", "drained"]


def test_a_quarantine_ends_the_lease_with_its_reason_and_outlives_a_restart() -> None:
    pool = farm(1)
    take(pool, "a")
    mark, end = pool.mark("browser-0", "quarantine", "it flickers", now=0.0)
    assert isinstance(end, Ended)
    with pytest.raises(LeaseError, match="it flickers"):
        pool.held("a", now=0.0)
    assert isinstance(mark, Marked)
    again = Pool.of([Slot("browser-0", "browser")])
    again.restore({"browser-0": end.token}, [], {}, now=0.0, marks=[mark])
    slot = again.slots["browser-0"]
    assert (slot.state, slot.reason, slot.retry_at) == (DeviceState.QUARANTINED, "it flickers", inf)
    again.mark("browser-0", "", "", now=1.0)
    assert (slot.state, slot.reason) == (DeviceState.DEAD, "")


def test_failures_in_a_row_quarantine_and_one_on_probation_doubles_it() -> None:
    pool = farm(2)
    slot = pool.slots["browser-0"]
    for now in (0.0, 500.0, 501.0):  # the first is long ago by then
        pool.device_faulted("browser-0", CRASHED, now)
        assert slot.state is DeviceState.DEAD
        boot(pool, "browser-0")
    now, waits = 502.0, []
    for _ in range(11):
        pool.device_faulted("browser-0", CRASHED, now)
        assert (slot.state, slot.reason) == (DeviceState.QUARANTINED, "crashed: it crashed")
        waits.append(slot.retry_at - now)
        now = slot.retry_at + 1000.0  # however long it was up: it has proved nothing yet
        boot(pool, "browser-0")
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert [lease.device for lease in take(pool, "a", now=now)] == ["browser-1"]  # picked last


@pytest.mark.parametrize("proof", ["a good lease", "health checks"])
def test_probation_ends_with_a_good_lease_or_enough_health_checks(proof: str) -> None:
    pool = farm(1)
    slot = pool.slots["browser-0"]
    for now in (0.0, 1.0, 2.0):
        pool.device_faulted("browser-0", CRASHED, now)
        pool.device_booting("browser-0")
        pool.device_ready("browser-0", CAPABLE)
    assert slot.health.on_probation
    if proof == "a good lease":
        take(pool, "a", now=10.0)
        pool.release("a", now=11.0)
        assert slot.health.on_probation  # it has yet to be wiped
        pool.device_clean("browser-0")
    else:
        for _ in range(30):
            assert slot.health.on_probation
            pool.device_healthy("browser-0")
    assert not slot.health.on_probation
    pool.device_faulted("browser-0", CRASHED, now=12.0)
    assert slot.state is DeviceState.DEAD


def test_an_operator_takes_a_device_over_as_it_is() -> None:
    pool = farm(2)
    (lease,) = take(pool, "a", tenant="ann")
    (end,), grant = pool.take_over(request_for("mine", device=lease.device), now=1.0)
    assert isinstance(end, Ended) and grant is not None
    assert (end.fault.code, grant.leases[0].device, states(pool)) == (
        "taken_over",
        lease.device,
        ["leased", "ready"],
    )
    assert lease.token < end.token < grant.leases[0].token
    with pytest.raises(LeaseError, match="an operator took browser-0 over"):
        pool.held("a", now=1.0, tenant="ann")
    pool.release("mine", now=2.0)
    assert states(pool)[0] == "resetting"  # after that it is wiped as ever
    assert pool.take_over(request_for("again", device="browser-0"), now=2.0) == ([], None)
    with pytest.raises(UsageError, match="browser-1 does not have all of touch"):
        pool.take_over(request_for("b", device="browser-1", needs=frozenset({"touch"})), now=2.0)
    pool.mark("browser-1", "drain", "", now=2.0)
    with pytest.raises(UsageError, match="browser-1 is drained: restore it first"):
        pool.take_over(request_for("b", device="browser-1"), now=3.0)


# -- hosts that come and go ----------------------------------------------------------------------------------


def away(name: str = "h") -> list[Slot]:
    return [Slot(f"{name}.browser-{index}", "browser", host=name) for index in range(2)]


def test_a_lost_host_ends_its_leases_and_comes_back_under_the_same_names_with_higher_tokens() -> None:
    pool = farm(1)
    pool.add(away())
    for slot in away():
        boot(pool, slot.id)
    leases = take(pool, "a", "b", "c")
    lost = Fault("farm", "host_lost", "host h is gone", retryable=True)
    ended = [event for slot in away() for event in pool.device_lost(slot.id, lost, now=1.0)]
    assert {event.lease.id for event in ended if isinstance(event, Ended)} == {"b", "c"}
    assert states(pool) == ["leased", "lost", "lost"]
    assert pool.slots["h.browser-0"].reason == "host h is gone"
    with pytest.raises(LeaseError, match="host h is gone"):
        pool.held("b", now=1.0)
    pool.device_ready("h.browser-0", CAPABLE)  # told late
    pool.enqueue(request_for("d", "e"))  # it waits for the host rather than being refused for good
    pool.mark("h.browser-1", "drain", "", now=1.0)
    pool.add(away())
    assert states(pool) == ["leased", "dead", "drained"]
    boot(pool, "h.browser-0")
    pool.mark("h.browser-1", "", "", now=2.0)
    boot(pool, "h.browser-1")
    (grant,) = pool.grant_ready(now=2.0)
    assert all(new.token > old.token for new, old in zip(grant.leases, leases[1:], strict=True))
    with pytest.raises(UsageError, match=r"a device h.browser-0 in this farm already, on host h"):
        pool.add(away())


def test_leases_on_a_joining_host_wait_for_it_after_a_restart_and_end_where_it_stays_away() -> None:
    pool = Pool.of([Slot("browser-0", "browser")])
    leases = [
        Lease(id, device, 5, 1000.0, frozenset(), "", "k" if id == "a" else "")
        for id, device in (("a", "h.browser-0"), ("b", "i.browser-0"))
    ]
    tokens = {"h.browser-0": 5, "h.browser-1": 7, "i.browser-0": 5}
    marks = [Marked("h.browser-1", "drain", "later")]
    assert pool.restore(tokens, leases, {}, now=0.0, marks=marks) == []
    assert states(pool) == ["dead", "lost", "lost"]
    pool.add(away())
    assert states(pool) == ["dead", "dead", "lost", "drained"]
    assert pool.slots["h.browser-1"].token == 7
    boot(pool, "h.browser-0")
    pool.enqueue(request_for("c", key="k"))
    (grant,) = pool.grant_ready(now=1.0)
    assert grant.leases == (leases[0],)
    assert pool.expire(now=59.0) == []
    (end,) = pool.expire(now=60.0)
    assert isinstance(end, Ended)
    assert (end.lease.id, end.fault.code, end.fault.retryable) == ("b", "host_lost", True)


# -- warm pools ----------------------------------------------------------------------------------------------


def warm(count: int, keep: int) -> Pool:
    slots = (Slot(f"vm-{index}", "vm", group="vm-0", warm=keep, idle_s=100.0) for index in range(count))
    return Pool.of(slots)


def sized(pool: Pool, now: float) -> str:
    """The states after one round of a reconciler that starts and stops at once; a letter each."""
    pool.size(now)
    for slot in pool.slots.values():
        if slot.state is DeviceState.DEAD:
            boot(pool, slot.id, Capabilities("vm", 1, 1))
    pool.size(now)
    return "".join(state[:2] + " " for state in states(pool)).strip()


def test_some_devices_are_kept_warm_more_start_as_requests_wait_and_idle_ones_stop() -> None:
    pool = warm(4, keep=1)
    assert sized(pool, now=0.0) == "re of of of"
    take(pool, "a", kind="vm", ttl=1e6)
    assert sized(pool, now=1.0) == "le re of of"  # one is free again
    pool.enqueue(request_for("b", "c", kind="vm", ttl=1e6))
    assert sized(pool, now=2.0) == "le re re re"
    assert len(pool.grant_ready(now=2.0)) == 1
    assert sized(pool, now=3.0) == "le le le re"
    for lease in ("a", "b", "c"):
        device = pool.held(lease, now=4.0).device
        pool.release(lease, now=4.0)
        pool.device_clean(device)
    assert sized(pool, now=5.0) == "re re re re"
    assert sized(pool, now=104.0) == "re re re of"  # the one that was idle for the longest
    assert sized(pool, now=105.0) == "re of of of"
    assert pool.slots["vm-3"].running


def test_a_pool_that_keeps_nothing_warm_starts_what_is_asked_for_by_name() -> None:
    pool = warm(3, keep=0)
    assert sized(pool, now=0.0) == "of of of"
    pool.enqueue(request_for("a", kind="vm", device="vm-2"))
    assert sized(pool, now=0.0) == "of of re"


def test_two_groups_of_a_kind_do_not_both_start_for_the_same_request() -> None:
    pool = Pool.of(Slot(f"{host}.vm-0", "vm", host=host, warm=0) for host in "ab")
    pool.enqueue(request_for("a", kind="vm"))
    assert sized(pool, now=0.0) == "re of"


# -- any sequence of events, with crashes, on the real store -------------------------------------------------


class LeaseMachine(RuleBasedStateMachine):
    """The pool and its store under anything that can happen; the plain dicts here are the specification."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "pool.sqlite"
        self.store = Sqlite(self.path)
        self.now = 0.0
        self.made = 0
        self.holders: dict[str, Lease] = {}  # by device: acknowledged, not ended
        self.tokens: dict[str, int] = {}  # by device: highest acknowledged
        self.marks: dict[str, AdminState] = {}
        self.unsaved: list[Event] = []

    @initialize(count=st.integers(1, 4))
    def start(self, count: int) -> None:
        self.count = count
        self.pool = farm(count)

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    def save(self, events: list[Event]) -> None:
        """What the service does before it answers anybody."""
        self.store.write([*self.unsaved, *events])
        for event in [*self.unsaved, *events]:
            if isinstance(event, Ended):
                self.holders.pop(event.lease.device, None)
                self.tokens[event.lease.device] = event.token
        self.unsaved = []

    def acknowledge(self, grants: list[Granted]) -> None:
        self.save([*grants])
        for grant in grants:
            for lease in grant.leases:
                if self.holders.get(lease.device) is lease:
                    continue  # the answer to a repeated request
                assert lease.device not in self.holders, "two holders of one device"
                assert lease.token > self.tokens.get(lease.device, 0), "a token did not rise"
                self.holders[lease.device] = lease
                self.tokens[lease.device] = lease.token

    @rule(n=st.integers(1, 3), ttl=st.sampled_from([1.0, 5.0]), key=st.sampled_from(["", "k", "l"]))
    def acquire(self, n: int, ttl: float, key: str) -> None:
        ids = tuple(f"{self.made + index:032x}" for index in range(n))
        self.made += n
        try:
            self.pool.enqueue(Request(ids, "browser", ttl, key=key))
        except (UsageError, FaultError):
            return
        self.acknowledge(self.pool.grant_ready(self.now))

    @rule(seconds=st.sampled_from([0.1, 0.9, 2.0, 6.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def reap(self) -> None:
        self.unsaved += self.pool.expire(self.now)  # stored in the background

    @precondition(lambda self: self.pool.leases)
    @rule(data=st.data())
    def renew_or_release(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(sorted(self.pool.leases)))
        release = data.draw(st.booleans())
        try:
            if release:
                self.save(self.pool.release(lease, self.now))
            else:
                self.pool.renew(lease, self.now)
        except LeaseError:
            assert self.pool.leases[lease].expires <= self.now

    @rule(data=st.data())
    def device_comes_back(self, data: st.DataObject) -> None:
        slot = self.pool.slots[data.draw(st.sampled_from(sorted(self.pool.slots)))]
        if slot.state is DeviceState.DEAD or (slot.state is DeviceState.QUARANTINED and not slot.mark):
            self.pool.device_booting(slot.id)
        if slot.state is DeviceState.BOOTING:
            self.pool.device_ready(slot.id, CAPABLE)
        elif slot.state is DeviceState.RESETTING:
            self.pool.device_clean(slot.id)
        self.acknowledge(self.pool.grant_ready(self.now))

    @rule(data=st.data(), mark=st.sampled_from(["", "drain", "quarantine"]))
    def operator_marks(self, data: st.DataObject, mark: AdminState) -> None:
        device = data.draw(st.sampled_from(sorted(self.pool.slots)))
        self.save(self.pool.mark(device, mark, "because", self.now))
        self.marks[device] = mark

    @rule(data=st.data())
    def operator_takes_over(self, data: st.DataObject) -> None:
        device = data.draw(st.sampled_from(sorted(self.pool.slots)))
        self.made += 1
        request = Request((f"{self.made - 1:032x}",), "browser", 5.0, device=device)
        try:
            ended, grant = self.pool.take_over(request, self.now)
        except UsageError:
            assert self.marks.get(device)
            return
        self.unsaved += ended
        self.acknowledge([grant] if grant is not None else [])

    @rule(data=st.data())
    def device_breaks(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(sorted(self.pool.slots)))
        self.unsaved += self.pool.device_faulted(slot, CRASHED, self.now)

    @rule()
    def crash(self) -> None:
        """Everything in memory goes, what was not yet stored with it; what was acknowledged must be there."""
        self.store.close()
        self.store = Sqlite(self.path)
        past = self.store.load()
        assert {lease.id for lease in past.leases} == {lease.id for lease in self.holders.values()}
        assert all(past.tokens[device] >= token for device, token in self.tokens.items())
        self.unsaved = []
        assert {one.device: one.mark for one in past.marks} == {k: v for k, v in self.marks.items() if v}
        self.pool = Pool.of(Slot(f"browser-{index}", "browser") for index in range(self.count))
        self.save(self.pool.restore(past.tokens, past.leases, past.ends, self.now, past.marks))
        self.holders = {lease.device: lease for lease in past.leases}

    @invariant()
    def slots_and_leases_agree(self) -> None:
        if not hasattr(self, "pool"):
            return
        held = {slot.lease for slot in self.pool.slots.values() if slot.lease is not None}
        assert held == set(self.pool.leases)
        for lease in self.pool.leases.values():
            slot = self.pool.slots[lease.device]
            assert slot.lease == lease.id
            assert slot.token == lease.token
            assert slot.state in (DeviceState.LEASED, DeviceState.BOOTING, DeviceState.DEAD)
        for slot in self.pool.slots.values():
            assert slot.mark == self.marks.get(slot.id, "")
            assert not (slot.mark and slot.state in (DeviceState.READY, DeviceState.RESETTING))
        assert sum(account.held for account in self.pool.queue.accounts.values()) == len(self.pool.leases)
        assert all(
            slot.lease is not None for slot in self.pool.slots.values() if slot.state is DeviceState.LEASED
        )


TestLeaseMachine = LeaseMachine.TestCase
TestLeaseMachine.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
