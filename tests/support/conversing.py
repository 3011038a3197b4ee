"""Episodes without a device: made-up screens for a policy of the in-process engine, and expected replies."""

import asyncio
import io
import random
import threading
from collections.abc import Sequence

import torch
from PIL import Image, ImageDraw

from guiagent.episode import PastTurn
from guiagent.types import Observation, Step, Trajectory
from training.engine.engine import Engine
from training.engine.policy import LocalPolicy
from training.inputs.collate import rope_positions
from training.inputs.contexts import Context, contexts
from training.inputs.encoder import Encoder
from training.inputs.pictures import pixel_values
from training.tiny.model import MERGE

EXACT = 2e-6  # what float32 leaves of a log-probability, whatever the batch
INSTRUCTIONS = (
    "Click on Tab #2.",
    'Click the "Ok" button and wait until the page says that it is done.',
    "x",
)


def screen(seed: int, size: tuple[int, int] = (96, 64)) -> Observation:
    rng = random.Random(seed)
    image = Image.new("RGB", size, "white")
    for _ in range(4):
        x, y = rng.randrange(size[0]), rng.randrange(size[1])
        ImageDraw.Draw(image).rectangle((x, y, x + 20, y + 12), rng.randrange(2**24))
    data = io.BytesIO()
    image.save(data, "PNG")
    return Observation(*size, media_type="image/png", frame=data.getvalue())


async def converse(
    policy: LocalPolicy, name: str, screens: Sequence[Observation], history: list[PastTurn] | None = None
) -> list[PastTurn]:
    """An episode of a turn for each screen; `history` is added to."""
    history = [] if history is None else history
    instruction = INSTRUCTIONS[len(name) % len(INSTRUCTIONS)]
    for shown in screens:
        output = await policy.act(name, instruction, history, shown)
        history.append(PastTurn(shown, output))
    return history


def favour(policy: LocalPolicy, logits: dict[int, float]) -> None:
    """Adds to the logits of these tokens, wherever the model is asked."""
    bias = torch.zeros(policy.engine.model.config.text_config.vocab_size)
    for token, amount in logits.items():
        bias[token] = amount
    policy.engine.model.lm_head.register_forward_hook(lambda module, inputs, output: output + bias)


def contexts_of(turns: Sequence[PastTurn]) -> list[Context]:
    """As a trainer would read them; a frame's name is its turn's number."""
    steps = [Step(str(i), 0, 0, turn.output) for i, turn in enumerate(turns)]
    return contexts(Trajectory("t", "task", 0, "", steps, "max_steps"))


def inputs_of(encoder: Encoder, context: Context, turns: Sequence[PastTurn]) -> dict[str, torch.Tensor]:
    """A model's inputs for one context, without padding."""
    pictures = [encoder.picture(turns[int(frame)].observation.frame) for frame in context.frames]
    grids = [picture.grid for picture in pictures]
    positions, _ = rope_positions(context.ids, grids, encoder.image_token, MERGE)
    return {
        "input_ids": torch.tensor([context.ids]),
        "position_ids": positions[:, None],
        "pixel_values": pixel_values(pictures),
        "image_grid_thw": torch.tensor(grids),
    }


@torch.no_grad()
def plain_logprobs(policy: LocalPolicy, turns: Sequence[PastTurn]) -> list[list[float]]:
    """Of each turn's tokens, each context in one forward pass of its own, without a cache."""
    found: list[list[float]] = [[] for _ in turns]
    for context in contexts_of(turns):
        logits = policy.engine.model(**inputs_of(policy.encoder, context, turns)).logits[0].double()
        logits[:, policy.encoder.unsampled] = -torch.inf
        logprobs = torch.log_softmax(logits, dim=-1)
        for place, (token, turn) in enumerate(zip(context.ids, context.turns, strict=True)):
            if context.sampled[place]:
                found[turn].append(float(logprobs[place - 1, token]))
    return found


def furthest(policy: LocalPolicy, turns: Sequence[PastTurn]) -> float:
    """The largest difference between a log-probability as sampled and that of the plain forward pass."""
    pairs = zip(plain_logprobs(policy, turns), [turn.output.logprobs for turn in turns], strict=True)
    return max(abs(a - b) for plain, kept in pairs for a, b in zip(plain, kept, strict=True))


def encoded(engine: Engine) -> int:
    """How many tokens of prompts it has encoded: those that it held no more, or not yet."""
    return engine.stats.prompt_tokens - engine.stats.cached_tokens


class Gate:
    """Holds the model before each forward pass until it is let go on, or opened for good."""

    def __init__(self, policy: LocalPolicy) -> None:
        self._reached, self._permits = threading.Semaphore(0), threading.Semaphore(0)
        self._hook = policy.engine.model.register_forward_pre_hook(self._wait)

    def _wait(self, *_: object) -> None:
        self._reached.release()
        assert self._permits.acquire(timeout=30)

    def open(self) -> None:
        self._hook.remove()
        self._permits.release()

    def let_one_pass(self) -> None:
        self._permits.release()

    async def until_reached(self) -> None:
        assert await asyncio.to_thread(self._reached.acquire, timeout=30)
