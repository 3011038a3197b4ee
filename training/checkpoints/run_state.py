"""The state of a run: everything that a killed run needs to continue exactly from its last checkpoint."""

import asyncio
import copy
import json
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from guiagent.types import Trajectory
from rewards.curriculum import Curriculum
from training.checkpoints import checkpoint
from training.checkpoints.checkpoint import Loaded
from training.checkpoints.saver import Saver
from training.checkpoints.snapshot import Snapshot


class LearnerState(Protocol):
    """The part of `training.learner.learner.Learner` that checkpoints keep."""

    def state(self) -> dict[str, Any]: ...

    def snapshot(self, *, last: bool = False) -> Snapshot: ...

    def load(self, loaded: Loaded) -> None: ...


class ReplayState(Protocol):
    """The part of `training.replay.Replay` that checkpoints keep."""

    def state(self) -> dict[str, Any]: ...

    def restore(
        self, state: dict[str, Any] | None, store: Iterable[Trajectory], *, version: int = 0
    ) -> None: ...


@dataclass
class RunState:
    """The parts of a run that checkpoints keep, and its counters, in the `folder` of its checkpoints.

    The trajectory store is the other half: episodes committed after the checkpoint are offered again.
    """

    folder: Path
    learner: LearnerState
    replay: ReplayState
    curricula: Mapping[str, Curriculum]  # by platform
    rng: random.Random  # of the rollouts
    step: int = 0  # updates so far, and so the version of the weights
    seconds: float = 0.0  # of training, over all the run's sessions; `tick` brings it up to now
    recorded: int = 0  # episodes of the store that the lines of metrics include
    episodes: int = 0  # of the store
    env_steps: int = 0  # turns of the episodes that this run rolled out
    refused: tuple[str, ...] = ()  # damaged checkpoints that were passed over on the way
    _ticked: float = field(default_factory=time.monotonic)
    _saved: float = field(default_factory=time.monotonic)
    _saver: Saver = field(default_factory=Saver)

    def load(self, loaded: Loaded | None, store: Iterable[Trajectory]) -> None:
        """Restore every part from the checkpoint, if there is one; `store` has the later episodes as well.

        Raises InfrastructureError if the store lacks an episode that the checkpoint refers to.
        """
        if loaded is not None:
            self.step, self.refused = loaded.step, loaded.refused
            self.seconds = float(loaded.state["seconds"])
            self.recorded = loaded.state["told"]
            # Older checkpoints have one curriculum, of the one platform that a run had.
            curricula = loaded.state.get("curricula") or {"": loaded.state["curriculum"]}
            for platform, curriculum in self.curricula.items():
                curriculum.restore(curricula[platform])
            loaded.restore_rng({"rollouts": self.rng})
            self.learner.load(loaded)
        self.replay.restore(loaded.state["replay"] if loaded else None, store, version=self.step)

    async def begin_saving(self, *, last: bool = False) -> None:
        """Begin to write a checkpoint, and return when learning may go on: it is written beside it.

        One is written at a time. Raises InfrastructureError if the one before could not be written.
        """
        await asyncio.to_thread(self._saver.settle)
        self._saved = time.monotonic()
        # Read now, at one instant: rollouts go on while the learner's part is copied.
        state = json.loads(
            json.dumps(
                {
                    "seconds": self.seconds,
                    "replay": self.replay.state(),
                    "curricula": {name: one.state() for name, one in self.curricula.items()},
                    "learner": self.learner.state(),
                    "told": self.recorded,
                }
            )
        )
        rng, step = {"rollouts": copy.copy(self.rng)}, self.step

        def begin() -> None:
            snapshot = self.learner.snapshot(last=last)
            self._saver.begin(lambda: checkpoint.save(self.folder, step, snapshot, state=state, rng=rng))

        await asyncio.to_thread(begin)

    async def save(self) -> Path:
        """Write the run's last checkpoint, which has the policy's folder, and return its path."""
        await self.begin_saving(last=True)
        path = await asyncio.to_thread(self._saver.settle)
        assert path is not None
        return path

    async def finish_saving(self) -> None:
        """Wait for the checkpoint that is being written, however that ends."""
        await asyncio.to_thread(self._saver.wait)

    def is_due(self, minutes: float) -> bool:
        """Whether the last checkpoint is older than `minutes`; not while one is being written."""
        late = time.monotonic() - self._saved > 60 * minutes
        return self._saver.failed or (late and not self._saver.busy)

    def start_clock(self) -> None:
        self._ticked = time.monotonic()

    def tick(self) -> None:
        """Bring `seconds` up to now."""
        now = time.monotonic()
        self.seconds, self._ticked = self.seconds + now - self._ticked, now

    def count(self, committed: Iterable[Trajectory]) -> None:
        """Count committed episodes, and the turns of rollouts, whose trajectories belong to a group."""
        for trajectory in committed:
            self.episodes += 1
            self.env_steps += len(trajectory.steps) if trajectory.group else 0
