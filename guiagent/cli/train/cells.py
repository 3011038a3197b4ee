"""The runs of a comparison: one of each arm and seed, trained to its end and measured on held-out seeds."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from eval.collapse import Before, last_fifth, one_answer
from eval.comparison import Sample, SeedRun
from eval.results import SuiteResult, write_json
from eval.stats import Proportion
from eval.suites import find_suite
from guiagent.cli.common.farm import Farm, farm_of
from guiagent.cli.common.policy import PolicySettings
from guiagent.cli.common.progress import StageLine
from guiagent.cli.evaluate.evaluator import Evaluator
from guiagent.cli.train.arms import Arm
from guiagent.cli.train.experiment import ShowTraining
from guiagent.cli.train.launch import judge_of
from guiagent.errors import DivergedError, UsageError
from guiagent.storage.trajectories import TrajectoryStore
from rewards.judges.verdicts import Judge
from training.checkpoints.mirror import RunFolder
from training.config import TrainConfig

FINISHED = "finished.json"


@dataclass(frozen=True)
class Cell:
    """One run of the comparison."""

    arm: Arm
    seed: int
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.arm.name} {self.seed}"

    def metrics(self) -> list[dict[str, Any]]:
        """Read the metrics of the run, one entry per update."""
        from training.metrics import writer

        return writer.read(self.folder)


class Work(NamedTuple):
    """The results of all runs."""

    done: list[SeedRun]
    diverged: list[Cell]
    budget: int | None  # environment steps of each run; None if all diverged before it was known
    before: Before | None  # the policy that all begin with; None if it was not measured


async def work(
    cells: Sequence[Cell],
    shared: TrainConfig,
    run: Path,
    env_steps: int | None,
    minutes: float | None,
    console: Console,
) -> Work:
    """Carry out what is left of all runs, one after the other.

    If only a time was given, the first run has that time, and all others as many environment steps as it
    took. A farm is started only if something is left to do.
    """
    budget_path = run / "budget.json"
    spent = json.loads(budget_path.read_text())["env_steps"] if budget_path.is_file() else None
    if spent is not None and env_steps is not None and env_steps < spent:
        raise UsageError(f"the runs in {run} had {spent:,} environment steps already: name another --run")
    budget = env_steps if env_steps is not None else spent
    done: list[SeedRun] = []
    diverged: list[Cell] = []
    async with AsyncExitStack() as stack:
        trainer: Trainer | None = None
        for number, cell in enumerate(cells, 1):
            outcome = _finished(cell, budget)
            if outcome is None:
                if trainer is None:
                    trainer = await stack.enter_async_context(_trainer(shared, console))
                    await trainer.before(shared, run)
                config = cell.arm.of_seed(cell.seed, budget, minutes)
                try:
                    outcome = await trainer.run(cell, config, f"{number}/{len(cells)}")
                except DivergedError as error:
                    console.print(f"{cell.name} is left out: {error}", soft_wrap=True)
                    diverged.append(cell)
                    continue
            done.append(_seed_run(cell, outcome))
            budget = budget if budget is not None else int(outcome["env_steps"])
            write_json(budget_path, {"env_steps": budget})
    return Work(done, diverged, budget, _before(run))


@dataclass(frozen=True)
class Trainer:
    """Trains and measures on the devices of one farm."""

    farm: Farm
    judge: Judge | None
    console: Console

    async def before(self, shared: TrainConfig, run: Path) -> None:
        """Measure the policy that all runs begin with, once for a comparison."""
        if shared.evaluation is None or (run / "before.json").is_file():
            return
        with StageLine(self.console, "0", "before") as line:
            measured = await self._measured(shared, shared.policy, "before", run / "before", line)
            write_json(run / "before.json", measured)

    async def run(self, cell: Cell, config: TrainConfig, stage: str) -> dict[str, Any]:
        """Carry out what is left of a run; write its results into the run's folder and return them."""
        from training.launch.launcher import OneProcess
        from training.launch.wiring import train

        with StageLine(self.console, stage, cell.name) as line:
            show, launcher = ShowTraining(self.console, line), OneProcess(config, self.farm.client)
            trained = await train(config, RunFolder(cell.folder), launcher, show, self.judge)
            out = cell.folder / "eval" / f"after-{trained.step}"
            measured = await self._measured(config, str(trained.policy), "after", out, line)
            samples = samples_of(cell.folder)
            took = samples[-1].env_steps if samples else 1
            line.update(f"{trained.step:,} updates on {took:,} environment steps")
        outcome = {
            "env_steps": config.env_steps or took,
            "updates": trained.step,
            "seconds": trained.seconds,
            **measured,
        }
        write_json(cell.folder / FINISHED, outcome)
        return outcome

    async def _measured(
        self, config: TrainConfig, policy: str, label: str, out: Path, line: StageLine
    ) -> dict[str, Any]:
        """Measure a policy on the recipe's suite; nothing is known if the recipe names none."""
        if (asked := config.evaluation) is None:
            return {"held_out": {}, "unseen": {}, "one_answer": None}
        suite, settings = find_suite(asked.suite, asked.tasks), PolicySettings.of_training(config)
        evaluator = Evaluator(suite, self.farm.client, config.devices_of(suite.device), settings)
        result = await evaluator.measure(policy, label, out, asked.episodes, line)
        with TrajectoryStore(out / "trajectories", readonly=True) as store:
            answers = one_answer(trajectory for trajectory in store if trajectory.valid)
        return {
            "held_out": _by_task(result, trained=True),
            "unseen": _by_task(result, trained=False),
            "one_answer": answers,
        }


@asynccontextmanager
async def _trainer(shared: TrainConfig, console: Console) -> AsyncIterator[Trainer]:
    async with judge_of(shared) as judge, farm_of(shared) as farm:
        console.print(f"farm      live page {farm.live_url}", soft_wrap=True)
        yield Trainer(farm, judge, console)


def _by_task(result: SuiteResult, *, trained: bool) -> dict[str, list[int]]:
    rows = [row for row in result.tasks if row.trained == trained]
    return {row.task: [row.scheduled.successes, row.scheduled.n] for row in rows}


def _finished(cell: Cell, env_steps: int | None) -> dict[str, Any] | None:
    """Return the results of a run that had all of these environment steps; None if it is not finished."""
    path = cell.folder / FINISHED
    if env_steps is None or not path.is_file():
        return None
    outcome: dict[str, Any] = json.loads(path.read_text())
    return outcome if outcome["env_steps"] == env_steps else None


def _before(run: Path) -> Before | None:
    path = run / "before.json"
    if not path.is_file():
        return None
    measured = json.loads(path.read_text())
    trained, unseen = (
        Proportion(*(sum(counts[i] for counts in measured[side].values()) for i in (0, 1)))
        for side in ("held_out", "unseen")
    )
    return Before(trained, unseen, measured["one_answer"])


def _proportions(counts: Mapping[str, Sequence[int]]) -> dict[str, Proportion]:
    return {task: Proportion(*both) for task, both in counts.items()}


def _seed_run(cell: Cell, outcome: Mapping[str, Any]) -> SeedRun:
    updates, answers = cell.metrics(), outcome.get("one_answer")
    return SeedRun(
        arm=cell.arm.name,
        seed=cell.seed,
        samples=tuple(samples_of(cell.folder)),
        held_out=_proportions(outcome["held_out"]),
        updates=outcome["updates"],
        seconds=outcome["seconds"],
        trained=int(sum(line["trained"] for line in updates)),
        replay_share=updates[-1]["replay_share"] if updates else 0.0,
        unseen=_proportions(outcome.get("unseen", {})),
        one_answer=nan if answers is None else answers,
        entropy=last_fifth([line.get("entropy") for line in updates]),
        mixed=last_fifth([line.get("health", {}).get("mixed") for line in updates]),
    )


def samples_of(folder: Path) -> list[Sample]:
    """Return the run's episodes in the order of their commits, scored by the tasks' checks alone."""
    samples, env_steps = [], 0
    with TrajectoryStore(folder / "trajectories", readonly=True) as store:
        for trajectory in store:
            if not trajectory.group:  # a seed, which another run rolled out
                continue
            env_steps += len(trajectory.steps)
            score = trajectory.audit or trajectory.score
            known = trajectory.fault is None and score is not None and score.value is not None
            outcome = Proportion(int(known and score is not None and (score.value or 0.0) >= 1.0), int(known))
            samples.append(Sample(env_steps, {trajectory.task: outcome}))
    return samples
