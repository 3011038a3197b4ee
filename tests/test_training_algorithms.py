"""The presets, from a group to its loss, against worked numbers."""

import dataclasses
import subprocess
import sys

import pytest
import torch

from guiagent.errors import Fault
from guiagent.types import PolicyStep, Score, Step, Trajectory
from training.algorithms.legacy import ALGORITHMS
from training.losses.legacy import LossInputs, policy_loss

ARPO = ALGORITHMS["arpo"]


def trajectory(value: float, *, error: str | None = None, fault: Fault | None = None, steps=1) -> Trajectory:
    step = Step("", 1, 1, PolicyStep("text", error=error))
    return Trajectory("t", "task", 0, "", [step] * steps, "agent_done", score=Score(value), fault=fault)


def test_an_algorithm_is_found_by_its_name():
    assert {name: algorithm.name for name, algorithm in ALGORITHMS.items()} == {
        "arpo": "arpo",
        "zerogui": "zerogui",
    }
    with pytest.raises(dataclasses.FrozenInstanceError):
        ARPO.name = "other"  # type: ignore[misc]


def test_arpo_is_as_published():
    assert dataclasses.asdict(ARPO.loss) == {
        "clip_low": 0.2,
        "clip_high": 0.3,
        "dual_clip": 3.0,
        "aggregation": "traj_mean_token_mean",
    }
    rescue = dataclasses.asdict(ARPO.rescue)
    del rescue["max_age"]
    assert rescue == {"capacity": 8, "keep_above": 0.1, "std_below": 0.05, "mean_below": 0.2}


def test_arpo_advantages_with_the_format_penalty():
    members = [trajectory(1), trajectory(0), trajectory(0, error="no action"), trajectory(0)]
    expected = [1.390757, -0.198680, -0.993398, -0.198680]
    assert ARPO.advantages(members) == pytest.approx(expected, abs=1e-6)


def test_arpo_masks_faults_instead_of_scoring_them_zero():
    fault = Fault("device", "crashed", "the browser died")
    members = [trajectory(0, fault=fault), trajectory(1), trajectory(0)]
    assert ARPO.advantages(members) == pytest.approx([0, 0.707106, -0.707106], abs=1e-6)


def test_zerogui_is_as_published_but_for_its_kl_term():
    zerogui = ALGORITHMS["zerogui"]
    assert (zerogui.rescue, zerogui.dynamic_sampling) == (None, True)
    assert dataclasses.asdict(zerogui.loss) == {
        "clip_low": 0.2,
        "clip_high": 0.2,
        "dual_clip": None,
        "aggregation": "traj_mean_token_mean",
    }
    unknown = Trajectory("t", "task", 0, "", [], "max_steps", score=Score(None, "judge"))
    members = [trajectory(1), trajectory(0, error="no action"), unknown, trajectory(0)]
    assert zerogui.advantages(members) == pytest.approx([1.154701, -0.577350, 0, -0.577350], abs=1e-6)


def test_longer_episodes_do_not_weigh_more_in_the_statistics():
    short = [trajectory(1), trajectory(0), trajectory(0)]
    long = [trajectory(1, steps=9), trajectory(0), trajectory(0, steps=4)]
    assert ARPO.advantages(long) == ARPO.advantages(short)


def test_arpo_weighs_every_trajectory_the_same():
    """Two tokens of a success against five of a failure, at ratio 1: nothing is left."""
    mask = torch.tensor([[True] * 2 + [False] * 3, [True] * 5])
    logprobs = torch.full((2, 5), -1.0)
    advantages = torch.tensor(ARPO.advantages([trajectory(1), trajectory(0)]))
    inputs = LossInputs(
        logprobs=logprobs,
        behaviour_logprobs=logprobs,
        advantages=advantages,
        mask=mask,
        total_tokens=7,
        total_trajectories=2,
    )
    assert policy_loss(inputs, ARPO.loss).loss.item() == pytest.approx(0.0, abs=1e-7)


def test_the_algorithms_can_be_listed_without_torch():
    code = "import sys, training.algorithms; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
