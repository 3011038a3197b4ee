"""A desktop task: OSWorld's task from its generated file, with a solution and near-misses that prove it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from guiagent.errors import Fault, FaultError
from guiagent.protocols import Device
from guiagent.types import Ending, Observation, ObserveSpec, Score
from rewards.checks.assets import Assets
from rewards.tasksets.desktop.scenario import HOST, Play, Scenario
from rewards.tasksets.osworld.schema import TaskFile
from rewards.tasksets.osworld.steps import Step
from rewards.tasksets.osworld.task import OsworldTask

_MAX_STEPS = 30
_PASSWORD = "password"
_BLIND = ObserveSpec(frame="none")


@dataclass
class DesktopTask:
    """One task with a seed; its files lie in a folder of this episode, which `teardown` removes."""

    file: TaskFile
    scenario: Scenario
    seed: int
    max_steps: int = _MAX_STEPS
    probes: Mapping[str, str] = field(default_factory=dict)
    _inner: OsworldTask | None = None
    _folder: "TemporaryDirectory[str] | None" = None

    @property
    def id(self) -> str:
        return self.file.id

    @property
    def mutants(self) -> Sequence[str]:
        return tuple(self.scenario.misses)

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        """Write the task's files to this host, then set up as `OsworldTask` does."""
        await self.teardown(device)
        self._folder = TemporaryDirectory(prefix="guiagent-desktop-")
        folder = Path(self._folder.name)
        await asyncio.to_thread(_write, folder / "mirror" / HOST, self.scenario.files)
        assets = Assets(folder / "cache", folder / "mirror", download=False)
        self._inner = OsworldTask(self.file, self.seed, self.max_steps, assets, folder, _PASSWORD)
        return await self._inner.setup(device, spec)

    def ended(self, observation: Observation) -> bool:
        return False

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        if self._inner is None:
            raise RuntimeError("check before setup")
        return await self._inner.check(device, observation, ending)

    async def teardown(self, device: Device) -> None:
        if self._inner is not None:
            await self._inner.teardown(device)
        if self._folder is not None:
            self._folder.cleanup()
        self._inner = self._folder = None

    async def oracle(self, device: Device) -> Ending:
        if self.file.infeasible:
            return Ending(claim="infeasible")
        return await self._played(self.scenario.solution, device)

    async def mutate(self, mutant: str, device: Device) -> Ending:
        return await self._played(self.scenario.misses[mutant], device)

    async def _played(self, play: Play, device: Device) -> Ending:
        """Carry out actions and steps in order. Raises FaultError if one of them has no effect."""
        if self._inner is None:
            raise RuntimeError("a solution is played after setup")
        for one in play:
            if isinstance(one, Step):
                await self._inner.run(one)
            elif why := (await device.act([one], _BLIND)).action_error:
                raise FaultError(Fault("task", "bad_oracle", f"{self.id}: {one.type}: {why}"))
        return Ending(claim="success")


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
