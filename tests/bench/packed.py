"""The learner on one trajectory of eight screenshots, packed. Prints JSON.

`python -m tests.bench.packed CHECKPOINT UPDATES WINDOW`: an optimiser step on each of so many episodes, whose
history starts anew every WINDOW turns. `write` puts the same episodes into files for a peer, an action a
sample.
"""

import dataclasses
import io
import json
import math
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import msgspec
import torch
from PIL import Image

from guiagent.types import PolicyOutput, Score, Step, Trajectory
from tests.bench import small_vlm
from tests.bench.peers import actions
from tests.bench.peers.actions import Action
from tests.bench.small_vlm import ACTION_TOKENS, SIDE, TURNS, WORDS
from training.algorithms import ALGORITHMS
from training.algorithms.algorithm import AdvantageInput
from training.config import UpdateConfig
from training.inputs.contexts import Context, contexts
from training.inputs.encoder import Encoder
from training.learner.learner import Learner
from training.replay import Group

_INSTRUCTION_WORDS, _OBSERVATION_WORDS = 48, 6


def checkpoint(folder: Path) -> Path:
    """The small model, its tokenizer and its image processor."""
    for part in (small_vlm.model(), small_vlm.tokenizer(), small_vlm.image_processor()):
        part.save_pretrained(folder)
    return folder


def frames(turns: int, seed: int = 0) -> dict[str, bytes]:
    """Noise as PNG, by name."""
    made = {}
    for turn in range(turns):
        data = io.BytesIO()
        pixels = random.Random(1000 * seed + turn).randbytes(3 * SIDE * SIDE)
        Image.frombytes("RGB", (SIDE, SIDE), pixels).save(data, "PNG")
        made[f"{seed}/{turn}"] = data.getvalue()
    return made


def trajectory(
    encoder: Encoder, screens: dict[str, bytes], turns: int, window: int | None, seed: int = 0
) -> Trajectory:
    """A made-up episode; its history starts anew every `window` turns, or never."""
    words = random.Random(seed)
    instruction = " ".join(f"w{words.randrange(10, WORDS)}" for _ in range(_INSTRUCTION_WORDS))
    steps = []
    for turn in range(turns):
        name = f"{seed}/{turn}"
        picture = encoder.picture(screens[name])
        fresh = turn == 0 or (window is not None and turn % window == 0)
        prompt = (
            encoder.first_prompt(instruction, picture) if fresh else encoder.next_prompt(picture, ended=False)
        )
        prompt = [*prompt, *(words.randrange(10, WORDS) for _ in range(_OBSERVATION_WORDS))]
        completion = [words.randrange(10, WORDS) for _ in range(ACTION_TOKENS)]
        logprobs = [-6.9] * ACTION_TOKENS
        output = PolicyOutput(
            "", prompt_ids=prompt, completion_ids=completion, logprobs=logprobs, fresh=fresh
        )
        steps.append(Step(name, SIDE, SIDE, output))
    return Trajectory(f"t{seed}", "task", seed, instruction, steps, "task_done", Score(1.0))


def apart(whole: Trajectory) -> Iterator[Context]:
    """Each action as a sequence of its own: all that its context holds before it, and what it sampled."""
    for context in contexts(whole):
        first = context.turns[0]
        for turn in range(first, context.turns[-1] + 1):
            end = len(context.turns) - context.turns[::-1].index(turn)
            own = [s and t == turn for s, t in zip(context.sampled, context.turns, strict=True)]
            yield Context(
                context.ids[:end],
                own[:end],
                context.logprobs[:end],
                context.turns[:end],
                context.frames[: turn + 1 - first],
            )


def write(folder: Path, updates: int, window: int) -> None:
    """The checkpoint and `updates` episodes, for a peer that takes a sample an action."""
    encoder = Encoder(checkpoint(folder))
    made: list[list[Action]] = []
    screens: dict[str, bytes] = {}
    for update in range(updates):
        shown = frames(TURNS, update)
        screens |= shown
        steps = apart(trajectory(encoder, shown, TURNS, window, update))
        made.append([_action(step, step.sampled.index(True)) for step in steps])
    actions.write(folder, made, screens)


def _action(step: Context, begins: int) -> Action:
    return Action(step.ids[:begins], step.frames, step.ids[begins:])


def _unscored(one: Trajectory) -> Trajectory:
    """Without log-probabilities, so that every ratio is 1, as a peer's is that has none."""
    missing = [math.nan] * ACTION_TOKENS
    steps = [
        msgspec.structs.replace(step, policy=msgspec.structs.replace(step.policy, logprobs=missing))
        for step in one.steps
    ]
    return msgspec.structs.replace(one, steps=steps)


def main(folder: Path, updates: int, window: int) -> None:
    torch.set_num_threads(2)
    encoder = Encoder(folder)
    credit = dataclasses.replace(ALGORITHMS["arpo"], credit=_by_turns)
    learner = Learner(folder, encoder, credit, UpdateConfig(learning_rate=1e-5))
    loaded = small_vlm.resident_mb()
    small_vlm.forget_peak()
    seconds, cpu_seconds, norms = [], [], []
    for update in range(updates):  # new screens in every step, as in a rollout
        screens = frames(TURNS, update)
        # The learner's encoder has not seen them.
        one = _unscored(trajectory(Encoder(folder), screens, TURNS, window, update))
        began, cpu_began = time.perf_counter(), time.process_time()
        done = learner.step([Group("g", "task", 0, (one,), (one,), staleness=0)], screens.__getitem__)
        seconds.append(time.perf_counter() - began)
        cpu_seconds.append(time.process_time() - cpu_began)
        norms.append(done.metrics["grad_norm"])
    steps = list(apart(one))
    figures = {
        "seconds": median(seconds[1:]),
        "cpu_seconds": median(cpu_seconds[1:]),
        "peak_mb": small_vlm.peak_mb() - loaded,
        "actions": len(steps),
        "tokens": sum(len(step.ids) for step in steps),
        "images": sum(len(step.frames) for step in steps),
        "packed": done.metrics["packed_tokens"],
        "threads": torch.get_num_threads(),
        "bits": 8 * learner.model.dtype.itemsize,
        "grad_norm": norms[0],
    }
    print(json.dumps(figures))


def _by_turns(members: Sequence[AdvantageInput]) -> list[list[float]]:
    """1 for the first action, -1 for the second, and so on."""
    return [[float((-1) ** turn) for turn in range(len(member.tokens))] for member in members]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
