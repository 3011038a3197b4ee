"""One task on one leased device, step by step, for a learner that drives it itself."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from PIL import Image

from eval.gym.spaces import Frame
from guiagent.actions import Action, Answer, Done, is_terminal
from guiagent.client.play import DeviceSlot
from guiagent.errors import FaultError
from guiagent.protocols import Task
from guiagent.types import Ending, Observation, ObserveSpec

_SPEC = ObserveSpec(frame="png")


class Stepped(NamedTuple):
    """What Gymnasium's `step` returns; the frame is the learner's to keep."""

    frame: Frame
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


@dataclass(slots=True)
class _Running:
    task: Task
    shown: Observation
    frame: Frame
    instruction: str
    steps: int = 0


class Episode:
    """Episodes of one task, one after the other.

    The reward is the score of the task's own check, at the end and 0 before it. It ends where the environment
    or the agent ends it (terminated), or after the task's last step (truncated; the state is scored as well).
    A fault is not a score: the episode is truncated with reward 0, and `info["fault"]` says what happened.
    """

    def __init__(
        self, slot: DeviceSlot, task_of: Callable[[int], Task], size: tuple[int, int], max_steps: int | None
    ) -> None:
        self._slot = slot
        self._task_of = task_of
        self._size = size
        self._max_steps = max_steps
        self._running: _Running | None = None
        self.frame: Frame = np.zeros((size[1], size[0], 3), np.uint8)

    async def reset(self, seed: int) -> tuple[Frame, dict[str, Any]]:
        """Set the task of a seed up. Raises FaultError where a second device cannot either."""
        task = self._task_of(seed)
        asked = replace(_SPEC, probes=dict(task.probes))
        self._running = None
        try:
            instruction, shown = await self._slot.run(lambda device: task.setup(device, asked))
        except FaultError as error:
            if not error.fault.retryable:
                raise
            instruction, shown = await self._slot.run(lambda device: task.setup(device, asked))
        self.frame = _decoded(shown, self._size)
        self._running = _Running(task, shown, self.frame, instruction)
        return self.frame.copy(), {"instruction": instruction, "seed": seed}

    async def step(self, actions: Sequence[Action]) -> Stepped:
        running = self._running
        if running is None:
            raise RuntimeError("reset the environment first: its episode has ended")
        running.steps += 1
        info: dict[str, Any] = {"instruction": running.instruction}
        try:
            return await self._step(running, actions, info)
        except FaultError as error:
            self._running = None
            fault = error.fault
            info["fault"] = {"origin": fault.origin, "code": fault.code, "message": fault.message}
            return Stepped(self.frame.copy(), 0.0, False, True, info)

    async def _step(self, running: _Running, actions: Sequence[Action], info: dict[str, Any]) -> Stepped:
        task, spec = running.task, replace(_SPEC, probes=dict(running.task.probes))
        ends = [action for action in actions if is_terminal(action)]
        acted = [action for action in actions if not is_terminal(action)]
        if acted:
            asked = replace(spec, have=running.shown.hash or None)
            shown = await self._slot.run(lambda device: device.act(acted, asked))
            if shown.action_error:
                info["action_error"] = shown.action_error
            if not shown.unchanged:
                self.frame = _decoded(shown, self._size)
            running.shown = shown
        terminated = bool(ends) or (bool(acted) and task.ended(running.shown))
        limit = task.max_steps if self._max_steps is None else self._max_steps
        truncated = not terminated and running.steps >= limit
        if not (terminated or truncated):
            return Stepped(self.frame.copy(), 0.0, False, False, info)
        self._running = None
        ending = _ending(ends)
        score = await self._slot.run(lambda device: task.check(device, running.shown, ending))
        if score.value is None:
            info["fault"] = {"origin": "task", "code": "unknown", "message": score.reason}
            return Stepped(self.frame.copy(), 0.0, False, True, info)
        info["score"] = score.value
        await self._slot.run(task.teardown)
        return Stepped(self.frame.copy(), score.value, terminated, truncated, info)

    async def close(self) -> None:
        self._running = None
        await self._slot.close()


def _ending(ends: Sequence[Action]) -> Ending:
    answer = next((action.text for action in ends if isinstance(action, Answer)), None)
    claim = next((action.status for action in ends if isinstance(action, Done)), None)
    return Ending(answer, claim)


def _decoded(shown: Observation, size: tuple[int, int]) -> Frame:
    """The frame as an array; a screen that changed its size is shown in the size that was promised."""
    with Image.open(io.BytesIO(shown.frame), formats=["PNG"]) as image:
        picture = image.convert("RGB")
    return np.asarray(picture if picture.size == size else picture.resize(size), np.uint8)
