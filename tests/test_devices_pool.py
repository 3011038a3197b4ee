"""The lease machine and its memory: one holder a device, tokens only rise, nothing acknowledged is lost."""

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from devices.pool import TRANSITIONS, DeviceState, Ended, Event, Granted, Lease, Pool, Request, Slot
from devices.store import Store
from guiagent.errors import Fault, InfrastructureError, LeaseError, UsageError
from guiagent.types import Capabilities

CRASHED = Fault("device", "crashed", "it crashed", retryable=True)
CAPABLE = Capabilities("browser", 100, 100, features=["exec", "page"])


def farm(count: int = 2) -> Pool:
    pool = Pool.of(Slot(f"browser-{index}", "browser") for index in range(count))
    for slot in pool.slots:
        pool.device_booting(slot)
        pool.device_ready(slot, CAPABLE)
    return pool


def wish(*ids: str, ttl: float = 10.0, key: str = "", grants: tuple[str, ...] = ()) -> Request:
    return Request(ids, "browser", ttl, grants=frozenset(grants), key=key)


def take(pool: Pool, *ids: str, now: float = 0.0, **options: object) -> list[Lease]:
    pool.enqueue(wish(*ids, **options))  # type: ignore[arg-type]
    return [lease for grant in pool.pump(now) for lease in grant.leases]


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
    pool.enqueue(wish("g1", "g2", "g3"))
    pool.enqueue(wish("later"))
    assert pool.pump(now=0.0) == []
    pool.release("a", now=1.0)
    pool.device_clean("browser-0")
    (grant,) = pool.pump(now=1.0)
    assert [lease.id for lease in grant.leases] == ["g1", "g2", "g3"]
    assert [request.ids for request in pool.queue] == [("later",)]


def test_leaving_the_queue_says_the_place_and_unblocks_those_behind() -> None:
    pool = farm(1)
    take(pool, "a")
    impatient, patient = wish("b"), wish("c")
    pool.enqueue(impatient)
    pool.enqueue(patient)
    assert pool.withdraw(patient) == 2
    assert pool.withdraw(impatient) == 1


def test_the_same_key_gets_the_same_leases_while_they_live() -> None:
    pool = farm(2)
    (first,) = take(pool, "a", key="k")
    (again,) = take(pool, "b", key="k")
    assert again is first
    pool.release("a", now=1.0)
    (fresh,) = take(pool, "c", now=1.0, key="k")
    assert fresh.id == "c"
    with pytest.raises(UsageError, match="idempotency key"):
        pool.enqueue(wish("d", "e", key="k"))


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(("a",), "phone", 10.0), "no 'phone' devices; it has browser"),
        (wish("a", "b", "c"), "this farm has 2"),
        (wish("a", grants=("shell",)), "with shell"),
        (Request((), "browser", 10.0), "at least one device"),
    ],
)
def test_what_can_never_be_granted_is_refused_at_once(request_: Request, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        farm(2).enqueue(request_)


def test_a_fault_ends_the_lease_with_it_and_repeated_ones_quarantine_the_slot() -> None:
    pool = farm(1)
    take(pool, "a")
    (end,) = pool.device_faulted("browser-0", CRASHED, now=0.0)
    assert isinstance(end, Ended)
    assert pool.device_faulted("browser-0", CRASHED, now=0.0) == []
    with pytest.raises(LeaseError, match="it crashed"):
        pool.held("a", now=0.0)
    for now in (1.0, 2.0):
        pool.device_booting("browser-0")
        pool.device_faulted("browser-0", CRASHED, now)
    slot = pool.slots["browser-0"]
    assert slot.state is DeviceState.QUARANTINED
    assert slot.retry_at > 2.0
    pool.device_booting("browser-0")
    pool.device_faulted("browser-0", CRASHED, now=1000.0)  # long after: not "in a row" any more
    assert slot.state is DeviceState.DEAD


def test_after_a_restart_leases_stand_and_those_on_devices_that_are_gone_end() -> None:
    old = farm(2)
    leases = take(old, "a", "b", key="k", ttl=5.0)
    tokens = {slot.id: slot.token for slot in old.slots.values()}
    pool = Pool.of([Slot("browser-0", "browser")])
    (end,) = pool.restore(tokens, leases, {"z": CRASHED}, now=100.0)
    assert isinstance(end, Ended)
    assert (end.lease.id, end.fault.code) == ("b", "removed")
    assert pool.held("a", now=104.9).token == 1
    for lease_id, words in (("b", "no longer has browser-1"), ("z", "it crashed"), ("y", "no such lease")):
        with pytest.raises(LeaseError, match=words):
            pool.held(lease_id, now=100.0)
    pool.enqueue(wish("c", key="k"))  # the same request again: answered once its device is back
    assert pool.pump(now=100.0) == []
    pool.device_booting("browser-0")
    pool.device_ready("browser-0", CAPABLE)
    (grant,) = pool.pump(now=100.0)
    assert grant.leases == (leases[0],)


def test_an_impossible_transition_is_a_bug_and_raises() -> None:
    pool = farm(1)
    with pytest.raises(RuntimeError, match="cannot go from ready to booting"):
        pool.device_booting("browser-0")
    assert set(TRANSITIONS) == set(DeviceState)


# -- any sequence of events, with crashes, on the real store -------------------------------------------------


class LeaseMachine(RuleBasedStateMachine):
    """The pool and its store under anything that can happen; the plain dicts here are the specification."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "pool.sqlite"
        self.store = Store(self.path)
        self.now = 0.0
        self.made = 0
        self.holders: dict[str, Lease] = {}  # by device: acknowledged, not ended
        self.tokens: dict[str, int] = {}  # by device: highest acknowledged
        self.unsaved: list[Event] = []

    @initialize(count=st.integers(1, 4))
    def start(self, count: int) -> None:
        self.count = count
        self.pool = farm(count)

    def teardown(self) -> None:
        asyncio.run(self.store.close())
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
        except UsageError:
            return
        self.acknowledge(self.pool.pump(self.now))

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
        if slot.state in (DeviceState.DEAD, DeviceState.QUARANTINED):
            self.pool.device_booting(slot.id)
        if slot.state is DeviceState.BOOTING:
            self.pool.device_ready(slot.id, CAPABLE)
        elif slot.state is DeviceState.RESETTING:
            self.pool.device_clean(slot.id)
        self.acknowledge(self.pool.pump(self.now))

    @rule(data=st.data())
    def device_breaks(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(sorted(self.pool.slots)))
        self.unsaved += self.pool.device_faulted(slot, CRASHED, self.now)

    @rule()
    def crash(self) -> None:
        """Everything in memory goes, what was not yet stored with it; what was acknowledged must be there."""
        asyncio.run(self.store.close())
        self.store = Store(self.path)
        past = self.store.load()
        assert {lease.id for lease in past.leases} == {lease.id for lease in self.holders.values()}
        assert all(past.tokens[device] >= token for device, token in self.tokens.items())
        self.unsaved = []
        self.pool = Pool.of(Slot(f"browser-{index}", "browser") for index in range(self.count))
        self.save(self.pool.restore(past.tokens, past.leases, past.ends, self.now))
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
            assert slot.state not in (DeviceState.READY, DeviceState.RESETTING)
        assert all(
            slot.lease is not None for slot in self.pool.slots.values() if slot.state is DeviceState.LEASED
        )


TestLeaseMachine = LeaseMachine.TestCase
TestLeaseMachine.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


# -- the store alone -----------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "state" / "pool.sqlite"


def granted(number: int, device: str = "browser-0") -> Granted:
    lease = Lease(f"{number:032x}", device, number, 10.0, frozenset({"exec"}), "label", f"key {number}")
    return Granted(wish(lease.id), (lease,))


async def test_callers_that_come_together_share_a_commit_and_all_are_stored(path: Path) -> None:
    store = Store(path)
    await asyncio.gather(*(store.commit([granted(number, f"browser-{number}")]) for number in range(1, 50)))
    await store.close()
    again = Store(path)
    assert [lease.token for lease in again.load().leases] == list(range(1, 50))
    assert again.load().leases[0].grants == {"exec"}
    await again.close()


async def test_a_second_holder_of_a_device_cannot_even_be_written(path: Path) -> None:
    store = Store(path)
    await store.commit([granted(1)])
    with pytest.raises(InfrastructureError):
        await store.commit([granted(2)])
    await store.commit([granted(3, "browser-1")])  # the failed batch took nothing else with it
    assert [lease.token for lease in store.load().leases] == [1, 3]
    await store.close()


async def test_ends_are_remembered_and_the_log_is_append_only(path: Path) -> None:
    store = Store(path)
    grant = granted(1)
    await store.commit([grant])
    await store.commit([Ended(grant.leases[0], CRASHED, 2)])
    past = store.load()
    assert (past.leases, past.tokens, past.ends) == ([], {"browser-0": 2}, {grant.leases[0].id: CRASHED})
    await store.close()
    with sqlite3.connect(path) as db:
        rows = db.execute("SELECT event, device, token, detail FROM lease_events ORDER BY number").fetchall()
        assert rows == [("granted", "browser-0", 1, ""), ("ended", "browser-0", 1, "device:crashed")]
        for statement in ("DELETE FROM lease_events", "UPDATE lease_events SET token = 9"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                db.execute(statement)
    db.close()


async def test_two_pools_cannot_share_a_state_directory(path: Path) -> None:
    store = Store(path)
    with pytest.raises(InfrastructureError, match=r"another pool is using .*--state-dir"):
        Store(path)
    await store.close()
    await Store(path).close()


def test_the_state_is_private_and_a_damaged_one_is_named(path: Path) -> None:
    asyncio.run(Store(path).close())
    assert path.stat().st_mode & 0o077 == 0
    path.write_bytes(b"not a database at all, whatever its name says" * 20)
    with pytest.raises(InfrastructureError, match=r"pool\.sqlite is damaged .*move it away"):
        Store(path)


async def test_a_full_disk_is_one_line_and_what_was_stored_stays(path: Path) -> None:
    store = Store(path)
    await store.commit([granted(1)])
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(InfrastructureError, match=r"cannot write the pool's state .*full"):
        await store.commit([granted(number, f"browser-{number}") for number in range(2, 500)])
    assert [lease.token for lease in store.load().leases] == [1]
    await store.close()
