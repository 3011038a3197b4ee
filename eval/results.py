"""Results of running a suite, as plain data, and their totals.

The headline rate counts every scheduled episode: an episode that a fault left without a verdict counts as a
failure. Beside it are the number of those, the rate without them, and the rate if all of them had succeeded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import msgspec

from eval.conditions import Conditions, joined_conditions
from eval.stats import Proportion, macro_mean, mcnemar_exact, newcombe
from eval.suites.suite import Suite, joined
from guiagent.errors import DECODE_ERRORS, InfrastructureError
from guiagent.storage.atomic import write_file
from guiagent.types import StopReason, Trajectory

RESULTS = "results.json"  # in the folder of an evaluation
TRAINED = "training tasks, held-out seeds"  # what the halves of a suite are called
UNSEEN = "tasks never trained on"
Outcome = Literal["success", "failure", "fault"]
_UNKNOWN = Conditions()


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    task: str
    seed: int
    outcome: Outcome
    stop: StopReason
    steps: int
    seconds: float
    attempts: int  # above 1 if it was run again after faults
    detail: str  # the score's reason, or the fault in one line
    trajectory: str  # the trajectory's id in the store
    tokens: int = 0  # of its prompts and replies; 0 where a server does not tell them
    tokens_out: int = 0  # of its replies alone
    value: float | None = None  # the score in [0, 1]; None of a fault, or in results of older versions
    parts: Mapping[str, float] = field(default_factory=dict)  # what the score is made of, each in [0, 1]

    @property
    def score(self) -> float:
        """The score as OSWorld averages it: a fraction counts, a fault is 0."""
        return float(self.outcome == "success") if self.value is None else self.value


@dataclass(frozen=True, slots=True)
class TaskResult:
    """Totals of the episodes of one task, or of several tasks pooled."""

    task: str
    trained: bool  # whether the policy was trained on the task
    scheduled: Proportion  # successes of all that were scheduled: the headline
    faults: int
    mean_steps: float  # of the episodes with a verdict; NaN without any
    mean_score: float  # of all that were scheduled, fractions counted; NaN without any

    @property
    def judged(self) -> Proportion:
        """Successes among the episodes with a verdict."""
        return Proportion(self.scheduled.successes, self.scheduled.n - self.faults)

    @property
    def rate_if_faults_succeeded(self) -> float:
        return (self.scheduled.successes + self.faults) / self.scheduled.n if self.scheduled.n else 1.0


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """All episodes of one policy, named by `label`, on a suite."""

    suite: Suite
    label: str
    episodes: tuple[EpisodeResult, ...]
    ran: Conditions = _UNKNOWN  # nothing is known of results that older versions wrote

    @property
    def tasks(self) -> tuple[TaskResult, ...]:
        """The totals of each task, in the suite's order."""
        played: dict[str, list[EpisodeResult]] = {task: [] for task in self.suite.tasks}
        for episode in self.episodes:
            played[episode.task].append(episode)
        trained = set(self.suite.train_tasks)
        return tuple(pooled_of(task, episodes, task in trained) for task, episodes in played.items())

    def pooled(self, trained: bool) -> TaskResult:
        """Return the totals over all training tasks, or over all unseen ones."""
        names = set(self.suite.train_tasks if trained else self.suite.unseen_tasks)
        return pooled_of("all", [e for e in self.episodes if e.task in names], trained)

    def macro(self, trained: bool) -> float:
        """Return the mean of the tasks' rates, over training tasks or unseen ones."""
        return macro_mean(row.scheduled for row in self.tasks if row.trained == trained)


def together(results: Sequence[SuiteResult]) -> SuiteResult:
    """Return the results of one policy on several suites as one, on the suites joined."""
    if len(results) == 1:
        return results[0]
    return SuiteResult(
        joined([result.suite for result in results]),
        results[0].label,
        tuple(episode for result in results for episode in result.episodes),
        joined_conditions([result.ran for result in results]),
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a policy and those that it is compared with, all on the same suite."""

    after: SuiteResult
    before: SuiteResult | None = None
    baselines: tuple[SuiteResult, ...] = ()

    def __post_init__(self) -> None:
        others = [r for r in (self.before, *self.baselines) if r is not None]
        if any(r.suite.digest != self.after.suite.digest for r in others):
            raise ValueError("results of different suites cannot be compared")

    def paired(self, trained: bool) -> tuple[int, int]:
        """Count the seeds that turned from failure to success by the training, and the other way round.

        Pairs with a fault on either side are left out.
        """
        if self.before is None:
            return 0, 0
        was = {(e.task, e.seed): e.outcome for e in self.before.episodes}
        names = self.after.suite.train_tasks if trained else self.after.suite.unseen_tasks
        changes = [(was.get((e.task, e.seed)), e.outcome) for e in self.after.episodes if e.task in names]
        return changes.count(("failure", "success")), changes.count(("success", "failure"))


def episode_result(trajectory: Trajectory, attempts: int) -> EpisodeResult:
    """Return the result of an episode that was attempted so many times."""
    score, fault = trajectory.score, trajectory.fault
    if trajectory.valid:
        outcome: Outcome = "success" if trajectory.success else "failure"
    else:
        outcome = "fault"
    detail = (
        f"{fault.origin} fault ({fault.code}): {fault.message}" if fault else score.reason if score else ""
    )
    calls = [call for step in trajectory.steps for call in step.policy.sampled]
    return EpisodeResult(
        task=trajectory.task,
        seed=trajectory.seed,
        outcome=outcome,
        stop=trajectory.stop,
        steps=len(trajectory.steps),
        seconds=trajectory.seconds,
        attempts=attempts,
        detail=detail,
        trajectory=trajectory.id,
        tokens=sum(len(call.prompt_ids) + len(call.completion_ids) for call in calls),
        tokens_out=sum(len(call.completion_ids) for call in calls),
        value=score.value if score and trajectory.valid else None,
        parts=score.parts if score and trajectory.valid else {},
    )


def result_json(result: SuiteResult) -> dict[str, Any]:
    """Return the content of `results.json`: a row per task, the pooled rows, a row per episode."""
    return {
        "suite": result.suite.name,
        "digest": result.suite.digest,
        "label": result.label,
        "ran": msgspec.to_builtins(result.ran),
        "tasks": [task_json(row) for row in result.tasks],
        "train_pooled": task_json(result.pooled(trained=True)),
        "unseen_pooled": task_json(result.pooled(trained=False)),
        "episodes": [msgspec.to_builtins(e) for e in result.episodes],
    }


def read_result(path: Path, suite: Suite) -> SuiteResult:
    """Read the result of `suite` from a `results.json`.

    Raises InfrastructureError if it cannot be read, or is of another suite.
    """
    found = read_stored(path)
    if found.digest != suite.digest:
        raise InfrastructureError(f"{path} is a result of another suite than {suite.name}")
    return SuiteResult(suite, found.label, found.episodes, found.ran)


class StoredTask(msgspec.Struct, frozen=True):
    """A task's row of `results.json`: whether its suite lets policies train on it, with other seeds."""

    task: str
    trained: bool


class StoredResult(msgspec.Struct, frozen=True):
    """The fields of a `results.json` that are read; all others are computed from them."""

    suite: str  # its name; the digest says which version of it
    digest: str
    label: str
    episodes: tuple[EpisodeResult, ...]
    ran: Conditions = _UNKNOWN
    tasks: tuple[StoredTask, ...] = ()


def read_stored(path: Path) -> StoredResult:
    """Read a `results.json` of any suite. Raises InfrastructureError if it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=StoredResult)
    except OSError as error:
        raise InfrastructureError(f"cannot read {path}: {error.strerror}") from error
    except DECODE_ERRORS as error:
        raise InfrastructureError(
            f"{path} is damaged ({error}); remove its folder to measure again"
        ) from error


def task_json(row: TaskResult) -> dict[str, Any]:
    """Return a task's row of `results.json`."""
    return {"task": row.task, "trained": row.trained, **rate_json(row), "mean_steps": row.mean_steps}


def rate_json(row: TaskResult) -> dict[str, Any]:
    """Return counts and rates of a row, with the headline rate's 95% interval."""
    interval = row.scheduled.interval
    return {
        "n": row.scheduled.n,
        "successes": row.scheduled.successes,
        "faults": row.faults,
        "rate": row.scheduled.rate,
        "low": interval.low,
        "high": interval.high,
        "rate_without_faults": row.judged.rate,
        "rate_if_faults_succeeded": row.rate_if_faults_succeeded,
        "mean_score": row.mean_score,
    }


def summary_json(comparison: Comparison) -> dict[str, Any]:
    """Return success before and after, per task and pooled, with interval and test, and the baselines."""
    before, after = comparison.before, comparison.after

    def pool(trained: bool) -> dict[str, Any]:
        a = after.pooled(trained)
        if before is None:
            return {"before": None, "after": rate_json(a)}
        b = before.pooled(trained)
        change = newcombe(b.scheduled, a.scheduled)
        gained, lost = comparison.paired(trained)
        return {
            "before": rate_json(b),
            "after": rate_json(a),
            "change": {"low": change.low, "high": change.high},
            "paired": {"gained": gained, "lost": lost, "p": mcnemar_exact(gained, lost)},
            "macro": {"before": before.macro(trained), "after": after.macro(trained)},
        }

    befores: Sequence[TaskResult | None] = before.tasks if before else [None] * len(after.tasks)
    return {
        "suite": after.suite.name,
        "digest": after.suite.digest,
        "tasks": [
            {"task": a.task, "trained": a.trained, "before": b and rate_json(b), "after": rate_json(a)}
            for b, a in zip(befores, after.tasks, strict=True)
        ],
        "train_pooled": pool(trained=True),
        "unseen_pooled": pool(trained=False),
        "baselines": {
            r.label: {
                "train_pooled": rate_json(r.pooled(trained=True)),
                "unseen_pooled": rate_json(r.pooled(trained=False)),
            }
            for r in comparison.baselines
        },
    }


def write_json(path: Path, content: object) -> None:
    """Write a JSON file at once or not at all. NaN, such as a rate without trials, becomes null."""
    write_file(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def pooled_of(task: str, episodes: Sequence[EpisodeResult], trained: bool = False) -> TaskResult:
    """Return the totals of episodes under a name."""
    outcomes = [e.outcome for e in episodes]
    steps = [e.steps for e in episodes if e.outcome != "fault"]
    return TaskResult(
        task=task,
        trained=trained,
        scheduled=Proportion(outcomes.count("success"), len(outcomes)),
        faults=outcomes.count("fault"),
        mean_steps=fmean(steps) if steps else float("nan"),
        mean_score=fmean(e.score for e in episodes) if episodes else float("nan"),
    )
