"""A judge's verdicts in the place of scores, where training has no checks.

What the task's own check said becomes the trajectory's `audit`, which nothing trains on. What the judge
cannot say leaves the score unknown: the trajectory is committed all the same, so that it can be judged again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

from guiagent.types import Trajectory
from rewards.judge import judge_episode
from rewards.verdict_log import VerdictLog
from rewards.verdicts import Judge


class Judging:
    """Scores finished episodes, and writes every verdict down.

    `unknown` counts the verdicts that were none: by their fault's code, or as "abstained".
    """

    def __init__(self, judge: Judge, frame: Callable[[str], bytes], log: VerdictLog) -> None:
        self.unknown: Counter[str] = Counter()
        self._judge = judge
        self._frame = frame
        self._log = log

    async def score(self, trajectory: Trajectory) -> bool:
        """Moves the check's score to `audit` and asks the judge for another; a faulted episode has neither.

        True where the judge abstained: it was reached, and could not say. Raises InfrastructureError where
        the verdict cannot be written down.
        """
        if trajectory.fault is not None:
            return False
        trajectory.audit, trajectory.score = trajectory.score, None
        verdict = await judge_episode(self._judge, trajectory, self._frame)
        await asyncio.to_thread(self._log.add, trajectory.id, verdict)
        trajectory.score = verdict.score()
        if verdict.value is None:
            self.unknown[verdict.fault.code if verdict.fault else "abstained"] += 1
        return verdict.value is None and verdict.fault is None
