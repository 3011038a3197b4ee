"""The record of the drills: what is kept of a run, what it bounds, and the page it is published on."""

from pathlib import Path

import msgspec
import pytest

from guiagent.errors import UsageError
from tests.drills import record
from tests.drills.catalogue import DRILLS
from tests.drills.guarantees import GUARANTEES
from tests.drills.mutants import MUTANTS
from tests.drills.tally import Tally, bound

ROOT = Path(__file__).parents[2]


def made(lost: int = 0) -> record.Entry:
    tally = Tally.looking_for("kills", "lost")
    tally.did("kills", 300)
    tally.lost["lost"] = lost
    return record.entry("kills", "sqlite", tally, 12.0)


def test_no_failure_in_n_trials_bounds_the_rate_at_three_in_n() -> None:
    assert bound(0, 300) == pytest.approx(0.01)
    assert bound(1, 300) == 1.0
    assert bound(0, 0) == bound(0, 2) == 1.0


def test_a_problem_that_was_not_looked_for_cannot_be_counted() -> None:
    with pytest.raises(KeyError):
        Tally.looking_for("kills", "lost").fail("found")


def test_the_last_run_of_each_drill_is_published(tmp_path: Path) -> None:
    kept, page = tmp_path / "drills.jsonl", tmp_path / "page.md"
    with pytest.raises(UsageError, match="makes them"):
        record.read(kept)
    record.keep(made(lost=2), kept)
    record.keep(made(), kept)
    (last,) = record.read(kept)
    assert last.held and last.title == "kills, sqlite"
    page.write_text("before\n<!-- drills -->\nbygone\n<!-- /drills -->\nafter\n")
    for _ in range(2):
        record.publish([last], page)
    text = page.read_text()
    assert text.startswith("before\n<!-- drills -->\n") and text.endswith("<!-- /drills -->\nafter\n")
    assert "kills, sqlite: 300 kills, nothing lost" in text
    assert "0.01 of kills" in text and "bygone" not in text
    other = msgspec.structs.replace(last, with_="postgres")
    record.publish([other], page)
    assert "kills, sqlite: 300 kills, nothing lost" in page.read_text(), "a drill that was not run again"
    assert record.published(page) == [other, last]
    page.write_text("no place")
    with pytest.raises(UsageError, match="<!-- drills -->"):
        record.publish([last], page)


def test_a_run_that_lost_something_bounds_nothing() -> None:
    assert "no bound" in record.markdown([made(lost=2)])
    assert "2 lost" in record.markdown([made(lost=2)])


def test_every_guarantee_has_a_drill_and_every_drill_stands_for_one() -> None:
    named = {name for one in GUARANTEES for name in one.drills}
    assert all(one.drills for one in GUARANTEES)
    assert named <= set(DRILLS)
    assert set(DRILLS) - named <= {"torchrun"}
    assert {mutant.drill for mutant in MUTANTS.values()} <= set(DRILLS)


def test_the_page_shows_what_is_on_record() -> None:
    page = ROOT / "docs/reliability.md"
    assert record.markdown(record.published(page)) in page.read_text()


def test_each_guarantee_was_counted() -> None:
    ran = {one.drill for one in record.published(ROOT / "docs/reliability.md")}
    for one in GUARANTEES:
        assert ran.issuperset(one.drills), one.name
