"""The lab behind a real pool, by the documented command: leases, forks, suites and training."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from guiagent.actions import Click
from guiagent.client import FarmClient
from guiagent.client.local_pool import private_pool
from guiagent.types import ObserveSpec, ResetSpec
from guiagent.wire import Endpoint
from rewards.tasksets.lab import Lab

STATE = ObserveSpec(frame="png", probes={"state": "state"})
TOGGLE = Click(x=80, y=48)  # the first row of the app that a device begins with
SWITCHED = {"0.0": True}


@pytest.fixture(scope="module")
def pool() -> Iterator[Endpoint]:
    with private_pool("lab=2@160x224") as endpoint:
        yield endpoint


async def test_a_lease_acts_resets_and_forks_onto_a_sibling(pool: Endpoint) -> None:
    async with FarmClient(pool.url, pool.token) as farm:
        first, second = await farm.lease_group("lab", 2, grants=["exec"])
        async with first, second:
            blank = await first.reset(0, ResetSpec(), STATE)
            assert (blank.media_type, len(blank.frame) > 100) == ("image/png", True)
            switched = await first.act([TOGGLE], STATE)
            assert switched.hash != blank.hash
            assert switched.probes["state"]["values"] == SWITCHED
            kept = await first.snapshot()
            assert "values" not in (await first.reset(0, ResetSpec(), STATE)).probes["state"]
            forked = await second.reset(0, ResetSpec(snapshot=kept), STATE)
            assert (forked.probes["state"]["values"], forked.hash) == (SWITCHED, switched.hash)


async def test_nothing_of_a_holder_is_left_for_the_next(pool: Endpoint) -> None:
    async with FarmClient(pool.url, pool.token) as farm:
        async with farm.lease("lab", grants=["exec"]) as device:
            _, shown = await Lab().task("set-4", 10**9).setup(device, STATE)
            await device.act([TOGGLE], STATE)
            name = (await device.describe()).kind
        for _ in range(2):  # whichever of the two it was
            async with farm.lease("lab", grants=["exec"]) as heir:
                state = (await heir.observe(STATE)).probes["state"]
                assert (name, state) == ("lab", {})
        assert shown.frame


def test_the_suite_is_run_beside_its_baselines(tmp_path: Path) -> None:
    words = ("--suite", "lab-perturbed", "--episodes", "1", "--devices", "2", "--run", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "guiagent.cli", "eval", "--policy", "oracle", *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for label, outcome in {"oracle": "success", "null": "failure"}.items():
        result = json.loads((tmp_path / label / "results.json").read_text())
        assert {episode["outcome"] for episode in result["episodes"]} == {outcome}, label
