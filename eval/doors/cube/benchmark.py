"""A suite as a benchmark of the CUBE standard: its tasks on their seeds, each on a leased device.

The reward is the task's own check. A fault is raised, and never a reward.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import PositiveInt

from eval.doors.cube import MISSING
from eval.doors.cube.seat import See, place_of
from eval.doors.cube.tool import SuiteTool, SuiteToolConfig
from eval.stepping import SuiteTasks
from guiagent.client.sync import Farm, connect
from guiagent.errors import MissingProgram, UsageError

try:
    from cube.benchmark import Benchmark, BenchmarkConfig, BenchmarkMetadata  # type: ignore[import-not-found]
    from cube.core import Observation  # type: ignore[import-not-found]
    from cube.task import Task, TaskConfig, TaskMetadata  # type: ignore[import-not-found]
except ImportError:
    raise MissingProgram(MISSING) from None

_SERVED = "guiagent"  # in a benchmark's runtime context: which suite it serves, and on which pool


class SuiteTask(Task[TaskMetadata, SuiteTool]):  # type: ignore[misc]
    """A task on a seed. `evaluate` before the end ends it: a check may change what it looks at."""

    seed: int

    def reset(self) -> tuple[Observation, dict[str, Any]]:
        return self.tool.begin(self.id, self.seed), {"task": self.id, "seed": self.seed}

    def evaluate(self, obs: Observation | None = None) -> tuple[float, dict[str, Any]]:
        return self.tool.score(), {}

    def finished(self, obs: Observation | None = None) -> bool:
        return bool(self.tool.over)


class SuiteTaskConfig(TaskConfig):  # type: ignore[misc]
    def make(self, runtime_context: dict[str, Any] | None = None) -> SuiteTask:
        """The task of this config, which a client may have sent: under a benchmark it is one of the suite
        that the benchmark serves, on its pool. Raises UsageError for any other."""
        tool = self.tool_config
        if not isinstance(tool, SuiteToolConfig) or self.seed is None:
            raise UsageError("a task has a seed and a SuiteToolConfig: take one of get_task_configs()")
        served = (runtime_context or {}).get(_SERVED)
        if served is not None:
            if [tool.suite, tool.split] != [served["suite"], served["split"]]:
                raise UsageError(f"the tasks here are those of {served['suite']} ({served['split']})")
            tool = tool.model_copy(update={"pool": served["pool"]})
        SuiteTasks(tool.suite, tool.split).exactly(self.metadata.id, self.seed)
        return SuiteTask(metadata=self.metadata, tool_config=tool, seed=self.seed)


class SuiteBenchmark(Benchmark):  # type: ignore[misc]
    """The pool that a suite's tasks lease devices from, found or started by `SuiteBenchmarkConfig.make`."""

    _farm: Farm | None = None

    def _setup(self) -> None:
        config = self.config
        tasks = SuiteTasks(config.suite, config.split)
        self._farm = connect(config.pool, devices=[tasks.devices(config.devices)])
        where = place_of(config.pool, self._farm.endpoint)
        self._runtime_context[_SERVED] = {"suite": config.suite, "split": config.split, "pool": where}

    def close(self) -> None:
        """End the connection to the pool, and a pool that was started for this."""
        if self._farm is not None:
            self._farm.close()


class SuiteBenchmarkConfig(BenchmarkConfig):  # type: ignore[misc]
    """Which tasks: `split` "train" has a suite's training tasks and their seeds, "evaluation" all of its
    tasks on its held-out seeds; each is played on `episodes` seeds.

    A model `see`s the "elements" of the screen as text, the "screen", or "both". An episode has `max_steps`
    actions, or as many as its task allows. `pool` is as for `guiagent.connect`; without one, this user's pool
    is used, or one of `devices` is started that ends with the benchmark: as many as tasks run at a time.

    Raises UsageError, where the tasks are asked for, for an unknown suite or split.
    """

    suite: str
    split: str = "evaluation"
    episodes: PositiveInt = 1
    devices: PositiveInt = 4
    see: See = "both"
    max_steps: PositiveInt | None = None
    pool: str | None = None

    task_config_class = SuiteTaskConfig
    benchmark_class = SuiteBenchmark

    @property
    def benchmark_metadata(self) -> BenchmarkMetadata:
        tasks = SuiteTasks(self.suite, self.split)
        about = f"{len(tasks.names)} tasks of the suite {self.suite} on a leased {tasks.suite.device}"
        version = tasks.suite.digest  # the same for the same tasks and seeds
        name = f"guiagent-{self.suite}"
        return BenchmarkMetadata(name=name, version=version, description=about, num_tasks=len(tasks.names))

    @property
    def task_metadata(self) -> dict[str, TaskMetadata]:
        split = "train" if self.split == "train" else "test"
        names = SuiteTasks(self.suite, self.split).names
        most = self.max_steps
        return {name: TaskMetadata(id=name, split=split, recommended_max_steps=most) for name in names}

    def get_task_configs(self) -> Iterator[SuiteTaskConfig]:
        """Every task on its first seeds. Raises UsageError for a tool or seeds that are not the suite's."""
        if self.tool_config is not None or self.seed_generator is not None:
            raise UsageError("a suite brings its tool and its seeds: set see, max_steps and episodes instead")
        fields = ("suite", "split", "see", "max_steps", "pool")
        tool = SuiteToolConfig(**{name: getattr(self, name) for name in fields})
        seeds = SuiteTasks(self.suite, self.split).seeds(self.episodes)
        for metadata in self.tasks().values():
            for seed in seeds:
                yield SuiteTaskConfig(metadata=metadata, seed=seed, tool_config=tool)
