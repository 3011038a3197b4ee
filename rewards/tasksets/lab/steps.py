"""The taskset "lab-steps": one step of a lab task, right if it is on a shortest way to the goal.

Single-turn reinforcement learning (as the second stage of GUI Exploration Lab, arXiv 2512.02423): an episode
begins in the middle of a task, where its oracle or a few taps astray would be, takes one action, and is over.
The reward is exact: the shortest way from the state after a right action is one input shorter than before.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from guiagent.lab.growth import grow
from guiagent.lab.plan import plan
from guiagent.lab.state import BACK, AppState, Rest, Tap, apply, rows
from guiagent.protocols import Device
from guiagent.types import Ending, Observation, ObserveSpec, ResetSpec, Score
from rewards.tasksets.lab import Lab
from rewards.tasksets.lab.task import LabTask, require_lab, state_of

_ASTRAY = 0.3  # share of the episodes that begin away from the shortest way
_MOST_TAPS = 3


@dataclass(frozen=True)
class LabSteps:
    """The taskset "lab-steps"; its names are those of "lab", and the seed says which step it is."""

    oracle: bool = False

    @property
    def names(self) -> Sequence[str]:
        return Lab().names

    def task(self, name: str, seed: int) -> "LabStep":
        """The step of the task `name` with `seed`. Raises UsageError for a name that "lab" does not have."""
        return LabStep(Lab(self.oracle).task(name, seed))


@dataclass(frozen=True)
class LabStep:
    """One step of a task, from a state on the way to its goal or a little beside it."""

    task: LabTask
    max_steps: int = 1

    @property
    def id(self) -> str:
        return self.task.id

    @property
    def seed(self) -> int:
        return self.task.seed

    @property
    def probes(self) -> Mapping[str, str]:
        return self.task.probes

    @property
    def begin(self) -> AppState:
        """The state that the episode begins in; each step of the way is as likely as the others.

        A dialog may be open and the rows may have moved, but nothing comes between the step and its effect:
        the reward would be chance.
        """
        task, rng = self.task, random.Random(f"step/{self.task.seed}")
        world, state = grow(task.app), AppState(app=task.app, seed=task.seed)
        for _ in range(rng.randint(0, task.length)):
            if todo := plan(state, task.goal):
                apply(world, state, todo[0])
        if rng.random() < _ASTRAY:
            for _ in range(rng.randint(1, _MOST_TAPS)):
                links = [Tap(row.key) for row in rows(world, state) if row.kind == "link"]
                apply(world, state, rng.choice([*links, Tap(BACK)]))
        apply(world, state, Rest())  # what is delayed has its effect
        state.app = msgspec.structs.replace(state.app, popups=0.0, lag=0.0)
        return state

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        """Restore the state. Raises FaultError (origin "task") on a device of another kind."""
        await require_lab(device, self.id)
        state = msgspec.to_builtins(self.begin)
        return self.task.instruction, await device.reset(self.seed, ResetSpec(state=state), spec)

    def ended(self, observation: Observation) -> bool:
        return False

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        """1 for an input that brings the goal one nearer, and for the right ending where it is met."""
        begin = self.begin
        before = len(plan(begin, self.task.goal))
        if before == 0 or ending.claim is not None or ending.answer is not None:
            right = before == 0 and (await self.task.check(device, observation, ending)).value == 1
            right = right and (ending.claim is not None or ending.answer is not None)
            return Score(float(right), "check", "ended in time" if right else "ended too early or not at all")
        state = await state_of(device)
        if state.visits != begin.visits:  # where the rows of the next screen lie is chance
            state.app = msgspec.structs.replace(state.app, moves=0.0)
        left = len(plan(state, self.task.goal))
        return Score(float(left == before - 1), "check", f"{before} inputs to the goal before, {left} after")

    async def teardown(self, device: Device) -> None:
        await self.task.teardown(device)
