"""`guiagent train`: a recipe, a farm of browsers for it, and progress."""

import asyncio
import tomllib
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from rich.console import Console

from eval.suites import find_suite
from guiagent import config as configuration
from guiagent.cli import Launch
from guiagent.cli.experiment import Experiment, OpenLearner, ShowTraining, judge_of
from guiagent.cli.farm import Farm, farm_of, own_farm
from guiagent.cli.policy import Sampling, open_policy
from guiagent.cli.progress import StageLine
from guiagent.errors import UsageError
from rewards.tasksets.miniwob import HEIGHT, WIDTH
from training.config import ExperienceConfig, JudgeFitConfig, SftConfig, TrainConfig, WarmStartConfig

if TYPE_CHECKING:
    from training.mirror import RunFolder
    from training.train import Trained


def recipe_path(recipe: str) -> Path:
    """A TOML file, or a shipped recipe by name."""
    shipped = Path(str(files("training") / "recipes"))
    for path in (Path(recipe), shipped / f"{recipe}.toml"):
        if path.is_file():
            return path
    known = ", ".join(sorted(path.stem for path in shipped.glob("*.toml")))
    raise UsageError(f"no recipe {recipe!r}: name a TOML file or one of {known}")


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


def _warm_start(config: WarmStartConfig, run: Path, console: Console) -> None:
    from guiagent.trajectories import TrajectoryStore
    from training.tiny import warm_start

    async def demonstrate() -> None:
        with TrajectoryStore(run / "demonstrations") as store, StageLine(console, "1/2", "demos") as line:
            if len(store) >= config.demonstrations:
                return line.update(f"{len(store):,} demonstrations are there already")
            async with own_farm(config.devices, WIDTH, HEIGHT) as farm:
                await warm_start.collect(
                    farm.client,
                    store,
                    config,
                    lambda p: line.update(f"{p.done:,} of {p.total:,} demonstrations"),
                )

    asyncio.run(demonstrate())
    with StageLine(console, "2/2", "fit") as line:
        warm_start.fit(
            run / "demonstrations",
            run / "policy",
            config,
            lambda p: line.update(f"step {p.done:,} of {p.total:,}  loss {p.loss:.3f}"),
        )
    console.print(f"the small policy is {run / 'policy'}")


def _fine_tune(config: SftConfig, run: Path, console: Console) -> None:
    import torch

    from training import sft

    torch.set_num_threads(1)
    with StageLine(console, "1/1", "fit") as line:
        sft.fine_tune(
            config,
            run / "policy",
            lambda p: line.update(f"step {p.step:,} of {p.steps:,}  loss {p.loss:.3f}"),
        )
    console.print(f"the policy is {run / 'policy'}", soft_wrap=True)


def _tell(config: ExperienceConfig, run: Path, console: Console) -> None:
    from rewards.model_server import ModelServer
    from training import distilling

    async def work() -> None:
        server = ModelServer(config.server)
        sampling = Sampling(temperature=config.temperature, dialect=config.dialect)
        try:
            with open_policy(config.policy, sampling) as policy:
                async with own_farm(config.devices, WIDTH, HEIGHT) as farm:
                    with StageLine(console, "1/1", "experiences") as line:
                        await distilling.learn(
                            config,
                            run,
                            farm.client,
                            policy,
                            server,
                            lambda p: line.update(
                                f"{p.groups:,} of {p.of:,} groups  success {p.success:5.1%}  "
                                f"{p.experiences} experiences  {p.unreadable} answers unreadable"
                            ),
                        )
        finally:
            await server.close()

    asyncio.run(work())
    console.print(f"the experiences are {run / 'experiences.jsonl'}", soft_wrap=True)


def _fit_judge(config: JudgeFitConfig, run: Path, console: Console) -> None:
    from guiagent.trajectories import TrajectoryStore
    from training.tiny import judge_fit

    async def play() -> None:
        with TrajectoryStore(run / "episodes") as store, StageLine(console, "1/2", "episodes") as line:
            if len(store) >= config.labelled:
                return line.update(f"{len(store):,} labelled episodes are there already")
            async with own_farm(config.devices, WIDTH, HEIGHT) as farm:
                await judge_fit.collect(
                    farm.client,
                    store,
                    config,
                    lambda p: line.update(f"{p.done:,} of {p.total:,} labelled episodes"),
                )

    asyncio.run(play())
    with StageLine(console, "2/2", "fit") as line:
        judge_fit.fit(
            run / "episodes",
            run / "judge",
            config,
            lambda p: line.update(f"step {p.done:,} of {p.total:,}  loss {p.loss:.3f}"),
        )
    console.print(f"the small judge is {run / 'judge'}")


# By the key that only they have, the recipes that are not of reinforcement learning.
OTHER_RECIPES: dict[str, tuple[type[BaseModel], Callable[[Any, Path, Console], None]]] = {
    "demonstrations": (WarmStartConfig, _warm_start),
    "labelled": (JudgeFitConfig, _fit_judge),
    "store": (SftConfig, _fine_tune),
    "experiences": (ExperienceConfig, _tell),
}
