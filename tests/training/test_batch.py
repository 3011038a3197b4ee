"""Padded model inputs, against the library's positions and the model itself."""

import random
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from training.inputs.collate import Sample, collate, rope_positions
from training.inputs.encoder import Encoder
from training.inputs.pictures import Normalization, Picture
from training.model.pretrained import open_model
from training.tiny.model import MERGE, PATCH

IMAGE, TEXT = 5, 9
texts = st.integers(1, 7)
grids = st.tuples(st.integers(1, 6), st.integers(1, 6)).map(
    lambda side: (1, side[0] * MERGE, side[1] * MERGE)
)
turns = st.lists(st.tuples(texts, grids), max_size=4)


@pytest.fixture(scope="module")
def model(checkpoint: Path):
    return open_model(checkpoint)


@pytest.fixture(scope="module")
def encoder(checkpoint: Path) -> Encoder:
    return Encoder(checkpoint)


def sequence(parts) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Token ids of text, picture, text, picture ..., and the pictures' grids."""
    ids: list[int] = []
    for length, (_, rows, columns) in parts:
        ids += [TEXT] * length + [IMAGE] * (rows * columns // MERGE**2)
    return ids, [grid for _, grid in parts]


def sample(encoder: Encoder, turns: int, seed: int) -> Sample:
    """A conversation of `turns` turns about noise, with random completions."""
    rng = random.Random(seed)
    noise = torch.Generator().manual_seed(seed)
    ids, pictures = [], []
    for turn in range(turns):
        grid = (1, 2 * rng.randint(1, 4), 2 * rng.randint(1, 4))
        size = (grid[1] * grid[2], 3 * PATCH**2)
        patches = torch.randint(256, size, generator=noise, dtype=torch.uint8)
        normalization = Normalization((0.5,) * 3, (0.5,) * 3, temporal=1)
        picture = Picture(patches, grid, grid[1] * grid[2] // MERGE**2, normalization)
        pictures.append(picture)
        if turn:
            prompt = encoder.next_prompt(picture, ended=True)
        else:
            prompt = encoder.first_prompt("word " * rng.randint(1, 9), picture)
        completion = [rng.randrange(7, 200) for _ in range(rng.randint(1, 8))]
        ids += prompt + completion
    return Sample(ids, pictures)


@given(parts=turns, tail=st.integers(0, 5))
@settings(max_examples=80, deadline=None)
def test_positions_are_the_librarys(model, parts, tail):
    ids, grids = sequence(parts)
    ids += [TEXT] * tail
    if not ids:
        return
    ours, following = rope_positions(ids, grids, IMAGE, MERGE)
    tensor = torch.tensor([ids])
    theirs, delta = model.model.get_rope_index(
        tensor, (tensor == IMAGE).int(), torch.tensor(grids) if grids else None
    )
    assert torch.equal(ours, theirs[:, 0])
    assert following == len(ids) + int(delta[0, 0])


@given(before=turns, after=turns, tail=texts)
@settings(max_examples=50, deadline=None)
def test_positions_go_on_from_start(before, after, tail):
    head, head_grids = sequence(before)
    rest, rest_grids = sequence(after)
    rest += [TEXT] * tail
    whole, end = rope_positions(head + rest, head_grids + rest_grids, IMAGE, MERGE)
    start = rope_positions(head, head_grids, IMAGE, MERGE)[1] if head else 0
    continued, continued_end = rope_positions(rest, rest_grids, IMAGE, MERGE, start)
    assert torch.equal(continued, whole[:, len(head) :])
    assert continued_end == end


def test_padding_and_neighbours_do_not_change_a_samples_logits(model, encoder):
    samples = [sample(encoder, turns, seed) for seed, turns in enumerate((1, 3, 2, 1))]
    with torch.no_grad():
        together = model(**collate(samples, encoder, MERGE)).logits
        for row, one in enumerate(samples):
            alone = model(**collate([one], encoder, MERGE)).logits[0]
            assert (together[row, : len(one.ids)] - alone).abs().max() <= 2e-6 * alone.abs().max()


def test_a_batch_is_padded_on_the_right(encoder):
    samples = [sample(encoder, turns, seed) for seed, turns in enumerate((2, 1))]
    inputs = collate(samples, encoder, MERGE)
    for row, one in enumerate(samples):
        n = len(one.ids)
        assert inputs["input_ids"][row, :n].tolist() == one.ids
        assert inputs["attention_mask"][row].sum() == n
        assert inputs["input_ids"][row, n:].eq(encoder.pad).all()
    assert len(inputs["image_grid_thw"]) == 3
    assert inputs["pixel_values"].shape[0] == inputs["image_grid_thw"].prod(dim=-1).sum()
