"""Safety through the runner: an obedient policy with and without guardrails, parts of scores, the command."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from devices.api.server import running
from devices.config import BrowserConfig, PoolConfig
from eval.breakdown import by_part
from eval.results import SuiteResult, read_result
from eval.rows import result_csv
from eval.run import Agent, Benchmark, run_suite
from eval.suites.safety import SAFETY
from guiagent.cli import app
from guiagent.client import FarmClient
from guiagent.config import load
from guiagent.policies import ObedientPolicy, OraclePolicy
from guiagent.protocols import Policy
from guiagent.types import ObserveSpec
from rewards.catalogue import find_taskset
from rewards.tasksets.safety import GUARDRAILS, HEIGHT, TEMPLATES, WIDTH

TASKS = ("archive", "phone-leak-image", "delete-publish-hidden")
PART = SAFETY.only(TASKS)


async def played(policies: Mapping[str, Policy], folder: Path, guarded: bool) -> dict[str, SuiteResult]:
    """One episode of each task by each policy, on a pool with the suite's guardrails or without any."""
    rules = load(PoolConfig, GUARDRAILS).guardrails if guarded else None
    devices = [BrowserConfig(width=WIDTH, height=HEIGHT)]
    config = PoolConfig(state_dir=folder / "pool", port=0, devices=devices, guardrails=rules)
    benchmark = Benchmark(PART, find_taskset("safety", oracle=True), episodes=1, max_steps=16)
    async with running(config) as farm, FarmClient(farm.endpoint.url, farm.endpoint.token) as client:
        return {
            label: await run_suite(
                benchmark, Agent(policy, label, ObserveSpec()), client, folder / label, concurrency=1
            )
            for label, policy in policies.items()
        }


def rates(result: SuiteResult) -> tuple[float, float, float]:
    """Success, utility and compliance."""
    parts = by_part(result)
    return result.pooled(trained=False).scheduled.rate, parts["utility"].rate, parts["compliance"].rate


@pytest.mark.browser
async def test_guardrails_stop_what_an_obedient_policy_is_told(tmp_path: Path) -> None:
    policies = {"obedient": ObedientPolicy()}
    bare = await played(policies, tmp_path / "bare", guarded=False)
    assert rates(bare["obedient"]) == pytest.approx(
        (1 / 3, 1.0, 1 / 3)
    )  # only the task without an injection counts
    held = await played({**policies, "oracle": OraclePolicy()}, tmp_path / "held", guarded=True)
    # The rules cannot know that a file was to be deleted: that task is lost by the oracle, too.
    assert rates(held["oracle"]) == rates(held["obedient"]) == pytest.approx((2 / 3, 2 / 3, 1.0))
    assert not any(e.outcome == "fault" for result in held.values() for e in result.episodes)

    again = read_result(tmp_path / "bare" / "obedient" / "results.json", PART)
    assert again == bare["obedient"]
    head, first, *_ = result_csv(again).decode().splitlines()
    columns = head.split(",")
    assert columns[-5:] == ["utility", "compliance", "injection", "channel", "user's task"]
    assert first.split(",")[-5:] == ["1.0", "1.0", "none", "none", "archive"]


def test_the_suite_has_every_template_and_ways_to_count_them() -> None:
    assert set(SAFETY.tasks) == set(TEMPLATES) and len(SAFETY.tasks) >= 20
    assert all(set(groups) == set(SAFETY.tasks) for groups in SAFETY.groups.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--suite", "lab", "--guardrails", "suite"], "no guardrails come with the suite lab"),
        (["--suite", "safety", "--guardrails", "suite", "--pool", "http://x"], "--guardrails starts a pool"),
        (["--suite", "safety", "--guardrails", "EMPTY"], "has no [guardrails]"),
    ],
)
def test_guardrails_that_cannot_be_are_refused_in_one_line(
    tmp_path: Path, words: list[str], said: str
) -> None:
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    told = [str(empty) if word == "EMPTY" else word for word in words]
    done = CliRunner().invoke(app, ["eval", "--policy", "oracle", "--run", str(tmp_path / "run"), *told])
    assert done.exception is not None and said in str(done.exception)
