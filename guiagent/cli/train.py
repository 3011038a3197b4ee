"""`guiagent train`: a recipe, a farm of browsers for it, and progress."""

import asyncio
import tomllib
from importlib.resources import files
from pathlib import Path

from rich.console import Console

from eval.suites import find_suite
from guiagent import config as configuration
from guiagent.cli.experiment import Experiment, ShowTraining, judge_of
from guiagent.cli.farm import own_farm
from guiagent.cli.progress import StageLine
from guiagent.errors import UsageError
from rewards.tasksets.miniwob import HEIGHT, WIDTH
from training.config import JudgeFitConfig, TrainConfig, WarmStartConfig


def recipe_path(recipe: str) -> Path:
    """A TOML file, or a shipped recipe by name."""
    shipped = Path(str(files("training") / "recipes"))
    for path in (Path(recipe), shipped / f"{recipe}.toml"):
        if path.is_file():
            return path
    known = ", ".join(sorted(path.stem for path in shipped.glob("*.toml")))
    raise UsageError(f"no recipe {recipe!r}: name a TOML file or one of {known}")


def train(recipe: str, run: Path, overrides: list[str]) -> None:
    path = recipe_path(recipe)
    console = Console()
    told = tomllib.loads(path.read_text())
    if "demonstrations" in told:
        _warm_start(configuration.load(WarmStartConfig, path, overrides), run, console)
        return
    if "labelled" in told:
        _fit_judge(configuration.load(JudgeFitConfig, path, overrides), run, console)
        return
    config = configuration.load(TrainConfig, path, overrides)
    if config.evaluation is not None:
        measured = config.evaluation
        title = f"Online RL by the recipe {path.stem}"
        Experiment(title, config, run, find_suite(measured.suite), measured.episodes).conduct(console)
    else:
        _reinforce(config, run, console)


def _reinforce(config: TrainConfig, run: Path, console: Console) -> None:
    from training import train as training

    async def work() -> training.Trained:
        async with judge_of(config) as judge, own_farm(config.rollout.devices, WIDTH, HEIGHT) as farm:
            console.print(
                f"farm      {config.rollout.devices} browsers  live page {farm.live_url}", soft_wrap=True
            )
            with StageLine(console, "1/1", "train") as line:
                return await training.train(config, run, farm.client, ShowTraining(console, line), judge)

    trained = asyncio.run(work())
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
