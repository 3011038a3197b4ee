"""What the benchmarks claim: medians of interleaved rounds, ratios, slack, and no verdict without a peer."""

from collections.abc import Callable

from tests.bench.peers import PeerMissing
from tests.bench.rows import Arm, Row, against, at_least, at_most, interleave, noted, reported, within


def saying(*figures: float, order: list[float]) -> Callable[[], float]:
    left = iter(figures)

    def measure() -> float:
        order.append(next(left))
        return order[-1]

    return measure


def test_arms_take_turns_and_medians_are_compared() -> None:
    order: list[float] = []
    ours, peer = Arm(saying(20, 90, 30, order=order)), Arm(saying(2, 3, 9, order=order))
    interleave(3, ours, peer)
    assert order == [20, 2, 90, 3, 30, 9]
    row = against("step", "steps/s", ours, peer, 10)
    assert (row.ours, row.peer, row.ratio, row.goal, row.holds) == (30, 3, 10, ">= 10x the peer", True)
    assert against("step", "steps/s", ours, peer, 10.1).verdict == "no"


def test_a_ratio_says_how_many_times_better_also_where_less_is() -> None:
    ours, peer = Arm.of(50.0), Arm.of(150.0)
    assert against("memory", "MB", ours, peer, 2, less=True).ratio == 3
    assert against("steps", "1/s", ours, peer, 2).ratio == 1 / 3


def test_the_spread_is_that_of_the_ratio_in_each_round() -> None:
    """Not of the greatest of one arm over the least of the other, which no round was."""
    ours, peer = Arm.of(20.0, 90.0, 30.0), Arm.of(2.0, 3.0, 9.0)
    assert against("step", "1/s", ours, peer, 2).spread == (30 / 9, 30)
    assert against("memory", "MB", ours, peer, 2, less=True).spread == (1 / 30, 9 / 30)
    assert reported("step", "1/s", ours, peer).spread == (30 / 9, 30)


def test_a_figure_alone_has_its_own_spread_and_one_round_has_none() -> None:
    ours, limit = Arm.of(3.0, 1.0, 2.0), Arm.of(1.0, 1.0, 1.0)
    found = [within("a", "s", ours, limit, 5), at_least("a", "s", ours, 1), at_most("a", "s", ours, 9)]
    gone = against("a", "s", ours, Arm.of(missing="not here"), 2)
    assert [row.spread for row in [*found, reported("a", "s", ours), gone]] == 5 * [(1.0, 3.0)]
    assert against("a", "s", Arm.of(2.0), Arm.of(1.0), 2).spread is None


def test_a_missing_peer_is_no_verdict_and_is_asked_once() -> None:
    asked: list[float] = []

    def missing() -> float:
        asked.append(1)
        raise PeerMissing("no chromedriver")

    ours, peer = Arm(lambda: 30.0), Arm(missing)
    interleave(3, ours, peer)
    row = against("step", "steps/s", ours, peer, 10)
    assert (row.ours, row.peer, row.ratio, row.holds) == (30, None, None, None)
    assert (row.note, row.verdict) == ("peer missing: no chromedriver", "no verdict")
    assert asked == [1]


def test_a_limit_of_the_same_run_sets_the_goal_on_either_side() -> None:
    row = within("lease", "ms", Arm.of(4.0), Arm.of(1.0), 5)
    assert (row.limit, row.goal, row.holds, row.slack) == (1, "<= 5x the limit", True, 1.25)
    assert within("lease", "ms", Arm.of(6.0), Arm.of(1.0), 5).holds is False
    row = within("pairs", "pairs/s", Arm.of(400.0), Arm.of(1000.0), 4, less=False)
    assert (row.goal, row.holds, row.slack) == (">= 0.25x the limit", True, 1.6)
    assert within("pairs", "pairs/s", Arm.of(200.0), Arm.of(1000.0), 4, less=False).holds is False


def test_a_goal_far_from_its_figure_is_said_to_be() -> None:
    assert at_most("reset", "ms", Arm.of(10.0), 14).verdict == "yes"
    assert at_most("reset", "ms", Arm.of(10.0), 40).verdict == "yes, 4.0x slack"
    assert at_least("pace", "1/s", Arm.of(90.0), 30).verdict == "yes, 3.0x slack"
    assert against("pace", "1/s", Arm.of(90.0), Arm.of(10.0), 3).verdict == "yes, 3.0x slack"
    assert at_most("reset", "ms", Arm.of(10.0), 9.9).verdict == "no"


def test_nothing_at_all_may_be_the_goal() -> None:
    assert at_most("stale", "frames", Arm.of(0.0), 0).verdict == "yes"
    assert at_most("stale", "frames", Arm.of(1.0), 0).verdict == "no"


def test_a_subject_that_failed_or_is_missing_is_a_row() -> None:
    assert Row(name="vm", unit="", holds=False).verdict == "failed"
    assert Row(name="vm", unit="").verdict == "missing"
    row = noted(noted(Row(name="vm", unit=""), "one"), "two")
    assert row.note == "one; two"
