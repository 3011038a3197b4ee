"""Ways to train, each a `Train`: in this process, alone or as the first of several, or on a Ray cluster."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from eval.suites import find_suite
from guiagent.cli.common.farm import Farm
from guiagent.cli.common.judge import open_judge
from guiagent.cli.common.stopping import stoppable
from guiagent.errors import UsageError
from rewards.judges.step import step_judge
from rewards.judges.verdicts import Judge
from training.config import TrainConfig

if TYPE_CHECKING:
    from training.checkpoints.mirror import RunFolder
    from training.launch.leading import FollowerRanks
    from training.metrics.observer import Progress
    from training.train import Trained

OnProgress = Callable[["Progress"], None]
# Trains on the devices of a farm, and calls back after every update.
Train = Callable[[Farm, OnProgress], Awaitable["Trained"]]


@asynccontextmanager
async def judge_of(config: TrainConfig) -> AsyncIterator[Judge | None]:
    """Open the judge that gives a run its rewards; None if the tasks' own checks do."""
    judge = open_judge(config.judge) if config.judge is not None else None
    try:
        yield judge
    finally:
        if judge is not None:
            await judge.close()


def require_possible(config: TrainConfig, *, elsewhere: bool = False) -> None:
    """Raise what is wrong with a config as far as it can be known before a folder is made or a farm started.

    Raises UsageError or InfrastructureError: `training.consistency.require_possible`, an unknown evaluation
    suite, a judge without a model, a tracker that is not installed. `elsewhere`: trained on a cluster
    of other machines.
    """
    from training.consistency import require_possible as require
    from training.metrics.trackers import require_tracker

    require(config, elsewhere=elsewhere)
    if not elsewhere:
        require_tracker(config.tracker)
    if config.evaluation is not None:
        suite = find_suite(config.evaluation.suite, config.evaluation.tasks)
        if not config.devices_of(suite.device):
            raise UsageError(
                f"the suite {suite.name} needs devices of kind {suite.device}, and no platform has them: "
                "name another by evaluation.suite, or add the platform"
            )
        suite.seeds(config.evaluation.episodes)
    asyncio.run(_open_judges(config))


async def _open_judges(config: TrainConfig) -> None:
    async with judge_of(config):
        if config.step_judge is not None:
            await step_judge(config.step_judge).close()


@dataclass(frozen=True)
class TrainHere:
    """Trains in this process; with `followers` other ranks share the learner. Ctrl-C saves and ends it."""

    config: TrainConfig
    run: "RunFolder"
    followers: "FollowerRanks | None" = None

    async def __call__(self, farm: Farm, on_progress: OnProgress) -> "Trained":
        from training.launch.launcher import Launcher, OneProcess, WithFollowers
        from training.launch.wiring import train

        farm.tell(self.run.path)
        launcher: Launcher = OneProcess(self.config, farm.client)
        if self.followers is not None:
            launcher = WithFollowers(self.config, farm.client, self.followers)
        async with judge_of(self.config) as judge:
            with stoppable() as stop:
                return await train(self.config, self.run, launcher, on_progress, judge, stop)


@dataclass(frozen=True)
class TrainOnRay:
    """Trains on a Ray cluster, in `run`: a folder that all of its nodes share, or a URL."""

    config: TrainConfig
    run: str
    on_warning: Callable[[str], None]

    async def __call__(self, farm: Farm, on_progress: OnProgress) -> "Trained":
        from training.launch.ray import train_on_ray

        at, judge = (farm.url, farm.token), partial(judge_of, self.config)
        return await train_on_ray(self.config, self.run, at, on_progress, self.on_warning, judge)


@dataclass(frozen=True)
class WithRunReleased:
    """Lends a run that is open here (`held`, in `folder`) to `train`, since a run has one writer at a time.

    Afterwards the run is open here again, downloaded if it is at a URL, and so the trained policy is here.
    """

    train: Train
    run: str
    folder: Path
    held: ExitStack
    on_warning: Callable[[str], None]

    async def __call__(self, farm: Farm, on_progress: OnProgress) -> "Trained":
        from training.checkpoints.mirror import hand_over, run_folder

        self.held.close()
        hand_over(self.folder)
        trained = await self.train(farm, on_progress)
        self.held.enter_context(run_folder(self.run, self.on_warning))
        return replace(trained, policy=self.folder.joinpath(*trained.policy.parts[-3:]))
