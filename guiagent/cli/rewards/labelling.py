"""Implementation of `guiagent judge steps`: labels a run's steps by a step judge, and counts the labels."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from guiagent.cli.common.progress import StageLine
from guiagent.cli.common.terminal import terminal
from guiagent.cli.rewards.judging import config_for, known_truth, shown
from guiagent.errors import UsageError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Trajectory
from rewards.judges.calibration import share
from rewards.judges.config import StepJudgeConfig
from rewards.judges.log import STEP_VERDICTS, StepVerdictLog, label_all
from rewards.judges.step import Label, StepVerdict, step_judge
from training.learner.labels import labels_by_verdict


class _Tally:
    """Counts of the labels so far."""

    def __init__(self) -> None:
        self.episodes = 0
        self.steps = 0
        self.teaching = 0  # episodes with a step that is learned from
        self.labels: Counter[Label] = Counter()  # of such steps
        self.right: list[bool] = []  # whether the judge's outcome is the state check's, if both are known
        self.unknown: Counter[str] = Counter()

    def add(self, trajectory: Trajectory, verdict: StepVerdict) -> None:
        labels = [label for label in labels_by_verdict(trajectory, verdict) if label is not None]
        self.episodes += 1
        self.steps += len(trajectory.steps)
        self.teaching += bool(labels)
        self.labels.update(labels)
        truth = known_truth(trajectory)
        if verdict.success is not None and truth is not None:
            self.right.append(verdict.success == truth)
        if not verdict.labels:
            self.unknown[verdict.fault.code if verdict.fault else "abstained"] += 1

    def show(self, console: Console) -> None:
        said = ", ".join(f"{self.labels[label]} {label}" for label in ("correct", "wrong"))
        console.print(f"teaching     {self.teaching} of {self.episodes} episodes; {self.steps} steps: {said}")
        if self.right:
            agreement = share(sum(self.right), len(self.right))
            console.print(f"outcome      as the state check's in {shown(agreement)} of {agreement.n}")
        if self.unknown:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.unknown.most_common())
            console.print(f"unlabelled   {reasons}; after a fault it is asked again", soft_wrap=True)


def label_steps(run: Path, toml: Path | None, overrides: Sequence[str], limit: int | None) -> None:
    """Label the episodes that have no labels in the run's log; SEAgent and STEVE runs learn from the labels.

    Raises UsageError if there is nothing to label, and what an unusable server raises.
    """
    console = terminal(highlight=False)
    config = config_for(StepJudgeConfig, "step_judge", run, toml, overrides)
    tally = _Tally()

    async def work(store: TrajectoryStore, chosen: set[str], log: StepVerdictLog, line: StageLine) -> None:
        def count(trajectory: Trajectory, verdict: StepVerdict) -> None:
            tally.add(trajectory, verdict)
            unlabelled = tally.unknown.total()
            line.update(f"{tally.episodes} of {len(chosen)} episodes, {unlabelled} without a label")

        judge = step_judge(config)
        episodes = (trajectory for trajectory in store if trajectory.id in chosen)
        try:
            await label_all(
                judge, episodes, store.frame, log, concurrency=config.concurrency, on_verdict=count
            )
        finally:
            await judge.close()

    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        chosen = set([trajectory.id for trajectory in store if trajectory.valid][:limit])
        if not chosen:
            raise UsageError(
                f"no episode in {run / 'trajectories'} has an outcome, and from no other is learned"
            )
        with StepVerdictLog(run / STEP_VERDICTS) as log, StageLine(console, "1/1", "label") as line:
            asyncio.run(work(store, chosen, log, line))
    tally.show(console)
    console.print(f"labels       {run / STEP_VERDICTS}", soft_wrap=True)
