"""Suites of Harbor's task folders: `harbor:FOLDER` has those of others on desktops, or ours as written."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from eval.suites.suite import Suite
from guiagent.errors import UsageError
from guiagent.seeds import EVALUATION
from rewards.tasksets.harbor import PREFIX, Harbor
from rewards.tasksets.harbor.folder import Ours

_ATTEMPTS = 50  # at most, per task: seeds change nothing, since the tasks have no parameters


def harbor_suite(name: str, find: Callable[[str], Suite]) -> Suite:
    """The suite `harbor:FOLDER`. `find` finds the suite that folders of ours were written from.

    Raises UsageError for a bad folder, and for one that mixes ours with others.
    """
    tasks = Harbor(Path(name.removeprefix(PREFIX)))
    ours = [folder.ours for folder in tasks if folder.ours is not None]
    if not ours:
        return _of_others(name, tasks)
    if len(ours) < len(tasks.names) or len({one.suite for one in ours}) > 1:
        raise UsageError(f"{name} mixes the tasks of several suites or projects: name a folder for each")
    if ":" in ours[0].suite:
        raise UsageError(f"{name} was written from {ours[0].suite}: name that suite")
    return _of_ours(name, ours, find(ours[0].suite))


def _of_others(name: str, tasks: Harbor) -> Suite:
    return Suite(
        name=name,
        taskset=name,
        train_tasks=(),
        unseen_tasks=tuple(tasks.names),
        episodes=_ATTEMPTS,
        device="desktop",
        grants=("shell", "files"),
        oracle=False,
        content=tasks.digest,
    )


def _of_ours(name: str, ours: Sequence[Ours], suite: Suite) -> Suite:
    """The tasks and seeds of a suite that folders were written from."""
    if unknown := sorted({one.task for one in ours} - set(suite.tasks)):
        raise UsageError(f"{name}: suite {suite.name} has no task {unknown[0]!r}")
    seeds = {task: sorted(one.seed for one in ours if one.task == task) for task in suite.tasks}
    chosen = {task: of for task, of in seeds.items() if of}
    first, *others = chosen.values()
    if not all(seed in EVALUATION for seed in first):
        raise UsageError(f"{name} has seeds to learn from: write it with --split evaluation to measure on it")
    if any(of != first for of in others) or first != list(range(first[0], first[0] + len(first))):
        raise UsageError(f"{name} has not the same seeds of every task: write it anew with --episodes")
    return replace(
        suite,
        name=name,
        train_tasks=tuple(task for task in suite.train_tasks if task in chosen),
        unseen_tasks=tuple(task for task in suite.unseen_tasks if task in chosen),
        first_seed=first[0],
        episodes=len(first),
    )
