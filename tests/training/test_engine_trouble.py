"""What can go wrong in the in-process engine: no numbers, a dead thread, torn weights, little memory."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from guiagent.errors import FaultError, InfrastructureError
from tests.support.conversing import EXACT, Gate, converse, encoded, furthest, screen
from tests.training.test_engine_batching import fill, held, make_slots
from training.engine.engine import EngineStats
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.encoder import Encoder


@pytest.fixture(params=[1.0, 0.0], ids=["sampling", "greedy"])
def policy(request: pytest.FixtureRequest, checkpoint: Path) -> Iterator[LocalPolicy]:
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=4, temperature=request.param), seed=1)
    yield policy
    policy.close()


@pytest.fixture
def sampling(checkpoint: Path) -> Iterator[LocalPolicy]:
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=4), seed=1)
    yield policy
    policy.close()


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
async def test_logits_that_are_no_numbers_are_a_fault_of_that_episode_alone(policy, number):
    """Nothing is sampled from them, and what its slot held does no harm to whom it is given next."""

    def spoil(module: object, inputs: object, logits: torch.Tensor) -> torch.Tensor:
        if (bad := policy.engine._slots._held.get("bad")) is not None:
            for tensor in (*policy.engine._slots.keys, *policy.engine._slots.values):
                tensor[bad.index] = torch.nan
        rows = [row.request.conversation for row in policy.engine._running]
        if "bad" in rows:
            logits[:, rows.index("bad"), 100] = number
        return logits

    hook = policy.engine.model.lm_head.register_forward_hook(spoil)
    outcomes: list[Any] = await asyncio.gather(
        *(converse(policy, name, [screen(i)]) for i, name in enumerate(("good", "bad", "fine"))),
        return_exceptions=True,
    )
    hook.remove()
    assert isinstance(outcomes[1], FaultError)
    assert (outcomes[1].fault.origin, outcomes[1].fault.code) == ("policy", "not_finite")
    again = await asyncio.gather(*(converse(policy, f"next{i}", [screen(9 + i)]) for i in range(8)))
    if policy.engine._sampling.temperature:
        assert max(furthest(policy, turns) for turns in (outcomes[0], outcomes[2], *again)) <= EXACT
    assert "bad" not in policy.engine._slots.conversations


async def test_a_thread_that_dies_leaves_nobody_waiting(sampling):
    """Not even who comes while it dies, and who comes later hears of it."""
    gate = Gate(sampling)
    running = asyncio.create_task(sampling.act("a", "x", [], screen(0)))
    await gate.until_reached()
    waiting = [asyncio.create_task(sampling.act(f"w{i}", "x", [], screen(i))) for i in range(3)]
    while sampling.engine._inbox.qsize() < 3:  # noqa: ASYNC110 - put by them, and taken by a thread that waits
        await asyncio.sleep(0.01)

    def bug(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    sampling.engine._slots.drop = bug
    sampling.forget("anything")
    loading = asyncio.create_task(asyncio.to_thread(sampling.engine.load_weights, {}, 1))
    while sampling.engine._inbox.qsize() < 5:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    gate.open()
    outcomes = await asyncio.wait_for(asyncio.gather(running, *waiting, loading, return_exceptions=True), 60)
    assert [type(outcome) for outcome in outcomes] == [ZeroDivisionError] * 5
    with pytest.raises(RuntimeError, match="closed") as caught:
        await asyncio.wait_for(sampling.act("b", "x", [], screen(0)), 60)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(RuntimeError, match="closed"):
        sampling.engine.load_weights({}, 1)
    sampling.forget("a")


def test_who_comes_in_while_the_engine_closes_is_answered_one_way_or_the_other(checkpoint):
    """Many times, since it is a race."""

    async def race() -> list[Any]:
        policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=1))
        acting = [asyncio.create_task(policy.act(f"e{i}", "x", [], screen(i))) for i in range(6)]
        await asyncio.sleep(0)
        closing = threading.Thread(target=policy.close)
        closing.start()
        outcomes = await asyncio.wait_for(asyncio.gather(*acting, return_exceptions=True), 60)
        await asyncio.to_thread(closing.join)
        return outcomes

    for _ in range(3):
        for outcome in asyncio.run(race()):
            assert not isinstance(outcome, Exception) or "closed" in str(outcome)


async def test_weights_of_which_some_are_missing_are_refused_and_tied_ones_need_one_name(sampling):
    state = {name: w + 0.01 for name, w in sampling.engine.model.state_dict().items()}
    embedding = "model.language_model.embed_tokens.weight"
    assert {embedding, "lm_head.weight"} <= state.keys()
    whole = dict(state)
    del state["model.language_model.norm.weight"]
    with pytest.raises(InfrastructureError, match=r"norm\.weight is missing \(1 in all\)"):
        await asyncio.to_thread(sampling.engine.load_weights, state, 1)
    (turn,) = await converse(sampling, "a", [screen(0)])
    assert (sampling.engine.version, turn.output.policy_version) == (0, 0)
    for name in (embedding, "lm_head.weight"):
        tied = {other: w for other, w in whole.items() if other != name}
        await asyncio.to_thread(sampling.engine.load_weights, tied, 2)
    turns = await converse(sampling, "b", [screen(1)])
    assert turns[0].output.policy_version == 2 and furthest(sampling, turns) <= EXACT
    with pytest.raises(InfrastructureError, match="is missing"):
        both = whole.keys() - {embedding, "lm_head.weight"}
        await asyncio.to_thread(sampling.engine.load_weights, {name: whole[name] for name in both}, 3)


async def test_stats_say_what_was_encoded_held_and_sampled(sampling):
    assert sampling.engine.stats == EngineStats()
    turns = await converse(sampling, "a", [screen(i) for i in range(3)])
    stats = sampling.engine.stats
    prompts = [len(turn.output.prompt_ids) for turn in turns]
    replies = [len(turn.output.completion_ids) for turn in turns]
    contexts = [sum(prompts[: i + 1]) + sum(replies[:i]) for i in range(3)]
    assert stats.prompt_tokens == sum(contexts)
    assert encoded(sampling.engine) == sum(prompts) + 2  # a reply's last token comes with the next prompt
    assert stats.sampled_tokens == sum(replies)
    assert stats.busy_s > 0


async def test_conversations_that_nobody_ends_cost_no_more_than_the_memory_there_is(checkpoint):
    """A hundred of them, in room for three."""
    slots = make_slots(3 * 256)
    for number in range(100):
        fill(slots, f"lost{number}", 200, float(number))
    assert held(slots) == {f"lost{number}": {float(number)} for number in (97, 98, 99)}
    assert slots.keys[0].shape[0] * slots.keys[0].shape[2] <= 3 * 256


def test_one_long_conversation_does_not_leave_the_others_without_room():
    """Slots are as wide as the longest. When that is gone, they become narrow again, and more."""
    slots = make_slots(8 * 256)
    for number in range(8):
        fill(slots, f"e{number}", 200, float(number))
    fill(slots, "long", 1500, 99.0)
    assert held(slots) == {"long": {99.0}}
    for number in range(8):
        fill(slots, f"f{number}", 200, float(number))
    assert held(slots) == {f"f{number}": {float(number)} for number in range(8)}
    assert slots.keys[0].shape[0] * slots.keys[0].shape[2] <= 8 * 256


def test_slots_become_narrow_beside_those_that_are_busy():
    slots = make_slots(8 * 256)
    fill(slots, "long", 900, 99.0)
    first = slots.take("a", 200)
    assert first is not None
    first.ids = [0] * 100
    for tensor in (*slots.keys, *slots.values):
        tensor[first.index, :, :100] = 1.0
    taken = [slots.take(f"b{number}", 250) for number in range(7)]
    assert all(taken) and len({slot.index for slot in (first, *taken) if slot}) == 8
    assert slots.take("c", 200) is None
    assert {float(x) for t in (*slots.keys, *slots.values) for x in t[first.index, :, :100].flatten()} == {
        1.0
    }


def test_a_slot_that_is_wiped_is_zero_for_whom_it_is_given_next():
    slots = make_slots(10**6)
    fill(slots, "a", 200, float("nan"))
    slots.wipe("a")
    slot = slots.take("b", 200)
    assert slot is not None
    assert not any(tensor[slot.index].any() for tensor in (*slots.keys, *slots.values))
