"""One task on one leased device, step by step, with its screens as arrays."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from eval import stepping
from eval.frames import Frame, decoded
from guiagent.actions import Action
from guiagent.client.play import DeviceSlot
from guiagent.protocols import Task


class Stepped(NamedTuple):
    """What Gymnasium's `step` returns; the frame is the learner's to keep."""

    frame: Frame
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class Episode:
    """Episodes of one task, one after the other: rewards, ends and faults are those of `eval.stepping`."""

    def __init__(
        self, slot: DeviceSlot, task_of: Callable[[int], Task], size: tuple[int, int], max_steps: int | None
    ) -> None:
        self._playing = stepping.Episode(slot, max_steps)
        self._task_of = task_of
        self._size = size
        self.frame: Frame = np.zeros((size[1], size[0], 3), np.uint8)

    async def reset(self, seed: int) -> tuple[Frame, dict[str, Any]]:
        """Set the task of a seed up. Raises FaultError where a second device cannot either."""
        instruction, shown = await self._playing.reset(self._task_of(seed))
        self.frame = decoded(shown, self._size)
        return self.frame.copy(), {"instruction": instruction, "seed": seed}

    async def step(self, actions: Sequence[Action]) -> Stepped:
        made = await self._playing.step(actions)
        if not made.shown.unchanged:
            self.frame = decoded(made.shown, self._size)
        return Stepped(self.frame.copy(), *made[1:])

    async def close(self) -> None:
        await self._playing.close()
