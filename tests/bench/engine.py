"""Benchmark of the in-process rollout engine: KV cache kept between turns, and continuous batching."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from transformers import PreTrainedModel, Qwen3VLConfig, Qwen3VLForConditionalGeneration

from guiagent.episode import PastTurn
from guiagent.types import Observation
from tests.bench.rows import Arm, Row, against, interleave
from tests.support.conversing import screen
from training.engine.engine import Request
from training.engine.local import LocalEngine
from training.engine.policy import EnginePolicy
from training.engine.sampling import Sampling
from training.inputs.encoder import Encoder
from training.inputs.pictures import pixel_values
from training.tiny import model as tiny

EPISODES, TURNS, TOKENS, SIDE = 4, 8, 24, 224
REQUESTS, BATCH, MEAN_TOKENS, MAX_TOKENS = 36, 12, 48, 256
INSTRUCTION = "Click on Tab #2."


class _Setting(NamedTuple):
    encoder: Encoder
    model: PreTrainedModel


def rows(rounds: int) -> Iterator[Row]:
    torch.set_num_threads(1)
    with _setting() as setting:
        yield from _turns(setting, rounds)
    with _setting() as setting:
        yield from _batching(setting, rounds)


@contextmanager
def _setting() -> Iterator[_Setting]:
    """A Qwen3-VL of hidden size 256 with random weights."""
    torch.manual_seed(0)
    tokenizer = tiny.make_tokenizer([INSTRUCTION])
    config: Qwen3VLConfig = tiny.make_model(tokenizer).config
    text, vision = config.text_config, config.vision_config
    text.hidden_size, text.intermediate_size, text.head_dim = 256, 768, 64
    text.rope_parameters["mrope_section"] = [8, 12, 12]
    vision.hidden_size, vision.intermediate_size, vision.depth, vision.out_hidden_size = 128, 256, 4, 256
    vision.deepstack_visual_indexes = [1, 2]
    with tempfile.TemporaryDirectory() as folder:
        tiny.save(Qwen3VLForConditionalGeneration(config), tiny.make_processor(tokenizer), Path(folder))
        model = Qwen3VLForConditionalGeneration.from_pretrained(folder)
        yield _Setting(Encoder(Path(folder)), model.eval())


def _turns(setting: _Setting, rounds: int) -> Iterator[Row]:
    """Greedy episodes of full history; both arms say the same tokens, or there is no figure."""
    encoder, model = setting
    encoder.unsampled = sorted({*encoder.unsampled, encoder.eos})  # every completion has all its tokens
    screens = [[screen(100 * i + t, (SIDE, SIDE)) for t in range(TURNS)] for i in range(EPISODES)]
    said: list[list[list[int]]] = []

    def paced(talk: "list[list[list[int]]]", began: float) -> float:
        said.append(talk)
        if said[0] != talk:
            raise RuntimeError("the arms do not say the same tokens")
        return EPISODES * TURNS * TOKENS / (time.perf_counter() - began)

    def ours() -> float:
        engine = LocalEngine(model, encoder, Sampling(temperature=0, max_new_tokens=TOKENS))  # knows nothing
        began = time.perf_counter()
        try:
            return paced(asyncio.run(_talk_all(EnginePolicy(encoder, engine), screens)), began)
        finally:
            engine.close()

    def library() -> float:
        began = time.perf_counter()
        return paced(_generate_all(setting, screens), began)

    kept, theirs = Arm(ours), Arm(library)
    interleave(rounds, kept, theirs)
    yield against(
        f"sampling {TURNS} turns, KV kept, against generate() each turn", "tokens/s", kept, theirs, 1.9
    )


async def _talk_all(policy: EnginePolicy, screens: list[list[Observation]]) -> list[list[list[int]]]:
    async def talk(name: str, shown: list[Observation]) -> list[list[int]]:
        history: list[PastTurn] = []
        for observation in shown:
            output = await policy.act(name, INSTRUCTION, history, observation)
            history.append(PastTurn(observation, output))
        policy.forget(name)
        return [turn.output.completion_ids for turn in history]

    return list(await asyncio.gather(*(talk(f"e{i}", shown) for i, shown in enumerate(screens))))


@torch.inference_mode()
def _generate_all(setting: _Setting, screens: list[list[Observation]]) -> list[list[list[int]]]:
    """The same with the library's own loop, which encodes every conversation anew for each turn."""
    encoder, model = setting
    said: list[list[list[int]]] = [[] for _ in screens]
    contexts: list[list[int]] = [[] for _ in screens]
    for turn in range(TURNS):
        shown = [[encoder.picture(one.frame) for one in mine[: turn + 1]] for mine in screens]
        for context, pictures in zip(contexts, shown, strict=True):
            if turn == 0:
                context += encoder.first_prompt(INSTRUCTION, pictures[-1])
            else:
                context += encoder.next_prompt(pictures[-1], ended=False)
        ids = torch.tensor(contexts)
        generated = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            mm_token_type_ids=(ids == encoder.image_token).int(),
            pixel_values=pixel_values([picture for pictures in shown for picture in pictures]),
            image_grid_thw=torch.tensor([picture.grid for pictures in shown for picture in pictures]),
            do_sample=False,
            max_new_tokens=TOKENS,
            suppress_tokens=encoder.unsampled,
        )
        for context, mine, row in zip(contexts, said, generated[:, ids.shape[1] :].tolist(), strict=True):
            context += row
            mine.append(row)
    return said


def _batching(setting: _Setting, rounds: int) -> Iterator[Row]:
    """Completions of very different lengths: as one goes the next comes, and a batch after a batch.

    On a CPU a pass costs nearly as much as its rows, so there is less to gain than on a GPU.
    """
    encoder, model = setting
    bias = torch.zeros(model.config.text_config.vocab_size)
    bias[encoder.unsampled] = -torch.inf
    others = len(bias) - len(encoder.unsampled) - 1
    bias[encoder.eos] = torch.tensor(others / (MEAN_TOKENS - 1)).log()
    model.lm_head.register_forward_hook(lambda module, inputs, logits: 1e-3 * logits + bias)
    engine = LocalEngine(model, encoder, Sampling(max_new_tokens=MAX_TOKENS), max_batch=BATCH)
    frames = [screen(i, (SIDE, SIDE)).frame for i in range(REQUESTS)]
    requests = [
        Request(f"e{i}", encoder.first_prompt(INSTRUCTION, encoder.picture(frame)), [frame])
        for i, frame in enumerate(frames)
    ]

    async def complete(request: Request) -> int:
        said = await engine.generate(request)
        engine.forget(request.conversation)
        return len(said.ids)

    async def ask(at_once: int) -> float:
        began, tokens = time.perf_counter(), 0
        for first in range(0, REQUESTS, at_once):
            tokens += sum(await asyncio.gather(*map(complete, requests[first : first + at_once])))
        return tokens / (time.perf_counter() - began)

    continuous, waves = Arm(lambda: asyncio.run(ask(REQUESTS))), Arm(lambda: asyncio.run(ask(BATCH)))
    interleave(rounds, continuous, waves)
    engine.close()
    yield against(
        f"sampling by {BATCH}, who ends leaves, against batch after batch", "tokens/s", continuous, waves, 1.1
    )
