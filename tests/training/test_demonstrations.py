"""Where a demonstration begins: at the start, on the oracle's way or at its end, or some taps astray."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from devices.config import LabConfig
from devices.drivers.lab import LabDevice
from guiagent.dialects import find_dialect
from guiagent.errors import Fault, FaultError
from guiagent.lab.plan import plan
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Observation, ObserveSpec, Trajectory
from rewards.tasksets.lab import Lab
from rewards.tasksets.lab.task import state_of
from tests.support.no_device import NoDevice
from training.config import PlatformConfig
from training.sft import demonstrations
from training.sft.demonstrations import Begun, OracleDemonstrator
from training.stages import DemonstrationsConfig, StagesConfig
from training.tiny import collecting

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


def test_each_platform_has_its_share_of_the_demonstrations_and_a_seed_draws_the_same() -> None:
    lab, pages = (
        PlatformConfig(taskset="lab", tasks=("reach-2",)),
        PlatformConfig(tasks=("click-tab",), share=2),
    )
    shown = DemonstrationsConfig(episodes=10, midway=0.5, platforms=(lab, pages))
    found = list(demonstrations.plan(StagesConfig(demonstrations=shown)))
    assert [platform for platform, _ in found] == [lab, pages]
    assert [len(planned) for _, planned in found] == [3, 7]
    planned = [one for _, some in found for one in some]
    assert [one.id for one in planned] == [f"demo-{number:06d}" for number in range(10)]
    assert [one.task.id for one in planned] == ["reach-2"] * 3 + ["click-tab"] * 7
    assert len({one.task.seed for one in planned}) == 10
    again = [one for _, some in demonstrations.plan(StagesConfig(demonstrations=shown)) for one in some]
    assert [(one.task.seed, one.along, one.taps) for one in planned] == [
        (one.task.seed, one.along, one.taps) for one in again
    ]


async def test_a_careless_hand_taps_any_control_as_often_as_it_is_told_to() -> None:
    task, device = Lab(oracle=True).task("reach-4", SEEDS[0]), LabDevice(LabConfig(width=160, height=224))
    _, shown = await task.setup(device, ObserveSpec(frame="none", probes=dict(task.probes)))

    async def replies(careless: float) -> list[str]:
        hand = OracleDemonstrator(find_dialect("ui-tars"), careless)
        return [(await hand.act(f"demo-{n}", "", [], shown)).text for n in range(200)]

    (right,) = {*await replies(0)}
    controls = {*await replies(1)}
    assert right in controls and len(controls) > 2
    half = await replies(0.5)
    assert half == await replies(0.5) and {*half} == controls
    assert 100 < half.count(right) < 160  # half of them, and some taps that happen to be right


@pytest.mark.parametrize(
    ("probes", "code"),
    [
        ({"oracle": [{"type": "bogus"}], "candidates": []}, "no_oracle"),
        ({"oracle": [], "candidates": [{"type": "bogus"}]}, "no_candidates"),
        ({"oracle": []}, "no_tree"),
    ],
)
async def test_what_a_careless_hand_cannot_choose_from_is_a_fault_that_says_so(
    probes: dict[str, Any], code: str
) -> None:
    with pytest.raises(FaultError) as raised:
        await OracleDemonstrator(find_dialect("ui-tars"), 1.0).act(
            "e", "", [], Observation(160, 224, probes=probes)
        )
    assert raised.value.fault.code == code


def test_without_platforms_there_is_that_of_the_recipes_devices() -> None:
    config = StagesConfig(demonstrations=DemonstrationsConfig(tasks=("reach-2",), episodes=3), devices=2)
    ((platform, planned),) = demonstrations.plan(config)
    assert (platform.device, platform.devices, platform.taskset) == (config.device, 2, "lab")
    assert len(planned) == 3


def job(id: str, fault: Fault | None = None) -> collecting.Job:
    async def play(*_: object) -> Trajectory:
        return Trajectory(id, "t", 0, "Do it.", [], "agent_done", score=None, fault=fault)

    return collecting.Job(id, "t", play)


async def test_what_the_dialect_has_no_words_for_is_left_out_and_other_faults_end_the_collection(
    tmp_path: Path,
) -> None:
    farm: Any = NoDevice()
    unsaid = job("unsaid", Fault("task", collecting.INEXPRESSIBLE, "no word for a move"))
    broken = job("broken", Fault("task", "no_oracle", "the oracle gave no action"))
    with TrajectoryStore(tmp_path) as store:
        with pytest.raises(FaultError, match="no word for a move"):  # nothing at all can be shown
            await collecting.collect(farm, store, [unsaid], 1, lambda _: None)
        for _ in range(2):  # the second time it is the only one that is missing
            await collecting.collect(farm, store, [job("said"), unsaid], 1, lambda _: None)
            assert store.ids == ["said"]
        with pytest.raises(FaultError, match="gave no action"):
            await collecting.collect(farm, store, [job("said"), unsaid, broken], 1, lambda _: None)
