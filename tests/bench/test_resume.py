"""What a ledger of killed runs says was lost, and whose log is whole."""

import io
from pathlib import Path

from rich.console import Console

from tests.bench.resume import _alone, _beside, table
from tests.bench.resumed.drill import Trial, amiss
from tests.bench.resumed.ledger import Ledger, Losses, losses, name, read


def killed(path: Path) -> Ledger:
    """Two sessions were killed: one amid its third update, one right after it; the third ends in peace."""
    ledger = Ledger(path)
    ledger.started(0)
    ledger.began(4)
    ledger.finished(["a", "b"])
    ledger.learned(1, ["a"])
    ledger.learned(2, ["b"])
    ledger.finished(["c"])  # and one was cut short
    ledger.started(1)  # no checkpoint had the second update
    ledger.began(3)
    ledger.finished(["d", "e"])
    ledger.learned(2, ["d"])
    ledger.learned(3, ["e"])
    ledger.started(3)
    ledger.began(1)
    ledger.finished(["f"])
    return ledger


def test_what_was_finished_is_lost_unless_it_was_learned_from_or_kept(tmp_path: Path) -> None:
    killed(tmp_path / "ledger")
    events = read(tmp_path / "ledger")
    found = losses(events, ())
    assert found == Losses(
        3, updates_redone=1, finished=5, finished_lost=2, in_flight_lost=2, learned_twice=0
    )
    assert losses(events, ["b", "c"]).finished_lost == 0
    assert losses(events, ["b"]).finished_lost == 1


def test_an_update_that_is_done_again_may_use_its_rollouts_again(tmp_path: Path) -> None:
    ledger = killed(tmp_path / "ledger")
    ledger.learned(4, ["b"])  # which the lost second update had
    assert losses(read(tmp_path / "ledger"), ()).learned_twice == 0
    ledger.learned(5, ["b"])
    assert losses(read(tmp_path / "ledger"), ()).learned_twice == 1


def test_names_of_rollouts_differ_by_number_and_an_empty_ledger_is_no_loss(tmp_path: Path) -> None:
    assert name(1) == name(1) != name(2)
    assert losses(read(tmp_path / "none"), ()) == Losses(0, 0, 0, 0, 0, 0)


def test_a_log_has_every_update_once() -> None:
    assert amiss([1, 2, 3], 3) == 0
    assert amiss([1, 3, 3], 3) == 2


def test_a_run_that_lost_something_misses_its_goal_and_is_not_whole() -> None:
    good = Trial(kills=2, reached=True, losses=Losses(9, 1, 50, 0, 4, 0))
    bad = Trial(kills=2, refused=1, reached=True, losses=Losses(9, 3, 40, 24, 16, 1))
    assert good.whole and not bad.whole
    assert not Trial(kills=2, reached=False, losses=good.losses).whole
    assert [row.verdict for row in _alone(good)] == ["yes", "yes"]
    lost, failed, *counts = _beside("TRL", good, bad)
    assert (lost.ours, lost.peer, lost.verdict) == (0, 12, "yes")
    assert (failed.peer, [row.peer for row in counts]) == (0.5, [8, 1.5])
    lost, *_ = _beside("TRL", bad, good)
    assert (lost.ours, lost.verdict) == (12, "no")
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table({"ours": good, "TRL": bad}))
    assert "of them lost, and sampled again" in console.export_text()
