"""The wiring of a run: builds all its parts from the config, in order of dependency, and starts training.

The order: tasks and judges; encoder, rollout workers with their engine, and learner; replay, curriculum and
the newest checkpoint; and then the parts that run beside the loop of `training.train` (rollouts, meters).
"""

import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from guiagent.errors import UsageError
from guiagent.protocols import Taskset
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Trajectory
from rewards.curriculum import CURRICULA, Curriculum
from rewards.judges.log import STEP_VERDICTS, VERDICTS, StepVerdictLog, VerdictLog
from rewards.judges.step import StepJudge, step_judge
from rewards.judges.verdicts import Judge
from rewards.tasksets.book import BookTasks
from rewards.tasksets.proposed import Proposed
from training.algorithms.adjusted import algorithm_of
from training.checkpoints import checkpoint
from training.checkpoints.mirror import RunFolder
from training.checkpoints.run_state import RunState
from training.config import TrainConfig, checkpoint_folder
from training.consistency import contradictions, tasks_of, tasksets_of
from training.identity import claim, require_same
from training.inputs.encoder import Encoder
from training.launch.launcher import Launcher
from training.launch.resuming import finished
from training.learner.labels import StepVerdicts, labels_by_outcome
from training.learner.learner import LearnerContext
from training.learner.signals import SignalSources
from training.metrics.observer import Counters, Progress, RunObserver
from training.replay import Replay, adopt
from training.replay.platforms import shared
from training.replay.scheduler import Limits
from training.rollout.dispatcher import PlatformRollouts, RolloutDispatcher
from training.rollout.proposals import BookTrials, Proposals
from training.rollout.sampler import GroupSampler
from training.rollout.scoring import OutcomeScorer, StepLabeler
from training.rollout.setup import WorkerContext
from training.tiny.progress import ProgressEstimator
from training.train import Trained, Trainer


async def train(
    config: TrainConfig,
    run: RunFolder,
    launcher: Launcher,
    on_progress: Callable[[Progress], None],
    judge: Judge | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Trained:
    """Train in the folder `run` until `config.steps`, `minutes` or `env_steps`; continue an interrupted run.

    A run that is finished is left as it is. When `stop()` is true, the run is saved and ends by StoppedError.

    With a `judge`, its verdicts are the rewards, and the tasks' own checks are kept as audits that nothing
    learns from. `run.check` is called after every update: its figures are written down, and what it raises
    ends the run.

    Raises UsageError (an unknown task, parts of the config that contradict each other, a folder of another
    run), InfrastructureError (disk full, checkpoints all damaged), and DivergedError when updates diverge.
    """
    torch.set_num_threads(1)  # two pools of spinning threads on few cores run ten times slower
    require_same(run.path, config)
    if (done := finished(config, run.path)) is not None:
        return done
    async with _step_judge(config) as labeller:
        with TrajectoryStore(run.path / "trajectories") as store, ExitStack() as held:
            claim(run.path, config)
            trainer = _build_trainer(config, run, launcher, judge, labeller, store, held)
            return await trainer.run(on_progress, stop)


@asynccontextmanager
async def _step_judge(config: TrainConfig) -> AsyncIterator[StepJudge | None]:
    """Open the judge that labels a run's steps; None if the outcome does."""
    judge = step_judge(config.step_judge) if config.step_judge is not None else None
    try:
        yield judge
    finally:
        if judge is not None:
            await judge.close()


def _build_trainer(
    config: TrainConfig,
    folder: RunFolder,
    launcher: Launcher,
    judge: Judge | None,
    labeller: StepJudge | None,
    store: TrajectoryStore,
    held: ExitStack,
) -> Trainer:
    """Build the trainer of a run, restored from the newest checkpoint; `held` closes its resources."""
    run = folder.path
    tasksets, algorithm = tasksets_of(config), algorithm_of(config.update)
    found = contradictions(config, tasksets.values(), algorithm, judged=judge is not None)
    if (first := next(found, None)) is not None:
        raise UsageError(first.problem)
    names = tasks_of(config, tasksets, begun=store)
    scoring = _Scoring.open(run, tasksets.values(), store, judge, labeller, held)

    loaded = checkpoint.load(run / "checkpoints")
    began_with = checkpoint_folder(config.policy)
    # Of the policy that the run began with: the run's own checkpoints are removed for later ones.
    encoder = Encoder(began_with, config.dialect, config.max_pixels)
    seed = config.seed + (loaded.step if loaded else 0)  # a resumed run must not draw the same numbers again
    workers = held.enter_context(
        launcher.open_workers(WorkerContext(run, encoder, seed, tasksets, store.put_frame))
    )
    turns = config.rollout.max_steps or max(
        tasksets[platform].task(name, 0).max_steps for platform, own in names.items() for name in own
    )
    labels = labels_by_outcome if labeller is None else StepVerdicts(run / STEP_VERDICTS).labels
    context = LearnerContext(
        start=began_with,
        temperature=config.rollout.temperature,
        longest=config.rollout.max_new_tokens * turns,
        sources=SignalSources(labels, ProgressEstimator),
    )
    opened = loaded.opens(began_with) if loaded else began_with
    learner = launcher.open_learner(opened, encoder, algorithm, context)

    replay = Replay(
        algorithm.replay,
        config.seed,
        limits=_limits(config),
        flat_groups=config.update.flat_groups or algorithm.flat_groups,
        min_std=algorithm.min_std,
    )
    weigh = CURRICULA[config.curriculum]
    curricula = {platform: Curriculum(own, weigh=weigh) for platform, own in names.items()}
    state = RunState(run / "checkpoints", learner, replay, curricula, random.Random(config.seed))
    state.load(loaded, store)
    if config.update.seeds is not None and loaded is None:
        with TrajectoryStore(config.update.seeds, readonly=True) as seeds:
            replay.seed(adopt(seeds, store))
    state.count(store)
    adapters_alone = config.rollout.vllm is not None and config.rollout.vllm.update == "lora"
    weights = learner.adapter if adapters_alone else learner.weights
    workers.engine.load_weights(weights(), state.step)

    counters = scoring.counters(folder.check)
    observer = RunObserver(run, config, state, replay, workers.engine, counters)
    held.callback(observer.close)
    observer.take_up(store.read(state.recorded))

    def committed(trajectory: Trajectory) -> None:
        state.count([trajectory])
        workers.committed(trajectory)
        observer.committed(trajectory)
        if scoring.trials is not None:
            scoring.trials.add(trajectory)

    platforms = {
        name: PlatformRollouts(
            workers.workers[name],
            GroupSampler(
                tasksets[name],
                curricula[name],
                config.rollout.model_copy(update={"devices": platform.devices}),
                state.rng,
                replay.opened,
                scoring.proposals,
            ),
        )
        for name, platform in config.all_platforms().items()
    }
    judges = [judge for judge in (scoring.outcomes, scoring.steps) if judge is not None]
    rollouts = RolloutDispatcher(platforms, store, replay, committed, judges, workers.look)
    return Trainer(config, rollouts, store, replay, learner, weights, workers.engine, observer, state)


def _limits(config: TrainConfig) -> Mapping[str, Limits]:
    """Return how far the rollouts of each platform may run ahead of the trainer."""
    platforms = config.all_platforms()
    alone = {
        name: Limits(
            groups=config.update.groups,
            max_staleness=config.update.max_staleness,
            devices=platform.devices,
            sticky=platform.device.kind == "browser",  # its page stays loaded: only the task is set up again
            batches_in_vain=config.health.stop_after,
        )
        for name, platform in platforms.items()
    }
    return shared(alone, {name: platform.share for name, platform in platforms.items()})


@dataclass(frozen=True)
class _Scoring:
    """The proposers of a run's tasks and the judges of its episodes, if any."""

    proposals: Proposals | None  # tasks proposed on the device
    trials: BookTrials | None  # outcomes of the tasks of a book
    outcomes: OutcomeScorer | None
    steps: StepLabeler | None

    @classmethod
    def open(
        cls,
        run: Path,
        tasksets: Iterable[Taskset],
        store: TrajectoryStore,
        judge: Judge | None,
        labeller: StepJudge | None,
        held: ExitStack,
    ) -> "_Scoring":
        sole = next(iter(tasksets))  # books and proposals have a run of their own
        book = sole if isinstance(sole, BookTasks) else None
        trials = BookTrials(book.path, store) if book else None
        proposals = Proposals(run, store) if isinstance(sole, Proposed) else None
        for journal in (trials, proposals):
            if journal is not None:
                held.callback(journal.close)
        outcomes = steps = None
        if judge is not None:
            log = held.enter_context(VerdictLog(run / VERDICTS))
            feasible = book.is_feasible if book else lambda task: True
            outcomes = OutcomeScorer(judge, store.frame, log, is_feasible=feasible)
        if labeller is not None:
            step_log = held.enter_context(StepVerdictLog(run / STEP_VERDICTS))
            steps = StepLabeler(labeller, store.frame, step_log)
        return cls(proposals, trials, outcomes, steps)

    def counters(self, check: Callable[[], dict[str, Any]]) -> Counters:
        proposed = self.proposals or self.trials
        return Counters(
            proposals=proposed.counts if proposed else {},
            unjudged=self.outcomes.unknown if self.outcomes else {},
            unlabelled=self.steps.unknown if self.steps else {},
            step_verdict=self.steps.verdict if self.steps else None,
            check=check,
        )
