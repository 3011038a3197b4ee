"""OpenEnv's own client, unmodified, on served suites: the example on a browser, sessions on the lab."""

import re
from pathlib import Path

import pytest

from tests.support.doors import ROOT, TOKEN, run_in, serving

pytestmark = pytest.mark.doors


@pytest.mark.browser
def test_the_example_solves_a_page() -> None:
    with serving(
        "openenv", "miniwob-demo", "--devices", "1", "--http", "0", GUIAGENT_OPENENV_TOKEN=TOKEN
    ) as url:
        said = run_in(
            "openenv",
            ROOT / "examples" / "doors" / "openenv_client.py",
            OPENENV_URL=url,
            GUIAGENT_OPENENV_TOKEN=TOKEN,
        )
    assert re.search(r"Click button ONE\. at \d+,\d+: done True, reward 1\.0\n", said)
    assert said.endswith("steps of the last episode: 1\n")


def test_sessions_of_its_client_go_on_beside_each_other(tmp_path: Path) -> None:
    script = tmp_path / "together.py"
    script.write_text(
        """
import asyncio, sys
from openenv.core import GenericEnvClient

async def played(url, token, seed):
    env = GenericEnvClient(base_url=url, headers={"Authorization": f"Bearer {token}"})
    async with env:
        first = await env.reset(task="reach-2", seed=seed)
        again = await env.step({"type": "wait", "ms": 0})
        assert not again.done and again.reward == 0.0
        beside.append(seed)
        while len(beside) < 2:
            await asyncio.sleep(0.01)
        ended = await env.step({"type": "done"})
        try:
            await env.step({"type": "click", "x": -1, "y": 0})
        except RuntimeError as error:
            print("refused", error)
        return first.observation["instruction"], ended.done, ended.reward, ended.observation["score"]

async def main(url, token):
    for told in await asyncio.gather(*(played(url, token, seed) for seed in (5, 6))):
        print(*told, sep=" | ")

beside = []
asyncio.run(main(*sys.argv[1:]))
"""
    )
    with serving("openenv", "lab", "--devices", "2", "--http", "0", GUIAGENT_OPENENV_TOKEN=TOKEN) as url:
        said = run_in("openenv", script, url, TOKEN)
    told = [line for line in said.splitlines() if " | " in line]
    assert len(told) == 2 and told[0] != told[1]
    assert all(line.endswith(" | True | 0.0 | 0.0") for line in told)
    assert said.count("refused") == 2
