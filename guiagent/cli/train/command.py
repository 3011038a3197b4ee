"""`guiagent train`: loads a recipe, opens a farm for it, trains, and shows progress."""

import asyncio
import os
import tomllib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel
from rich.console import Console

from eval.suites import find_suite
from guiagent import config as configuration
from guiagent.cli.common.farm import farm_of, named_devices
from guiagent.cli.common.progress import StageLine
from guiagent.cli.common.stopping import stoppable
from guiagent.cli.common.terminal import terminal
from guiagent.cli.train import Launch
from guiagent.cli.train.experiment import Experiment, ShowTraining
from guiagent.cli.train.launch import Train, TrainHere, TrainOnRay, WithRunReleased, require_possible
from guiagent.cli.train.recipes import OTHER_RECIPES, Launching, recipe_path
from guiagent.errors import UsageError
from training import placement
from training.config import TrainConfig

if TYPE_CHECKING:
    from training.launch.leading import FollowerRanks
    from training.train import Trained

Recipe = TypeVar("Recipe", bound=BaseModel)


def train(
    recipe: str,
    run: str,
    overrides: list[str],
    launch: Launch = "process",
    processes: int | None = None,
    fork_from: Path | None = None,
) -> None:
    """Carry out a recipe in `run`, a folder or a URL. Only `torchrun` heeds `processes`.

    With `fork_from` a new run begins with that one's weights. Before a folder is made or a device started,
    all is checked that can be known.

    Raises UsageError for an unknown recipe, a bad config, or a launch that the recipe cannot use.
    """
    path = recipe_path(recipe)
    console = terminal()
    arguments = ["train", "--launch", launch, "--recipe", str(path), "--run", run]
    arguments += [word for override in overrides for word in ("--set", override)]
    recipe_keys = tomllib.loads(path.read_text())
    for key, (kind, work) in OTHER_RECIPES.items():
        if key in recipe_keys:
            launching = Launching(launch, processes or placement.PROCESSES, arguments)
            other = configuration.load(kind, path, overrides)
            work(_forked(other, run, fork_from, console), _folder(run), console, launching)
            return
    config = configuration.load(TrainConfig, path, overrides)
    if launch == "ray" and config.platforms:
        raise UsageError("--launch ray has one kind of device: leave out [[platforms]], or --launch ray")
    require_possible(config, elsewhere=launch == "ray" and config.ray.address is not None)
    config = placement.placed(config, site_of(launch, processes))
    config = _forked(config, run, fork_from, console)
    if launch == "torchrun":
        _in_processes(config, run, path.stem, console, placement.processes(config, processes), arguments)
    elif launch == "ray":
        _on_ray(config, run, path.stem, console)
    else:
        _take_gpu(config, 0)
        _here(config, run, path.stem, console)


def _forked(config: Recipe, run: str, source: Path | None, console: Console) -> Recipe:
    """Return the config with the policy that a forked run begins with, which is copied first if it is new."""
    if source is not None and "policy" not in type(config).model_fields:
        raise UsageError("this recipe begins with no policy: leave out --fork-from")
    if "://" in run or "policy" not in type(config).model_fields:
        if source is not None:
            raise UsageError(f"a fork is made in a folder, and {run} is a URL: name a folder")
        return config
    from training.launch import forking

    folder = Path(run)
    if (policy := forking.forked_policy(folder, source)) is None:
        return config
    if (origin := forking.origin_of(folder)) is not None:
        console.print(
            f"fork      of {origin['run']} at step {origin['step']}", soft_wrap=True, highlight=False
        )
    return config.model_copy(update={"policy": str(policy)})


def site_of(launch: Launch, processes: int | None) -> placement.Site:
    """Count the GPUs here. On Ray they are other machines': the cluster waits for those that it lacks."""
    import torch

    world = int(os.environ.get("WORLD_SIZE", "0"))  # torchrun's own word, in a process that it started
    processes = (world or processes) if launch == "torchrun" else None
    return placement.Site(launch, processes, None if launch == "ray" else torch.cuda.device_count())


def _take_gpu(config: TrainConfig, rank: int) -> int | None:
    """Work on the GPU of this trainer, with its share of the memory; None without a placement."""
    if config.placement is None:
        return None
    import torch

    gpu, share = placement.gpu_of(config.placement, rank), placement.share_of(config, rank)
    torch.cuda.set_device(gpu)
    if share < 1:
        torch.cuda.set_per_process_memory_fraction(share, gpu)
    return gpu


def _folder(run: str) -> Path:
    if "://" in run:
        raise UsageError(f"{run} is a URL, and this recipe is not mirrored: name a folder")
    return Path(run)


def _here(
    config: TrainConfig, run: str, recipe: str, console: Console, followers: "FollowerRanks | None" = None
) -> None:
    from training.checkpoints.mirror import run_folder

    with run_folder(run, _warn(console)) as kept:
        if not _left_to_do(config, kept.path, console):
            return
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
    with joined(gpu=_take_gpu(config, int(os.environ["RANK"]))) as ranks:
        if ranks.rank:
            with stoppable(quietly=True):  # rank 0 ends the run, and with it this process
                torchrun.follow(config, ranks)
        else:
            with torchrun.leading(ranks) as followers:
                _here(config, run, recipe, console, followers)


def _on_ray(config: TrainConfig, run: str, recipe: str, console: Console) -> None:
    from training.checkpoints.mirror import run_folder

    warn = _warn(console)
    if "://" not in run and not _left_to_do(config, Path(run), console):
        return
    train_on_ray = TrainOnRay(config, run, warn)
    if config.evaluation is None:
        asyncio.run(_reinforce(config, train_on_ray, console))
        return
    with ExitStack() as held:
        folder = held.enter_context(run_folder(run, warn)).path
        released = WithRunReleased(train_on_ray, run, folder, held, warn)
        _experiment(config, folder, recipe, released).conduct(console)


def _left_to_do(config: TrainConfig, run: Path, console: Console) -> bool:
    """Whether a run has something left to do; if not, say what it came to. No device is needed for that.

    Raises what `training.launch.resuming.standing` raises.
    """
    from training.launch.resuming import standing

    step, done = standing(config, run)
    if done is None:
        if step:
            told = f"{config.update.algorithm}, learning rate {config.update.learning_rate:g}"
            console.print(f"resume    from step {step}: {told}", soft_wrap=True, highlight=False)
        return True
    if config.evaluation is not None:  # an experiment has more to do than to train
        return True
    _show_finished(config, done, console)
    return False


def _show_finished(config: TrainConfig, done: "Trained", console: Console) -> None:
    from training.train import budgets_spent

    spent = budgets_spent(config, done.step, done.seconds, 0) or ("env_steps",)
    limits = ", ".join(f"{key} = {getattr(config, key):g}" for key in spent)
    ended = datetime.fromtimestamp(done.policy.parent.stat().st_mtime).strftime("%Y-%m-%d %H:%M")
    console.print(
        f"this run is finished since {ended}: step {done.step} on {done.episodes:,} episodes, with {limits}; "
        f"its policy is {done.policy}; to go on, raise it: --set {spent[0]}=...",
        soft_wrap=True,
        highlight=False,
    )


def _experiment(config: TrainConfig, run: Path, recipe: str, train: Train) -> Experiment:
    measured = config.evaluation
    assert measured is not None
    suite = find_suite(measured.suite, measured.tasks)
    return Experiment(f"Online RL by the recipe {recipe}", config, run, (suite,), measured.episodes, train)


async def _reinforce(config: TrainConfig, train: Train, console: Console) -> None:
    """Train without an evaluation before and after."""
    async with farm_of(config) as farm:
        console.print(f"farm      {named_devices(config)}  live page {farm.live_url}", soft_wrap=True)
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
