"""An agent for blocking code: `guiagent.agent.Agent` on a device of `guiagent.connect()`."""

import contextlib
from collections.abc import Iterator

from guiagent.agent import LIMITS, Agent, AgentStep, Limits, Run, Stop
from guiagent.client.sync_device import SyncDevice
from guiagent.errors import UsageError
from guiagent.protocols import Policy
from guiagent.types import ObserveSpec, Trajectory


class SyncAgent:
    """A policy on a device, for scripts and notebooks. Arguments as those of `Agent`.

    for step in SyncAgent(policy, device).run("Find the opening hours"):
        print(step.output.text)

    The policy runs on the event loop of the device's farm; close it there: `device.wait(policy.close())`.
    """

    def __init__(
        self,
        policy: Policy,
        device: SyncDevice,
        *,
        limits: Limits = LIMITS,
        spec: ObserveSpec | None = None,
    ) -> None:
        self._device = device
        self._agent = Agent(policy, device.asynchronous, limits=limits, spec=spec)

    def run(self, instruction: str) -> "SyncRun":
        """Carry out an instruction, from what the device shows now. It begins when the run is iterated."""
        return SyncRun(self._device, self._agent.run(instruction))


class SyncRun:
    """Steps as they are done; leaving the loop ends the run. Attributes and errors are those of `Run`."""

    def __init__(self, device: SyncDevice, run: Run) -> None:
        self._device = device
        self._run = run

    @property
    def trajectory(self) -> Trajectory | None:
        return self._run.trajectory

    @property
    def stop(self) -> Stop | None:
        return self._run.stop

    @property
    def tokens(self) -> int:
        return self._run.tokens

    @property
    def answer(self) -> str | None:
        return self._run.answer

    def __iter__(self) -> Iterator[AgentStep]:
        try:
            while (step := self._device.wait(self._next())) is not None:
                yield step
        finally:
            with contextlib.suppress(UsageError):  # the farm was closed first, and the run with it
                self._device.wait(self._run.close())

    async def _next(self) -> AgentStep | None:
        return await anext(aiter(self._run), None)
