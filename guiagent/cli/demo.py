"""`guiagent demo`: the main job, end to end, on one machine.

A farm of browsers in a process of its own, the small policy measured, trained by online RL, and measured
again on seeds and tasks it never trained on; then a report. Every stage goes on where it was interrupted.
"""

import asyncio
import json
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from eval.curve import training_curve
from eval.report import RunSummary, write_report, write_summary
from eval.results import Comparison, SuiteResult
from eval.suites import find_suite
from eval.table import print_table
from eval.viewer import frames_of, select
from guiagent import config as configuration
from guiagent.cli.evaluate import measure
from guiagent.cli.farm import own_farm
from guiagent.cli.memory import PeakMemory
from guiagent.cli.policy import BASELINES
from guiagent.cli.progress import StageLine
from guiagent.cli.provenance import commit
from guiagent.cli.train import recipe_path, training_line
from guiagent.trajectories import TrajectoryStore
from rewards.tasksets.miniwob import HEIGHT, WIDTH
from training.config import TrainConfig

_RECIPE, _SUITE = "arpo-demo", "miniwob-demo"
_MOST_BASELINE_EPISODES = 10
_SHOWN = 16
_TEMPERATURE = 1.0  # evaluation samples as training does


class _Measured(NamedTuple):
    before: SuiteResult
    after: SuiteResult
    after_folder: Path
    baselines: tuple[SuiteResult, ...]


def demo(run: Path, minutes: float | None, episodes: int, port: int, overrides: list[str]) -> None:
    if minutes is not None:
        overrides = [*overrides, f"minutes={minutes}"]
    config = configuration.load(TrainConfig, recipe_path(_RECIPE), overrides)
    console = Console()
    began = time.monotonic()
    with PeakMemory() as memory:
        try:
            measured = asyncio.run(_work(config, run, episodes, port, console))
        finally:
            ledger = _add_session(run, time.monotonic() - began, memory.megabytes)
    with StageLine(console, "5/5", "report") as line:
        _report(config, run, measured, ledger)
        line.update(f"{run / 'report.html'}  {run / 'summary.json'}")
    print_table([measured.before, measured.after, *measured.baselines], console)
    console.print(
        f"wall {ledger['wall_seconds']:.0f} s  peak memory {ledger['peak_memory_mb']:.0f} MB", soft_wrap=True
    )


async def _work(config: TrainConfig, run: Path, episodes: int, port: int, console: Console) -> _Measured:
    from training.train import train

    suite, devices = find_suite(_SUITE), config.rollout.devices
    async with AsyncExitStack() as stack:
        with StageLine(console, "1/5", "farm") as stage:
            stage.update(f"starting {devices} headless browsers")
            farm = await stack.enter_async_context(own_farm(devices, WIDTH, HEIGHT, port=port))
            stage.update(f"{devices} headless browsers  live page {farm.live_url}")

        async def evaluate(name: str, label: str, folder: Path, number: int) -> SuiteResult:
            return await measure(
                suite, farm.client, name, label, folder, number, devices, _TEMPERATURE, stage
            )

        with StageLine(console, "2/5", "before") as stage:
            few = min(episodes, _MOST_BASELINE_EPISODES)
            baselines = [await evaluate(name, name, run / "eval" / name, few) for name in BASELINES]
            before = await evaluate(config.policy, "before", run / "eval" / "before", episodes)
            stage.update(_rates(before))
        with StageLine(console, "3/5", "train") as stage:
            trained = await train(config, run, farm.client, lambda p: stage.update(training_line(p)))
        with StageLine(console, "4/5", "after") as stage:
            folder = run / "eval" / f"after-{trained.step}"  # trained on, the policy is another one
            after = await evaluate(str(trained.policy), "after", folder, episodes)
            stage.update(_rates(after))
        return _Measured(before, after, folder, tuple(baselines))


def _rates(result: SuiteResult) -> str:
    trained, unseen = result.pooled(True).scheduled, result.pooled(False).scheduled
    held_out = f"{trained.rate:.1%} on held-out seeds of the training tasks"
    return f"success {held_out}, {unseen.rate:.1%} on unseen tasks"


def _add_session(run: Path, seconds: float, megabytes: float) -> dict[str, Any]:
    """Sum up the run's sessions: an interrupted one counts as well as its continuation."""
    path = run / "sessions.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    ledger = json.loads(path.read_text()) if path.is_file() else {"wall_seconds": 0.0, "peak_memory_mb": 0.0}
    ledger["wall_seconds"] += seconds
    ledger["peak_memory_mb"] = max(ledger["peak_memory_mb"], megabytes)
    path.write_text(json.dumps(ledger))
    return ledger


def _report(config: TrainConfig, run: Path, measured: _Measured, ledger: dict[str, Any]) -> None:
    before, after, train = (
        TrajectoryStore(folder / "trajectories", readonly=True)
        for folder in (run / "eval" / "before", measured.after_folder, run)
    )
    evaluated = [
        episode
        for result in (measured.before, measured.after, *measured.baselines)
        for episode in result.episodes
    ]
    rolled_out = list(train)
    summary = RunSummary(
        title="Online RL of a small policy on MiniWoB++",
        commit=commit(),
        wall_seconds=ledger["wall_seconds"],
        episodes=len(rolled_out) + len(evaluated),
        env_steps=sum(len(t.steps) for t in rolled_out) + sum(episode.steps for episode in evaluated),
        peak_memory_mb=ledger["peak_memory_mb"],
        config=config.model_dump(mode="json"),
    )
    comparison = Comparison(measured.after, measured.before, measured.baselines)
    episodes = select(before, after, _SHOWN)
    frames = frames_of([before, after])
    write_report(run / "report.html", summary, comparison, training_curve(rolled_out), episodes, frames)
    write_summary(run / "summary.json", summary, comparison)
