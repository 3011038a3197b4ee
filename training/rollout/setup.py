"""Opens a run's rollout workers, and the engine that they sample from, in this process."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from guiagent.client import FarmClient
from guiagent.protocols import Taskset
from guiagent.types import Trajectory
from training.config import TrainConfig
from training.engine.engine import Engine
from training.engine.factory import open_engine
from training.engine.policy import EnginePolicy
from training.inputs.encoder import Encoder
from training.rollout.worker import LocalRolloutWorker, RolloutWorker


class RolloutWorkers(NamedTuple):
    engine: Engine  # takes the weights of every update
    workers: Sequence[RolloutWorker]
    committed: Callable[[Trajectory], None]  # called with each trajectory after its durable commit


class WorkerContext(NamedTuple):
    """What the trainer gives to the rollout workers."""

    run: Path
    encoder: Encoder  # shared with the learner, so that a screenshot prepared for sampling is reused there
    seed: int  # seed of sampling; another one each time the run is started
    taskset: Taskset
    keep_frame: Callable[[bytes], str]


@contextmanager
def local_workers(config: TrainConfig, farm: FarmClient, context: WorkerContext) -> Iterator[RolloutWorkers]:
    """Open the engine and the rollout workers in this process; each worker leases a device of `farm`."""
    with ExitStack() as held:
        engine = open_engine(config, context.encoder, context.run, seed=context.seed)
        held.callback(engine.close)
        policy = EnginePolicy(context.encoder, engine, config.rollout.history)
        workers = [
            LocalRolloutWorker(
                farm, policy, context.taskset, context.keep_frame, f"rollout {n}", config.device
            )
            for n in range(config.rollout.devices)
        ]
        yield RolloutWorkers(engine, workers, lambda trajectory: None)
