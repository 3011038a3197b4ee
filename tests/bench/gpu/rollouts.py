"""The engine's slots: all episodes at once, on screenshots that are prepared already, and `generate` beside.

Beside what it decodes stands what the device could if it did nothing but read the weights and the keys and
values that it needs; beside its prompts, products of matrices. `generate()` of transformers gets the same
conversations as one batch, and computes each turn's whole context anew.
"""

import asyncio
import copy
import functools
import gc
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from tests.bench.accelerators import finished
from tests.bench.gpu.scale import INSTRUCTION, Machine, Scale, checkpoint
from tests.bench.rows import Arm, Row, reported
from tests.support.conversing import screen
from training.engine.engine import Request
from training.engine.local import LocalEngine
from training.engine.sampling import Sampling
from training.inputs.encoder import Encoder
from training.inputs.pictures import Picture, pixel_values
from training.model.flops import Work
from training.model.pretrained import open_model


def rows(scale: Scale, machine: Machine, rounds: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        encoder = checkpoint(Path(folder), scale, machine.device)
        model = open_model(encoder.checkpoint).to(machine.device)  # type: ignore[arg-type]
        encoder = copy.copy(encoder)
        encoder.picture = functools.cache(encoder.picture)  # type: ignore[method-assign]
        yield from _beside_generate(scale, machine, encoder, model, rounds)
        for episodes in scale.episodes:
            yield from _rows(scale, machine, encoder, model, episodes, rounds)
            gc.collect()


class _Talk:
    """A conversation, and the context of its next request."""

    def __init__(self, number: int, encoder: Encoder) -> None:
        self._number, self._encoder = number, encoder
        self.ids: list[int] = []
        self.frames: list[bytes] = []
        self.pictures: list[Picture] = []

    def show(self, scale: Scale) -> None:
        frame = _frame(10_000 * self._number + len(self.frames), scale.screen)
        picture = self._encoder.picture(frame)
        self.ids += (
            self._encoder.next_prompt(picture, ended=False)
            if self.frames
            else self._encoder.first_prompt(INSTRUCTION, picture)
        )
        self.frames.append(frame)
        self.pictures.append(picture)

    def request(self) -> Request:
        return Request(f"e{self._number}", list(self.ids), list(self.frames))


@functools.cache
def _frame(seed: int, size: tuple[int, int]) -> bytes:
    return screen(seed, size).frame


def _show(talks: Sequence[_Talk], scale: Scale) -> None:
    """Show each conversation its next screenshot; all are prepared when it returns."""
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda talk: talk.show(scale), talks))


def _rows(
    scale: Scale, machine: Machine, encoder: Encoder, model: PreTrainedModel, episodes: int, rounds: int
) -> Iterator[Row]:
    work = Work.of(model)
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    prompted, decoded, readable = Arm.of(), Arm.of(), Arm.of()
    for number in range(rounds + 1):  # the first one, with few, prepares
        encoder.picture.cache_clear()  # type: ignore[attr-defined]  # of the last round's screens
        talks = [_Talk(episodes * number + n, encoder) for n in range(episodes if number else 2)]
        short, long = _replies(scale, encoder, model, talks)
        if number:
            lengths = [len(talk.ids) for talk in talks]
            new = [len(encoder.next_prompt(talk.pictures[-1], ended=False)) + 1 for talk in talks]
            flops = work.forward(
                sum(new),
                list(zip(lengths, new, strict=True)),
                episodes,
                [len(talk.pictures[-1].patches) for talk in talks],
            )
            prompted.figures.append(sum(flops) / short / machine.most)
            decoded.figures.append(episodes * (scale.decoded - 1) / (long - short))
            read = weights + kv_bytes(model) * sum(lengths)
            readable.figures.append(episodes * machine.bandwidth / read)
    name = f"{scale.name}: {episodes} episodes at once"
    yield reported(f"{name}, decoding (limit: reading alone)", "tokens/s", decoded, limit=readable)
    limit = Arm.of(machine.products / machine.most)
    yield reported(f"{name}, a new screenshot (limit: products alone)", "of peak", prompted, limit=limit)


def _replies(
    scale: Scale, encoder: Encoder, model: PreTrainedModel, talks: Sequence[_Talk]
) -> tuple[float, float]:
    """Seconds of a reply of one token to a second screenshot, of all conversations together, and of a reply
    of many tokens to the same."""
    device = model.device
    took = []
    _show(talks, scale)
    begun = [list(talk.ids) for talk in talks]
    for tokens in (1, scale.decoded):
        for talk, ids in zip(talks, begun, strict=True):
            talk.ids, talk.frames, talk.pictures = list(ids), talk.frames[:1], talk.pictures[:1]
        longest = 2 * max(len(ids) for ids in begun) + 2 * scale.decoded + 64
        engine = _engine(model, encoder, tokens, len(talks), longest)
        asyncio.run(_ask(engine, talks))
        _show(talks, scale)
        finished(device)
        began = time.perf_counter()
        asyncio.run(_ask(engine, talks))
        finished(device)
        took.append(time.perf_counter() - began)
        engine.close()
        del engine
        gc.collect()
    return took[0], took[1]


def _beside_generate(
    scale: Scale, machine: Machine, encoder: Encoder, model: PreTrainedModel, rounds: int
) -> Iterator[Row]:
    """Greedy replies in conversations of a few turns: what each side samples a second."""
    turns, count = scale.layouts[-1].window, scale.episodes[0]
    ours, theirs = Arm.of(), Arm.of()
    for number in range(rounds + 1):  # the first one, of one turn, prepares
        encoder.picture.cache_clear()  # type: ignore[attr-defined]
        for arm, generated in ((ours, False), (theirs, True)):
            talks = [_Talk(count * number + n, encoder) for n in range(count)]
            longest = turns * (2 * scale.screen[0] * scale.screen[1] // 1024 + scale.decoded + 64)
            engine = None if generated else _engine(model, encoder, scale.decoded, count, longest)
            took = 0.0
            for _ in range(turns if number else 1):
                _show(talks, scale)  # before the clock starts, for both
                finished(machine.device)
                began = time.perf_counter()
                if engine is not None:
                    asyncio.run(_ask(engine, talks))
                else:
                    _generate(model, talks, scale.decoded)
                finished(machine.device)
                took += time.perf_counter() - began
            if engine is not None:
                engine.close()
                del engine
                gc.collect()
            if number:
                arm.figures.append(count * turns * scale.decoded / took)
    name = f"{scale.name}: {count} conversations of {turns} screens, slots against generate() each turn"
    yield reported(name, "tokens/s", ours, theirs)


@torch.no_grad()
def _generate(model: PreTrainedModel, talks: Sequence[_Talk], tokens: int) -> None:
    """A reply for each as one batch without padding: all contexts have one length."""
    device = model.device
    ids = torch.tensor([talk.ids for talk in talks], device=device)
    pictures = [picture for talk in talks for picture in talk.pictures]
    generate: Any = model.generate
    image = model.config.image_token_id
    said = generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        mm_token_type_ids=(ids == image).int(),
        pixel_values=pixel_values(pictures, device).to(model.dtype),
        image_grid_thw=torch.tensor([picture.grid for picture in pictures], device=device),
        max_new_tokens=tokens,
        min_new_tokens=tokens,
        do_sample=False,
        bad_words_ids=[[image]],
    )[:, ids.shape[1] :]
    for talk, own in zip(talks, said.tolist(), strict=True):
        talk.ids += own


def _engine(
    model: PreTrainedModel, encoder: Encoder, tokens: int, episodes: int, longest: int
) -> LocalEngine:
    """With room for so many conversations of at most so many tokens."""
    room = episodes * (1 << longest.bit_length()) * kv_bytes(model)
    sampling = Sampling(max_new_tokens=tokens)
    return LocalEngine(model, encoder, sampling, max_batch=episodes, max_cache_bytes=room)


async def _ask(engine: LocalEngine, talks: Sequence[_Talk]) -> None:
    """A reply for each, at once; it becomes part of the context."""
    for talk, said in zip(
        talks, await asyncio.gather(*(engine.generate(talk.request()) for talk in talks)), strict=True
    ):
        talk.ids += said.ids


def kv_bytes(model: PreTrainedModel) -> int:
    """Of a token's keys and values."""
    text = model.config.text_config
    size: int = 2 * text.num_hidden_layers * text.num_key_value_heads * text.head_dim * model.dtype.itemsize
    return size
