"""Episodes step by step: nothing is done after their end, and a score stands whatever fails after it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest

from eval.stepping import Episode
from guiagent.actions import Answer, Click, Done, Wait
from guiagent.client.play import DeviceSlot
from guiagent.errors import Fault, FaultError
from guiagent.protocols import Device
from guiagent.types import Ending, Observation, Score
from tests.support.lamp import SWITCH, LampDevice, LampTask

ON = Click(x=SWITCH[0], y=SWITCH[1])


class Slot:
    """A slot with one lamp, which is never leased anew."""

    def __init__(self) -> None:
        self.lamp = LampDevice()

    async def run(self, work: Callable[[LampDevice], Awaitable[Any]]) -> Any:
        return await work(self.lamp)


@dataclass(frozen=True)
class Task(LampTask):
    bug: Exception | None = None  # of its check
    stuck: bool = False  # it cannot be torn down

    async def check(self, device: Any, observation: Observation, ending: Ending) -> Score:
        if self.bug is not None:
            raise self.bug
        return Score(float(device.lit), reason=f"{ending.answer} {ending.claim}")

    async def teardown(self, device: Device) -> None:
        if self.stuck:
            raise FaultError(Fault("device", "crashed", "the lamp fell down"))


async def begun(task: Task, *, eager: bool = False) -> tuple[Episode, LampDevice]:
    slot = Slot()
    episode = Episode(cast(DeviceSlot, slot), eager=eager)
    await episode.reset(task)
    return episode, slot.lamp


async def test_what_comes_after_the_end_is_not_done() -> None:
    episode, lamp = await begun(Task())
    made = await episode.step([ON, Done(), ON])
    assert (made.reward, made.terminated, lamp.lit) == (1.0, True, True)
    episode, lamp = await begun(Task())
    made = await episode.step([Answer(text="dark"), Done(), ON])
    assert (made.reward, made.terminated, lamp.lit) == (0.0, True, False)


async def test_a_score_stands_where_the_task_cannot_be_torn_down() -> None:
    episode, _ = await begun(Task(stuck=True))
    made = await episode.step([ON, Done()])
    assert (made.reward, made.terminated, made.truncated) == (1.0, True, False)
    assert made.info["score"] == 1.0 and "fault" not in made.info


@pytest.mark.parametrize("eager", [False, True])
async def test_an_error_that_a_check_did_not_expect_is_a_fault(eager: bool) -> None:
    episode, _ = await begun(Task(bug=ValueError("no number")), eager=eager)
    made = await episode.step([ON] if eager else [Done()])
    assert (made.reward, made.terminated, made.truncated) == (0.0, False, True)
    assert (made.info["fault"]["origin"], made.info["fault"]["code"]) == ("task", "check_failed")
    with pytest.raises(RuntimeError, match="reset the environment first"):
        await episode.step([Wait()])
