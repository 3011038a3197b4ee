"""Ways to train, each a `Train`: in this process, alone or as the first of several, or on a Ray cluster."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from guiagent.cli.common.farm import Farm
from guiagent.cli.common.judge import open_judge
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


@dataclass(frozen=True)
class TrainHere:
    """Trains in this process; with `followers` other ranks share the learner."""

    config: TrainConfig
    run: "RunFolder"
    followers: "FollowerRanks | None" = None

    async def __call__(self, farm: Farm, on_progress: OnProgress) -> "Trained":
        from training.launch.launcher import Launcher, OneProcess, WithFollowers
        from training.launch.wiring import train

        launcher: Launcher = OneProcess(self.config, farm.client)
        if self.followers is not None:
            launcher = WithFollowers(self.config, farm.client, self.followers)
        async with judge_of(self.config) as judge:
            return await train(self.config, self.run, launcher, on_progress, judge)


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
