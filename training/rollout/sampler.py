"""The group sampler: draws each group's task, seed and size, and bounds the length of its episodes."""

import random
from collections import deque
from collections.abc import Callable, Sequence

from guiagent.protocols import Taskset
from guiagent.seeds import REINFORCEMENT, upwards
from guiagent.types import Trajectory
from rewards.curriculum import Curriculum
from training.config import RolloutConfig
from training.replay import EpisodeRequest
from training.rollout.proposals import Proposals
from training.rollout.worker import RolloutWorker


class Lookahead:
    """Tasks drawn ahead of their groups, so that a device can go on with the task that it has set up last.

    To load a page costs a browser six times the CPU of starting its own page anew. Every drawn task is used,
    and `ahead` others pass the oldest one at most, so each task keeps its share of the groups.
    """

    def __init__(self, draw: Callable[[], str], ahead: int) -> None:
        self._draw = draw
        self._ahead = ahead
        self._drawn: deque[str] = deque()  # oldest first
        self._passed = 0  # tasks taken since the oldest one is the oldest

    def take(self, shown: str | None) -> str:
        """Return the task `shown` if it was drawn, else the one that was drawn first."""
        while len(self._drawn) <= self._ahead:
            self._drawn.append(self._draw())
        first = self._drawn[0]
        if shown is not None and shown != first and shown in self._drawn and self._passed < self._ahead:
            self._drawn.remove(shown)
            self._passed += 1
            return shown
        self._passed = 0
        return self._drawn.popleft()


class GroupSampler:
    """Draws groups by the curriculum, each on a task seed of its own; `opened` groups came before.

    Tasks are drawn ahead, one per device (`Lookahead`). With `proposals`, a group's task is proposed on its
    worker's device and may be refused.
    """

    def __init__(
        self,
        taskset: Taskset,
        curriculum: Curriculum,
        config: RolloutConfig,
        rng: random.Random,
        opened: int = 0,
        proposals: Proposals | None = None,
    ) -> None:
        self._taskset = taskset
        self._curriculum = curriculum
        self._config = config
        self._proposals = proposals
        first = config.seed + opened
        self._tasks = Lookahead(lambda: curriculum.next(rng), 0 if proposals else config.devices)
        self._seeds = upwards(max(first, proposals.next_seed) if proposals else first, REINFORCEMENT)

    async def draw(self, worker: RolloutWorker, shown: str | None) -> tuple[str, int, int] | None:
        """Draw task, seed and size of a group; None if the proposal made for it is refused.

        `shown` is the task that the worker's device was set up for last.
        """
        task, seed = self._tasks.take(shown), next(self._seeds)
        if self._proposals is not None:
            suggestion = await worker.suggest(task, seed)
            if not self._proposals.admit(task, seed, suggestion):
                return None
        size = self._config.group_size
        return task, seed, self._curriculum.rollouts(task, size) if self._config.dynamic else size

    def max_steps(self, request: EpisodeRequest) -> int:
        """Return the most turns that the requested episode may take."""
        longest = self._taskset.task(request.task, request.seed).max_steps
        if self._config.max_steps is not None:
            longest = min(longest, self._config.max_steps)
        return self._curriculum.step_cap(request.task, longest) if self._config.dynamic else longest

    def add(self, trajectory: Trajectory, outcomes: Sequence[float] | None) -> None:
        """Tell the curriculum and the proposals about a committed episode.

        `outcomes` are those of its group if the episode was the last of it (`Replay.add`), else None.
        """
        if trajectory.valid:
            self._curriculum.update(trajectory.task, trajectory.success, len(trajectory.steps))
        if outcomes is not None:
            self._curriculum.closed(trajectory.task, outcomes)
        if self._proposals is not None:
            self._proposals.add(trajectory)

    def cannot_be_judged(self, task: str) -> None:
        """Count an episode of `task` that the judge abstained on as a failure: neither teaches anything."""
        self._curriculum.unjudged(task)
