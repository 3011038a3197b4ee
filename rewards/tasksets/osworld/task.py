"""One of OSWorld's task files as a `Task`: set up in the guest, graded on the host.

Gold files never reach the device. Whatever the agent does, the worst result is a score of 0; a missing asset,
a step that fails before the episode or a gold file that cannot be read is a fault.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from guiagent.errors import Fault, FaultError, InfrastructureError, UsageError
from guiagent.protocols import Device, Services
from guiagent.types import Ending, Observation, ObserveSpec, ResetSpec, Score
from rewards.checks import evaluator, getters, grading, metrics
from rewards.checks.assets import Assets
from rewards.checks.guest import Guest
from rewards.checks.workspace import Workspace
from rewards.tasksets.osworld import setup
from rewards.tasksets.osworld.schema import Check, Source, TaskFile
from rewards.tasksets.osworld.steps import Step
from rewards.tasksets.osworld.support import lacking


@dataclass
class OsworldTask:
    """One OSWorld task. `folder` holds the task files; steps may upload files from it."""

    file: TaskFile
    seed: int
    max_steps: int
    assets: Assets
    folder: Path
    password: str
    probes: Mapping[str, str] = field(default_factory=dict)
    _workspace: Workspace | None = None
    _files: "TemporaryDirectory[str] | None" = None  # removed with this object if `teardown` is not called

    @property
    def id(self) -> str:
        return self.file.id

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        """Reset the desktop and run the task's steps.

        Raises:
            FaultError: a step failed, an asset is missing, or the task needs what is unsupported.
            UsageError: the device has no OSWorld server.
            InfrastructureError: this machine has no sandboxes, in which what the agent makes is graded.
        """
        if missing := lacking(self.file):
            raise FaultError(Fault("task", "unsupported", f"{self.id} needs {'; '.join(missing)}"))
        described = await device.describe()
        if not isinstance(device, Services) or "osworld" not in described.features:
            raise UsageError(
                f"{self.id} needs a desktop or VM with the feature 'osworld', not a {described.kind}"
            )
        await asyncio.gather(
            device.reset(self.seed, ResetSpec(), ObserveSpec(frame="none")),
            asyncio.to_thread(grading.prepare),
        )
        await self.teardown(device)
        self._files = TemporaryDirectory(prefix="guiagent-osworld-")
        self._workspace = Workspace(
            Guest(device),
            self.assets,
            Path(self._files.name),
            self.folder,
            (described.width, described.height),
            self.password,
        )
        await setup.prepare(self._workspace, self.file.config)
        return self.file.instruction, await device.observe(spec)

    async def run(self, step: Step) -> None:
        """Run one more step of OSWorld's after `setup`. Raises FaultError (origin "task") if it fails."""
        if self._workspace is None:
            raise RuntimeError("run before setup")
        await setup.prepare(self._workspace, [step])

    def ended(self, observation: Observation) -> bool:
        return False  # only the agent ends these

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        """Score as OSWorld's evaluator does. Call it once after `setup`: `postconfig` changes the device.

        If the agent's claim alone decides, `postconfig` is left out: nothing would use its result.
        """
        workspace = self._workspace
        if workspace is None:
            raise RuntimeError("check before setup")
        functions = [check.func for check in self.file.checks]
        decided = evaluator.claimed(functions, ending.claim)
        if decided is not None:
            said = ending.claim or "nothing"
            kind = "cannot be done" if self.file.infeasible else "can be done"
            return Score(decided, "check", f"the task {kind}, and the agent claims {said}")
        await setup.finish(workspace, self.file.postconfig)
        branches = [partial(_value, workspace, check) for check in self.file.checks]
        value, values = await evaluator.combine(self.file.conjunction, branches)
        told = [f"{name} = {number:g}" for name, number in zip(functions, values, strict=False)]
        evidence: dict[str, Any] = {"metrics": told, "conjunction": self.file.conjunction}
        if workspace.notes:
            evidence["notes"] = list(workspace.notes)
        return Score(value, "check", ", ".join(told), evidence)

    async def teardown(self, device: Device) -> None:
        """Remove this episode's files on the host; the next reset restores the desktop."""
        if self._files is not None:
            self._files.cleanup()
        self._files = self._workspace = None


async def _value(workspace: Workspace, check: Check) -> float:
    """Compute one metric; 0 if what the agent should have made is not there."""
    result = await _collect(workspace, check.result)
    if result is None:
        return 0.0
    arguments = [result]
    trusted = True  # whether `expected` is gold; in some tasks it is the agent's file, and the result is gold
    if check.expected is not None:
        expected = await _collect(workspace, check.expected)
        trusted = check.expected.type in getters.ON_HOST
        if expected is None:
            return 0.0
        arguments.append(expected)
    try:
        if check.func in metrics.WITH_SANDBOXES:
            return await asyncio.to_thread(metrics.load(check.func), *arguments, **check.options)
        return await grading.grade(check.func, arguments, check.options)
    except grading.Exceeded as exceeded:
        workspace.notes.append(f"{check.func}: {exceeded}")
        return 0.0
    except grading.Ungraded:
        raise
    except InfrastructureError as error:
        if not trusted:
            return 0.0
        message = f"{check.func}: {error}"
        raise FaultError(Fault("task", "bad_gold", message)) from error


async def _collect(workspace: Workspace, source: Source | None) -> Any:
    if source is None:
        return None
    return await getters.load(source.type)(workspace, source.config)
