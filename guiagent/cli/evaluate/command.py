"""`guiagent eval`: benchmarks a policy on a suite beside the baselines; continues an interrupted run."""

import asyncio
from pathlib import Path

import xxhash
from rich.console import Console

from eval.report.page import RunSummary, write_report, write_summary
from eval.report.table import print_table
from eval.report.viewer import select
from eval.results import Comparison, SuiteResult
from eval.suites import find_suite
from guiagent.cli.common.farm import own_farm
from guiagent.cli.common.memory import PeakMemory
from guiagent.cli.common.policy import BASELINES, PolicySettings
from guiagent.cli.common.progress import StageLine
from guiagent.cli.common.provenance import commit
from guiagent.cli.evaluate.evaluator import Evaluator
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Trajectory
from training.config import checkpoint_folder


def label_of(name: str, settings: PolicySettings) -> str:
    """Return a label for the results of a policy, so that those of different policies are never mixed.

    It is a baseline's name, or changes with a checkpoint's weights and the experiences in its prompts.
    """
    if name in BASELINES:
        return name
    model = name.replace("/", "_") if "://" in name else _digest_of(name)
    experiences = settings.experiences
    return model if experiences is None else f"{model}-told-{experiences.digest[:8]}"


def _digest_of(name: str) -> str:
    digest = xxhash.xxh3_64()
    for weights in sorted(checkpoint_folder(name).glob("*.safetensors")):  # a large model has several
        with weights.open("rb") as file:
            while chunk := file.read(1 << 24):
                digest.update(chunk)
    return f"policy-{digest.hexdigest()[:8]}"


def evaluate(
    policy: str, suite_name: str, run: Path, episodes: int, devices: int, settings: PolicySettings
) -> None:
    """Measure a policy and the baselines, print the table and write `report.html` and `summary.json`."""
    suite = find_suite(suite_name)
    console = Console()

    async def work() -> list[SuiteResult]:
        async with own_farm(devices, *suite.screen, kind=suite.device) as farm:
            console.print(f"farm      {devices} {suite.device}s  live page {farm.live_url}", soft_wrap=True)
            results = []
            beside = [name for name in BASELINES if name != "oracle" or suite.oracle]
            names = (policy, *(name for name in beside if name != policy))
            evaluator = Evaluator(suite, farm.client, devices, settings)
            with StageLine(console, "1/1", "eval") as line:
                for name in names:
                    label = label_of(name, settings)
                    results.append(await evaluator.measure(name, label, run / label, episodes, line))
            return results

    with PeakMemory() as memory:
        first, *baselines = asyncio.run(work())
    print_table([first, *baselines], console)
    with TrajectoryStore(run / first.label / "trajectories", readonly=True) as store:
        trajectories = list(store)
        summary = RunSummary(
            title=f"{policy} on {suite.name}",
            commit=commit(),
            wall_seconds=sum(trajectory.seconds for trajectory in trajectories),
            episodes=sum(len(result.episodes) for result in (first, *baselines)),
            env_steps=sum(len(trajectory.steps) for trajectory in trajectories),
            peak_memory_mb=memory.megabytes,
            config={
                "policy": policy,
                "episodes": episodes,
                "temperature": settings.temperature,
                "dialect": settings.dialect,
                "history": settings.history.model_dump(),
                "experiences": list(settings.experiences.entries.values()) if settings.experiences else [],
            },
        )
        comparison = Comparison(after=first, baselines=tuple(baselines))
        none: list[Trajectory] = []
        write_report(
            run / "report.html", summary, comparison, [], select(none, trajectories, 12), store.frame
        )
    write_summary(run / "summary.json", summary, comparison)
    console.print(f"report    {run / 'report.html'}", soft_wrap=True)
