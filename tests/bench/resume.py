"""Training runs killed at random moments and resumed: what of their work is done again, ours and peers'.

`python -m tests.bench.resume [--kills 20] [--trainer NAME]`. Every run gets SIGKILL again and again, at a
moment drawn over about two updates, and is started again by the same command. A ledger beside the trainer
(`tests.bench.resumed.ledger`) knows what there was. All save after each update. Ours plays episodes on real
browsers; a peer's rollout is a completion of a small model, so that its environment costs nothing.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.peers import PeerMissing
from tests.bench.resumed.drill import Drill, Trial
from tests.bench.resumed.trainers import OURS, TRAINERS
from tests.bench.rows import Arm, Row, at_most, noted, reported

_KILLS = 2  # a round


def rows(rounds: int) -> Iterator[Row]:
    kills = _KILLS * rounds
    ours = _tried(OURS, kills)
    yield from _alone(ours)
    for name in TRAINERS:
        if name == OURS:
            continue
        try:
            yield from _beside(name, ours, _tried(name, kills))
        except PeerMissing as error:
            yield Row(name=f"killed runs, against {name}", unit="", note=f"missing: {error}")


def _tried(name: str, kills: int) -> Trial:
    """The same moments for every trainer, as shares of its update."""
    with tempfile.TemporaryDirectory() as folder:
        return Drill(TRAINERS[name], Path(folder), random.Random(0)).work(kills)


def _alone(ours: Trial) -> Iterator[Row]:
    what = f"training run, {ours.kills} kills"
    yield at_most(f"{what}: rollouts learned from twice", "rollouts", Arm.of(ours.losses.learned_twice), 0)
    yield at_most(f"{what}: updates missing or double in its log", "updates", Arm.of(ours.steps_amiss), 0)


def _beside(name: str, ours: Trial, peer: Trial) -> Iterator[Row]:
    """Counts a kill, ours and the peer's."""
    what = f"training run, {ours.kills} kills, against {name}"

    def arms(count: str) -> tuple[Arm, Arm]:
        return Arm.of(ours.a_kill(count)), Arm.of(peer.a_kill(count))

    mine, theirs = arms("finished_lost")
    row = at_most(f"{what}: finished rollouts lost", "a kill", mine, 0)
    row.peer = theirs.figures[0]
    yield noted(row, f"{ours.losses.finished} were finished, its {peer.losses.finished}")
    mine, theirs = arms("refused")
    row = at_most(f"{what}: resumptions that failed until a checkpoint was deleted", "a kill", mine, 0)
    row.peer = theirs.figures[0]
    yield row
    yield _counts(f"{what}: rollouts cut short", *arms("in_flight_lost"))
    row = _counts(f"{what}: updates computed again", *arms("updates_redone"))
    yield noted(row, f"{ours.losses.updates} updates remain, its {peer.losses.updates}")


def _counts(name: str, ours: Arm, peer: Arm) -> Row:
    """Without a ratio, which counts that may be 0 have none of."""
    row = reported(name, "a kill", ours)
    row.peer = peer.figures[0]
    return row


def table(trials: Mapping[str, Trial]) -> Table:
    """A column a trainer, a line a count."""
    made = Table("", *trials)
    lines = {
        "kills": lambda one: one.kills,
        "updates in the end": lambda one: one.losses.updates,
        "the last update was reached": lambda one: one.reached,
        "updates computed again": lambda one: one.losses.updates_redone,
        "rollouts finished before a kill": lambda one: one.losses.finished,
        "of them lost, and sampled again": lambda one: one.losses.finished_lost,
        "rollouts cut short by a kill": lambda one: one.losses.in_flight_lost,
        "rollouts learned from twice": lambda one: one.losses.learned_twice,
        "resumptions that failed until a checkpoint was deleted": lambda one: one.refused,
        "updates missing or double in its log": lambda one: one.steps_amiss,
    }
    for words, count in lines.items():
        made.add_row(words, *(str(count(one)) for one in trials.values()))
    return made


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.resume", description=__doc__)
    parser.add_argument("--kills", type=int, default=6, help="of each trainer (default 6)")
    parser.add_argument("--trainer", action="append", choices=TRAINERS, help="may be repeated; default: all")
    asked = parser.parse_args()
    if asked.kills < 1:
        parser.error("--kills is at least 1")
    trials: dict[str, Trial] = {}
    for name in asked.trainer or TRAINERS:
        try:
            trials[name] = _tried(name, asked.kills)
        except PeerMissing as error:
            print(f"{name}: {error}", file=sys.stderr)
    Console().print(table(trials))
    ours = trials.get(OURS)
    return 1 if ours is not None and not ours.whole else 0


if __name__ == "__main__":
    sys.exit(main())
