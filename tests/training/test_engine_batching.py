"""Continuous batching: who joins, who leaves, what new weights change, and the memory of the slots."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from guiagent.errors import FaultError, InfrastructureError
from guiagent.types import Observation
from tests.support import random_policies
from tests.support.conversing import EXACT, Gate, converse, encoded, furthest, screen
from training.engine.engine import Request
from training.engine.kv_cache import KVCache
from training.engine.local import LocalEngine
from training.engine.policy import EnginePolicy, LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.encoder import Encoder
from training.inputs.pictures import pixel_values
from training.model.pretrained import open_model


@pytest.fixture
def policy(checkpoint: Path) -> Iterator[LocalPolicy]:
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=12), seed=1)
    yield policy
    policy.close()


async def test_who_joins_late_and_ends_soon_does_not_wait_for_a_long_completion(policy):
    eos = policy.encoder.eos

    def only_the_second_ends(module: object, inputs: object, logits: torch.Tensor) -> torch.Tensor:
        logits[..., eos] = -1e4
        if logits.shape[1] == 2:
            logits[0, 1, eos] = 1e4
        return logits

    policy.engine.model.lm_head.register_forward_hook(only_the_second_ends)
    ended: list[str] = []
    gate = Gate(policy)
    long = asyncio.create_task(converse(policy, "long", [screen(0)]))
    await gate.until_reached()
    short = asyncio.create_task(converse(policy, "short", [screen(1)]))
    while policy.engine._inbox.empty():  # noqa: ASYNC110 - put by it, and taken by a thread that waits
        await asyncio.sleep(0.01)
    long.add_done_callback(lambda _: ended.append("long"))
    short.add_done_callback(lambda _: ended.append("short"))
    gate.open()
    (first,), (second,) = await asyncio.gather(long, short)
    assert ended == ["short", "long"]
    assert (len(first.output.completion_ids), second.output.completion_ids) == (12, [eos])
    assert policy.engine.passes == 12
    assert policy.engine.rows == 13


async def test_no_more_than_max_batch_are_on_their_way_at_once(checkpoint):
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=4), max_batch=2)
    policy.engine.model.lm_head.register_forward_hook(
        lambda module, inputs, logits: logits.index_fill(-1, torch.tensor([policy.encoder.eos]), -1e4)
    )
    try:
        episodes = await asyncio.gather(*(converse(policy, f"e{i}", [screen(i)]) for i in range(5)))
    finally:
        policy.close()
    assert max(furthest(policy, turns) for turns in episodes) <= EXACT
    assert policy.engine.rows == 20
    assert policy.engine.rows <= 2 * policy.engine.passes


async def test_new_weights_in_the_middle_of_a_completion_are_recorded_to_the_token(policy):
    """The tokens before them were drawn from the old weights, and those after from the new ones on the old
    cache, which the next turn does not use."""
    policy.engine.model.lm_head.register_forward_hook(
        lambda module, inputs, logits: logits.index_fill(-1, torch.tensor([policy.encoder.eos]), -1e4)
    )
    gate = Gate(policy)
    running = asyncio.create_task(converse(policy, "a", [screen(0)]))
    for _ in range(3):
        await gate.until_reached()
        gate.let_one_pass()
    await gate.until_reached()  # three tokens are sampled, and the fourth begun
    zeros = {name: torch.zeros_like(w) for name, w in policy.engine.model.state_dict().items()}
    loading = asyncio.create_task(asyncio.to_thread(policy.engine.load_weights, zeros, 7))
    await asyncio.sleep(0.05)
    gate.open()
    await loading
    (turn,) = await running
    output = turn.output
    assert output.versions[0] == (0, 0) and output.versions[1][1] == 7
    assert (len(output.versions), output.policy_version) == (2, 0)
    changed = output.versions[1][0]
    assert 4 <= changed < 12
    assert len(set(output.logprobs[changed:])) == 1  # all-zero weights: the uniform distribution
    assert len(set(output.logprobs[:changed])) > 1
    before = encoded(policy.engine)
    (_, again) = await converse(policy, "a", [screen(1)], [turn])
    whole = len(output.prompt_ids) + 12 + len(again.output.prompt_ids)
    assert encoded(policy.engine) - before == whole
    assert (again.output.versions, again.output.policy_version) == ([], 7)


@pytest.mark.parametrize("damage", ["name", "shape"])
async def test_weights_that_do_not_fit_change_nothing(policy, damage):
    state = {name: w + 1 for name, w in policy.engine.model.state_dict().items()}
    name = next(iter(reversed(state)))
    if damage == "name":
        state["no.such.weight"] = state.pop(name)
    else:
        state[name] = state[name][..., :-1]
    with pytest.raises(InfrastructureError, match="do not fit"):
        await asyncio.to_thread(policy.engine.load_weights, state, 1)
    (turn,) = await converse(policy, "a", [screen(0)])
    assert (policy.engine.version, turn.output.policy_version) == (0, 0)
    assert furthest(policy, [turn]) <= EXACT


async def test_too_long_a_context_is_a_fault_with_a_reason(policy):
    ids = [policy.encoder.pad] * 5000
    with pytest.raises(FaultError, match="5000 tokens") as caught:
        await policy.engine.generate(Request("a", ids, []))
    assert (caught.value.fault.origin, caught.value.fault.code) == ("policy", "context_too_long")


async def test_little_memory_costs_time_and_no_exactness(checkpoint):
    """Room for two conversations of the eight that take turns: slots are taken away, and encoded again."""
    encoder = Encoder(checkpoint)
    model = open_model(checkpoint)
    text = model.config.text_config
    token = 2 * 4 * text.num_hidden_layers * text.num_key_value_heads * text.head_dim
    engine = LocalEngine(model, encoder, Sampling(max_new_tokens=4), seed=1, max_cache_bytes=2 * 256 * token)
    policy = EnginePolicy(encoder, engine)
    try:
        shown: list[list[Observation]] = [[screen(10 * i + turn) for turn in range(3)] for i in range(8)]
        episodes = await asyncio.gather(*(converse(policy, f"e{i}", s) for i, s in enumerate(shown)))
        assert max(furthest(policy, turns) for turns in episodes) <= EXACT
        assert engine._slots.keys[0].shape[0] <= 2
        assert engine.rows <= 2 * engine.passes
    finally:
        engine.close()


def make_slots(tokens: int) -> KVCache:
    """Room for so many tokens of 64 bytes."""
    return KVCache(2, 1, 4, dtype=torch.float32, device=torch.device("cpu"), max_bytes=64 * tokens)


def fill(slots: KVCache, name: str, columns: int, number: float) -> None:
    slot = slots.take(name, columns)
    assert slot is not None
    slot.ids = [0] * columns
    for tensor in (*slots.keys, *slots.values):
        tensor[slot.index, :, :columns] = number
    slots.release(name)


def held(slots: KVCache) -> dict[str, set[float]]:
    return {
        name: {
            float(x)
            for t in (*slots.keys, *slots.values)
            for x in t[slot.index, :, : len(slot.ids)].flatten()
        }
        for name, slot in slots._held.items()
    }


def test_slots_keep_what_they_hold_when_they_grow_in_number_and_length():
    slots = make_slots(10**6)
    for i in range(20):
        fill(slots, f"e{i}", 10 + i, float(i))
    fill(slots, "long", 3000, 99.0)
    assert held(slots) == {**{f"e{i}": {float(i)} for i in range(20)}, "long": {99.0}}


def test_the_conversation_idle_for_longest_goes_first_and_a_busy_one_never():
    slots = make_slots(3 * 256)
    for name, number in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
        fill(slots, name, 200, number)
    assert slots.take("a", 200) is not None
    fill(slots, "d", 200, 4.0)
    assert held(slots) == {"a": {1.0}, "c": {3.0}, "d": {4.0}}
    assert slots.take("c", 200) is not None and slots.take("d", 200) is not None
    assert slots.take("e", 200) is None
    assert slots.take("a", 200) is None  # it is busy itself
    slots.release("c")
    fill(slots, "e", 200, 5.0)
    assert held(slots) == {"a": {1.0}, "d": {4.0}, "e": {5.0}}


def test_conversations_that_ended_leave_before_idle_ones_and_few_are_kept():
    slots = make_slots(3 * 256)
    for name, number in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
        fill(slots, name, 200, number)
    slots.drop("c")
    slots.drop("b")
    assert len(list(slots)) == 3 and slots.conversations == {"a"}
    for name, kept in (("d", 3), ("e", 3), ("f", 3)):
        fill(slots, name, 200, 4.0)
        assert len(list(slots)) == kept
    assert held(slots) == {"d": {4.0}, "e": {4.0}, "f": {4.0}}
    roomy = make_slots(10**6)
    for number in range(100):
        fill(roomy, str(number), 200, 0.0)
        roomy.drop(str(number))
    assert len(list(roomy)) == 16 and roomy.keys[0].shape[0] <= 32
    roomy.free_ended()
    assert not list(roomy)


def test_a_single_conversation_is_let_in_whatever_its_length():
    slots = make_slots(256)
    fill(slots, "a", 200, 1.0)
    fill(slots, "b", 5000, 2.0)
    assert held(slots) == {"b": {2.0}}


def test_a_conversation_forgotten_in_the_middle_of_a_completion_is_dropped_at_its_end():
    slots = make_slots(10**6)
    slot = slots.take("a", 10)
    slots.drop("a")
    other = slots.take("b", 10)
    assert slot is not None and other is not None and slot.index != other.index
    slots.release("a")
    assert slots.conversations == {"b"}


class Tokens:
    """An encoder of made-up tokens; a frame is the name of a picture of noise."""

    def __init__(self, family: random_policies.Family) -> None:
        self.image_token, self.eos = random_policies.IMAGE, 2
        self.unsampled = random_policies.UNSAMPLED
        self.picture = lambda frame: random_policies.picture(family, frame.decode())


@pytest.mark.parametrize("family", random_policies.FAMILIES)
async def test_both_families_sample_from_what_a_plain_forward_pass_says(family):
    """Three turns of three conversations, after each of which the others go on; one begins like another."""
    model = random_policies.model(family).eval()
    encoder: Any = Tokens(family)
    engine = LocalEngine(model, encoder, Sampling(max_new_tokens=9), seed=2)

    async def talk(name: str, first: int, pictures: list[str]) -> float:
        context: list[int] = list(range(10, 10 + first))
        frames: list[bytes] = []
        worst = 0.0
        for shown in pictures:
            frames.append(shown.encode())
            places = [random_policies.IMAGE] * encoder.picture(frames[-1]).tokens
            context += [random_policies.VISION_START, *places, random_policies.VISION_END, 50]
            said = await engine.generate(Request(name, context, frames))
            wanted = plain(model, encoder, [*context, *said.ids], frames)[-len(said.ids) :]
            worst = max(worst, *(abs(a - b) for a, b in zip(said.logprobs, wanted, strict=True)))
            context = [*context, *said.ids]
        return worst

    try:
        found = await asyncio.gather(
            talk("a", 12, ["one", "two", "three"]),
            talk("b", 30, ["two", "two", "one"]),
            talk("c", 12, ["one", "three", "two"]),
        )
    finally:
        engine.close()
    assert max(found) <= EXACT


@torch.no_grad()
def plain(model: PreTrainedModel, encoder: Any, ids: list[int], frames: list[bytes]) -> list[float]:
    """The log-probability of every token but the first, given those before it."""
    pictures = [encoder.picture(frame) for frame in frames]
    given = torch.tensor([ids])
    logits = (
        model(
            input_ids=given,
            mm_token_type_ids=(given == encoder.image_token).int(),
            attention_mask=torch.ones_like(given),
            pixel_values=pixel_values(pictures),
            image_grid_thw=torch.tensor([picture.grid for picture in pictures]),
        )
        .logits[0]
        .double()
    )
    logits[:, encoder.unsampled] = -torch.inf
    return torch.log_softmax(logits, dim=-1)[:-1].gather(-1, given[0, 1:, None])[:, 0].tolist()
