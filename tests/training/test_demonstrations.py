"""Where a demonstration begins: at the start, on the oracle's way or at its end, or some taps astray."""

import msgspec
import pytest

from devices.config import LabConfig
from devices.drivers.lab import LabDevice
from guiagent.lab.plan import plan
from guiagent.types import ObserveSpec
from rewards.tasksets.lab import Lab
from rewards.tasksets.lab.task import state_of
from training.sft.demonstrations import Begun

SEEDS = range(10**6, 10**6 + 8)


async def left(name: str, seed: int, along: int, taps: int = 0) -> int:
    """Inputs to the goal where a task begins."""
    task, device = Lab(oracle=True).task(name, seed), LabDevice(LabConfig(width=160, height=224))
    begun = Begun(task, along, taps)
    await begun.setup(device, ObserveSpec(frame="none", probes=dict(begun.probes)))
    state = await state_of(device)
    return len(plan(msgspec.structs.replace(state, popup=False, pending=None), task.goal))


@pytest.mark.parametrize("name", ["reach-4", "set-4", "find-4"])
async def test_each_input_of_the_oracle_is_one_less_to_go_and_none_follows_the_last(name: str) -> None:
    for seed in SEEDS:
        assert [await left(name, seed, along) for along in range(7)] == [4, 3, 2, 1, 0, 0, 0]


async def test_taps_lead_astray_from_there() -> None:
    found = [await left("reach-4", seed, along=2, taps=3) for seed in SEEDS]
    assert any(inputs > 2 for inputs in found)
