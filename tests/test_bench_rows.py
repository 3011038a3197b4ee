"""What the benchmarks claim: medians of interleaved rounds, ratios, and no verdict without a peer."""

from collections.abc import Callable

from tests.bench.peers import PeerMissing
from tests.bench.rows import Arm, at_most, interleave, times_the_peer


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
    row = times_the_peer("step", "steps/s", ours, peer, 10)
    assert (row.ours, row.peer, row.ratio, row.goal, row.holds) == (30, 3, 10, ">= 10x", True)
    assert times_the_peer("step", "steps/s", ours, peer, 10.1).holds is False


def test_a_missing_peer_is_no_verdict_and_is_asked_once() -> None:
    asked: list[float] = []

    def missing() -> float:
        asked.append(1)
        raise PeerMissing("no chromedriver")

    ours, peer = Arm(lambda: 30.0), Arm(missing)
    interleave(3, ours, peer)
    row = times_the_peer("step", "steps/s", ours, peer, 10)
    assert (row.ours, row.peer, row.ratio, row.holds) == (30, None, None, None)
    assert row.note == "peer missing: no chromedriver"
    assert asked == [1]


def test_a_limit_holds_with_or_without_a_peer() -> None:
    ours, slower, none = Arm(lambda: 10.0), Arm(lambda: 40.0), Arm(lambda: 0.0, missing="not here")
    interleave(1, ours, slower, none)
    row = at_most("reset", "ms", ours, 15, slower)
    assert (row.goal, row.holds, row.ratio) == ("<= 15 ms", True, 4)
    assert at_most("reset", "ms", ours, 9.9).holds is False
    assert (at_most("reset", "ms", ours, 15, none).holds, at_most("reset", "ms", ours, 15, none).peer) == (
        True,
        None,
    )
