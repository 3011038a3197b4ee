"""Steps of lab tasks as episodes of one action: begun where the seed says, right if the goal comes nearer."""

import pytest

from devices.config import LabConfig
from devices.drivers.lab import LabDevice
from guiagent.actions import ACTIONS, Click
from guiagent.dialects import find_dialect
from guiagent.errors import Fault, FaultError
from guiagent.lab.plan import plan
from guiagent.types import Ending, Observation, ObserveSpec
from rewards.tasksets.lab.steps import LabSteps
from training.sft.demonstrations import OracleDemonstrator

SPEC = ObserveSpec(frame="none")


async def outcome(name: str, seed: int, *, follow: bool) -> tuple[int, float | None]:
    """Inputs to the goal before the episode, and its score after the oracle's action or a useless one."""
    task, device = LabSteps(oracle=True).task(name, seed), LabDevice(LabConfig(width=160, height=224))
    _, shown = await task.setup(device, ObserveSpec(frame="none", probes=dict(task.probes)))
    ending = Ending()
    if follow:
        reply = await OracleDemonstrator(find_dialect("ui-tars")).act("e", "", [], shown)
        actions = ACTIONS.validate_python(reply.actions)
        if actions[0].type in ("done", "answer"):
            ending = Ending(getattr(actions[0], "text", None), "success")
        else:
            await device.act(actions, SPEC)
    else:
        await device.act([Click(x=80, y=1)], SPEC)  # the heading
    score = await task.check(device, shown, ending)
    return len(plan(task.begin, task.task.goal)), score.value


@pytest.mark.parametrize("name", ["reach-2", "set-4", "find-3", "form-6"])
async def test_the_oracles_step_is_right_and_doing_nothing_is_wrong(name: str) -> None:
    seeds = range(10**6, 10**6 + 12)
    right = [await outcome(name, seed, follow=True) for seed in seeds]
    assert {value for _, value in right} == {1.0}
    assert len({left for left, _ in right}) > 2  # of the way's several steps
    assert {(await outcome(name, seed, follow=False))[1] for seed in seeds} == {0.0}


async def test_what_perturbs_an_app_does_not_touch_the_reward_of_a_step() -> None:
    begun = [LabSteps().task("reach-4+perturbed", 10**6 + seed).begin for seed in range(60)]
    assert any(state.popup for state in begun)
    assert not any(state.pending or state.app.popups or state.app.lag for state in begun)
    right = [await outcome("reach-4+perturbed", 10**6 + seed, follow=True) for seed in range(60)]
    assert {value for _, value in right} == {1.0}


async def test_an_oracle_without_an_action_is_a_fault_of_the_task() -> None:
    shown = Observation(160, 224, probes={"oracle": [{"type": "bogus"}]})
    with pytest.raises(FaultError) as raised:
        await OracleDemonstrator(find_dialect("ui-tars")).act("e", "", [], shown)
    assert raised.value.fault.code == "no_oracle"
    assert isinstance(raised.value.fault, Fault)
