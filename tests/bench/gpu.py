"""Training and rollouts of a Qwen3-VL of two billion random weights on a GPU, and what bounds them beside it.

Training: whole optimiser steps of the learner, with the preparation of its screenshots. Beside it stand its
products of matrices alone, as fast as the device multiplies large ones, and the same episodes in plain
transformers, each step with its history a sequence of its own, one at a time and without an optimiser.

Rollouts: the engine in this process, all episodes at once, of screenshots that are prepared already. Beside
what it decodes stands what the device could if it did nothing but read the weights and the keys and values
that it needs; beside its prompts, the products.

Every size is a parameter: a test runs all of it on a CPU.
"""

import asyncio
import copy
import dataclasses
import functools
import gc
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import (
    PreTrainedModel,
    Qwen2VLImageProcessorPil,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)

from guiagent.types import PolicyOutput, Score, Step, Trajectory
from tests.bench.accelerators import copied_bytes, finished, matmul_flops, peak_of, seconds
from tests.bench.rows import Arm, Row, reported
from tests.bench.small_vlm import peak_mb
from tests.support.conversing import screen
from training.algorithms import ALGORITHMS
from training.config import UpdateConfig
from training.engine.engine import Request
from training.engine.local import LocalEngine
from training.engine.sampling import Sampling
from training.inputs.collate import Sample, collate
from training.inputs.contexts import contexts
from training.inputs.encoder import Encoder, Picture, decode
from training.learner.learner import Learner
from training.model.flops import Work
from training.model.network import Placement
from training.model.pretrained import open_model
from training.replay import Group
from training.tiny import model as tiny

_INSTRUCTION = "Open the second message, and answer that you will be there at nine on Monday."
_NAME = "GPU"


class Scale(NamedTuple):
    """What is measured, and how large."""

    config: Qwen3VLConfig
    screen: tuple[int, int] = (1920, 1080)  # pixels: 2,040 tokens
    turns: tuple[int, ...] = (8, 16)  # of an episode that is learned from
    window: int = 4  # screenshots, after which its history starts anew
    tokens: int = 128  # of a reply
    trajectories: int = 4  # of an optimiser step
    batch_tokens: int = 65_536
    episodes: tuple[int, ...] = (12, 32, 64)  # at once
    decoded: int = 64  # tokens of a reply, where decoding is measured
    matrix: int = 8192  # side
    copied: int = 2**30  # bytes


def qwen3_vl_2b() -> Qwen3VLConfig:
    """The published architecture: 2.1 billion parameters."""
    text = {
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151_936,
        "max_position_embeddings": 262_144,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 5e6,
            "mrope_section": [24, 20, 20],
            "mrope_interleaved": True,
        },
        "tie_word_embeddings": True,
    }
    vision = {
        "depth": 24,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_heads": 16,
        "out_hidden_size": 2048,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [5, 11, 17],
    }
    return Qwen3VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True)


def rows(rounds: int) -> Iterator[Row]:
    if not torch.cuda.is_available():
        missing = Arm.of(missing="no CUDA device")
        yield reported(f"{_NAME}: training and rollouts of 2.1 B parameters", "tokens/s", missing)
        return
    device = torch.device("cuda", 0)
    yield from measured(Scale(qwen3_vl_2b()), device, torch.cuda.get_device_name(device), rounds)


def measured(scale: Scale, device: torch.device, name: str, rounds: int) -> Iterator[Row]:
    """All rows, on any device; `name` is the driver's."""
    products, bandwidth = matmul_flops(device, scale.matrix), copied_bytes(device, scale.copied)
    peak = peak_of(name)
    flops, copied = (peak.flops / 1e12, peak.bandwidth / 1e12) if peak else (None, None)
    yield reported(
        f"{name}: products (limit: data sheet)", "TFLOP/s", _arm(products / 1e12), limit=_arm(flops)
    )
    yield reported(f"{name}: copies (limit: data sheet)", "TB/s", _arm(bandwidth / 1e12), limit=_arm(copied))
    most = peak.flops if peak else products
    with tempfile.TemporaryDirectory() as folder:
        encoder = checkpoint(Path(folder), scale, device)
        for turns in scale.turns:
            yield from _training(scale, encoder, turns, device, rounds, products, most)
            gc.collect()
        for episodes in scale.episodes:
            yield from _rollouts(scale, encoder, episodes, device, rounds, products, bandwidth, most)
            gc.collect()


def checkpoint(folder: Path, scale: Scale, device: torch.device) -> Encoder:
    """Random weights in bfloat16, as a folder that the learner and the engine open. The tokenizer knows a
    little of the vocabulary only, and is asked for no more."""
    tokenizer = tiny.make_tokenizer([_INSTRUCTION])
    token, config = tokenizer.get_vocab(), scale.config
    vision: Any = config.vision_config
    config.image_token_id, config.video_token_id = token["<|image_pad|>"], token["<|video_pad|>"]
    config.vision_start_token_id, config.vision_end_token_id = (
        token["<|vision_start|>"],
        token["<|vision_end|>"],
    )
    torch.manual_seed(0)
    with device:
        model = Qwen3VLForConditionalGeneration(config).bfloat16()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    pixels = scale.screen[0] * scale.screen[1]
    Qwen2VLImageProcessorPil(
        patch_size=vision.patch_size,
        temporal_patch_size=vision.temporal_patch_size,
        merge_size=vision.spatial_merge_size,
        size={"shortest_edge": 4096, "longest_edge": 2 * pixels},
    ).save_pretrained(folder)
    encoder = Encoder(folder)
    encoder.unsampled = sorted({*encoder.unsampled, encoder.eos})  # every reply has all its tokens
    return encoder


# -- training -----------------------------------------------------------------------------------------------


def _training(
    scale: Scale,
    encoder: Encoder,
    turns: int,
    device: torch.device,
    rounds: int,
    products: float,
    most: float,
) -> Iterator[Row]:
    credit = dataclasses.replace(
        ALGORITHMS["arpo"], credit=lambda members: [[1.0] * len(member.tokens) for member in members]
    )
    config = UpdateConfig(
        learning_rate=1e-6,
        precision="bfloat16",
        gradient_checkpointing=True,
        batch_tokens=scale.batch_tokens,
    )
    learner = Learner(encoder.checkpoint, encoder, credit, config, placement=Placement(device))
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    tokens, utilised, apart = Arm.of(), Arm.of(), Arm.of()
    for step in range(rounds + 1):  # the first one prepares
        screens: dict[str, bytes] = {}
        members = tuple(
            _episode(scale, encoder, turns, step * scale.trajectories + n, screens)
            for n in range(scale.trajectories)
        )
        group = Group("g", "task", 0, members, members, staleness=0)
        finished(device)
        began = time.perf_counter()
        figures = learner.step([group], screens.__getitem__).metrics
        finished(device)
        took = time.perf_counter() - began
        if step:
            tokens.figures.append(scale.trajectories * turns * scale.tokens / took)
            utilised.figures.append(figures["model_flops"] / took / most)
            took = _seconds_apart(learner.model, encoder, members[:1], screens, device)
            apart.figures.append(turns * scale.tokens / took)
    name = f"{_NAME}: training, {turns} turns, window of {scale.window}"
    yield reported(f"{name}, against a step at a time", "action tokens/s", tokens, apart)
    limit = _arm(products / most)
    yield reported(f"{name} (limit: products alone)", "of peak FLOP/s", utilised, limit=limit)
    yield reported(f"{name}: memory at its peak", "GB", _arm(_peak_bytes(device) / 1e9))
    image = decode(screens[f"{rounds * scale.trajectories}/0"])
    took = seconds(torch.device("cpu"), lambda: encoder.prepare(image))
    yield reported(f"{name}: a screenshot prepared, of that", "ms", _arm(1000 * took))


def _episode(scale: Scale, encoder: Encoder, turns: int, seed: int, screens: dict[str, bytes]) -> Trajectory:
    """A made-up one of new screens, which are added to `screens`."""
    words = random.Random(seed)
    steps = []
    for turn in range(turns):
        shown = screen(1000 * seed + turn, scale.screen)
        screens[name := f"{seed}/{turn}"] = shown.frame
        picture, fresh = encoder.picture(shown.frame), turn % scale.window == 0
        prompt = (
            encoder.first_prompt(_INSTRUCTION, picture)
            if fresh
            else encoder.next_prompt(picture, ended=False)
        )
        reply = _words(encoder, words, scale.tokens)
        output = PolicyOutput(
            "", prompt_ids=prompt, completion_ids=reply, logprobs=[-9.0] * len(reply), fresh=fresh
        )
        steps.append(Step(name, *scale.screen, output))
    return Trajectory(f"t{seed}", "task", seed, _INSTRUCTION, steps, "task_done", Score(1.0))


def _words(encoder: Encoder, words: random.Random, count: int) -> list[int]:
    """Ordinary tokens: the special ones come first in the vocabulary."""
    return [words.randrange(100, len(encoder.tokenizer)) for _ in range(count)]


def _seconds_apart(
    model: PreTrainedModel,
    encoder: Encoder,
    members: Sequence[Trajectory],
    screens: dict[str, bytes],
    device: torch.device,
) -> float:
    """Forward and backward pass of every step by itself, with the library's own attention. Changes no weight
    and keeps no gradient."""
    ours = {
        "text_config": model.config.text_config._attn_implementation,
        "vision_config": model.config.vision_config._attn_implementation,
    }
    model.set_attn_implementation({"text_config": "sdpa", "vision_config": "sdpa"})
    merge = model.config.vision_config.spatial_merge_size
    finished(device)
    began = time.perf_counter()
    for member in members:
        for context in contexts(member):
            for turn in sorted(set(context.turns)):
                end = len(context.turns) - context.turns[::-1].index(turn)
                own = [i for i in range(end) if context.sampled[i] and context.turns[i] == turn]
                shown = turn - context.turns[0] + 1
                pictures = [encoder.picture(screens[name]) for name in context.frames[:shown]]
                inputs = collate([Sample(context.ids[:end], pictures)], encoder, merge)
                places = torch.tensor(own)
                with torch.autocast(device.type, torch.bfloat16):
                    logits = model(
                        **{key: tensor.to(device) for key, tensor in inputs.items()},
                        logits_to_keep=(places - 1).to(device),
                        use_cache=False,
                    ).logits[0]
                wanted = inputs["input_ids"][0, places].to(device)
                torch.nn.functional.cross_entropy(logits.float(), wanted).backward()
    finished(device)
    took = time.perf_counter() - began
    model.zero_grad()
    model.set_attn_implementation(ours)
    return took


# -- rollouts -----------------------------------------------------------------------------------------------


class _Talk:
    """A conversation, and the context of its next request."""

    def __init__(self, number: int, encoder: Encoder) -> None:
        self._number, self._encoder = number, encoder
        self.ids: list[int] = []
        self.frames: list[bytes] = []
        self.pictures: list[Picture] = []

    def show(self, scale: Scale) -> None:
        frame = screen(10_000 * self._number + len(self.frames), scale.screen).frame
        picture = self._encoder.picture(frame)
        self.ids += (
            self._encoder.next_prompt(picture, ended=False)
            if self.frames
            else self._encoder.first_prompt(_INSTRUCTION, picture)
        )
        self.frames.append(frame)
        self.pictures.append(picture)

    def request(self) -> Request:
        return Request(f"e{self._number}", list(self.ids), list(self.frames))


def _rollouts(
    scale: Scale,
    encoder: Encoder,
    episodes: int,
    device: torch.device,
    rounds: int,
    products: float,
    bandwidth: float,
    most: float,
) -> Iterator[Row]:
    model = open_model(encoder.checkpoint).to(device)  # type: ignore[arg-type]
    work = Work.of(model)
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    prompted, decoded, readable = Arm.of(), Arm.of(), Arm.of()
    encoder = copy.copy(encoder)
    encoder.picture = kept = functools.cache(encoder.picture)  # type: ignore[method-assign]
    for number in range(rounds + 1):  # the first one prepares
        kept.cache_clear()  # of what the last round's screens were made into
        talks = [_Talk(episodes * number + n, encoder) for n in range(episodes)]
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
            prompted.figures.append(sum(flops) / short / most)
            decoded.figures.append(episodes * (scale.decoded - 1) / (long - short))
            read = weights + _kv_bytes(model) * sum(lengths)
            readable.figures.append(episodes * bandwidth / read)
    name = f"{_NAME}: {episodes} episodes at once"
    yield reported(f"{name}, decoding (limit: reading alone)", "tokens/s", decoded, limit=readable)
    limit = _arm(products / most)
    yield reported(f"{name}, a new screenshot (limit: products alone)", "of peak", prompted, limit=limit)


def _replies(
    scale: Scale, encoder: Encoder, model: PreTrainedModel, talks: Sequence[_Talk]
) -> tuple[float, float]:
    """Seconds of a reply of one token to a second screenshot, of all conversations together, and of a reply
    of many tokens to the same."""
    device = model.device
    took = []
    for talk in talks:
        talk.show(scale)
    begun = [list(talk.ids) for talk in talks]
    for tokens in (1, scale.decoded):
        for talk, ids in zip(talks, begun, strict=True):
            talk.ids, talk.frames, talk.pictures = list(ids), talk.frames[:1], talk.pictures[:1]
        longest = 2 * max(len(ids) for ids in begun) + 2 * scale.decoded + 64
        room = len(talks) * (1 << longest.bit_length()) * _kv_bytes(model)
        engine = LocalEngine(
            model, encoder, Sampling(max_new_tokens=tokens), max_batch=len(talks), max_cache_bytes=room
        )
        asyncio.run(_ask(engine, talks))
        for talk in talks:
            talk.show(scale)
        finished(device)
        began = time.perf_counter()
        asyncio.run(_ask(engine, talks))
        finished(device)
        took.append(time.perf_counter() - began)
        engine.close()
        del engine
        gc.collect()
    return took[0], took[1]


async def _ask(engine: LocalEngine, talks: Sequence[_Talk]) -> None:
    """A reply for each, at once; it becomes part of the context."""
    for talk, said in zip(
        talks, await asyncio.gather(*(engine.generate(talk.request()) for talk in talks)), strict=True
    ):
        talk.ids += said.ids


def _kv_bytes(model: PreTrainedModel) -> int:
    """Of a token's keys and values."""
    text = model.config.text_config
    size: int = 2 * text.num_hidden_layers * text.num_key_value_heads * text.head_dim * model.dtype.itemsize
    return size


def _peak_bytes(device: torch.device) -> float:
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_mb() * 2**20


def _arm(figure: float | None) -> Arm:
    """Of what was measured already, or is not known."""
    return Arm.of(missing="not known") if figure is None else Arm.of(figure)
