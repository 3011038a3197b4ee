"""TRL's GRPOTrainer, unmodified, takes steps on a page of a browser; on the lab a fault moves nothing."""

import json
from pathlib import Path

import pytest

from tests.support.doors import ROOT, run_in

pytestmark = pytest.mark.doors
EXAMPLE = ROOT / "examples" / "doors" / "trl_suite.py"

STEPS = """
import json
import sys

import torch
from datasets import Dataset
from transformers import set_seed
from trl import GRPOTrainer
from eval.doors.trl import SuiteEnvironments
from guiagent.actions import ACTIONS
from guiagent.client.device import LeasedDevice
from guiagent.errors import Fault, FaultError
from guiagent.types import ObserveSpec
from rewards.tasksets.lab import Lab
from trl_suite import call, settings, tiny_model

set_seed(0)
with SuiteEnvironments("lab", see="elements", devices=6) as environments:
    (row,) = [row for row in environments.rows(1) if row["task"] == "reach-2"]
    task = Lab(oracle=True).task(row["task"], row["seed"])

    async def solution():
        clicks = []
        async with environments.tasks.lease(environments.farm.client, "solution") as device:
            asked = ObserveSpec(frame="none", probes=dict(task.probes))
            _, shown = await task.setup(device, asked)
            while shown.probes["oracle"]:
                clicks += shown.probes["oracle"]
                shown = await device.act(ACTIONS.validate_python(shown.probes["oracle"]), asked)
        return clicks

    clicks = environments.farm.wait(solution())
    right = "".join(call("click", x=one["x"], y=one["y"]) for one in clicks) + call("done")
    wrong = call("click", x=-1, y=0) + call("wait", ms=0) + call("done")  # so that every rollout acts
    model, tokenizer, silent = tiny_model([right, wrong])
    before = [parameter.clone() for parameter in model.parameters()]

    act = LeasedDevice.act

    async def broken(device, *args, **kwargs):
        if device.id == "lab-0":
            raise FaultError(Fault("device", "crashed", "the screen went dark", retryable=True))
        return await act(device, *args, **kwargs)

    LeasedDevice.act = broken
    trainer = GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        args=settings(
            sys.argv[1], 1, learning_rate=1e-2, max_tool_calling_iterations=1,
            generation_kwargs={"suppress_tokens": silent, "min_new_tokens": 1}, seed=0,
            per_device_train_batch_size=6, num_generations=6,
        ),
        train_dataset=Dataset.from_list([row]),
        environment_factory=environments,
    )
    trainer.train()
    (rewards,) = trainer._logs["rewards"].values()
    advantages = list(trainer._logs["advantages"])
    moved = any(not torch.equal(a, b) for a, b in zip(before, model.parameters()))
    faults = [environment._fault is not None for environment in trainer.environments]
    labels = [device.label for device in environments.farm.devices().devices]
    print(json.dumps([list(rewards), advantages, moved, faults, labels, trainer.state.global_step]))
"""


@pytest.mark.browser
def test_the_example_takes_its_steps_on_leased_browsers() -> None:
    told = run_in("trl", EXAMPLE, TRL_EXPERIMENTAL_SILENCE="1").splitlines()[-1]
    head, _, rewards = told.partition(": ")
    steps = [float(reward) for reward in rewards.split()]
    assert head == "reward by step" and len(steps) == 3
    assert sum(steps) > 0 and all(0 <= reward <= 1 for reward in steps)


def test_a_step_on_the_lab_is_paid_by_its_check_and_a_fault_by_nobody(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(STEPS)
    paths = {"PYTHONPATH": f"{ROOT}:{EXAMPLE.parent}", "TRL_EXPERIMENTAL_SILENCE": "1"}
    said = run_in("trl", tmp_path / "steps.py", str(tmp_path / "out"), **paths)
    rewards, advantages, moved, faults, labels, steps = json.loads(said.splitlines()[-1])
    assert steps == 1 and len(rewards) == 6 and moved
    unpaid = [place for place, reward in enumerate(rewards) if reward != reward]
    assert unpaid and unpaid == [place for place, fault in enumerate(faults) if fault]
    assert {reward for reward in rewards if reward == reward} == {0.0, 1.0}
    assert all(advantages[place] == 0.0 for place in unpaid) and any(advantages)
    assert labels == [""] * 6
