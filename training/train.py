"""The main loop of online RL: take groups -> learn -> publish the weights -> record, until the run is over.

Rollouts and updates overlap: episodes run on the event loop and sample in the engine's thread, updates run in
another thread, and the engine takes the weights of one update while the next one is computed.
`training.replay` bounds staleness by when it opens groups; groups that are too old all the same are dropped
and counted. With proposed tasks and a judge this is ZeroGUI's loop: propose -> roll out -> judge -> learn.

A run is a folder. A run that was killed continues when it is started again: the newest valid checkpoint has
weights, optimiser, replay, curriculum and random states (`training.checkpoints.run_state`); the trajectory
store has every committed episode that no checkpoint counts as used. `training.launch.wiring` builds the parts
of the loop.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from guiagent.errors import StoppedError
from guiagent.storage.trajectories import TrajectoryStore
from training.checkpoints.run_state import RunState
from training.config import TrainConfig
from training.engine.engine import Engine
from training.engine.publisher import Publisher
from training.learner.learner import Learner
from training.metrics.observer import Progress, RunObserver
from training.replay import Group, Replay
from training.rollout.dispatcher import RolloutDispatcher

_TAKE_TIMEOUT_S = 1.0


@dataclass(frozen=True)
class Trained:
    """A finished run."""

    policy: Path  # the final checkpoint's Hugging Face folder
    step: int
    seconds: float
    episodes: int
    refused: tuple[str, ...]  # damaged checkpoints that were passed over on the way


def budgets_spent(config: TrainConfig, step: int, seconds: float, env_steps: int) -> tuple[str, ...]:
    """Return the keys of the budgets that a run has used up; it is finished with the first of them."""
    spent = {
        "steps": step >= config.steps,
        "minutes": config.minutes is not None and seconds >= 60 * config.minutes,
        "env_steps": config.env_steps is not None and env_steps >= config.env_steps,
    }
    return tuple(key for key, used_up in spent.items() if used_up)


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Trainer:
    """The parts of a run in the order of the data flow, and the main loop over them."""

    config: TrainConfig
    rollouts: RolloutDispatcher
    store: TrajectoryStore
    replay: Replay
    learner: Learner
    weights: Callable[[], Mapping[str, Tensor]]  # the learner's, for the engine after every update
    engine: Engine
    observer: RunObserver
    state: RunState

    async def run(
        self, on_progress: Callable[[Progress], None], stop: Callable[[], bool] = _never
    ) -> Trained:
        """Train until `config.steps`, `minutes` or `env_steps`, or until `stop()`; save the last checkpoint.

        Raises what ends the rollouts or an update, such as InfrastructureError for a full disk and
        DivergedError for updates that diverge; and StoppedError, when all is saved, if it was `stop`.
        """
        state, phase = self.state, self.observer.phase
        publisher = Publisher(self.engine, self.rollouts.published)
        rollouts = asyncio.create_task(self.rollouts.run())
        state.start_clock()
        try:
            while groups := await self._take(rollouts, stop):
                with phase("learning"):
                    update = await asyncio.to_thread(self.learner.step, groups, self.store.frame)
                state.step += 1
                with phase("publishing"):
                    await publisher.publish(self.weights, state.step)
                state.tick()
                on_progress(self.observer.record(groups, update, self.rollouts))
                if state.is_due(self.config.checkpoint_minutes):
                    with phase("saving"):
                        await state.begin_saving()
            await publisher.settle()
        finally:
            rollouts.cancel()
            await asyncio.gather(rollouts, return_exceptions=True)
            await state.finish_saving()
        final = await state.save()
        if stop() and not self._finished():
            raise StoppedError(f"stopped at step {state.step}, saved in {final}; the same command goes on")
        return Trained(final / "model", state.step, state.seconds, len(self.store), state.refused)

    async def _take(self, rollouts: "asyncio.Task[None]", stop: Callable[[], bool]) -> list[Group]:
        """Wait for the next groups to learn from; return [] at the end of the run, or when it is to stop.

        Raises the error that ended the rollouts, if they have ended.
        """
        while not (self._finished() or stop()):
            with self.observer.phase("waiting"):
                groups = await asyncio.to_thread(
                    self.replay.take, current_version=self.state.step, timeout=_TAKE_TIMEOUT_S
                )
            self.rollouts.make_room()
            if rollouts.done():
                rollouts.result()
            if groups:
                return groups
            self.state.tick()
        return []

    def _finished(self) -> bool:
        state = self.state
        return bool(budgets_spent(self.config, state.step, state.seconds, state.env_steps))
