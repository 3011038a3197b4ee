"""Loading the model onto its device, and the options that speed it up there."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForImageTextToText, PreTrainedModel

from tests.bench.packed import checkpoint as small
from tests.bench.packed import frames, trajectory
from training.config import OptimizationConfig
from training.inputs.contexts import contexts
from training.inputs.encoder import Encoder
from training.inputs.packing import tree
from training.model.network import Checkpoints, Network, Placement


def opened(folder: Path, device: str = "cpu", shard: Any = None, **settings: Any) -> Network:
    return Network(
        Checkpoints(folder, folder),
        Encoder(folder),
        OptimizationConfig(**settings),
        Placement(torch.device(device), shard=shard),
    )


def test_who_shards_is_given_the_model_as_it_was_saved(checkpoint: Path, tmp_path: Path) -> None:
    """On the CPU, where it is mapped from its file: no device ever holds more than a shard and a layer."""
    half = tmp_path / "half"
    shutil.copytree(checkpoint, half)
    AutoModelForImageTextToText.from_pretrained(checkpoint).bfloat16().save_pretrained(half)
    seen: list[tuple[torch.dtype, str]] = []

    def shard(model: PreTrainedModel) -> PreTrainedModel:
        seen.extend((p.dtype, p.device.type) for p in model.parameters())
        return model

    network = opened(half, device="meta", shard=shard)
    assert set(seen) == {(torch.bfloat16, "cpu")}
    assert {p.dtype for p in network.model.parameters()} == {torch.float32}  # what is left: the shards


@pytest.mark.drill
def test_compiled_layers_compute_the_same(tmp_path: Path) -> None:
    """With packs of two lengths, and with what they hold computed again in the backward pass."""
    folder = small(tmp_path)
    plain, compiled = (opened(folder, gradient_checkpointing=True, compile=on) for on in (False, True))
    encoder = Encoder(folder)
    for turns in (2, 3):
        screens = frames(turns)
        branches = tree(contexts(trajectory(encoder, screens, turns, 2)), encoder.image_token)
        found = []
        for network in (plain, compiled):
            network.model.zero_grad()
            scores = network.score(network.pack([branches], screens.__getitem__))
            scores.logprobs.sum().backward()
            grads = [p.grad.flatten() for p in network.model.parameters() if p.grad is not None]
            found.append((scores.logprobs.detach(), torch.cat(grads)))
        (logprobs, gradient), (others, theirs) = found
        assert (logprobs - others).abs().max() <= 1e-5
        assert (gradient - theirs).norm() <= 1e-4 * gradient.norm()
