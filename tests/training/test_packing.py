"""Packs: what lies where, what is stored once, and how many fit."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.random_policies import IMAGE, MERGE, picture, trajectory
from training.inputs.collate import rope_positions
from training.inputs.contexts import Context, contexts
from training.inputs.layout import Layout
from training.inputs.packing import Branch, PackedBatch, bins, pack, stored_tokens, tree

SYSTEM = 12


def made(*trajectories) -> PackedBatch:
    branches = [tree(contexts(one), IMAGE) for one in trajectories]
    return pack(branches, lambda name: picture("qwen3", name), IMAGE, MERGE)


def by_length(some: list[Context]) -> list[Context]:
    return sorted(some, key=lambda context: len(context.ids))


def context_rows(layout: Layout, length: int) -> list[list[int]]:
    """For each context the places in the row that its tokens are read from."""
    places = torch.arange(length) if layout.places is None else layout.places
    return [part.tolist() for part in places.split(list(layout.lengths))]


@given(lengths=st.lists(st.integers(1, 60), max_size=30), budget=st.integers(1, 80))
def test_bins_hold_everything_once_within_the_budget(lengths, budget):
    found = bins(lengths, budget)
    assert sorted(index for bin in found for index in bin) == list(range(len(lengths)))
    for bin in found:
        assert len(bin) == 1 or sum(lengths[index] for index in bin) <= budget
    loads = [sum(lengths[index] for index in bin) for bin in found]
    for first in range(len(found)):
        for second in range(first + 1, len(found)):
            assert loads[first] + loads[second] > budget  # no two could have been one


def test_a_full_history_is_stored_as_it_is():
    one = trajectory(1, 4)
    made_of = contexts(one)
    packed = made(one)
    assert packed.ids.tolist() == made_of[0].ids
    assert packed.layout.places is None and packed.layout.kept is None and packed.places is None
    assert packed.layout.lengths == (len(made_of[0].ids),)
    sampled = [token for step in one.steps for token in step.policy.completion_ids]
    assert packed.sampled.tolist() == sampled
    assert packed.ids[packed.predictors + 1].tolist() == sampled
    assert packed.sizes == [len(sampled)]


def test_windows_store_the_text_before_the_first_picture_once():
    one = trajectory(2, 6, window=2)
    made_of = contexts(one)
    branches = tree(made_of, IMAGE)
    shared = SYSTEM + 1  # the instruction and the token that opens a picture
    assert [branch.shared for branch in branches] == [0, shared, shared]
    packed = made(one)
    assert list(packed.layout.lengths) == sorted(packed.layout.lengths)  # equal ones are neighbours
    whole = sum(len(context.ids) for context in made_of)
    assert len(packed.ids) == stored_tokens(branches) == whole - 2 * shared
    for context, places in zip(by_length(made_of), context_rows(packed.layout, len(packed.ids)), strict=True):
        assert packed.ids[places].tolist() == context.ids  # nothing of it is missing, nothing else in it
    for index, kept in enumerate(packed.layout.kept.tolist()):
        assert packed.layout.places[kept] == index


def test_positions_start_anew_in_every_context():
    one = trajectory(3, 5, window=2)
    packed = made(one)
    for context, places in zip(
        by_length(contexts(one)), context_rows(packed.layout, len(packed.ids)), strict=True
    ):
        grids = [picture("qwen3", name).grid for name in context.frames]
        alone, _ = rope_positions(context.ids, grids, IMAGE, MERGE)
        assert torch.equal(packed.positions[:, places], alone)


def test_a_screen_that_comes_again_is_looked_at_once():
    one, other = trajectory(4, 5, screens=2), trajectory(4, 4, window=3, sliding=True)
    packed = made(one, other)
    assert packed.frames == ["4/0", "4/1", "4/2", "4/3"]
    tokens = packed.pictures[0].tokens
    shown = [name for t in (one, other) for context in contexts(t) for name in context.frames]
    expected = [packed.frames.index(name) * tokens + i for name in shown for i in range(tokens)]
    assert packed.places.tolist() == expected
    assert len(expected) == int((packed.ids == IMAGE).sum())


def test_tokens_know_their_turn_their_trajectory_and_their_step():
    some = [trajectory(5, 3), trajectory(6, 4, window=2), trajectory(7, 1)]
    packed = made(*some)
    expected, turn = [], 0
    for number, one in enumerate(some):
        for index, step in enumerate(one.steps):
            expected += [(turn, number, index, logprob) for logprob in step.policy.logprobs]
            turn += 1
    assert packed.turns.tolist() == [e[0] for e in expected]
    assert packed.trajectories.tolist() == [e[1] for e in expected]
    assert packed.steps.tolist() == [e[2] for e in expected]
    assert torch.allclose(packed.behaviour, torch.tensor([e[3] for e in expected]))


def test_nothing_sampled_is_ever_shared():
    """Two windows that begin alike even in what was sampled: each keeps its own."""
    first = Context([1, 2, 3, 4], [False, False, True, False], [0.0, 0.0, -1.0, 0.0], [0] * 4, [])
    second = Context([1, 2, 3, 5], [False, False, False, True], [0.0, 0.0, 0.0, -2.0], [1] * 4, [])
    branches = tree([first, second], IMAGE)
    assert branches[1].shared == 2
    packed = pack([branches], lambda name: picture("qwen3", name), IMAGE, MERGE)
    assert packed.sampled.tolist() == [3, 5]
    assert packed.ids[packed.predictors].tolist() == [2, 3]


def test_a_branch_goes_on_behind_pictures():
    """What could have been said instead of the last completion, without storing the screens again."""
    context = contexts(trajectory(8, 3))[0]
    cut = len(context.ids) - context.sampled[::-1].index(False)  # behind the last prompt
    said = [31, 32]
    branch = Context(
        context.ids[:cut] + said,
        [False] * cut + [True, True],
        [0.0] * (cut + 2),
        [*context.turns[:cut], 2, 2],
        context.frames,
    )
    packed = pack(
        [[Branch(context), Branch(branch, 0, cut)]], lambda name: picture("qwen3", name), IMAGE, MERGE
    )
    assert len(packed.ids) == len(context.ids) + 2
    assert packed.places is None  # each picture stands in the row once
    places = context_rows(packed.layout, len(packed.ids))[1]
    assert packed.ids[places].tolist() == branch.ids
    grids = [picture("qwen3", name).grid for name in branch.frames]
    assert torch.equal(packed.positions[:, places], rope_positions(branch.ids, grids, IMAGE, MERGE)[0])
    assert packed.predictors[-2] == cut - 1
