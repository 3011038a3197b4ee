"""`guiagent train`: loads a recipe, opens a farm for it, trains, and shows progress."""

import asyncio
import tomllib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from eval.suites import find_suite
from guiagent import config as configuration
from guiagent.cli.common.farm import farm_of
from guiagent.cli.common.progress import StageLine
from guiagent.cli.train import Launch
from guiagent.cli.train.experiment import Experiment, ShowTraining
from guiagent.cli.train.launch import Train, TrainHere, TrainOnRay, WithRunReleased
from guiagent.cli.train.recipes import OTHER_RECIPES, Launching, recipe_path
from guiagent.errors import UsageError
from training.config import TrainConfig

if TYPE_CHECKING:
    from training.launch.leading import FollowerRanks
    from training.train import Trained


def train(
    recipe: str, run: str, overrides: list[str], launch: Launch = "process", processes: int = 2
) -> None:
    """Carry out a recipe in `run`, a folder or a URL. Only `torchrun` heeds `processes`.

    Raises UsageError for an unknown recipe, a bad config, or a launch that the recipe cannot use.
    """
    path = recipe_path(recipe)
    console = Console()
    arguments = ["train", "--launch", launch, "--recipe", str(path), "--run", run]
    arguments += [word for override in overrides for word in ("--set", override)]
    recipe_keys = tomllib.loads(path.read_text())
    for key, (kind, work) in OTHER_RECIPES.items():
        if key in recipe_keys:
            launching = Launching(launch, processes, arguments)
            work(configuration.load(kind, path, overrides), _folder(run), console, launching)
            return
    config = configuration.load(TrainConfig, path, overrides)
    if launch == "torchrun":
        _in_processes(config, run, path.stem, console, processes, arguments)
    elif launch == "ray":
        _on_ray(config, run, path.stem, console)
    else:
        _here(config, run, path.stem, console)


def _folder(run: str) -> Path:
    if "://" in run:
        raise UsageError(f"{run} is a URL, and this recipe is not mirrored: name a folder")
    return Path(run)


def _here(
    config: TrainConfig, run: str, recipe: str, console: Console, followers: "FollowerRanks | None" = None
) -> None:
    from training.checkpoints.mirror import run_folder

    with run_folder(run, _warn(console)) as kept:
        train_here = TrainHere(config, kept, followers)
        if config.evaluation is not None:
            _experiment(config, kept.path, recipe, train_here).conduct(console)
        else:
            asyncio.run(_reinforce(config, train_here, console))


def _in_processes(
    config: TrainConfig, run: str, recipe: str, console: Console, processes: int, arguments: Sequence[str]
) -> None:
    """Run this command in several processes: the first one leads the run, the others share its learner."""
    from training.distributed.parallel import joined
    from training.launch import torchrun

    if not torchrun.launched():
        torchrun.start(processes, arguments)
        return
    with joined() as ranks:
        if ranks.rank:
            torchrun.follow(config, ranks)
        else:
            with torchrun.leading(ranks) as followers:
                _here(config, run, recipe, console, followers)


def _on_ray(config: TrainConfig, run: str, recipe: str, console: Console) -> None:
    from training.checkpoints.mirror import run_folder

    warn = _warn(console)
    train_on_ray = TrainOnRay(config, run, warn)
    if config.evaluation is None:
        asyncio.run(_reinforce(config, train_on_ray, console))
        return
    with ExitStack() as held:
        folder = held.enter_context(run_folder(run, warn)).path
        released = WithRunReleased(train_on_ray, run, folder, held, warn)
        _experiment(config, folder, recipe, released).conduct(console)


def _experiment(config: TrainConfig, run: Path, recipe: str, train: Train) -> Experiment:
    measured = config.evaluation
    assert measured is not None
    title, suite = f"Online RL by the recipe {recipe}", find_suite(measured.suite)
    return Experiment(title, config, run, suite, measured.episodes, train)


async def _reinforce(config: TrainConfig, train: Train, console: Console) -> None:
    """Train without an evaluation before and after."""
    async with farm_of(config) as farm:
        devices = f"{config.rollout.devices} of kind {config.device.kind}"
        console.print(f"farm      {devices}  live page {farm.live_url}", soft_wrap=True)
        with StageLine(console, "1/1", "train") as line:
            trained = await train(farm, ShowTraining(console, line))
    _show(trained, console)


def _show(trained: "Trained", console: Console) -> None:
    for refused in trained.refused:
        console.print(f"passed over a damaged checkpoint: {refused}", soft_wrap=True)
    console.print(
        f"trained {trained.step} steps on {trained.episodes} episodes; the policy is {trained.policy}"
    )


def _warn(console: Console) -> Callable[[str], None]:
    return lambda warning: console.print(f"warning   {warning}", soft_wrap=True)
