"""Trajectories divided over passes: every token once, within the bound, from its own context."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from guiagent.errors import UsageError
from guiagent.types import Trajectory
from tests.support.random_policies import (
    FAMILIES,
    IMAGE,
    MERGE,
    UNSAMPLED,
    Family,
    model,
    picture,
    trajectory,
)
from training.inputs.contexts import contexts
from training.inputs.packing import Branch, PackedBatch, pack, stored_tokens, tree
from training.inputs.pieces import pieces
from training.learner.answer_probes import probes
from training.model.forward import score

SYSTEM = 12
EPISODES = st.builds(
    trajectory,
    st.integers(0, 10_000),
    st.integers(1, 9),
    window=st.sampled_from([None, 1, 2, 3]),
    sliding=st.booleans(),
    tokens=st.integers(1, 6),
    system=st.integers(1, SYSTEM),
    screens=st.sampled_from([None, 2]),
)


def packed(trees: list[list[Branch]], family: Family = "qwen3") -> PackedBatch:
    return pack(trees, lambda name: picture(family, name), IMAGE, MERGE)


def longest(branches: list[Branch]) -> int:
    return max(len(branch.context.ids) for branch in branches)


@given(one=EPISODES, more=st.integers(0, 150), probed=st.booleans())
@settings(max_examples=80, deadline=None)
def test_pieces_hold_every_sampled_token_once_within_the_bound(
    one: Trajectory, more: int, probed: bool
) -> None:
    branches = tree(contexts(one), IMAGE)
    if probed:
        branches = probes(branches, [31, 32, 33], IMAGE)
    bound = longest(branches) + more
    found = pieces(branches, bound)
    assert all(stored_tokens(piece.branches) <= bound for piece in found)
    assert [b.context for piece in found for b in piece.branches] == [b.context for b in branches]
    whole = packed([branches])
    assert [piece.begin for piece in found] == [0, *(piece.end for piece in found[:-1])]
    assert found[-1].end == len(whole.sampled)
    for piece in found:
        part = packed([piece.branches])
        own = slice(piece.begin, piece.end)
        assert torch.equal(part.sampled, whole.sampled[own])
        assert torch.equal(part.behaviour, whole.behaviour[own])
        assert torch.equal(part.steps, whole.steps[own])
        assert len(part.ids) == stored_tokens(piece.branches)
        places = torch.arange(len(part.ids)) if part.layout.places is None else part.layout.places
        rows = [part.ids[place].tolist() for place in places.split(list(part.layout.lengths))]
        assert sorted(rows) == sorted(branch.context.ids for branch in piece.branches)


def test_what_fits_is_one_piece_as_it_was() -> None:
    branches = tree(contexts(trajectory(1, 5, window=2)), IMAGE)
    (piece,) = pieces(branches, stored_tokens(branches))
    assert piece.branches == branches
    assert len(pieces(branches, stored_tokens(branches) - 1)) == 2


def test_a_later_piece_stores_the_common_text_again_once() -> None:
    one = trajectory(1, 8, window=2, system=SYSTEM)
    branches = tree(contexts(one), IMAGE)
    lengths = [len(branch.context.ids) for branch in branches]
    shared = SYSTEM + 1
    two = max(lengths[0] + lengths[1], lengths[2] + lengths[3]) - shared
    found = pieces(branches, two)
    assert [[(b.parent, b.shared) for b in piece.branches] for piece in found] == 2 * [[(0, 0), (0, shared)]]


def test_probes_of_one_context_share_it_in_a_piece_that_does_not_hold_it() -> None:
    """Two answers after the third screen: the second goes on from what the first has stored."""
    whole = tree(contexts(trajectory(3, 4)), IMAGE)
    asked = probes(whole, [31], IMAGE)
    ends = [branch.shared for branch in asked[1:]]
    assert [piece.branches[0].shared for piece in pieces(asked, longest(asked) + 1)][1:] == [0] * (
        len(pieces(asked, longest(asked) + 1)) - 1
    )
    last = pieces(asked, longest(asked))[-1].branches
    assert last[-1].shared in (0, *ends)


def test_a_context_that_fits_in_no_pass_is_one_line_with_the_way_out() -> None:
    branches = tree(contexts(trajectory(1, 4, window=2)), IMAGE)
    with pytest.raises(UsageError, match=r"longer than update\.batch_tokens, 20.*rollout\.history") as told:
        pieces(branches, 20)
    assert "\n" not in str(told.value)


def gradients(family: Family, packs: list[PackedBatch]) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities in order, and the gradient of their random sum."""
    network = model(family)
    weights = random.Random(5)
    found = []
    for one in packs:
        logprobs = score(network, one, UNSAMPLED).logprobs
        (logprobs * torch.tensor([weights.uniform(-1, 1) for _ in logprobs])).sum().backward()
        found.append(logprobs.detach())
    gradient = torch.cat([p.grad.reshape(-1) for p in network.parameters() if p.grad is not None])
    return torch.cat(found), gradient


@pytest.mark.parametrize("family", FAMILIES)
@given(one=EPISODES, more=st.integers(0, 60))
@settings(max_examples=12, deadline=None)
def test_in_pieces_the_model_finds_the_same(family: Family, one: Trajectory, more: int) -> None:
    branches = tree(contexts(one), IMAGE)
    found = pieces(branches, longest(branches) + more)
    logprobs, gradient = gradients(family, [packed([piece.branches], family) for piece in found])
    expected, whole = gradients(family, [packed([branches], family)])
    assert (logprobs - expected).abs().max() <= 2e-6
    assert (gradient - whole).norm() / whole.norm() <= 2e-6
