"""A suite as a taskset of verifiers (0.4), and the harness that plays it on leased devices.

The harness is the agent loop of `guiagent eval`, in the runner's own process; all its model calls go through
the endpoint that verifiers records, so that its traces have the tokens that a trainer learns from. The reward
is the task's own check. A fault of a device or the farm is an error of the trace and never a reward.
"""

import asyncio
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from eval.doors.play import play, told
from eval.stepping import SuiteTasks
from guiagent.client.sync import connect
from guiagent.dialects import find_dialect
from guiagent.errors import GuiAgentError, InfrastructureError, MissingProgram
from guiagent.policies import ChatPolicy, ChatServer
from guiagent.protocols import Turn
from guiagent.types import Observation, PolicyOutput
from guiagent.wire import Endpoint

try:
    import verifiers.v1 as vf  # type: ignore[import-not-found]
except ImportError:
    raise MissingProgram("verifiers is not installed: pip install verifiers") from None

_KEPT = "guiagent"  # in a trace's info: what its episode came to


class SuiteConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Which tasks: `split` "train" has a suite's training tasks and their seeds, "evaluation" all of its
    tasks on its held-out seeds; `episodes` is how many seeds each task is played on."""

    suite: str = ""
    split: str = "evaluation"
    episodes: int = 1


class SuiteData(vf.TaskData):  # type: ignore[misc]
    suite: str
    split: str
    task: str
    seed: int


class SuiteTask(vf.Task[SuiteData]):  # type: ignore[misc]
    @vf.reward  # type: ignore[untyped-decorator]
    async def check(self, trace: Any) -> float:
        return float(trace.info[_KEPT]["score"])


class SuiteTaskset(vf.Taskset[SuiteTask, SuiteConfig]):  # type: ignore[misc]
    def load(self) -> Iterator[SuiteTask]:
        config = self.config
        tasks = SuiteTasks(config.suite, config.split)
        for name in tasks.names:
            for seed in tasks.seeds(config.episodes):
                data = SuiteData(
                    id=f"{name}/{seed}",
                    name=name,
                    prompt=f"{name}, seed {seed}",
                    suite=config.suite,
                    split=config.split,
                    task=name,
                    seed=seed,
                )
                yield SuiteTask(data, config.task)


class SuiteHarnessConfig(vf.HarnessConfig):  # type: ignore[misc]
    """How an episode is played: the model speaks `dialect` and sees the last `max_images` screenshots (None:
    all), for `max_steps` turns, or as many as the task allows. `pool` is as for `guiagent.connect`; without
    one, this user's pool is used, or one of `devices` is started that ends with the process."""

    dialect: str = "json"
    max_images: int | None = 5
    max_steps: int | None = None
    devices: int = 4
    pool: str | None = None


class SuiteHarness(vf.Harness[SuiteHarnessConfig]):  # type: ignore[misc]
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: SuiteData,
    ) -> Any:
        config, tasks = self.config, SuiteTasks(data.suite, data.split)
        policy = _RecordedPolicy(
            ChatServer(endpoint, ctx.model, secret),
            find_dialect(config.dialect),
            max_images=config.max_images,
            tokens=False,
        )
        policy.trace = trace
        try:
            async with self._places:
                played = await play(
                    tasks,
                    data.task,
                    data.seed,
                    policy,
                    self._pool(tasks),
                    label="verifiers",
                    max_steps=config.max_steps,
                )
        finally:
            await policy.close()
        came_to = told(played)
        if came_to["score"] is None:
            raise InfrastructureError(f"the check could not tell: {came_to['reason']}")
        trace.info[_KEPT] = came_to
        return vf.ProgramResult(0, "", "")

    @cached_property
    def _places(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(self.config.devices)

    def _pool(self, tasks: SuiteTasks) -> Endpoint:
        if "_endpoint" not in self.__dict__:
            self._endpoint = connect(self.config.pool, devices=[tasks.devices(self.config.devices)]).endpoint
        return self._endpoint


class _RecordedPolicy(ChatPolicy):
    """A call that a limit of the run has refused ends the episode, whose state is then scored."""

    trace: Any

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        try:
            return await super().act(episode, instruction, history, observation)
        except GuiAgentError:
            if self.trace.stop_condition is None:
                raise
            return PolicyOutput("", error=f"the run ended it: {self.trace.stop_condition}")
