"""OSWorld's tasks with solutions, which show that a task can be done here and that its check sees it.

OSWorld's files have none. `solutions.json` beside this file has ours for public tasks that need no assets; a
`solutions.json` in the folder of the task files adds to them, or replaces some. Its form is
`{TASK: [STEP, ...]}`, with steps as in OSWorld's set-up, run after it. A task that cannot be done needs none:
saying so solves it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from guiagent.errors import DECODE_ERRORS, UsageError
from guiagent.protocols import Device
from guiagent.types import Ending
from rewards.tasksets.osworld.schema import MAX_FILE, read_step
from rewards.tasksets.osworld.setup import unsupported
from rewards.tasksets.osworld.steps import Step
from rewards.tasksets.osworld.task import OsworldTask
from rewards.tasksets.task_files import content

SOLUTIONS = "solutions.json"
_OURS = Path(__file__).with_name(SOLUTIONS)


@dataclass
class SolvedOsworldTask(OsworldTask):
    """A task of OSWorld's that proves its own check; it has no near-misses."""

    solution: Sequence[Step] = ()

    @property
    def mutants(self) -> Sequence[str]:
        return ()

    async def oracle(self, device: Device) -> Ending:
        """Carry out the solution's steps. Raises FaultError (origin "task") if one fails."""
        if self.file.infeasible:
            return Ending(claim="infeasible")
        for step in self.solution:
            await self.run(step)
        return Ending(claim="success")

    async def mutate(self, mutant: str, device: Device) -> Ending:
        raise KeyError(mutant)


def solutions(folder: Path) -> Mapping[str, Sequence[Step]]:
    """Read our solutions and those of a folder of task files. Raises UsageError if the folder's are no such
    file."""
    return _read(_OURS) | (_read(folder / SOLUTIONS) if (folder / SOLUTIONS).is_file() else {})


def _read(path: Path) -> dict[str, list[Step]]:
    text = content(path, MAX_FILE, "a file of solutions")
    try:
        known = msgspec.json.decode(text, type=dict[str, list[dict[str, Any]]])
    except DECODE_ERRORS as error:
        raise UsageError(f"{path}: {error}") from error
    return {
        task: [_step(step, f"{task}[{i}]", str(path)) for i, step in enumerate(steps)]
        for task, steps in known.items()
    }


def _step(step: Mapping[str, Any], key: str, name: str) -> Step:
    read = read_step(step, key, name)
    if why := unsupported(read):
        raise UsageError(f"{name}: {key}: step {read.kind!r}: {why}")
    return read
