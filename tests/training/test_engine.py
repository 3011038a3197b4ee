"""The engine against plain forward passes and the library's `generate`, and what can go wrong around it."""

import asyncio
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from guiagent.actions import ACTIONS
from guiagent.episode import PastTurn
from guiagent.errors import FaultError, InfrastructureError
from guiagent.types import Observation, Picture, PolicyOutput
from tests.support.conversing import (
    EXACT,
    Gate,
    contexts_of,
    converse,
    encoded,
    favour,
    furthest,
    inputs_of,
    plain_logprobs,
    screen,
)
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.encoder import Encoder


@pytest.fixture
def policy(checkpoint: Path) -> Iterator[LocalPolicy]:
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=7), seed=1)
    yield policy
    policy.close()


@pytest.fixture
def greedy(checkpoint: Path) -> Iterator[LocalPolicy]:
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=9, temperature=0))
    favour(policy, {policy.encoder.eos: 0.8})
    yield policy
    policy.close()


def length_before_last_reply(turns: list[PastTurn]) -> int:
    return len(contexts_of(turns)[-1].ids) - len(turns[-1].output.completion_ids)


async def test_what_was_sampled_with_kept_cache_is_what_one_forward_pass_says(policy):
    """One to three turns in mixed batches, with pictures of different sizes, replies ended or cut."""
    favour(policy, {policy.encoder.eos: 4.5})
    sizes = [(96, 64), (64, 128), (160, 224)]
    episodes = await asyncio.gather(
        *(
            converse(
                policy,
                "e" * (i + 1),
                [screen(10 * i + turn, sizes[(i + turn) % 3]) for turn in range(1 + i % 3)],
            )
            for i in range(9)
        )
    )
    assert max(furthest(policy, turns) for turns in episodes) <= EXACT
    replies = [turn.output.completion_ids for turns in episodes for turn in turns]
    assert {reply[-1] == policy.encoder.eos for reply in replies} == {True, False}
    assert all(policy.encoder.eos not in reply[:-1] and 1 <= len(reply) <= 7 for reply in replies)
    assert len({len(reply) for reply in replies}) > 3
    assert policy.engine.stats.sampled_tokens == sum(map(len, replies))


async def test_a_turn_encodes_only_what_it_adds(policy):
    turns = await converse(policy, "e", [screen(turn) for turn in range(3)])
    carried = 2  # a reply's last token is encoded with the next prompt
    added = sum(len(turn.output.prompt_ids) for turn in turns)
    assert encoded(policy.engine) == added + carried


async def test_a_sibling_takes_over_what_another_has_encoded(policy):
    """Of a prompt and a screenshot it needs one token to predict from; of another screenshot all of that."""
    first = await converse(policy, "a", [screen(0), screen(1)])
    prompt = len(first[0].output.prompt_ids)
    picture = policy.encoder.picture(screen(0).frame).tokens
    added = []
    for name, shown in (("b", screen(0)), ("c", screen(5))):
        before = encoded(policy.engine)
        turns = await converse(policy, name, [shown, screen(2)])
        assert furthest(policy, turns) <= EXACT
        added.append(encoded(policy.engine) - before - len(turns[1].output.prompt_ids) - 1)
    assert added[0] == 1
    assert picture < added[1] < prompt


async def test_new_weights_between_turns_are_used_at_once_and_recorded(policy):
    screens = [[screen(10 * i + turn) for turn in range(3)] for i in range(3)]
    histories = await asyncio.gather(*(converse(policy, f"e{i}", s[:2]) for i, s in enumerate(screens)))
    before = [plain_logprobs(policy, turns) for turns in histories]
    prefilled = encoded(policy.engine)

    generator = torch.Generator().manual_seed(3)
    state = policy.engine.model.state_dict()
    moved = {name: w + 0.02 * torch.randn(w.shape, generator=generator) for name, w in state.items()}
    await asyncio.to_thread(policy.engine.load_weights, moved, 5)
    await asyncio.gather(*(converse(policy, f"e{i}", s[2:], histories[i]) for i, s in enumerate(screens)))
    for turns, old in zip(histories, before, strict=True):
        assert [turn.output.policy_version for turn in turns] == [0, 0, 5]
        new = plain_logprobs(policy, turns)
        for plain, turn in zip([*old, new[-1]], turns, strict=True):
            assert plain == pytest.approx(turn.output.logprobs, abs=EXACT)
        assert new[0] != pytest.approx(turns[0].output.logprobs, abs=0.01)
    whole = sum(length_before_last_reply(turns) for turns in histories)
    preamble = len(policy.encoder.first_prompt("", policy.encoder.picture(screen(0).frame)))
    assert whole - 2 * preamble < encoded(policy.engine) - prefilled <= whole


async def test_placeholders_are_never_sampled_however_likely(policy):
    favour(policy, {token: 100.0 for token in policy.encoder.unsampled})
    episodes = await asyncio.gather(
        *(converse(policy, f"e{i}", [screen(i), screen(i + 50)]) for i in range(4))
    )
    for turns in episodes:
        assert furthest(policy, turns) <= EXACT
        for turn in turns:
            assert not {*policy.encoder.unsampled} & {*turn.output.completion_ids}


async def test_greedy_is_the_librarys_own_generate(greedy):
    """Token for token, over three turns of a batch of episodes, each generated alone by the library."""
    screens = [[screen(10 * i + turn, (64 + 32 * i, 96)) for turn in range(3)] for i in range(4)]
    episodes = await asyncio.gather(*(converse(greedy, "e" * (i + 1), s) for i, s in enumerate(screens)))
    for turns in episodes:
        for last in range(3):
            (context,) = contexts_of(turns[: last + 1])
            inputs = inputs_of(greedy.encoder, context, turns)
            ids = inputs["input_ids"][:, : length_before_last_reply(turns[: last + 1])]
            generated = greedy.engine.model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                mm_token_type_ids=(ids == greedy.encoder.image_token).int(),
                pixel_values=inputs["pixel_values"],
                image_grid_thw=inputs["image_grid_thw"],
                do_sample=False,
                max_new_tokens=9,
                suppress_tokens=greedy.encoder.unsampled,
            )
            assert generated[0, ids.shape[1] :].tolist() == turns[last].output.completion_ids
    lengths = {len(turn.output.completion_ids) for turns in episodes for turn in turns}
    assert len(lengths) > 1


async def test_greedy_logprobs_are_zero_since_all_mass_is_on_one_token(greedy):
    (turn,) = await converse(greedy, "e", [screen(0)])
    assert turn.output.logprobs == [0.0] * len(turn.output.completion_ids)


async def test_temperature_is_in_the_logprobs(checkpoint):
    policy = LocalPolicy(Encoder(checkpoint), Sampling(temperature=0.5, max_new_tokens=5))
    try:
        turns = await converse(policy, "e", [screen(0)])
    finally:
        policy.close()
    policy.engine.model.lm_head.register_forward_hook(lambda module, inputs, output: output / 0.5)
    assert furthest(policy, turns) <= EXACT


async def test_a_seed_gives_the_same_samples(checkpoint):
    async def first(seed: int) -> list[int]:
        policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=8), seed=seed)
        try:
            return (await converse(policy, "e", [screen(0)]))[0].output.completion_ids
        finally:
            policy.close()

    assert await first(4) == await first(4) != await first(5)


async def test_text_is_parsed_in_the_frames_pixels_and_errors_are_data(checkpoint):
    policy = LocalPolicy(Encoder(checkpoint), Sampling(temperature=0, max_new_tokens=6))
    wanted = iter(policy.encoder.completion("Action: click(start_box='(40,25)')"))

    def speak(module: object, inputs: object, output: torch.Tensor) -> torch.Tensor:
        return output.index_fill(-1, torch.tensor([next(wanted)]), 1e4)

    hook = policy.engine.model.lm_head.register_forward_hook(speak)
    try:
        (spoken,) = await converse(policy, "e", [screen(0, (160, 224))])
        hook.remove()
        (noise,) = await converse(policy, "f", [screen(0)])
    finally:
        policy.close()
    (click,) = ACTIONS.validate_python(spoken.output.actions)
    assert (click.type, click.x, click.y, spoken.output.error) == ("click", 40, 25, None)
    assert spoken.output.text == "Action: click(start_box='(40,25)')"
    assert noise.output.actions == [] and "Action:" in (noise.output.error or "")


async def test_what_the_model_raises_reaches_all_who_wait_and_the_next_turn_works(policy, checkpoint):
    def fail(*_: object) -> None:
        raise ArithmeticError("no more numbers")

    histories = await asyncio.gather(*(converse(policy, f"e{i}", [screen(i)]) for i in range(3)))
    hook = policy.engine.model.register_forward_pre_hook(fail)
    failed = await asyncio.gather(
        *(policy.act(f"e{i}", "x", turns, screen(9)) for i, turns in enumerate(histories)),
        return_exceptions=True,
    )
    assert [type(error) for error in failed] == [ArithmeticError] * 3
    hook.remove()
    for i, turns in enumerate(histories):
        await converse(policy, f"e{i}", [screen(9)], turns)
        assert furthest(policy, turns) <= EXACT


async def test_a_garbled_frame_is_a_fault_and_costs_nobody_else_a_turn(policy):
    good, bad = await asyncio.gather(
        converse(policy, "a", [screen(0)]),
        policy.act("b", "x", [], Observation(96, 64, frame=b"\x89PNG")),
        return_exceptions=True,
    )
    assert isinstance(bad, FaultError) and len(good) == 1


async def test_pictures_of_an_instruction_are_a_fault_and_not_left_out(policy):
    shown = Observation(64, 64, given=(Picture(b"", "image/png"),))
    with pytest.raises(FaultError, match=r"policy fault \(unsupported\): a checkpoint is shown no pictures"):
        await policy.act("e", "as in the picture", [], shown)


async def test_cancelling_is_harmless_whether_the_turn_waits_or_runs(policy):
    first = await converse(policy, "a", [screen(0)])
    gate = Gate(policy)
    running = asyncio.create_task(converse(policy, "a", [screen(1)], first.copy()))
    await gate.until_reached()
    waiting = asyncio.create_task(converse(policy, "b", [screen(2)]))
    patient = asyncio.create_task(converse(policy, "c", [screen(3)]))
    while policy.engine._inbox.qsize() < 2:  # noqa: ASYNC110 - put by them, and taken by a thread that waits
        await asyncio.sleep(0.01)
    running.cancel()
    waiting.cancel()
    cancelled = await asyncio.gather(running, waiting, return_exceptions=True)
    assert [type(error) for error in cancelled] == [asyncio.CancelledError] * 2
    gate.open()
    (said,) = await patient
    tokens = len(first[0].output.completion_ids) + len(said.output.completion_ids)
    assert policy.engine.stats.sampled_tokens <= tokens + 1  # neither of them went on
    again = await converse(policy, "a", [screen(1)], first)
    assert len(again) == 2 and furthest(policy, again) <= EXACT


async def test_a_sibling_takes_over_what_an_ended_conversation_has_left(policy):
    """So do those that come one after another on one device, until the weights change."""
    first = await converse(policy, "-", [screen(0)])
    policy.forget("-")
    for number, name in enumerate("abcdefghijklmnopqrst"):
        before = encoded(policy.engine)
        turns = await converse(policy, name, [screen(0)])
        assert encoded(policy.engine) - before == 1
        assert furthest(policy, turns) <= EXACT
        policy.forget(name)
        await converse(policy, name.upper(), [screen(50 + number)])
        policy.forget(name.upper())
    state = {name: tensor.clone() for name, tensor in policy.engine.model.state_dict().items()}
    await asyncio.to_thread(policy.engine.load_weights, state, 1)
    before = encoded(policy.engine)
    await converse(policy, "d", [screen(0)])
    assert encoded(policy.engine) - before == len(first[0].output.prompt_ids)


async def test_a_forgotten_conversation_only_lends_its_slot(policy):
    histories = {name: await converse(policy, name, [screen(0), screen(1)]) for name in ("a", "b")}
    policy.forget("a")
    policy.forget("a")
    policy.forget("never seen")
    prefilled = encoded(policy.engine)
    for name, turns in histories.items():
        await converse(policy, name, [screen(2)], turns)
        assert furthest(policy, turns) <= EXACT
        assert {"a", "b"} >= policy.engine._slots.conversations
    added = [len(turns[2].output.prompt_ids) + 1 for turns in histories.values()]
    assert encoded(policy.engine) - prefilled == sum(added)


async def test_an_episodes_name_used_again_does_not_bring_back_its_cache(policy):
    await converse(policy, "a", [screen(0), screen(1)])
    again = await converse(policy, "a", [screen(2)])
    assert furthest(policy, again) <= EXACT


async def test_weights_change_only_between_passes(policy):
    gate = Gate(policy)
    before = asyncio.create_task(converse(policy, "a", [screen(0)]))
    await gate.until_reached()
    zeros = {name: torch.zeros_like(w) for name, w in policy.engine.model.state_dict().items()}
    loading = asyncio.create_task(asyncio.to_thread(policy.engine.load_weights, zeros, 1))
    await asyncio.sleep(0.05)
    assert policy.engine.version == 0 and not loading.done()
    gate.open()
    await loading
    (sampled,), (after,) = await before, await converse(policy, "b", [screen(0)])
    assert (sampled.output.policy_version, after.output.policy_version) == (0, 1)
    assert len(set(after.output.logprobs)) == 1  # all-zero weights: the uniform distribution
    assert len(set(sampled.output.logprobs)) > 1


def test_closing_ends_the_thread_and_nobody_waits_for_ever(checkpoint):
    async def act_around_close() -> None:
        gate = Gate(policy)
        running = asyncio.create_task(policy.act("a", "x", [], screen(0)))
        await gate.until_reached()
        closing = asyncio.create_task(asyncio.to_thread(policy.close))
        await asyncio.sleep(0.05)
        late = asyncio.create_task(policy.act("b", "x", [], screen(0)))
        await asyncio.sleep(0)
        gate.open()
        await closing
        assert isinstance(await running, PolicyOutput)
        (outcome,) = await asyncio.gather(late, return_exceptions=True)
        assert isinstance(outcome, PolicyOutput | asyncio.CancelledError)
        with pytest.raises(RuntimeError, match="closed"):
            await policy.act("c", "x", [], screen(0))

    before = set(threading.enumerate())
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=2))
    (worker,) = (thread for thread in set(threading.enumerate()) - before if thread.name == "engine")
    asyncio.run(act_around_close())
    policy.close()
    assert not worker.is_alive()


def test_an_event_loop_that_is_gone_does_not_take_the_engine_with_it(policy):
    async def leave(gate: Gate) -> None:
        abandoned = asyncio.create_task(policy.act("a", "x", [], screen(0)))
        await gate.until_reached()
        abandoned.cancel()

    gate = Gate(policy)
    asyncio.run(leave(gate))
    gate.open()
    assert len(asyncio.run(converse(policy, "b", [screen(0)]))) == 1


@pytest.mark.parametrize("damage", ["cut", "missing layers", "none"])
def test_damaged_weights_are_refused_in_a_line(checkpoint, tmp_path, damage):
    folder = tmp_path / "copy"
    shutil.copytree(checkpoint, folder)
    weights = folder / "model.safetensors"
    config = json.loads((folder / "config.json").read_text())
    match damage:
        case "cut":
            weights.write_bytes(weights.read_bytes()[:100_000])
        case "missing layers":
            config["text_config"]["num_hidden_layers"] += 1
            config["text_config"].pop("layer_types", None)
            (folder / "config.json").write_text(json.dumps(config))
        case "none":
            weights.unlink()
    with pytest.raises(
        InfrastructureError, match=r"cannot be used.*(header|lacks 11 weights|no file)"
    ) as caught:
        LocalPolicy(Encoder(folder))
    assert "\n" not in str(caught.value)
