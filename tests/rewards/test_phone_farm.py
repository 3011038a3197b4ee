"""Phone tasks on a phone leased from a pool, and their suite through `eval`."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from eval.run import Agent, Benchmark, run_suite
from eval.suites.phone import PHONE
from guiagent.client import FarmClient
from guiagent.client.local_pool import private_pool
from guiagent.errors import MissingProgram
from guiagent.policies.scripted import ScriptedPolicy
from guiagent.types import Ending, ObserveSpec
from rewards.tasksets.phone import PhoneTasks

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def farm() -> AsyncIterator[FarmClient]:
    try:
        with private_pool("phone=1@360x640") as pool:
            async with FarmClient(pool.url, pool.token) as farm:
                yield farm
    except MissingProgram as missing:
        pytest.skip(str(missing))


async def test_a_task_is_set_up_solved_and_checked_over_the_pool(farm: FarmClient) -> None:
    async with farm.lease("phone", grants=("shell", "files"), wait=60.0) as device:
        for name in ("files-move", "clock-move-alarm", "message-with-number"):
            task = PhoneTasks().task(name, 1)
            _, shown = await task.setup(device, ObserveSpec())
            assert shown.frame
            assert (await task.check(device, shown, Ending(claim="success"))).value == 0.0
            score = await task.check(device, shown, await task.oracle(device))
            assert (score.value, score.side_effects) == (1.0, [])


async def test_a_suite_says_what_was_claimed_and_not_done(farm: FarmClient, tmp_path: Path) -> None:
    suite = replace(PHONE, train_tasks=("contacts-delete",), unseen_tasks=("files-rename",), episodes=1)
    agent = Agent(ScriptedPolicy([]), "claims")
    result = await run_suite(Benchmark(suite, PhoneTasks()), agent, farm, tmp_path, concurrency=1)
    assert [episode.outcome for episode in result.episodes] == ["failure", "failure"]
    assert "contacts: removed display_name=" in result.episodes[0].detail
