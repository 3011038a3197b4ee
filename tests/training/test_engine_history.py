"""What a policy is shown: full history, anchored and sliding windows, and that the record says exactly
that."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from guiagent.dialects.prompts import messages
from guiagent.episode import PastTurn
from tests.support.conversing import (
    EXACT,
    INSTRUCTIONS,
    contexts_of,
    converse,
    encoded,
    favour,
    furthest,
    screen,
)
from training.config import HistoryConfig
from training.engine.engine import Request
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.encoder import Encoder

FULL = HistoryConfig()
ANCHORED = HistoryConfig(kind="anchored", images=2)
SLIDING = HistoryConfig(kind="sliding", images=2)
SIZES = [(96, 64), (64, 128), (160, 96)]


@pytest.fixture(params=[FULL, ANCHORED, SLIDING], ids=lambda history: str(history.kind))
def policy(request: pytest.FixtureRequest, checkpoint: Path) -> Iterator[LocalPolicy]:
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=6), history=request.param, seed=1)
    favour(policy, {policy.encoder.eos: 4.5})
    yield policy
    policy.close()


def recorded(policy: LocalPolicy) -> list[Request]:
    """The requests that the policy makes of its engine from now on."""
    made: list[Request] = []
    generate = policy.engine.generate

    async def listen(request: Request) -> object:
        made.append(request)
        return await generate(request)

    policy.engine.generate = listen
    return made


async def test_contexts_are_what_the_engine_saw_and_sampled_in(policy):
    requests = recorded(policy)
    episodes = await asyncio.gather(
        *(
            converse(
                policy, "e" * (i + 1), [screen(9 * i + turn, SIZES[(i + turn) % 3]) for turn in range(6)]
            )
            for i in range(3)
        )
    )
    assert max(furthest(policy, turns) for turns in episodes) <= EXACT
    for i, turns in enumerate(episodes):
        found = contexts_of(turns)
        asked = iter([request for request in requests if request.conversation == "e" * (i + 1)])
        for context in found:
            for turn in sorted(
                {turn for turn, mine in zip(context.turns, context.sampled, strict=True) if mine}
            ):
                request = next(asked)
                begin = next(
                    place for place, own in enumerate(context.turns) if own == turn and context.sampled[place]
                )
                assert context.ids[:begin] == request.ids
                shown = [frame for frame in context.frames if int(frame) <= turn]
                assert [turns[int(frame)].observation.frame for frame in shown] == request.frames
        assert next(asked, None) is None


@pytest.mark.parametrize("policy", [ANCHORED, SLIDING], indirect=True, ids=["anchored", "sliding"])
async def test_windows_begin_anew_where_they_should(policy):
    turns = await converse(policy, "e", [screen(turn) for turn in range(6)])
    outputs = [turn.output for turn in turns]
    anchored = policy._history.kind == "anchored"
    assert [output.fresh for output in outputs] == (
        [False, False, True, False, True, False] if anchored else [False, False, True, True, True, True]
    )
    assert [output.images for output in outputs] == ([1] * 6 if anchored else [1, 1, 2, 2, 2, 2])
    assert [context.frames for context in contexts_of(turns)] == (
        [["0", "1"], ["2", "3"], ["4", "5"]]
        if anchored
        else [["0", "1"], ["1", "2"], ["2", "3"], ["3", "4"], ["4", "5"]]
    )
    assert {output.completion_ids[-1] == policy.encoder.eos for output in outputs[:-1]} == {True, False}


@pytest.mark.parametrize("policy", [FULL], indirect=True, ids=["full"])
@pytest.mark.parametrize("images", [1, 2, 4])
async def test_a_context_begun_anew_reads_as_a_chat_without_the_oldest_screenshots(policy, images):
    """The same text that a server's chat template makes of `messages` with as many images."""
    turns = await converse(policy, "e", [screen(turn) for turn in range(4)])
    encoder, shown = policy.encoder, screen(4)
    pictures = [encoder.picture(seen.frame) for seen in (*(t.observation for t in turns), shown)][-images:]
    ids = encoder.window_prompt(INSTRUCTIONS[1], [turn.output.completion_ids for turn in turns], pictures)
    texts = [PastTurn(turn.observation, turn.output) for turn in turns]
    chat = messages(encoder.dialect, INSTRUCTIONS[1], texts, shown, max_images=images)
    rendered = encoder.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    first, *rest = rendered.split("<|image_pad|>")
    padded = first + "".join(
        "<|image_pad|>" * picture.tokens + text for picture, text in zip(pictures, rest, strict=True)
    )
    assert encoder.tokenizer.decode(ids) == padded
    for turn in turns:  # as sampled, whatever the tokenizer would make of the text
        said = turn.output.completion_ids
        assert any(ids[i : i + len(said)] == said for i in range(len(ids)))


@pytest.mark.parametrize("policy", [SLIDING], indirect=True, ids=["sliding"])
async def test_a_new_context_takes_over_what_it_has_in_common_with_the_last(policy):
    """From the prompt to the last reply before the window, whose pictures are all that is encoded again."""
    turns = await converse(policy, "e", [screen(turn) for turn in range(4)])
    before = encoded(policy.engine)
    await converse(policy, "e", [screen(4)], turns)
    again = encoded(policy.engine) - before
    prompt = turns[4].output.prompt_ids
    common = len(policy.encoder.first_prompt(INSTRUCTIONS[1], policy.encoder.picture(screen(0).frame)))
    assert again < len(prompt) - common / 2
    assert furthest(policy, turns) <= EXACT
