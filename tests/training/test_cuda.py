"""On a CUDA device: attention without padding, passes within their bound, the engine's slots.

`make gpu` runs these; rehearsed, on the CPU, with $GUIAGENT_CUDA_TESTS=cpu.
"""

import dataclasses
import os
from pathlib import Path

import pytest
import torch

from tests.bench.packed import checkpoint as small_checkpoint
from tests.bench.packed import frames, trajectory
from tests.support import random_policies
from tests.support.random_policies import IMAGE, MERGE, UNSAMPLED, picture
from training.algorithms import ALGORITHMS
from training.config import UpdateConfig
from training.inputs.contexts import contexts
from training.inputs.encoder import Encoder
from training.inputs.packing import PackedBatch, pack, tree
from training.inputs.pieces import pieces
from training.learner.learner import Learner
from training.model.forward import score
from training.model.network import Placement
from training.replay import Group

pytestmark = pytest.mark.cuda
DEVICE = torch.device(os.environ.get("GUIAGENT_CUDA_TESTS", "cuda"))


def packs(turns: int, bound: int) -> list[PackedBatch]:
    branches = tree(contexts(random_policies.trajectory(1, turns, window=2)), IMAGE)
    return [
        pack([piece.branches], lambda name: picture("qwen3", name), IMAGE, MERGE)
        for piece in pieces(branches, bound)
    ]


@torch.no_grad()
def logprobs(device: torch.device, some: list[PackedBatch], half: bool) -> torch.Tensor:
    network = random_policies.model("qwen3").to(device)  # type: ignore[arg-type]
    with torch.autocast(device.type, torch.bfloat16, enabled=half):
        return torch.cat([score(network, one, UNSAMPLED).logprobs.cpu() for one in some])


@pytest.mark.parametrize(("half", "apart"), [(False, 1e-4), (True, 0.05)])
def test_log_probabilities_are_the_cpus_in_one_pass_or_several(half: bool, apart: float) -> None:
    expected = logprobs(torch.device("cpu"), packs(6, 1000), half=False)
    for bound in (1000, 60):
        assert (logprobs(DEVICE, packs(6, bound), half) - expected).abs().max() <= apart


def test_peak_memory_is_that_of_the_bound_not_of_the_trajectory(tmp_path: Path) -> None:
    """Four times as many turns take four times as many passes."""
    encoder = Encoder(small_checkpoint(tmp_path))
    credit = dataclasses.replace(
        ALGORITHMS["arpo"], credit=lambda members: [[1.0] * len(member.tokens) for member in members]
    )
    peaks: list[int] = []
    for turns in (8, 32):
        screens = frames(turns)
        one = trajectory(encoder, screens, turns, 2)
        longest = max(len(context.ids) for context in contexts(one))
        config = UpdateConfig(batch_tokens=2 * longest, learning_rate=1e-6)
        learner = Learner(encoder.checkpoint, encoder, credit, config, placement=Placement(DEVICE))
        group = Group("g", "task", 0, (one,), (one,), staleness=0)
        learner.step([group], screens.__getitem__)  # moments and gradients are there from now on
        if DEVICE.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        assert learner.step([group], screens.__getitem__).stepped
        peaks.append(torch.cuda.max_memory_allocated() if DEVICE.type == "cuda" else 1)
        del learner
    assert peaks[1] <= 1.1 * peaks[0]
