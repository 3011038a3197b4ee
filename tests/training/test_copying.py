"""Copying: what is quoted is what is to be typed, and a base learns it before it reads."""

import random

import torch

from tests.training.test_base import screens
from training.config import PLATFORMS_POLICY
from training.inputs.encoder import Encoder
from training.model.pretrained import open_model
from training.sft import copying

NAMES = ["Orders", "Dark mode"]


def test_what_is_asked_for_is_quoted_and_words_are_names_or_made_up() -> None:
    rng = random.Random(0)
    found = [copying.asked(rng, NAMES) for _ in range(400)]
    assert all(f'"{word}"' in instruction for instruction, word in found)
    for instruction, word in found:
        first, *others = instruction.split('"')[1::2]
        assert word == (others[0] if "second" in instruction else first)
    words = {word for _, word in found}
    assert words > {*NAMES} and len(words) > 100
    assert all(word.isalnum() and len(word) <= 6 for word in words - {*NAMES})
    assert found == [copying.asked(again, NAMES) for again in [random.Random(0)] for _ in range(400)]


def test_a_network_learns_to_copy_from_instructions_alone() -> None:
    names = copying.names_of(screens())
    assert names == ["Clients", "Dark mode", "Orders", "Screen", "Trips"]
    network, encoder = open_model(PLATFORMS_POLICY).float(), Encoder(PLATFORMS_POLICY)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    quoted, losses = copying.Copying(names, encoder), []
    for _ in range(8):
        loss = quoted.loss(network, 8, random.Random(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 2
