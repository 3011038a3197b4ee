"""Recipes by name, and the commands of those that are not of online RL: warm starts, fine-tuning, judges."""

import asyncio
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.console import Console

from guiagent.cli.farm import own_farm
from guiagent.cli.policy import Sampling, open_policy
from guiagent.cli.progress import StageLine
from guiagent.errors import UsageError
from rewards.tasksets.miniwob import HEIGHT, WIDTH
from training.config import ExperienceConfig, JudgeFitConfig, SftConfig, WarmStartConfig


def recipe_path(recipe: str) -> Path:
    """A TOML file, or a shipped recipe by name."""
    shipped = Path(str(files("training") / "recipes"))
    for path in (Path(recipe), shipped / f"{recipe}.toml"):
        if path.is_file():
            return path
    known = ", ".join(sorted(path.stem for path in shipped.glob("*.toml")))
    raise UsageError(f"no recipe {recipe!r}: name a TOML file or one of {known}")


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
