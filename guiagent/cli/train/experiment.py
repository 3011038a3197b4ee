"""An experiment: starts a farm, measures a policy, trains it by online RL, measures it again, and reports.

It is measured on a suite, or on one for each platform, whose results are counted together. Training never
uses the suites' seeds. They are scored by the tasks' own checks, also if a judge gave the rewards of the
training. Every stage continues where it was interrupted.
"""

import asyncio
import json
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError
from rich.console import Console

from eval.report.breakdown import breakdown_section, print_results
from eval.report.curve import training_curve
from eval.report.health import health_section
from eval.report.page import RunSummary, write_report, write_summary
from eval.report.platforms import platform_section
from eval.report.viewer import frames_of, select
from eval.results import RESULTS, Comparison, SuiteResult, read_result, result_json, together, write_json
from eval.suites.suite import Suite, joined
from guiagent.cli.common.farm import farm_of, named_devices
from guiagent.cli.common.memory import PeakMemory
from guiagent.cli.common.policy import BASELINES, PolicySettings
from guiagent.cli.common.progress import StageLine
from guiagent.cli.common.provenance import commit
from guiagent.cli.evaluate.evaluator import Evaluator
from guiagent.cli.rewards.judged import judged_run
from guiagent.cli.train.launch import Train
from guiagent.client import FarmClient
from guiagent.storage.trajectories import TrajectoryStore
from training.config import TrainConfig
from training.metrics.judge_agreement import GAP

if TYPE_CHECKING:
    from training.metrics import observer
    from training.metrics.platforms import PlatformFigures

_MOST_BASELINE_EPISODES = 5
_SHOWN = 16
_FINISHED = "finished.json"


@dataclass(frozen=True)
class Experiment:
    """A policy to train and the suites to measure it on, with `episodes` per task and policy."""

    title: str
    config: TrainConfig
    run: Path
    suites: tuple[Suite, ...]  # of different kinds of device
    episodes: int
    train: Train
    port: int = 0  # of the live page; 0 picks a free one

    @property
    def suite(self) -> Suite:
        return joined(self.suites)

    def folders(self, measured: Path) -> list[Path]:
        """Return where each suite's episodes are in the folder of a measurement."""
        return [measured] if len(self.suites) == 1 else [measured / suite.device for suite in self.suites]

    def conduct(self, console: Console) -> None:
        """Carry out what is left of the experiment; write `report.html` and `summary.json` into its folder.

        If nothing is left, only show its results again.

        Raises what `training.launch.resuming.standing` raises, before a device is started.
        """
        from training.launch.resuming import standing

        path, work = self.run / _FINISHED, self._work()
        if path.is_file() and _is_same((done := json.loads(path.read_text()))["work"], work):
            found = [read_result(self.run / name, self.suite) for name in done["results"]]
            print_results(found, console)
            report = f"this run is finished: {self.run / 'report.html'}"
            console.print(f"{report}; for another one remove {self.run} or name a --run", soft_wrap=True)
            return
        standing(self.config, self.run)
        began = time.monotonic()
        with PeakMemory() as memory:
            try:
                measured = asyncio.run(_work(self, console))
            finally:
                totals = _add_session(self.run, time.monotonic() - began, memory.megabytes)
        with StageLine(console, "5/5", "report") as line:
            _report(self, measured, totals)
            line.update(f"{self.run / 'report.html'}  {self.run / 'summary.json'}")
        results = {
            "eval/before": measured.before,
            measured.after_folder.relative_to(self.run).as_posix(): measured.after,
            **{f"eval/{result.label}": result for result in measured.baselines},
        }
        write_json(path, {"work": work, "results": [f"{folder}/{RESULTS}" for folder in results]})
        print_results([*results.values()], console)
        console.print(
            f"wall {totals['wall_seconds']:.0f} s  peak memory {totals['peak_memory_mb']:.0f} MB",
            soft_wrap=True,
        )

    def _work(self) -> dict[str, Any]:
        """Return what identifies the experiment: if a finished one had the same, nothing is left to do."""
        config = self.config.model_dump(mode="json")
        return {"config": config, "suite": self.suite.digest, "episodes": self.episodes}


def _is_same(done: dict[str, Any], work: dict[str, Any]) -> bool:
    """Whether two experiments are the same; a key that the older one's config lacks counts as its default."""
    try:
        config = TrainConfig.model_validate(done["config"]).model_dump(mode="json")
    except ValidationError:
        return False
    return {**done, "config": config} == work


class _Measured(NamedTuple):
    before: SuiteResult
    after: SuiteResult
    after_folder: Path
    baselines: tuple[SuiteResult, ...]


def training_line(progress: "observer.Progress") -> str:
    """Format one update as one line."""
    p, h = progress, progress.health
    line = (
        f"step {p.step}  {p.episodes:,} episodes  {p.episodes_per_second:.0f}/s  success {p.success:5.1%}  "
        f"mixed groups {h.mixed:4.0%}  parse errors {h.parse_errors:3.0%}  "
    )
    if not isnan(h.entropy):  # no token had a gradient
        line += f"entropy {h.entropy:.2f}  ess {h.effective_samples:.2f}  "
        line += f"ratio {h.least_ratio:.1f}-{h.greatest_ratio:.1f}  "
    line += f"staleness {p.staleness:.1f}  faults {p.faults}"
    for name, platform in p.platforms.items():
        line += f"  {name} {_platform(platform)}"
    if p.in_vain:
        line += f"  taught nothing {p.in_vain}x"
    if p.proposals:
        line += f"  proposals {p.proposals.get('accepted', 0)} of {sum(p.proposals.values())}"
    if p.unjudged:
        line += f"  unjudged {sum(p.unjudged.values())}"
    if p.unlabelled:
        line += f"  unlabelled {sum(p.unlabelled.values())}"
    if p.judged_gap is not None:
        line += f"  judged-true {100 * p.judged_gap:+.0f} points"
    return line


def _platform(figures: "PlatformFigures") -> str:
    if figures.lost:
        return "lost"
    return f"{figures.success:.0%} of {figures.groups} groups" if figures.groups else "no groups"


class ShowTraining:
    """Shows every update on `line`, and on the console what it warns of.

    That judged success exceeds true success it says once when the gap opens, and once when it has closed.
    """

    def __init__(self, console: Console, line: StageLine) -> None:
        self._console = console
        self._line = line
        self._warned = False

    def __call__(self, progress: "observer.Progress") -> None:
        if progress.gap_opened != self._warned:
            self._warned = progress.gap_opened
            points = 100 * (progress.judged_gap or 0)
            at = f"step {progress.step}: judged success is {points:.0f} points above true success"
            opened = f"warning   {at}; the policy may be learning what the judge gets wrong"
            closed = f"at {at} again, no more than {100 * GAP:.0f}"
            self._console.print(opened if self._warned else closed, soft_wrap=True)
        for warning in progress.warnings:
            self._console.print(f"warning   step {progress.step}: {warning}", soft_wrap=True)
        self._line.update(training_line(progress))


async def _work(experiment: Experiment, console: Console) -> _Measured:
    config, run = experiment.config, experiment.run
    named = named_devices(config)
    async with AsyncExitStack() as stack:
        with StageLine(console, "1/5", "farm") as stage:
            stage.update(f"starting {named}")
            farm = await stack.enter_async_context(farm_of(config, port=experiment.port))
            stage.update(f"{named}  live page {farm.live_url}")

        measure, episodes = partial(_measure, experiment, farm.client), experiment.episodes
        with StageLine(console, "2/5", "before") as stage:
            few = min(episodes, _MOST_BASELINE_EPISODES)
            baselines = [await measure(name, name, run / "eval" / name, few, stage) for name in BASELINES]
            before = await measure(config.policy, "before", run / "eval" / "before", episodes, stage)
            stage.update(_rates(before))
        with StageLine(console, "3/5", "train") as stage:
            trained = await experiment.train(farm, ShowTraining(console, stage))
        with StageLine(console, "4/5", "after") as stage:
            folder = run / "eval" / f"after-{trained.step}"  # trained on, the policy is another one
            after = await measure(str(trained.policy), "after", folder, episodes, stage)
            stage.update(_rates(after))
        return _Measured(before, after, folder, tuple(baselines))


async def _measure(
    experiment: Experiment, farm: FarmClient, name: str, label: str, out: Path, episodes: int, line: StageLine
) -> SuiteResult:
    """Measure a policy on every suite, and write what they come to together into `out`."""
    config = experiment.config
    settings = PolicySettings.of_training(config)
    found = []
    for suite, folder in zip(experiment.suites, experiment.folders(out), strict=True):
        evaluator = Evaluator(suite, farm, config.devices_of(suite.device), settings)
        found.append(await evaluator.measure(name, label, folder, episodes, line))
    result = together(found)
    if len(found) > 1:  # those of a single suite are there already
        write_json(out / RESULTS, result_json(result))
    return result


def _rates(result: SuiteResult) -> str:
    trained, unseen = result.pooled(True).scheduled, result.pooled(False).scheduled
    held_out = f"success {trained.rate:.1%} on held-out seeds of the training tasks"
    return held_out + (f", {unseen.rate:.1%} on unseen tasks" if unseen.n else "")


def _add_session(run: Path, seconds: float, megabytes: float) -> dict[str, Any]:
    """Add a session to the run's totals; an interrupted session counts as well as its continuation."""
    path = run / "sessions.json"
    totals = json.loads(path.read_text()) if path.is_file() else {"wall_seconds": 0.0, "peak_memory_mb": 0.0}
    totals["wall_seconds"] += seconds
    totals["peak_memory_mb"] = max(totals["peak_memory_mb"], megabytes)
    write_json(path, totals)
    return totals


def _report(experiment: Experiment, measured: _Measured, totals: dict[str, Any]) -> None:
    from training.metrics import writer

    config, run = experiment.config, experiment.run
    before, after = (
        [TrajectoryStore(part / "trajectories", readonly=True) for part in experiment.folders(folder)]
        for folder in (run / "eval" / "before", measured.after_folder)
    )
    train = TrajectoryStore(run / "trajectories", readonly=True)
    evaluated = [
        episode
        for result in (measured.before, measured.after, *measured.baselines)
        for episode in result.episodes
    ]
    rolled_out = [trajectory for trajectory in train if trajectory.group]  # no adopted seeds
    summary = RunSummary(
        title=experiment.title,
        commit=commit(),
        wall_seconds=totals["wall_seconds"],
        episodes=len(rolled_out) + len(evaluated),
        env_steps=sum(len(t.steps) for t in rolled_out) + sum(episode.steps for episode in evaluated),
        peak_memory_mb=totals["peak_memory_mb"],
        config=config.model_dump(mode="json"),
    )
    comparison = Comparison(measured.after, measured.before, measured.baselines)
    episodes = select(chain(*before), chain(*after), _SHOWN)
    frames = frames_of([*before, *after])
    judged = judged_run(run, config.judge, rolled_out) if config.judge is not None else None
    updates = writer.read(run)
    curve = training_curve(rolled_out)
    more = health_section(updates) + platform_section(updates, rolled_out)
    more += breakdown_section([measured.before, measured.after])
    write_report(run / "report.html", summary, comparison, curve, episodes, frames, judged, more)
    write_summary(run / "summary.json", summary, comparison, judged)
