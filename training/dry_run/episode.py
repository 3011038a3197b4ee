"""The longest episode that a recipe allows, played without a device or a model, to count its tokens.

It is played against blank screenshots of the largest device's size, with a policy that only waits: prompts,
history, dialect and contexts are the real ones, so the counts are those of training.
"""

import io
from collections.abc import Mapping
from typing import NamedTuple

import torch
from PIL import Image

from guiagent.actions import Wait
from guiagent.episode import PastTurn
from guiagent.types import Observation, Step, Trajectory
from training.config import TrainConfig
from training.dry_run.memory import Pass
from training.engine.engine import Completion, EngineStats, Request
from training.engine.policy import EnginePolicy
from training.inputs.contexts import contexts
from training.inputs.encoder import Encoder

_INSTRUCTION = (
    "Carry out the task, in as many words as an instruction usually has: about twenty of them, say."
)


class Lengths(NamedTuple):
    """Tokens of the longest episode: every reply has `rollout.max_new_tokens`."""

    turns: int
    picture: int  # of one screenshot
    contexts: int  # how many
    longest: int  # of its longest context, in which all replies might be
    total: int  # over all contexts
    sampled: int  # of these, sampled
    shown: int  # of these, of screenshots

    def longest_pass(self, batch_tokens: int, episodes: int) -> Pass:
        """Return the largest pass of a batch of so many episodes: full, with the shares of this one."""
        tokens = min(batch_tokens, episodes * self.total)
        share = tokens / self.total
        return Pass(tokens, round(share * self.sampled), round(share * self.shown), self.picture)


async def longest_episode(config: TrainConfig, encoder: Encoder, turns: int) -> Lengths:
    """Count the tokens of the longest episode of so many turns."""
    trajectory = await _blank_episode(config, encoder, turns)
    most = config.rollout.max_new_tokens
    spare = sum(most - len(step.policy.completion_ids) for step in trajectory.steps)
    found = contexts(trajectory)
    picture = encoder.picture(_blank(*_screen(config))).tokens
    sizes = [len(context.ids) for context in found]
    return Lengths(
        turns,
        picture,
        len(sizes),
        max(sizes) + spare,
        sum(sizes) + spare,
        most * turns,
        sum(context.ids.count(encoder.image_token) for context in found),
    )


class _Waiting:
    """An engine that answers every screenshot with a second of waiting."""

    version = 0
    stats = EngineStats()

    def __init__(self, reply: list[int]) -> None:
        self._reply = reply

    async def generate(self, request: Request) -> Completion:
        return Completion(list(self._reply), [0.0] * len(self._reply), [(0, 0)])

    def forget(self, conversation: str) -> None: ...

    def load_weights(self, state: Mapping[str, torch.Tensor], version: int) -> None: ...

    def close(self) -> None: ...


async def _blank_episode(config: TrainConfig, encoder: Encoder, turns: int) -> Trajectory:
    width, height = _screen(config)
    reply = encoder.completion(encoder.dialect.render([Wait()], (width, height)))
    policy = EnginePolicy(encoder, _Waiting(reply), config.rollout.history)
    shown = Observation(width, height, hash="blank", media_type="image/png", frame=_blank(width, height))
    past: list[PastTurn] = []
    for _ in range(turns):
        past.append(PastTurn(shown, await policy.act("dry", _INSTRUCTION, past, shown)))
    steps = [Step(shown.hash, width, height, turn.output) for turn in past]
    return Trajectory("dry", "dry", 0, _INSTRUCTION, steps, "max_steps")


def _screen(config: TrainConfig) -> tuple[int, int]:
    """Return the size of the largest screen among the platforms."""
    sizes = [(one.device.width, one.device.height) for one in config.all_platforms().values()]
    return max(sizes, key=lambda size: size[0] * size[1])


def _blank(width: int, height: int) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (width, height), "white").save(data, "PNG")
    return data.getvalue()
