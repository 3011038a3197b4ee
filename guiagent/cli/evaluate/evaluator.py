"""Measure policies on a suite: the part that `eval`, `train`, `compare` and recipes share."""

from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from eval.results import SuiteResult
from eval.run import Agent, Benchmark, run_suite
from eval.suites.suite import Suite
from guiagent.cli.common.policy import PROBING, PolicySettings, facts_of, open_policy
from guiagent.cli.common.progress import StageLine
from guiagent.client import FarmClient
from guiagent.types import ObserveSpec
from rewards.catalogue import find_taskset

_SPEC = ObserveSpec(frame="png")


@dataclass(frozen=True)
class Evaluator:
    """A suite, so many devices of a farm to run it on, and the settings of the models among its policies."""

    suite: Suite
    farm: FarmClient | None  # None for a suite of pictures
    devices: int
    settings: PolicySettings
    max_steps: int | None = None  # turns of an episode, instead of each task's own number
    guardrails: str | None = None  # digest of the rules that the farm holds; None: it has none of ours

    async def measure(self, name: str, label: str, out: Path, episodes: int, line: StageLine) -> SuiteResult:
        """Run the policy `name`, as `open_policy` knows it, for `episodes` per task; progress is on `line`.

        Results are kept in `out` under `label`, as `eval.run.run_suite` says.
        """
        oracle = self.suite.oracle and name in PROBING
        # Where the tasks do not say what can be touched, the tree does.
        spec = replace(_SPEC, tree=name == "random-element" and not oracle)
        taskset = find_taskset(self.suite.taskset, oracle=oracle)
        benchmark = Benchmark(self.suite, taskset, episodes, self.max_steps)
        facts = facts_of(name, self.settings) | ({"guardrails": self.guardrails} if self.guardrails else {})
        async with open_policy(name, self.settings) as policy:
            return await run_suite(
                benchmark,
                Agent(policy, label, spec, facts),
                self.farm,
                out,
                concurrency=self.devices,
                on_progress=lambda p: line.update(
                    f"{label}: {p.done} of {p.total} episodes, {p.successes} successes, {p.faults} faults"
                ),
            )
