"""The type of a suite: task ids and seeds that never change under the suite's name."""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypedDict

import msgspec
import xxhash

from guiagent.errors import UsageError, nearest
from guiagent.seeds import EVALUATION, checked
from guiagent.wire import Grant


class LeaseTerms(TypedDict):
    """What every lease of a suite's device asks for, as keywords of `FarmClient.lease`."""

    kind: str
    needs: tuple[str, ...]
    grants: tuple[Grant, ...]
    egress: tuple[str, ...]


@dataclass(frozen=True)
class Suite:
    """Tasks of one taskset, each run on the same `episodes` seeds, none of which training may use."""

    name: str
    taskset: str
    train_tasks: tuple[str, ...]  # tasks that were trained on, here with held-out seeds
    unseen_tasks: tuple[str, ...]  # tasks that were never trained on
    episodes: int  # seeds per task
    device: str  # kind of device to lease
    first_seed: int = EVALUATION.start
    screen: tuple[int, int] = (1280, 800)  # size of started devices, in pixels
    grants: tuple[Grant, ...] = ("exec",)  # rights that the tasks' set-ups and checks need
    egress: tuple[str, ...] = ("public",)  # what its devices may reach, as `FarmClient.lease` says it
    oracle: bool = True  # whether `OraclePolicy` can read the solution from its tasks
    baselines: tuple[str, ...] = ("null", "random", "random-element", "oracle")
    """Policies without a model that are played beside the one that is measured. The digest ignores them."""
    guardrails: str = ""  # file of a pool's rules that come with the suite; "" if none do
    content: str = ""  # digest of the files that define the tasks; "" if there are none
    sites_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """The web applications, by their sites' names, that a task's device is leased with, by task."""
    applications: Mapping[str, str] = field(default_factory=dict, compare=False)
    """What runs on each site, such as "Roundup 2.6.0"; the digest covers those of its tasks."""
    programs: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The program that a task starts on its desktop, such as "gimp", by task. The digest ignores them."""
    addresses: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where that is what its tasks use beside a device, by name: sites that the user runs, and a model that
    compares answers; without passwords. The digest ignores them, results name them."""
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False)
    """Ways to count tasks together, such as "app": which group each task is in. The digest ignores them."""

    def __post_init__(self) -> None:
        for seed in (self.first_seed, self.first_seed + self.episodes - 1):
            checked(seed, EVALUATION)
        if len(set(self.tasks)) != len(self.tasks):
            raise ValueError(f"suite {self.name}: a task is listed twice")

    @property
    def lease(self) -> LeaseTerms:
        """The terms on which its devices are leased."""
        needs = tuple(f"site:{name}" for name in self.sites)
        return {"kind": self.device, "needs": needs, "grants": self.grants, "egress": self.egress}

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites of its tasks."""
        return tuple(sorted({site for task in self.tasks for site in self.sites_of.get(task, ())}))

    @property
    def tasks(self) -> tuple[str, ...]:
        return self.train_tasks + self.unseen_tasks

    def only(self, patterns: Sequence[str]) -> "Suite":
        """Return the suite of the tasks that match one of the patterns, such as `click-*`, on the same seeds.

        It is another suite, with a digest of its own. Raises UsageError for a pattern that no task matches.
        """
        chosen: set[str] = set()
        for pattern in patterns:
            found = fnmatch.filter(self.tasks, pattern)
            if not found:
                known = f"; it has {', '.join(self.tasks)}"[:500]
                raise UsageError(
                    f"suite {self.name} has no task {pattern!r}{nearest(pattern, self.tasks) or known}"
                )
            chosen.update(found)
        if chosen == set(self.tasks):
            return self
        train, unseen = (
            tuple(task for task in tasks if task in chosen) for tasks in (self.train_tasks, self.unseen_tasks)
        )
        return replace(
            self, name=f"{self.name} ({', '.join(train + unseen)})", train_tasks=train, unseen_tasks=unseen
        )

    def seeds(self, episodes: int | None = None) -> range:
        """The seeds of every task: the first `episodes` of the suite's, or all."""
        count = self.episodes if episodes is None else episodes
        if not 1 <= count <= self.episodes:
            raise UsageError(
                f"suite {self.name} has {self.episodes} episodes per task: ask for 1 to {self.episodes}"
            )
        return range(self.first_seed, self.first_seed + count)

    @cached_property
    def digest(self) -> str:
        """The xxh3-128 of task ids, seeds and sites: results with different digests must not be compared."""
        content: dict[str, object] = {
            "taskset": self.content or self.taskset,
            "train": self.train_tasks,
            "unseen": self.unseen_tasks,
            "seeds": [self.first_seed, self.episodes],
        }
        if self.sites:
            content["sites"] = {site: self.applications.get(site, "") for site in self.sites}
        return xxhash.xxh3_128_hexdigest(msgspec.json.encode(content))


def joined(suites: Sequence[Suite]) -> Suite:
    """Count the tasks of several suites together, by "platform" too; a single one is itself.

    Each of them is played by itself, on devices of its kind.
    """
    if len(suites) == 1:
        return suites[0]
    ways = dict.fromkeys(way for suite in suites for way in suite.groups)
    platforms = {task: suite.device for suite in suites for task in suite.tasks}
    return Suite(
        name=" and ".join(suite.name for suite in suites),
        taskset=" and ".join(suite.taskset for suite in suites),
        train_tasks=tuple(task for suite in suites for task in suite.train_tasks),
        unseen_tasks=tuple(task for suite in suites for task in suite.unseen_tasks),
        episodes=min(suite.episodes for suite in suites),
        device=" and ".join(suite.device for suite in suites),
        content=" ".join(suite.digest for suite in suites),
        groups={
            "platform": platforms,
            **{
                way: {task: group for suite in suites for task, group in suite.groups.get(way, {}).items()}
                for way in ways
            },
        },
    )
