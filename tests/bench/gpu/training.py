"""Optimiser steps of the learner on episodes of screens: tokens/s, utilisation, memory.

Whole steps, with the preparation of the screenshots. Beside them stand products of matrices alone, and the
same episodes in plain transformers: each turn with its history a sequence of its own, one at a time and
without an optimiser.
"""

import dataclasses
import gc
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import PreTrainedModel

from guiagent.frames import rgb_of_device
from guiagent.types import PolicyOutput, Score, Step, Trajectory
from tests.bench.accelerators import finished, peak_bytes, reset_peak, seconds
from tests.bench.gpu.scale import INSTRUCTION, Layout, Machine, Scale, checkpoint
from tests.bench.rows import Arm, Row, reported
from tests.support.conversing import screen
from training.algorithms import ALGORITHMS
from training.config import UpdateConfig
from training.dry_run import memory
from training.inputs.collate import Sample, collate
from training.inputs.contexts import contexts
from training.inputs.encoder import Encoder
from training.learner.learner import Learner
from training.model.architecture import Architecture
from training.model.network import Placement
from training.replay import Group


def rows(scale: Scale, machine: Machine, rounds: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        encoder = checkpoint(Path(folder), scale, machine.device)
        for layout in scale.layouts:
            yield from _rows(scale, layout, machine, encoder, rounds)
            gc.collect()


def update_config(scale: Scale) -> UpdateConfig:
    """The recipe of a step."""
    return UpdateConfig(
        learning_rate=1e-6,
        precision="bfloat16",
        gradient_checkpointing=True,
        batch_tokens=scale.batch_tokens,
        lora=scale.lora,
    )


def made(scale: Scale, encoder: Encoder, device: torch.device) -> Learner:
    """Open the checkpoint as a learner that gives every token the same credit."""
    credit = dataclasses.replace(
        ALGORITHMS["arpo"], credit=lambda members: [[1.0] * len(member.tokens) for member in members]
    )
    return Learner(encoder.checkpoint, encoder, credit, update_config(scale), placement=Placement(device))


def batch(scale: Scale, layout: Layout, encoder: Encoder, step: int) -> tuple[Group, dict[str, bytes]]:
    """Make up the episodes of an optimiser step, and their screens by name."""
    screens: dict[str, bytes] = {}
    first = step * scale.trajectories
    members = tuple(episode(scale, layout, encoder, first + n, screens) for n in range(scale.trajectories))
    return Group("g", "task", 0, members, members, staleness=0), screens


def _rows(scale: Scale, layout: Layout, machine: Machine, encoder: Encoder, rounds: int) -> Iterator[Row]:
    device = machine.device
    learner = made(scale, encoder, device)
    reset_peak(device)
    tokens, utilised, peak = Arm.of(), Arm.of(), Arm.of()
    for step in range(rounds + 1):  # the first one prepares
        group, screens = batch(scale, layout, encoder, step)
        finished(device)
        began = time.perf_counter()
        figures = learner.step([group], screens.__getitem__).metrics
        finished(device)
        took = time.perf_counter() - began
        if step:
            tokens.figures.append(scale.trajectories * layout.turns * scale.tokens / took)
            utilised.figures.append(figures["model_flops"] / took / machine.most)
            peak.figures.append(peak_bytes(device) / 1e9)
    name = f"{scale.name}: training, {layout.turns} turns, window of {layout.window}"
    limit = Arm.of(machine.products / machine.most)
    yield reported(f"{name} (limit: products alone)", "of peak FLOP/s", utilised, limit=limit)
    estimate = Arm.of(_estimate(scale, group.members[0], rounds + 1) / 1e9)
    yield reported(f"{name}: memory at its peak (limit: the dry run's estimate)", "GB", peak, limit=estimate)
    image = rgb_of_device(screens[f"{rounds * scale.trajectories}/0"])
    prepared = seconds(torch.device("cpu"), lambda: encoder.prepare(image))
    yield reported(f"{name}: a screenshot prepared", "ms", Arm.of(1000 * prepared))
    learner.model.zero_grad()
    sampled, took = apart(learner.model, encoder, group.members[0], layout.every, screens, device)
    beside = f"{name}, against a step at a time"
    if layout.every > 1:
        beside += f", one of {layout.every}"
    yield reported(beside, "action tokens/s", tokens, Arm.of(sampled / took))


def episode(
    scale: Scale, layout: Layout, encoder: Encoder, seed: int, screens: dict[str, bytes]
) -> Trajectory:
    """A made-up one of new screens, which are added to `screens`."""
    words = random.Random(seed)
    steps = []
    for turn in range(layout.turns):
        shown = screen(1000 * seed + turn, scale.screen)
        screens[name := f"{seed}/{turn}"] = shown.frame
        picture, fresh = encoder.picture(shown.frame), turn % layout.window == 0
        prompt = (
            encoder.first_prompt(INSTRUCTION, picture) if fresh else encoder.next_prompt(picture, ended=False)
        )
        # Ordinary tokens: the special ones come first in the vocabulary.
        reply = [words.randrange(100, len(encoder.tokenizer)) for _ in range(scale.tokens)]
        output = PolicyOutput(
            "", prompt_ids=prompt, completion_ids=reply, logprobs=[-9.0] * len(reply), fresh=fresh
        )
        steps.append(Step(name, *scale.screen, output))
    return Trajectory(f"t{seed}", "task", seed, INSTRUCTION, steps, "task_done", Score(1.0))


def _estimate(scale: Scale, member: Trajectory, steps: int) -> int:
    """Bytes that the dry run expects at the peak of so many steps whose longest pass is this episode."""
    sizes, learner = Architecture.of(scale.config), memory.Learner(update_config(scale))
    ids = [token for context in contexts(member) for token in context.ids]
    shown = ids.count(scale.config.image_token_id)
    sampled = sum(sum(context.sampled) for context in contexts(member))
    longest = memory.Pass(len(ids), sampled, shown, shown // len(member.steps))
    seen = steps * scale.trajectories * shown
    return memory.held(sizes, learner, seen).total + memory.peak(sizes, learner, longest).total


def apart(
    model: PreTrainedModel,
    encoder: Encoder,
    member: Trajectory,
    every: int,
    screens: dict[str, bytes],
    device: torch.device,
) -> tuple[int, float]:
    """Do the forward and backward pass of turns by themselves, with the library's own attention.

    The middle one of every so many turns of a context stands for all: their lengths have its mean. Changes
    no weight, keeps no gradient. Returns how many sampled tokens it learned from, and the seconds.
    """
    ours = {
        "text_config": model.config.text_config._attn_implementation,
        "vision_config": model.config.vision_config._attn_implementation,
    }
    model.set_attn_implementation({"text_config": "sdpa", "vision_config": "sdpa"})
    merge = model.config.vision_config.spatial_merge_size
    sampled = 0
    finished(device)
    began = time.perf_counter()
    for context in contexts(member):
        for turn in sorted(set(context.turns))[every // 2 :: every]:
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
            sampled += len(own)
    finished(device)
    took = time.perf_counter() - began
    model.zero_grad()
    model.set_attn_implementation(ours)
    return sampled, took
