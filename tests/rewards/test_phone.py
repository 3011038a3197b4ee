"""Every phone task proves its check on a real virtual phone: oracle 1, near-misses and null agents 0."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from devices.drivers.android.device import AndroidDevice
from guiagent.protocols import Provable
from guiagent.types import Ending, ObserveSpec
from rewards.tasksets.phone import TEMPLATES, PhoneTasks
from tests.support.phones import started

BLANK = ObserveSpec(frame="none")
SEEDS = (1, pytest.param(1_000_000_000, marks=pytest.mark.slow))

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[AndroidDevice]:
    device = await started(360, 640)
    yield device
    await device.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TEMPLATES)
async def test_the_oracle_scores_one_and_no_near_miss_and_no_null_agent_does(
    name: str, seed: int, device: AndroidDevice
) -> None:
    task = PhoneTasks().task(name, seed)
    assert isinstance(task, Provable)
    _, shown = await task.setup(device, BLANK)

    for ending in (Ending(), Ending(claim="success"), Ending(claim="failure"), Ending(claim="infeasible")):
        score = await task.check(device, shown, ending)
        right = task.scenario.infeasible and ending.claim == "infeasible"
        assert (score.value, score.progress, score.side_effects) == (float(right), float(right), []), ending

    ending = await task.oracle(device)
    score = await task.check(device, shown, ending)
    assert (score.value, score.progress, score.side_effects) == (1.0, 1.0, []), score.reason
    assert score.evidence.get("expected") == ending.answer

    assert len(task.mutants) == len(set(task.mutants)) >= 2
    for mutant in task.mutants:
        await task.arrange(device)
        score = await task.check(device, shown, await task.mutate(mutant, device))
        assert score.value == 0.0, f"{mutant}: {score}"
