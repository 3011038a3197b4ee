"""`guiagent seeds`: collects a policy's own successes under an expert's plans, for the replay of a recipe."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from guiagent import config as configuration
from guiagent.cli.common.farm import farm_of
from guiagent.cli.common.progress import StageLine
from guiagent.cli.common.terminal import terminal
from guiagent.cli.train.recipes import recipe_path
from guiagent.errors import InfrastructureError, UsageError
from guiagent.storage.trajectories import TrajectoryStore
from training.config import TrainConfig


def seeds(recipe: str, experts: Path, run: Path, attempts: int, overrides: Sequence[str]) -> None:
    """Collect the seeds that are not there yet.

    Raises UsageError for a recipe without [planner], and what `training.experience.bepa_seeds.make_seeds`
    raises.
    """
    console = terminal(highlight=False)
    config = configuration.load(TrainConfig, recipe_path(recipe), overrides)
    if config.planner is None:
        raise UsageError("say which model makes plans: --set planner.url=URL --set planner.model=NAME")
    if config.platforms:
        raise UsageError("seeds are collected on one kind of device: leave out [[platforms]]")
    try:
        from rewards.judges.model_server import ModelServer
    except ModuleNotFoundError as error:
        raise InfrastructureError(f"{error.name} is not installed: pip install 'guiagent[judge]'") from None
    from training.experience.bepa_seeds import make_seeds

    server = ModelServer(config.planner)

    async def work(store: TrajectoryStore, line: StageLine) -> int:
        try:
            async with farm_of(config) as farm:
                return await make_seeds(
                    config,
                    store,
                    run,
                    farm.client,
                    server,
                    attempts,
                    lambda p: line.update(
                        f"{p.tasks:,} of {p.of:,} tasks  {p.seeds:,} seeds  {p.episodes:,} episodes"
                    ),
                )
        finally:
            await server.close()

    with TrajectoryStore(experts, readonly=True) as store, StageLine(console, "1/1", "seeds") as line:
        made = asyncio.run(work(store, line))
    use = f"update.seeds={run / 'trajectories'}" if made else "the policy never succeeded, plan or no plan"
    console.print(f"{made} seeds: {use}", soft_wrap=True)
