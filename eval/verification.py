"""Verification of an evaluation: does its figure follow from its episodes, and do they come out again?

Two questions. The first is arithmetic: the totals are computed again from the stored trajectories. The second
is played: fresh devices get each episode's recorded actions from the same task and seed, and the task's own
check scores them. A success that does not come out again was luck, an exploit of timing, or a check that has
changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.results import EpisodeResult, SuiteResult, episode_result, read_result
from eval.run import Job
from eval.suites.suite import Suite
from guiagent.protocols import Turn
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Observation, PolicyOutput, Trajectory

_OVER = PolicyOutput("", error="the recording ends here")


class RecordedPolicy:
    """A policy that repeats recorded replies, whatever the screen shows.

    Episodes are known by the task and seed in their ids, as `eval.run` makes them. Where the environment has
    not ended an episode after its last recorded reply, the next one is no action.
    """

    def __init__(self, episodes: Mapping[Job, Trajectory]) -> None:
        self._replies = {
            f"{task}/{seed}": [step.policy for step in found.steps]
            for (task, seed), found in episodes.items()
        }

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        job = episode.partition("/")[2].rpartition("/")[0]  # LABEL/TASK/SEED/ATTEMPT
        replies = self._replies[job]
        return replies[len(history)] if len(history) < len(replies) else _OVER

    def forget(self, episode: str) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Recorded:
    """A stored evaluation: what it says of itself, and its last attempt at each task and seed."""

    stated: SuiteResult
    episodes: Mapping[Job, Trajectory]
    wrong: tuple[str, ...]  # tasks and seeds whose stated result is not that of the trajectory


@dataclass(frozen=True, slots=True)
class Verification:
    """What came out when the recorded actions were played again."""

    same: int
    lost: tuple[EpisodeResult, ...]  # recorded successes that failed now
    won: tuple[EpisodeResult, ...]  # recorded failures that succeeded now
    unknown: int  # without a verdict, then or now
    wrong: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """True if every stated result follows from its trajectory, and every verdict came out again."""
        return not (self.wrong or self.lost or self.won or self.unknown)


def read_recorded(folder: Path, suite: Suite) -> Recorded:
    """Read an evaluation's folder (`results.json`, `trajectories/`) and compute its results again.

    Raises:
        InfrastructureError: it cannot be read, or is of another suite.
        UsageError: it has no trajectories.
    """
    stated = read_result(folder / "results.json", suite)
    with TrajectoryStore(folder / "trajectories", readonly=True) as store:
        episodes = {(found.task, found.seed): found for found in store}  # the last attempt stands
    wrong = []
    for one in stated.episodes:
        found = episodes.get((one.task, one.seed))
        if found is None or episode_result(found, one.attempts) != one:
            wrong.append(f"{one.task} {one.seed}")
    return Recorded(stated, episodes, tuple(wrong))


def verified(recorded: Recorded, again: SuiteResult) -> Verification:
    """Compare recorded verdicts with those of the same actions played again."""
    now = {(e.task, e.seed): e for e in again.episodes}
    same, unknown, lost, won = 0, 0, [], []
    for was in recorded.stated.episodes:
        match was.outcome, now[was.task, was.seed].outcome:
            case ("fault", _) | (_, "fault"):
                unknown += 1
            case ("success", "failure"):
                lost.append(was)
            case ("failure", "success"):
                won.append(was)
            case _:
                same += 1
    return Verification(same, tuple(lost), tuple(won), unknown, recorded.wrong)
