"""Opens a run's rollout workers, and the engine that they sample from, in this process."""

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from training.rollout.dispatcher import Look
from training.rollout.outside import OutsideAgents
from training.rollout.presence import presence
from training.rollout.worker import LocalRolloutWorker, RolloutWorker


class RolloutWorkers(NamedTuple):
    engine: Engine  # takes the weights of every update
    workers: Mapping[str, Sequence[RolloutWorker]]  # by platform
    committed: Callable[[Trajectory], None]  # called with each trajectory after its durable commit
    look: Look | None = None  # which platforms have lost their devices; None where there is one


class WorkerContext(NamedTuple):
    """What the trainer gives to the rollout workers."""

    run: Path
    encoder: Encoder  # shared with the learner, so that a screenshot prepared for sampling is reused there
    seed: int  # seed of sampling; another one each time the run is started
    tasksets: Mapping[str, Taskset]  # by platform
    keep_frame: Callable[[bytes], str]


def outside_agents(config: TrainConfig, policy: EnginePolicy) -> OutsideAgents | None:
    """Return what plays a worker's episodes if the config names an agent of somebody's."""
    agent = config.rollout.agent
    return None if agent is None else OutsideAgents(agent, policy)


@contextmanager
def local_workers(config: TrainConfig, farm: FarmClient, context: WorkerContext) -> Iterator[RolloutWorkers]:
    """Open the engine and the rollout workers in this process; each worker leases a device of `farm`."""
    with ExitStack() as held:
        engine = open_engine(config, context.encoder, context.run, seed=context.seed)
        held.callback(engine.close)
        policy = EnginePolicy(context.encoder, engine, config.rollout.history)
        workers = {
            name: [
                LocalRolloutWorker(
                    farm,
                    policy,
                    context.tasksets[name],
                    context.keep_frame,
                    f"rollout {n}",
                    platform.device,
                    outside_agents(config, policy),
                )
                for n in range(platform.devices)
            ]
            for name, platform in config.all_platforms().items()
        }
        kinds = {name: platform.device.kind for name, platform in config.all_platforms().items()}

        async def look() -> dict[str, str | None]:
            return presence((await farm.devices()).devices, kinds)

        yield RolloutWorkers(engine, workers, lambda trajectory: None, look if len(kinds) > 1 else None)
