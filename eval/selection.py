"""Selection of tasks that a policy can learn from, by what it scored on them before any training.

ARPO (arXiv 2505.16282) trains on the tasks that its base model solved at least once in 16 attempts: a group
in which all fail the same way has no gradient. One in which all succeed has none either.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from eval.results import EpisodeResult, TaskResult, pooled_of


@dataclass(frozen=True, slots=True)
class Selection:
    """The tasks of a pool, apart by what they can teach; each is the totals of its attempts."""

    learnable: tuple[TaskResult, ...]
    hopeless: tuple[TaskResult, ...]  # solved less often than asked
    mastered: tuple[TaskResult, ...]  # solved each time
    untold: tuple[TaskResult, ...]  # faults left no attempt with a verdict


def select_tasks(episodes: Iterable[EpisodeResult], least: int = 1, keep_mastered: bool = False) -> Selection:
    """Keep the tasks that were solved `least` times, but not each time unless `keep_mastered`.

    Attempts without a verdict count as none. The order is that of the first attempts.
    """
    attempts: dict[str, list[EpisodeResult]] = {}
    for episode in episodes:
        attempts.setdefault(episode.task, []).append(episode)
    found: dict[str, list[TaskResult]] = {"learnable": [], "hopeless": [], "mastered": [], "untold": []}
    for task, mine in attempts.items():
        row = pooled_of(task, mine)
        solved, judged = row.judged.successes, row.judged.n
        if not judged:
            kind = "untold"
        elif solved < least:
            kind = "hopeless"
        elif solved == judged and not keep_mastered:
            kind = "mastered"
        else:
            kind = "learnable"
        found[kind].append(row)
    return Selection(**{kind: tuple(rows) for kind, rows in found.items()})
