"""`guiagent select`: writes a recipe of the tasks that a policy has a chance to learn."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from eval.leaderboard import find_results
from eval.results import TaskResult
from eval.selection import select_tasks
from guiagent import config as configuration
from guiagent.cli.common.terminal import terminal
from guiagent.cli.train.recipes import recipe_path
from guiagent.errors import UsageError
from rewards.catalogue import find_taskset, training_names
from training.config import TrainConfig


def select(evaluation: Path, recipe: str, to: Path, least: int, keep_mastered: bool) -> None:
    """Write the recipe with the tasks that are kept.

    Raises UsageError if the folder is not of one policy, nothing is left, or `to` is there already.
    """
    console = terminal(highlight=False)
    config = configuration.load(TrainConfig, recipe_path(recipe))
    if config.platforms:
        raise UsageError("tasks are selected for one kind of device: name a recipe without [[platforms]]")
    if to.exists():
        raise UsageError(f"{to} is there already: name another file")
    results, damaged = find_results([evaluation])
    if damaged:
        raise UsageError(damaged[0])
    labels = sorted({result.label for _, result in results})
    if not labels:
        raise UsageError(f"no results of `guiagent eval` below {evaluation}")
    if len(labels) > 1:
        raise UsageError(f"{evaluation} has results of {', '.join(labels)}: name the folder of one of them")
    episodes = [episode for _, result in results for episode in result.episodes]
    found = select_tasks(episodes, least, keep_mastered)
    taskset = find_taskset(config.taskset)
    allowed = {row.task for _, result in results for row in result.tasks if row.trained}
    allowed = allowed.intersection(taskset.names).union(training_names(taskset, ("*",)))
    kept = [row for row in found.learnable if row.task in allowed]
    for row in kept:
        console.print(f"{row.task}  {row.judged.successes} of {row.judged.n}", soft_wrap=True)
    _leave_out(console, f"solved less than {least} times", found.hopeless)
    _leave_out(console, "solved each time", found.mastered)
    _leave_out(console, "faults alone", found.untold)
    foreign = [row for row in found.learnable if row.task not in allowed]
    _leave_out(console, f"not for training in {config.taskset}", foreign)
    if not kept:
        raise UsageError("no task is left: try more --episodes, or another policy or suite")
    chosen = config.model_copy(update={"tasks": tuple(row.task for row in kept)})
    configuration.save(chosen, to)
    console.print(f"{len(kept)} tasks: guiagent train --recipe {to}", soft_wrap=True)


def _leave_out(console: Console, why: str, rows: Sequence[TaskResult]) -> None:
    if rows:
        console.print(f"left out, {why}: {', '.join(row.task for row in rows)}", soft_wrap=True)
