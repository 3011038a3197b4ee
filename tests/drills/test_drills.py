"""Short drills of the pool (whole with `-m drill`), and broken pools that the drills must detect."""

from pathlib import Path

import pytest

from tests.drills import late_calls, mutants, run
from tests.drills.catalogue import DRILLS, REPLICAS, Setting
from tests.drills.caught import drilled
from tests.drills.replicas import pair


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str:
    """The database of the farm, or "" where each pool keeps a file."""
    return "" if request.param == "sqlite" else request.getfixturevalue("database")


@pytest.mark.slow
async def test_no_kill_loses_a_lease_or_lets_an_old_holder_act(tmp_path: Path, store: str) -> None:
    counts = await run.kills(tmp_path, 2, store)
    assert counts.problems == {}
    assert counts.acknowledged >= 40
    assert counts.executed >= 60


async def test_nobody_who_comes_late_acts(tmp_path: Path) -> None:
    counts = await run.late(tmp_path, 100)
    assert counts.problems == {}
    assert counts.late_refused == counts.late >= 100


async def test_no_verb_and_no_stream_is_carried_out_late(tmp_path: Path) -> None:
    tally = await late_calls.calls(tmp_path, 120)
    assert tally.problems == {}, tally.said
    assert {"stream", "connect", "under way", *late_calls.VERBS} <= set(tally.tried)


async def test_acknowledging_before_the_commit_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(mutants.NAMED, "ack-first")
    counts = await run.kills(tmp_path, 2)
    assert counts.problems.get("lost", 0) > 0


def test_a_host_that_checks_no_token_is_noticed() -> None:
    """In a process of its own, which keeps the defect to itself."""
    code, said = drilled(mutants.MUTANTS["no-fence"], "no-fence")
    assert code == 1 and "executed late" in said


_QUICK = {"judge": 200, "residue": 8}


@pytest.mark.parametrize("name", _QUICK)
def test_a_short_drill(name: str, tmp_path: Path) -> None:
    tally = DRILLS[name].work(Setting(tmp_path, _QUICK[name]))
    assert tally.problems == {}, tally.said
    assert tally.trials > 0


@pytest.mark.drill
async def test_fifty_kills(tmp_path: Path, store: str) -> None:
    counts = await run.kills(tmp_path, 50, store)
    assert counts.problems == {}
    assert counts.acknowledged >= 2000


@pytest.mark.drill
async def test_a_thousand_late_actions(tmp_path: Path, store: str) -> None:
    counts = await run.late(tmp_path, 1000, store)
    assert counts.problems == {}
    assert counts.late_refused == counts.late >= 1000


@pytest.mark.drill
async def test_a_leader_that_sleeps_wakes_up_deposed(tmp_path: Path, database: str) -> None:
    counts = await run.pauses(tmp_path, 5, database)
    assert counts.problems == {}
    assert counts.acknowledged >= 100


_SOME = {
    "mixed": 12,
    "calls": 1000,
    "reclaim": 24,
    "network": 60,
    "store": 40,
    "slow": 1,
    "exhaustion": 1,
    "api": 800,
    "raw": 2000,
    "deep": 10,
    "parsers": 2,
    "soak": 3,
    "listeners": 1,
}


@pytest.mark.drill
@pytest.mark.parametrize("name", _SOME)
def test_a_drill(name: str, tmp_path: Path) -> None:
    tally = DRILLS[name].work(Setting(tmp_path, _SOME[name]))
    assert tally.problems == {}, tally.said
    assert tally.trials > 0


@pytest.mark.drill
def test_a_store_in_postgres_is_cut_short(tmp_path: Path, database: str) -> None:
    tally = DRILLS["store"].work(Setting(tmp_path, 30, database))
    assert tally.problems == {}, tally.said


@pytest.mark.drill
def test_a_database_that_is_lost(tmp_path: Path) -> None:
    with pair() as both:
        if both is None:
            pytest.skip("there is no PostgreSQL server here; apt-get install postgresql")
        assert REPLICAS in DRILLS["database"].stores
        with both.database() as database:
            tally = DRILLS["database"].work(Setting(tmp_path, 3, database, pair=both))
    assert tally.problems == {}, tally.said


@pytest.mark.drill
def test_every_seeded_defect_is_noticed(tmp_path: Path) -> None:
    tally = DRILLS["mutants"].work(Setting(tmp_path, len(mutants.MUTANTS)))
    assert tally.problems == {}, tally.said
    assert tally.trials == len(mutants.MUTANTS) == 12
