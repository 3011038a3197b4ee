"""`guiagent train`: a recipe, a farm of browsers for it, and progress."""

import asyncio
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from guiagent import config as configuration
from guiagent.cli.farm import own_farm
from guiagent.cli.progress import StageLine
from guiagent.errors import UsageError
from rewards.tasksets.miniwob import HEIGHT, WIDTH
from training.config import TrainConfig, WarmStartConfig

if TYPE_CHECKING:
    from training import train as training


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
    if "demonstrations" in tomllib.loads(path.read_text()):
        _warm_start(configuration.load(WarmStartConfig, path, overrides), run, console)
    else:
        _reinforce(configuration.load(TrainConfig, path, overrides), run, console)


def _reinforce(config: TrainConfig, run: Path, console: Console) -> None:
    from training import train as training

    async def work() -> training.Trained:
        async with own_farm(config.rollout.devices, WIDTH, HEIGHT) as farm:
            console.print(
                f"farm      {config.rollout.devices} browsers  live page {farm.live_url}", soft_wrap=True
            )
            with StageLine(console, "1/1", "train") as line:
                return await training.train(config, run, farm.client, lambda p: line.update(training_line(p)))

    trained = asyncio.run(work())
    for refused in trained.refused:
        console.print(f"passed over a damaged checkpoint: {refused}", soft_wrap=True)
    console.print(
        f"trained {trained.step} steps on {trained.episodes} episodes; the policy is {trained.policy}"
    )


def training_line(progress: "training.Progress") -> str:
    """One update in one line."""
    p = progress
    return (
        f"step {p.step}  {p.episodes:,} episodes  {p.episodes_per_second:.0f}/s  success {p.success:5.1%}  "
        f"entropy {p.entropy:.2f}  staleness {p.staleness:.1f}  faults {p.faults}"
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
