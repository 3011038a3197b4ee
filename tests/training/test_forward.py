"""Packed scores against each step on its own, by the library's own path: log-probabilities and gradients."""

from collections.abc import Iterator

import pytest
import torch
from transformers import PreTrainedModel

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
from training.inputs.contexts import Context, contexts
from training.inputs.packing import PackedBatch, pack, tree
from training.inputs.pictures import pixel_values
from training.model import forward
from training.model.forward import Scores, score

HISTORIES = {
    "full": {},
    "anchored": {"window": 2},
    "sliding": {"window": 3, "sliding": True},
    "screens that repeat": {"window": 2, "screens": 2},
}


def packed(family: Family, trajectories: list[Trajectory]) -> PackedBatch:
    branches = [tree(contexts(one), IMAGE) for one in trajectories]
    return pack(branches, lambda name: picture(family, name), IMAGE, MERGE)


def steps(context: Context) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Each turn as a sequence of its own: the ids up to its end, and which of them it sampled."""
    for turn in dict.fromkeys(
        t for t, sampled in zip(context.turns, context.sampled, strict=True) if sampled
    ):
        end = len(context.turns) - context.turns[::-1].index(turn)
        own = [s and t == turn for s, t in zip(context.sampled, context.turns, strict=True)]
        yield torch.tensor([context.ids[:end]]), torch.tensor(own[:end])


def step_by_step(
    network: PreTrainedModel, family: Family, trajectories: list[Trajectory], weights: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies; the gradients of the weighted sum are left in the network."""
    logprobs, entropies, done = [], [], 0
    for context in (context for one in trajectories for context in contexts(one)):
        for ids, own in steps(context):
            count = int((ids == IMAGE).sum()) // picture(family, "").tokens
            pictures = [picture(family, name) for name in context.frames[:count]]
            logits = network(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                mm_token_type_ids=(ids == IMAGE).int(),
                pixel_values=pixel_values(pictures),
                image_grid_thw=torch.tensor([p.grid for p in pictures]),
            ).logits
            drawn = logits[0, :-1][own[1:]]
            drawn[:, UNSAMPLED] = -torch.inf
            scores = torch.log_softmax(drawn, dim=-1)
            found = scores.gather(-1, ids[0][own][:, None])[:, 0]
            (found * weights[done : done + len(found)]).sum().backward()
            done += len(found)
            logprobs.append(found.detach())
            entropies.append(-torch.xlogy(scores.exp(), scores.exp()).sum(-1).detach())
    return torch.cat(logprobs), torch.cat(entropies)


def gradient(network: PreTrainedModel) -> torch.Tensor:
    return torch.cat([p.grad.flatten().double() for p in network.parameters() if p.grad is not None])


def spread(count: int) -> torch.Tensor:
    return torch.linspace(-1, 1, count)


def differentiated(network: PreTrainedModel, found: Scores) -> torch.Tensor:
    network.zero_grad()
    (found.logprobs * spread(len(found.logprobs))).sum().backward()
    return gradient(network)


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("family", FAMILIES)
def test_packed_is_step_by_step(family, history):
    some = [trajectory(seed, turns, **HISTORIES[history]) for seed, turns in ((1, 5), (2, 3), (3, 6))]
    one = packed(family, some)
    network, plain = model(family), model(family)
    found = score(network, one, UNSAMPLED)
    ours = differentiated(network, found)
    logprobs, entropies = step_by_step(plain, family, some, spread(len(one.sampled)))
    theirs = gradient(plain)
    assert (found.logprobs - logprobs).abs().max() <= 2e-6
    assert (found.entropy - entropies).abs().max() <= 1e-5
    assert len(ours) == len(theirs)
    assert (ours - theirs).norm() / theirs.norm() <= 2e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_neighbours_in_a_pack_change_nothing(family):
    some = [trajectory(seed, 4, window=window) for seed, window in ((4, None), (5, 2), (6, 3))]
    network = model(family)
    with torch.no_grad():
        together = score(network, packed(family, some), UNSAMPLED)
        alone = [score(network, packed(family, [one]), UNSAMPLED) for one in some]
    assert (together.logprobs - torch.cat([one.logprobs for one in alone])).abs().max() <= 2e-6


def test_a_window_sees_nothing_from_before_it():
    """Other screens in the first window: the second one's log-probabilities are the very same."""
    one, other = (packed("qwen3", [trajectory(7, 4, window=2)]) for _ in range(2))
    other = other._replace(pictures=[picture("qwen3", "another"), *other.pictures[1:]])
    network = model("qwen3")
    with torch.no_grad():
        first, second = (score(network, p, UNSAMPLED).logprobs for p in (one, other))
    later = one.steps >= 2
    assert torch.equal(first[later], second[later])
    assert (first[~later] - second[~later]).abs().max() > 1e-3


def test_gradient_checkpointing_changes_no_gradient():
    one = packed("qwen3", [trajectory(8, 4, window=2)])
    network = model("qwen3")
    plain = differentiated(network, score(network, one, UNSAMPLED))
    network.activation_checkpointing_enable({"use_reentrant": False})
    again = differentiated(network, score(network, one, UNSAMPLED))
    assert (plain - again).norm() / plain.norm() <= 1e-6


def test_many_logits_are_made_in_parts(monkeypatch):
    one = packed("qwen3", [trajectory(9, 4)])
    network = model("qwen3")
    whole = score(network, one, UNSAMPLED)
    expected = differentiated(network, whole)
    monkeypatch.setattr(forward, "LOGITS_AT_ONCE", 3 * 210)
    parts = score(network, one, UNSAMPLED)
    assert torch.equal(parts.logprobs, whole.logprobs) and torch.equal(parts.entropy, whole.entropy)
    found = differentiated(network, parts)
    assert (found - expected).norm() / expected.norm() <= 1e-6


def test_temperature_and_what_is_never_drawn_shape_the_distribution():
    one = packed("qwen3", [trajectory(10, 2)])
    network = model("qwen3")
    with torch.no_grad():
        hot = score(network, one, UNSAMPLED, temperature=2.0)
        logits = score_logits(network, one) / 2.0
    logits[:, UNSAMPLED] = -torch.inf
    expected = torch.log_softmax(logits, -1)
    assert torch.allclose(hot.logprobs, expected.gather(-1, one.sampled[:, None])[:, 0], atol=1e-6)
    assert torch.allclose(hot.entropy, torch.distributions.Categorical(logits=logits).entropy(), atol=1e-5)


def score_logits(network: PreTrainedModel, one: PackedBatch) -> torch.Tensor:
    pictures = one.pictures
    return network(
        input_ids=one.ids[None],
        position_ids=one.positions[:, None],
        pixel_values=pixel_values(pictures),
        image_grid_thw=torch.tensor([p.grid for p in pictures]),
    ).logits[0, one.predictors]


def test_entropy_has_a_gradient_only_if_asked_for_and_it_is_the_right_one():
    one = packed("qwen3", [trajectory(11, 2)])
    network = model("qwen3")
    assert not score(network, one, UNSAMPLED).entropy.requires_grad
    score(network, one, UNSAMPLED, entropy_gradient=True).entropy.sum().backward()
    found = gradient(network)
    network.zero_grad()
    logits = score_logits(network, one)
    drawable = [token for token in range(logits.shape[-1]) if token not in UNSAMPLED]
    torch.distributions.Categorical(logits=logits[:, drawable]).entropy().sum().backward()
    assert (found - gradient(network)).norm() / found.norm() <= 1e-5


def test_hidden_states_are_those_before_each_turns_first_token():
    one = packed("qwen3", [trajectory(12, 3), trajectory(13, 4, window=2)])
    network = model("qwen3")
    found = score(network, one, UNSAMPLED, hidden=True)
    assert found.hidden.shape == (7, 64)
    firsts = [int((one.turns == turn).nonzero()[0]) for turn in range(7)]
    scores = network.lm_head(found.hidden).index_fill(-1, torch.tensor(UNSAMPLED), -torch.inf).log_softmax(-1)
    tokens = one.sampled[firsts]
    assert torch.allclose(scores.gather(-1, tokens[:, None])[:, 0], found.logprobs[firsts], atol=1e-6)


def test_a_pack_without_pictures():
    text = Context([5, 6, 7, 8], [False, False, True, True], [0.0, 0.0, -1.0, -1.0], [0] * 4, [])
    one = pack([tree([text], IMAGE)], lambda name: picture("qwen3", name), IMAGE, MERGE)
    network = model("qwen3")
    with torch.no_grad():
        found = score(network, one, UNSAMPLED).logprobs
        logits = (
            network(input_ids=one.ids[None])
            .logits[0, [1, 2]]
            .index_fill(-1, torch.tensor(UNSAMPLED), -torch.inf)
        )
    assert torch.allclose(found, logits.log_softmax(-1)[[0, 1], [7, 8]], atol=1e-6)
