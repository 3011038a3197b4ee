"""`guiagent train` with a ledger: `python -m tests.bench.resumed.ours LEDGER ARGUMENT...`.

The command is the real one, on real browsers; only what passes three of its functions is written down.
"""

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from guiagent.cli import main
from guiagent.types import Trajectory
from tests.bench.resumed.ledger import Ledger
from training.checkpoints.run_state import RunState
from training.learner.learner import Learner, Update
from training.replay import Group
from training.rollout.worker import LocalRolloutWorker


def witness(ledger: Ledger) -> None:
    """Have the run's parts tell the ledger."""
    step = 0
    load, learn, play = RunState.load, Learner.step, LocalRolloutWorker.play

    @functools.wraps(load)
    def loading(self: RunState, *args: Any, **kwargs: Any) -> None:
        nonlocal step
        load(self, *args, **kwargs)
        step = self.step
        ledger.started(step)

    @functools.wraps(learn)
    def learning(self: Learner, groups: Sequence[Group], *args: Any, **kwargs: Any) -> Update:
        nonlocal step
        done = learn(self, groups, *args, **kwargs)
        step += 1
        ledger.learned(step, [one.id for group in groups for one in group.sampled])
        return done

    @functools.wraps(play)
    async def playing(self: LocalRolloutWorker, *args: Any, **kwargs: Any) -> Trajectory:
        ledger.began(1)
        played = await play(self, *args, **kwargs)
        ledger.finished([played.id])
        return played

    RunState.load, Learner.step, LocalRolloutWorker.play = loading, learning, playing  # type: ignore[method-assign]


if __name__ == "__main__":
    witness(Ledger(Path(sys.argv[1])))
    sys.argv[1:2] = []
    main()
