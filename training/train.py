"""Online RL, end to end on one screen: roll out -> commit -> replay -> update -> publish weights -> roll out.

With proposed tasks and a judge it is ZeroGUI's loop: propose -> roll out -> judge -> commit -> ...

Rollouts and updates overlap: episodes run on the event loop and sample in the engine's thread, updates run in
another thread, and after each one the engine takes the new weights between two batches. Staleness is bounded
by how many groups may be open or waiting, and what is too old all the same is dropped and counted.

A run is a folder. Killed and started again it goes on: the newest valid checkpoint gives weights, optimiser,
replay, curriculum and random states; the trajectory store gives every committed episode that no checkpoint
says was used.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from guiagent import config as configuration
from guiagent.client import FarmClient
from guiagent.errors import UsageError
from guiagent.trajectories import TrajectoryStore
from guiagent.types import Trajectory
from rewards.curriculum import CURRICULA, Curriculum
from rewards.tasksets import TASKSETS
from rewards.tasksets.proposed import Proposed
from rewards.verdict_log import VerdictLog
from rewards.verdicts import Judge
from training import checkpoint
from training.agreement import GapMonitor, judged_and_true
from training.algorithms.legacy import ALGORITHMS
from training.config import TrainConfig, checkpoint_folder
from training.engine.local import LocalPolicy
from training.judging import Judging
from training.learner import Learner, Update
from training.metrics import Metrics
from training.proposals import Proposals
from training.replay import Group, Replay
from training.rollout import Rollouts

_TAKE_TIMEOUT_S = 1.0


@dataclass(frozen=True)
class Progress:
    """Where a run stands, after each update."""

    step: int
    steps: int
    seconds: float  # of training, over all the run's sessions
    episodes: int
    episodes_per_second: float
    success: float  # of the rollouts this update was made of
    staleness: float  # policy versions, mean over the groups taken
    faults: int
    entropy: float
    proposals: dict[str, int]  # by what became of them, since the run began; empty without a proposer
    unjudged: dict[str, int]  # rollouts of this session that the judge could not judge, by reason
    judged_gap: float | None  # judged less true success of the newest audited rollouts
    gap_opened: bool


@dataclass(frozen=True)
class Trained:
    """A finished run."""

    policy: Path  # the final checkpoint's Hugging Face folder
    step: int
    seconds: float
    episodes: int
    refused: tuple[str, ...]  # damaged checkpoints that were passed over on the way


async def train(
    config: TrainConfig,
    run: Path,
    farm: FarmClient,
    on_progress: Callable[[Progress], None],
    judge: Judge | None = None,
) -> Trained:
    """Train in the folder `run` until `config.steps` or `config.minutes`; goes on where it was cut before.

    With a `judge`, its verdicts are the rewards, and the tasks' own checks are kept as audits that nothing
    here learns from.

    Raises UsageError (an unknown task, proposals without a judge), InfrastructureError (disk full,
    checkpoints all damaged), and FloatingPointError when updates diverge.
    """
    torch.set_num_threads(1)  # two pools of spinning threads on few cores run ten times slower
    with TrajectoryStore(run / "trajectories") as store:
        configuration.save(config, run / "config.toml")
        session = _Session(config, run, store, judge)
        try:
            return await session.run(farm, on_progress)
        finally:
            session.close()


class _Session:
    """One process's share of a run: everything with state, wired together, and the loop over updates."""

    def __init__(self, config: TrainConfig, run: Path, store: TrajectoryStore, judge: Judge | None) -> None:
        self._taskset = TASKSETS[config.taskset]()
        if isinstance(self._taskset, Proposed) and judge is None:
            raise UsageError("proposed tasks have no reward of their own: add [judge] to the recipe")
        for task in config.tasks:
            self._taskset.task(task, 0)  # an unknown name is refused now, not in the first rollout
        algorithm = ALGORITHMS[config.update.algorithm]
        loaded = checkpoint.load(run / "checkpoints")
        start = loaded.model if loaded else checkpoint_folder(config.policy)
        self._config, self._run, self._store = config, run, store
        self._rng = random.Random(config.seed)
        self._replay = Replay(algorithm.rescue, config.seed, dynamic_sampling=algorithm.dynamic_sampling)
        self._curriculum = Curriculum(config.tasks, weigh=CURRICULA[config.curriculum])
        self._step, self._seconds = loaded.step if loaded else 0, 0.0
        self._began = self._saved = time.monotonic()
        seed = config.seed + self._step  # a resumed run must not draw the same numbers again
        self._policy = LocalPolicy(start, max_new_tokens=config.rollout.max_new_tokens, seed=seed)
        # One encoder for both: a picture that was sampled from is still in its cache when it is learned from.
        self._learner = Learner(start, self._policy.encoder, algorithm, config.update)
        self._refused = loaded.refused if loaded else ()
        if loaded:
            self._seconds = float(loaded.state["seconds"])
            self._curriculum.restore(loaded.state["curriculum"])
            loaded.restore(self._learner.optimizer, {"rollouts": self._rng})
        self._replay.restore(loaded.state["replay"] if loaded else None, store)
        self._policy.load_weights({}, self._step)
        self._gap = GapMonitor()
        self._held = ExitStack()
        self._held.callback(self._policy.close)
        self._metrics = Metrics(run, after_step=self._step)
        self._held.callback(self._metrics.close)
        self._proposals: Proposals | None = None
        if isinstance(self._taskset, Proposed):
            self._proposals = Proposals(run, self._taskset, store)
            self._held.callback(self._proposals.close)
        self._judging: Judging | None = None
        if judge is not None:
            log = self._held.enter_context(VerdictLog(run / "verdicts.jsonl"))
            self._judging = Judging(judge, store.frame, log)

    def close(self) -> None:
        self._held.close()

    async def run(self, farm: FarmClient, on_progress: Callable[[Progress], None]) -> Trained:
        limits = self._config.update
        rollouts = Rollouts(
            farm,
            self._policy,
            self._taskset,
            self._store,
            self._replay,
            self._curriculum,
            self._config.rollout,
            max_pending_groups=self._config.rollout.devices + limits.groups,
            rng=self._rng,
            on_trajectory=self._count,
            proposals=self._proposals,
            judging=self._judging,
        )
        producing = asyncio.create_task(rollouts.run())
        self._began = time.monotonic() - self._seconds
        try:
            while groups := await self._take(producing, rollouts):
                update = await asyncio.to_thread(self._learner.step, groups, self._store.frame)
                self._step += 1
                await asyncio.to_thread(self._policy.load_weights, self._learner.weights(), self._step)
                self._seconds = time.monotonic() - self._began
                progress = self._progress(groups, update, rollouts)
                self._metrics.update(asdict(progress) | update.metrics | self._replay_figures())
                on_progress(progress)
                if time.monotonic() - self._saved > 60 * self._config.checkpoint_minutes:
                    await self._save()
        finally:
            producing.cancel()
            await asyncio.gather(producing, return_exceptions=True)
        final = await self._save()
        return Trained(final / "model", self._step, self._seconds, len(self._store), self._refused)

    async def _take(self, producing: "asyncio.Task[None]", rollouts: Rollouts) -> list[Group]:
        """The next groups to learn from; none at the end of the run, also where it comes while waiting.

        Raises what ended the rollouts, should they have ended.
        """
        limits = self._config.update
        while not self._finished():
            groups = await asyncio.to_thread(
                self._replay.take,
                limits.groups,
                current_version=self._step,
                max_staleness=limits.max_staleness,
                timeout=_TAKE_TIMEOUT_S,
            )
            rollouts.make_room()
            if producing.done():
                producing.result()
            if groups:
                return groups
            self._seconds = time.monotonic() - self._began
        return []

    def _count(self, trajectory: Trajectory) -> None:
        self._metrics.episode(trajectory)
        if (both := judged_and_true(trajectory)) is not None:
            self._gap.add(*both)

    def _finished(self) -> bool:
        minutes = self._config.minutes
        return self._step >= self._config.steps or (minutes is not None and self._seconds >= 60 * minutes)

    async def _save(self) -> Path:
        """Write a checkpoint in a thread; what rollouts go on changing meanwhile is read before."""
        self._saved = time.monotonic()
        state = {
            "seconds": self._seconds,
            "replay": self._replay.state(),
            "curriculum": self._curriculum.state(),
        }
        return await asyncio.to_thread(
            checkpoint.save,
            self._run / "checkpoints",
            self._step,
            save_model=self._learner.save,
            optimizer=self._learner.optimizer,
            state=state,
            rng={"rollouts": self._rng},
        )

    def _progress(self, groups: Sequence[Group], update: Update, rollouts: Rollouts) -> Progress:
        sampled = [trajectory for group in groups for trajectory in group.sampled if trajectory.valid]
        return Progress(
            step=self._step,
            steps=self._config.steps,
            seconds=self._seconds,
            episodes=len(self._store),
            episodes_per_second=rollouts.stats.per_second,
            success=sum(trajectory.success for trajectory in sampled) / max(len(sampled), 1),
            staleness=sum(group.staleness for group in groups) / len(groups),
            faults=sum(rollouts.stats.faults.values()),
            entropy=update.metrics.get("entropy", float("nan")),
            proposals=dict(self._proposals.counts) if self._proposals else {},
            unjudged=dict(self._judging.unknown) if self._judging else {},
            judged_gap=self._gap.gap,
            gap_opened=self._gap.opened,
        )

    def _replay_figures(self) -> dict[str, Any]:
        stats = self._replay.stats
        return {
            "stale_groups": stats.stale,
            "flat_groups": stats.flat,
            "masked": stats.masked,
            "replay_share": stats.replay_share,
            "staleness_histogram": stats.staleness,
        }
