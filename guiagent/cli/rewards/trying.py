"""Trials of proposals (`guiagent propose --policy`): a policy tries each, and a judge scores the episodes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from guiagent import config as configuration
from guiagent.cli.common.judge import open_judge
from guiagent.cli.common.policy import PolicySettings, open_policy
from guiagent.client import FarmClient
from guiagent.client.play import play
from guiagent.protocols import Task
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Trajectory
from guiagent.wire import Grant
from rewards.judges.config import JudgeConfig
from rewards.judges.outcome import judge_episode
from rewards.judges.verdicts import Judge, Verdict
from rewards.proposers.types import Outcome, Proposal, comparable, trial_outcome
from rewards.proposers.validation import ProposalLog
from rewards.tasksets.book import BookTask
from training.config import DeviceConfig
from training.replay import EpisodeRequest
from training.rollout.worker import LocalRolloutWorker


class Trying(NamedTuple):
    """The command-line options of trials."""

    policy: str
    dialect: str
    trials: int  # of each proposal
    devices: int  # also the number of trials at once
    judge: Path | None
    max_steps: int | None  # turns of a trial; None: as many as any proposal's task allows


class Trials:
    """Let a policy try proposals, and record the outcomes in their book."""

    def __init__(
        self,
        book: ProposalLog,
        workers: Sequence[LocalRolloutWorker],
        judge: Judge,
        store: TrajectoryStore,
        trying: Trying,
    ) -> None:
        self._book, self._workers, self._judge, self._store = book, workers, judge, store
        self._trials, self._max_steps = trying.trials, trying.max_steps

    async def conclude(self, proposal: Proposal) -> Outcome | None:
        """Try a proposal, record the outcome in the book, and return it.

        None, and nothing is recorded, if devices or the judge failed so often that the outcome is unknown:
        the same command tries the proposal again.
        """
        requests = [
            EpisodeRequest("", proposal.id, proposal.seed, k, self._trials) for k in range(self._trials)
        ]
        turns = self._max_steps or BookTask(proposal, proposal.seed).max_steps
        played: list[Trajectory] = []

        async def attempt(request: EpisodeRequest, worker: LocalRolloutWorker) -> None:
            played.append(await worker.play(request, turns))

        await play(requests, self._workers, attempt)
        await asyncio.to_thread(self._store.commit, played)
        sound = [trajectory for trajectory in played if trajectory.fault is None]
        verdicts = [await self._verdict(trajectory, proposal) for trajectory in sound]
        if self._failed_us(played, verdicts):
            return None
        outcome = trial_outcome(proposal.id, [verdict.value for verdict in verdicts])
        self._book.conclude(outcome)
        return outcome

    async def _verdict(self, trajectory: Trajectory, proposal: Proposal) -> Verdict:
        return await judge_episode(self._judge, trajectory, self._store.frame, feasible=proposal.feasible)

    def _failed_us(self, played: Sequence[Trajectory], verdicts: Sequence[Verdict]) -> bool:
        """Whether too little is known because of outages and crashes, and not because of the proposal."""
        if not verdicts:
            return any(t.fault is not None and t.fault.origin != "task" for t in played)
        known = sum(verdict.known for verdict in verdicts)
        outages = sum(verdict.fault is not None for verdict in verdicts)
        return not comparable(known, len(verdicts)) and comparable(known + outages, len(verdicts))


class _Proposed:
    """A `Taskset` of the book's proposals, also of those that are not accepted yet."""

    def __init__(self, book: ProposalLog) -> None:
        self._book = book

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._book.proposals)

    def task(self, name: str, seed: int) -> Task:
        return BookTask(self._book.proposals[name], seed)


@asynccontextmanager
async def open_trials(
    trying: Trying, book: ProposalLog, farm: FarmClient, kind: str, grants: Sequence[Grant]
) -> AsyncIterator[Trials]:
    """Open trials on devices of `farm`. Episodes are kept beside the book, in BOOK.trials."""
    config = configuration.load(JudgeConfig, trying.judge, [])
    settings = PolicySettings(temperature=1.0, dialect=trying.dialect)
    device = DeviceConfig.model_validate({"kind": kind, "grants": tuple(grants)})
    async with AsyncExitStack() as held:
        store = held.enter_context(TrajectoryStore(book.path.with_suffix(".trials")))
        policy = await held.enter_async_context(open_policy(trying.policy, settings))
        judge = open_judge(config)
        held.push_async_callback(judge.close)
        workers = [
            LocalRolloutWorker(farm, policy, _Proposed(book), store.put_frame, f"trial {k}", device)
            for k in range(trying.devices)
        ]
        yield Trials(book, workers, judge, store, trying)
