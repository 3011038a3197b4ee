"""Padded model inputs, against the library's positions and the model itself."""

import random
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from training.batch import Batch, Sample, collate, rope_positions, sampled_logprobs
from training.encode import Encoder, Picture
from training.pretrained import open_model
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
    ids, sampled, pictures = [], [], []
    for turn in range(turns):
        grid = (1, 2 * rng.randint(1, 4), 2 * rng.randint(1, 4))
        patches = torch.randn(grid[1] * grid[2], 3 * PATCH**2, generator=noise)
        picture = Picture(patches, grid, grid[1] * grid[2] // MERGE**2)
        pictures.append(picture)
        if turn:
            prompt = encoder.next_prompt(picture, ended=True)
        else:
            prompt = encoder.first_prompt("word " * rng.randint(1, 9), picture)
        completion = [rng.randrange(7, 200) for _ in range(rng.randint(1, 8))]
        ids += prompt + completion
        sampled += [False] * len(prompt) + [True] * len(completion)
    return Sample(ids, sampled, [-0.5 * s for s in sampled], pictures)


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
        together = model(**collate(samples, encoder, MERGE).inputs).logits
        for row, one in enumerate(samples):
            alone = model(**collate([one], encoder, MERGE).inputs).logits[0]
            assert (together[row, : len(one.ids)] - alone).abs().max() <= 2e-6 * alone.abs().max()


def test_a_batch_says_which_tokens_were_sampled_and_how_likely(encoder):
    samples = [sample(encoder, turns, seed) for seed, turns in enumerate((2, 1))]
    batch = collate(samples, encoder, MERGE)
    for row, one in enumerate(samples):
        n = len(one.ids)
        assert batch.ids[row, :n].tolist() == one.ids
        assert batch.sampled[row].tolist() == [*one.sampled, *[False] * (batch.ids.shape[1] - n)]
        assert batch.inputs["attention_mask"][row].sum() == n
        assert torch.equal(batch.logprobs[row] < 0, batch.sampled[row])
        assert batch.ids[row, n:].eq(encoder.pad).all()
    assert len(batch.inputs["image_grid_thw"]) == 3
    assert batch.inputs["pixel_values"].shape[0] == batch.inputs["image_grid_thw"].prod(dim=-1).sum()


def test_sampled_logprobs_are_of_the_distribution_that_was_drawn_from():
    """Logits with what cannot be drawn left out; entropy beside them; nothing where nothing was sampled."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(2, 5, 6, generator=generator, requires_grad=True)
    ids = torch.tensor([[4, 0, 1, 4, 2], [4, 4, 2, 4, 3]])
    sampled = torch.tensor([[0, 1, 1, 0, 1], [0, 0, 1, 0, 0]], dtype=torch.bool)
    batch = Batch({}, ids, sampled, torch.zeros(2, 5))
    logprobs, entropy = sampled_logprobs(logits, batch, unsampled=[4, 5])

    drawable = torch.log_softmax(logits[..., :4], dim=-1)
    for row, column in sampled.nonzero().tolist():
        expected = drawable[row, column - 1, ids[row, column]]  # a token is drawn from the logits before it
        assert torch.allclose(logprobs[row, column], expected)
    assert (logprobs[~sampled] == 0).all()
    bits = -(drawable.exp() * drawable).sum(-1)
    assert torch.allclose(entropy, torch.where(sampled, bits.roll(1, dims=1), 0.0))
    assert not entropy.requires_grad

    logprobs.sum().backward()
    assert logits.grad.isfinite().all()
    touched = logits.grad.abs().sum(-1) > 0
    assert torch.equal(touched[:, :-1], sampled[:, 1:]) and not touched[:, -1].any()
    assert logits.grad[..., 4:].eq(0).all()
