"""Tasks of a suite on leased devices, step by step, for learners and agents of others that drive them."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec.structs import replace

from eval.suites import find_suite
from guiagent.actions import Action
from guiagent.client import FarmClient
from guiagent.client.farm import Leasing
from guiagent.client.play import DeviceSlot
from guiagent.episode import ending_of, scored, split_at_end
from guiagent.errors import FaultError, UsageError
from guiagent.protocols import Provable, Task
from guiagent.seeds import EVALUATION, REINFORCEMENT, checked
from guiagent.types import Observation, ObserveSpec
from rewards.catalogue import find_taskset, require_task

_SPLITS = {"train": REINFORCEMENT, "evaluation": EVALUATION}
_LEASE_WAIT_S = 120.0


class SuiteTasks:
    """The tasks of a suite by name and seed: those to learn from ("train"), or all ("evaluation").

    Raises UsageError for an unknown suite or split.
    """

    def __init__(self, suite: str, split: str = "train") -> None:
        if split not in _SPLITS:
            raise UsageError(f"no split {split!r}: train or evaluation")
        self.suite = find_suite(suite)
        self.split = split
        self._taskset = find_taskset(self.suite.taskset)
        self._seeds = _SPLITS[split]
        self.names = self.suite.train_tasks if split == "train" else self.suite.tasks

    def require(self, name: str) -> None:
        """Raises UsageError for a task that there is not, or that is kept unseen."""
        require_task(self._taskset, name)
        if self.split == "train" and name in self.suite.unseen_tasks:
            raise UsageError(f"{name} is kept unseen by the suite {self.suite.name}: split='evaluation'")

    def task(self, name: str, seed: int) -> Task:
        return self._taskset.task(name, self._seeds[seed % len(self._seeds)])

    def seeds(self, episodes: int) -> range:
        """The first seeds that each task is played on: the suite's own, or of the range to learn from."""
        return self._seeds[:episodes] if self.split == "train" else self.suite.seeds(episodes)

    def exactly(self, name: str, seed: int) -> Task:
        """The task of one of the split's seeds, as suites and results have it. Raises UsageError."""
        self.require(name)
        return self._taskset.task(name, checked(seed, self._seeds))

    def drawn(self, seed: int) -> tuple[str, int]:
        """A task's name and a seed of it by one number: consecutive numbers go through all tasks."""
        turn, place = divmod(seed, len(self.names))
        return self.names[place], turn

    def devices(self, count: int) -> str:
        """Devices for a pool to start, in the words of `guiagent up`."""
        width, height = self.suite.screen
        return f"{self.suite.device}={count}@{width}x{height}"

    def lease(self, client: FarmClient, label: str) -> Leasing:
        return client.lease(**self.suite.lease, label=label, wait=_LEASE_WAIT_S)

    def slot(self, client: FarmClient, label: str) -> DeviceSlot:
        return DeviceSlot(lambda: self.lease(client, label))


class Stepped(NamedTuple):
    """What a step came to. `reward` is 0 before the end, and where there is an `info["fault"]`."""

    shown: Observation  # its frame is empty where it is `unchanged`
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


@dataclass(slots=True)
class _Running:
    task: Task
    shown: Observation
    instruction: str
    steps: int = 0


class Episode:
    """Episodes on one leased device, one after the other.

    The reward is the score of the task's own check, at the end and 0 before it. It ends where the environment
    or the agent ends it (terminated), or after the task's last step (truncated; the state is scored as well).
    With `eager` the check runs after every step that acted, and a whole score ends the episode: for agents
    that have no word for being done. A fault is not a score: the episode is truncated with reward 0, and
    `info["fault"]` says what happened.
    """

    def __init__(
        self,
        slot: DeviceSlot,
        max_steps: int | None = None,
        frame: Any = "png",
        *,
        eager: bool = False,
        tree: bool = False,
    ) -> None:
        self._slot = slot
        self._max_steps = max_steps
        self._spec = ObserveSpec(frame=frame, tree=tree)
        self._eager = eager
        self._running: _Running | None = None

    async def reset(self, task: Task) -> tuple[str, Observation]:
        """Set a task up; its instruction and first screen. Raises FaultError where a second device cannot."""
        asked = replace(self._spec, probes=dict(task.probes))
        self._running = None
        try:
            instruction, shown = await self._slot.run(lambda device: task.setup(device, asked))
        except FaultError as error:
            if not error.fault.retryable:
                raise
            instruction, shown = await self._slot.run(lambda device: task.setup(device, asked))
        self._running = _Running(task, shown, instruction)
        return instruction, shown

    async def step(self, actions: Sequence[Action]) -> Stepped:
        return await self._guarded(actions, over=False)

    async def finish(self) -> Stepped:
        """End the episode where it is, for an agent that stopped without a word, and score its state."""
        return await self._guarded((), over=True)

    async def solve(self) -> Stepped:
        """Have the task's own oracle do it, and score the state. Raises UsageError where there is none."""
        task = self._going().task
        if not isinstance(task, Provable):
            raise UsageError(f"{task.id} has no oracle")
        return await self._guarded((), over=True, oracle=task)

    def _going(self) -> _Running:
        if self._running is None:
            raise RuntimeError("reset the environment first: its episode has ended")
        return self._running

    async def _guarded(
        self, actions: Sequence[Action], over: bool, oracle: Provable | None = None
    ) -> Stepped:
        running = self._going()
        running.steps += 1
        info: dict[str, Any] = {"instruction": running.instruction}
        try:
            return await self._step(running, actions, info, over, oracle)
        except FaultError as error:
            self._running = None
            fault = error.fault
            info["fault"] = {"origin": fault.origin, "code": fault.code, "message": fault.message}
            return Stepped(_as_before(running.shown), 0.0, False, True, info)

    async def _step(
        self,
        running: _Running,
        actions: Sequence[Action],
        info: dict[str, Any],
        over: bool,
        oracle: Provable | None,
    ) -> Stepped:
        task = running.task
        acted, ends = split_at_end(actions)
        ending = ending_of(ends)
        shown = _as_before(running.shown)
        if acted:
            asked = replace(self._spec, probes=dict(task.probes), have=running.shown.hash or None)
            shown = running.shown = await self._slot.run(lambda device: device.act(acted, asked))
            if shown.action_error:
                info["action_error"] = shown.action_error
        if oracle is not None:
            ending = await self._slot.run(oracle.oracle)
            asked = replace(self._spec, probes=dict(task.probes))
            shown = running.shown = await self._slot.run(lambda device: device.observe(asked))
        terminated = over or bool(ends) or (bool(acted) and task.ended(running.shown))
        limit = task.max_steps if self._max_steps is None else self._max_steps
        truncated = not terminated and running.steps >= limit
        over = terminated or truncated
        if not over and not (self._eager and acted):
            return Stepped(shown, 0.0, False, False, info)
        score = await self._slot.run(lambda device: scored(task, device, running.shown, ending))
        if not over and score.value != 1.0:
            return Stepped(shown, 0.0, False, False, info)
        terminated = terminated or not over
        self._running = None
        if score.value is None:
            info["fault"] = {"origin": "task", "code": "unknown", "message": score.reason}
            return Stepped(shown, 0.0, False, True, info)
        info["score"] = score.value
        with contextlib.suppress(FaultError):  # the score stands; the next reset meets the same fault
            await self._slot.run(task.teardown)
        return Stepped(shown, score.value, terminated, truncated, info)

    async def close(self) -> None:
        self._running = None
        await self._slot.close()


def _as_before(shown: Observation) -> Observation:
    """The same screen for somebody who has its frame."""
    return replace(shown, frame=b"", unchanged=True, action_error=None)
