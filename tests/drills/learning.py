"""Short runs of the demo's recipe on a few pages, each of another seed, measured before and after."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from eval.results import SuiteResult
from eval.suites.suite import Suite
from guiagent import config as configuration
from guiagent.cli.common.farm import Farm, farm_of
from guiagent.cli.common.policy import PolicySettings
from guiagent.cli.common.progress import StageLine
from guiagent.cli.evaluate.evaluator import Evaluator
from guiagent.cli.train.launch import TrainHere
from guiagent.cli.train.recipes import recipe_path
from guiagent.seeds import REINFORCEMENT, of_run
from rewards.tasksets.miniwob import HEIGHT, WIDTH
from training.checkpoints.mirror import RunFolder
from training.config import TrainConfig


def suite_of(pages: Sequence[str], episodes: int) -> Suite:
    """These pages on held-out seeds."""
    return Suite("learning", "miniwob", tuple(pages), (), episodes, "browser", screen=(WIDTH, HEIGHT))


def learn(
    folder: Path, seeds: Sequence[int], suite: Suite, steps: int, devices: int = 8
) -> list[tuple[SuiteResult, SuiteResult]]:
    """Before and after `steps` updates on the suite's pages, for each seed; the same farm serves all."""
    configs = [_config(seed, suite, steps, devices) for seed in seeds]

    async def work() -> list[tuple[SuiteResult, SuiteResult]]:
        async with farm_of(configs[0]) as farm:
            return [await _one(folder / str(config.seed), config, suite, farm) for config in configs]

    return asyncio.run(work())


def _config(seed: int, suite: Suite, steps: int, devices: int) -> TrainConfig:
    changes = [
        f"seed={seed}",
        f"rollout.seed={of_run(REINFORCEMENT.start, seed)}",
        f"rollout.devices={devices}",
        f"tasks={[*suite.tasks]}",
        f"steps={steps}",
    ]
    return configuration.load(TrainConfig, recipe_path("arpo-demo"), changes)


async def _one(run: Path, config: TrainConfig, suite: Suite, farm: Farm) -> tuple[SuiteResult, SuiteResult]:
    settings = PolicySettings.of_training(config)
    evaluator = Evaluator(suite, farm.client, config.rollout.devices, settings)
    with StageLine(Console(), str(config.seed), "learning") as line:

        async def measured(name: str, label: str) -> SuiteResult:
            return await evaluator.measure(name, label, run / "eval" / label, suite.episodes, line)

        before = await measured(config.policy, "before")
        way = TrainHere(config, RunFolder(run))
        trained = await way(farm, lambda progress: line.update(f"step {progress.step} of {config.steps}"))
        after = await measured(str(trained.policy), "after")
        line.update(f"{_rate(before):.0%} to {_rate(after):.0%}")
    return before, after


def _rate(result: SuiteResult) -> float:
    return result.pooled(trained=True).scheduled.rate
