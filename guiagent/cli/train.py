"""`guiagent train`: a recipe, a farm of browsers for it, and progress."""

import asyncio
import tomllib
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from eval.suites import find_suite
from guiagent import config as configuration
from guiagent.cli import Launch
from guiagent.cli.experiment import Experiment, OpenLearner, ShowTraining, judge_of
from guiagent.cli.farm import Farm, farm_of
from guiagent.cli.progress import StageLine
from guiagent.cli.recipes import OTHER_RECIPES, recipe_path
from guiagent.errors import UsageError
from training.config import TrainConfig

if TYPE_CHECKING:
    from training.mirror import RunFolder
    from training.train import Trained


def train(
    recipe: str, run: str, overrides: list[str], launch: Launch = "process", processes: int = 2
) -> None:
    path = recipe_path(recipe)
    console = Console()
    told = tomllib.loads(path.read_text())
    for key, (kind, work) in OTHER_RECIPES.items():
        if key in told:
            work(configuration.load(kind, path, overrides), _folder(run), console)
            return
    config = configuration.load(TrainConfig, path, overrides)
    if launch == "torchrun":
        again = ["train", "--launch", launch, "--recipe", str(path), "--run", run]
        again += [word for override in overrides for word in ("--set", override)]
        _in_processes(config, run, path.stem, console, processes, again)
    elif launch == "ray":
        _on_ray(config, run, console)
    else:
        _conduct(config, run, path.stem, console)


def _folder(run: str) -> Path:
    if "://" in run:
        raise UsageError(f"{run} is a URL, and this recipe is not mirrored: name a folder")
    return Path(run)


def _conduct(
    config: TrainConfig, run: str, recipe: str, console: Console, open_learner: OpenLearner | None = None
) -> None:
    from training.mirror import run_folder

    with run_folder(run, _warn(console)) as kept:
        if config.evaluation is not None:
            measured = config.evaluation
            title, suite = f"Online RL by the recipe {recipe}", find_suite(measured.suite)
            experiment = Experiment(
                title, config, kept.path, suite, measured.episodes, open_learner=open_learner
            )
            experiment.conduct(console)
        else:
            _reinforce(config, kept, console, open_learner)


def _warn(console: Console) -> Callable[[str], None]:
    return lambda warning: console.print(f"warning   {warning}", soft_wrap=True)


def _on_ray(config: TrainConfig, run: str, console: Console) -> None:
    """A recipe's suite is not measured here: `guiagent eval` does that to the policy that comes of it."""
    from training.launch.ray import train_on_ray

    held = AsyncExitStack()
    with asyncio.Runner() as runner:
        farm = runner.run(held.enter_async_context(farm_of(config)))
        try:
            _show_farm(config, farm, console)
            with StageLine(console, "1/1", "train") as line:
                show, warn = ShowTraining(console, line), _warn(console)
                at = farm.url, farm.token
                trained = train_on_ray(config, run, at, show, warn, partial(judge_of, config))
        finally:
            runner.run(held.aclose())
    _show_trained(trained, console)


def _in_processes(
    config: TrainConfig, run: str, recipe: str, console: Console, processes: int, again: list[str]
) -> None:
    """The same command in several processes: the first one conducts the run, the others learn with it."""
    from training.launch import torchrun
    from training.parallel import joined

    if not torchrun.launched():
        torchrun.start(processes, again)
        return
    with joined() as ranks:
        if ranks.rank:
            torchrun.follow(config, ranks)
        else:
            with torchrun.leading(ranks) as open_learner:
                _conduct(config, run, recipe, console, open_learner)


def _reinforce(
    config: TrainConfig, run: "RunFolder", console: Console, open_learner: OpenLearner | None
) -> None:
    from training import train as training
    from training.crew import crew_here
    from training.learner import Learner

    async def work() -> training.Trained:
        async with judge_of(config) as judge, farm_of(config) as farm:
            _show_farm(config, farm, console)
            with StageLine(console, "1/1", "train") as line:
                show = ShowTraining(console, line)

                def progress(update: training.Progress) -> None:
                    run.check()
                    show(update)

                return await training.train(
                    config,
                    run.path,
                    crew_here(config, farm.client),
                    progress,
                    judge,
                    open_learner or Learner,
                )

    _show_trained(asyncio.run(work()), console)


def _show_farm(config: TrainConfig, farm: Farm, console: Console) -> None:
    devices = f"{config.rollout.devices} of kind {config.device.kind}"
    console.print(f"farm      {devices}  live page {farm.live_url}", soft_wrap=True)


def _show_trained(trained: "Trained", console: Console) -> None:
    for refused in trained.refused:
        console.print(f"passed over a damaged checkpoint: {refused}", soft_wrap=True)
    console.print(
        f"trained {trained.step} steps on {trained.episodes} episodes; the policy is {trained.policy}"
    )
