"""An agent: a policy that carries out an instruction on a device, step by step, within limits.

The loop is that of `guiagent.episode`; what it plays here has no set-up and no check.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from guiagent.episode import run_episode
from guiagent.errors import FaultError, UsageError
from guiagent.protocols import Device, Policy, Turn
from guiagent.types import Ending, Observation, ObserveSpec, PolicyOutput, Score, StopReason, Trajectory

Stop = Literal[StopReason, "max_seconds", "max_tokens"]


@dataclass(frozen=True, slots=True)
class Limits:
    """When a run ends that the policy does not end itself.

    Attributes:
        steps: turns of the policy.
        seconds: since the run began. A policy that is late is not waited for.
        tokens: of all prompts and completions, for a policy that reports them. Checked after every step.
    """

    steps: int = 50
    seconds: float = 600.0
    tokens: int | None = None

    def __post_init__(self) -> None:
        if self.steps < 1 or not self.seconds > 0 or (self.tokens is not None and self.tokens < 1):
            raise UsageError(f"limits are above 0, or there is nothing to run: {self}")


@dataclass(frozen=True, slots=True)
class AgentStep:
    """One turn of a run. Notebooks show its last picture.

    Attributes:
        index: from 0.
        observation: what the policy saw.
        output: what it replied: `text`, `actions`, and `error` if it could not be read.
        after: what the device showed after the actions; the same observation if there were none.
    """

    index: int
    observation: Observation
    output: PolicyOutput
    after: Observation

    def _repr_png_(self) -> bytes | None:
        return self.after._repr_png_()

    def _repr_jpeg_(self) -> bytes | None:
        return self.after._repr_jpeg_()


LIMITS = Limits()


class Agent:
    """A policy on a device.

        async for step in Agent(policy, device).run("Find the opening hours"):
            print(step.output.text)

    `spec` says what the policy sees; by default a JPEG, with url and title where the device has pages.
    `guiagent.client.sync_agent.SyncAgent` is the same for blocking code.
    """

    def __init__(
        self, policy: Policy, device: Device, *, limits: Limits = LIMITS, spec: ObserveSpec | None = None
    ) -> None:
        self._policy = policy
        self._device = device
        self._limits = limits
        self._spec = spec

    def run(self, instruction: str) -> "Run":
        """Carry out an instruction, from what the device shows now. It begins when the run is iterated."""
        return Run(instruction, self._policy, self._device, self._limits, self._spec)


class Run:
    """Steps as they are done; the agent goes on when the next one is asked for. `await` runs it to its end.

    Raises FaultError from the iteration if the device or the policy failed; what was done is in `trajectory`.

    Attributes:
        trajectory: the record of the whole run, once it is over. It has no frames.
        stop: why it ended: `StopReason`, or the limit that it met.
        tokens: of prompts and completions so far, if the policy reports them.
    """

    def __init__(
        self, instruction: str, policy: Policy, device: Device, limits: Limits, spec: ObserveSpec | None
    ) -> None:
        self.instruction = instruction
        self.trajectory: Trajectory | None = None
        self.stop: Stop | None = None
        self.tokens = 0
        self._policy = policy
        self._device = device
        self._limits = limits
        self._spec = spec
        self._until = 0.0  # by the event loop's clock
        self._doing: AgentStep | None = None
        self._done: asyncio.Queue[AgentStep | None] = asyncio.Queue()
        self._steps = self._stream()

    @property
    def answer(self) -> str | None:
        """The agent's answer, if it gave one."""
        return self.trajectory.ending.answer if self.trajectory is not None else None

    def __aiter__(self) -> AsyncIterator[AgentStep]:
        return self._steps

    def __await__(self) -> Generator[object, None, Trajectory]:
        return self._whole().__await__()

    async def close(self) -> None:
        """End the run where it is. Leaving the loop over it does the same, a little later."""
        await self._steps.aclose()

    async def _whole(self) -> Trajectory:
        async for _ in self:
            pass
        if self.trajectory is None:
            raise UsageError("this run was closed before its end")
        return self.trajectory

    async def _stream(self) -> AsyncGenerator[AgentStep, None]:
        playing = asyncio.create_task(self._play())
        try:
            while (step := await self._done.get()) is not None:
                yield step
                self._done.task_done()
            self.trajectory = await playing
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
        if self.trajectory.fault is not None:
            raise FaultError(self.trajectory.fault)

    async def _play(self) -> Trajectory:
        self._until = asyncio.get_running_loop().time() + self._limits.seconds
        try:
            spec = self._spec or ObserveSpec(page="page" in (await self._device.describe()).features)
            trajectory = await run_episode(
                _Errand(self),
                self._device,
                _Paced(self, self._policy),
                keep_frame=lambda frame: "",
                spec=spec,
                id=uuid.uuid4().hex,
                max_steps=self._limits.steps,
                on_step=self._decided,
            )
            if self._doing is not None:  # it did nothing, or ended in a fault
                self._done.put_nowait(self._doing)
            if self.stop is None:
                self.stop = trajectory.stop
            else:
                trajectory.stop = "max_steps"  # records know no other limit
            return trajectory
        finally:
            self._done.put_nowait(None)

    def _decided(self, index: int, seen: Observation, output: PolicyOutput) -> None:
        self._doing = AgentStep(index, seen, output, seen)

    def _did(self, after: Observation) -> None:
        assert self._doing is not None
        doing, self._doing = self._doing, None
        self._done.put_nowait(AgentStep(doing.index, doing.observation, doing.output, after))

    def _at_limit(self) -> bool:
        if self._limits.tokens is not None and self.tokens >= self._limits.tokens:
            self.stop = "max_tokens"
        elif asyncio.get_running_loop().time() >= self._until:
            self.stop = "max_seconds"
        return self.stop is not None

    def _late(self) -> PolicyOutput:
        self.stop = "max_seconds"
        return PolicyOutput("", error=f"no reply within the {self._limits.seconds:g} s of the run")

    def _count(self, output: PolicyOutput) -> None:
        """Add up tokens. Raises UsageError if they are limited and the policy does not report them."""
        used = sum(len(call.prompt_ids) + len(call.completion_ids) for call in output.sampled)
        if self._limits.tokens is not None and not used:
            raise UsageError("this policy does not report its tokens: limit the run's steps or seconds")
        self.tokens += used


class _Paced:
    """The policy of a run, asked for its next turn only once the caller took the last one."""

    def __init__(self, run: Run, policy: Policy) -> None:
        self._run = run
        self._policy = policy

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        await self._run._done.join()
        try:
            async with asyncio.timeout_at(self._run._until) as left:
                output = await self._policy.act(episode, instruction, history, observation)
        except TimeoutError:
            if not left.expired():
                raise  # the policy's own
            return self._run._late()
        self._run._count(output)
        return output

    def forget(self, episode: str) -> None:
        self._policy.forget(episode)


class _Errand:
    """The task of a run: whatever the instruction says, on the device as it is, with nobody to check it."""

    id = "errand"
    seed = 0
    probes: Mapping[str, str] = {}

    def __init__(self, run: Run) -> None:
        self._run = run
        self.max_steps = run._limits.steps

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        return self._run.instruction, await device.observe(spec)

    def ended(self, observation: Observation) -> bool:
        """Note what the last actions led to; True at a limit."""
        self._run._did(observation)
        return self._run._at_limit()

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        return Score(None, reason="nobody checks it")

    async def teardown(self, device: Device) -> None:
        pass
